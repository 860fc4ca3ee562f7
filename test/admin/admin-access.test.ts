/** Who may use the admin port, with a token and without. */

import { describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { adminPort, listeningAdmin } from '../support/admin.ts'

const TOKEN = 'admin-token-0123456789'

async function codeOf(answer: Response): Promise<string> {
  const body = (await answer.json()) as { error?: { code?: string } }
  return `${answer.status} ${body.error?.code ?? ''}`
}

describe('without a token', () => {
  const { ask } = adminPort()

  test.each([
    'localhost',
    'localhost:9090',
    'LOCALHOST.',
    'weir.localhost:80',
    '127.0.0.1:9090',
    '127.1.2.3',
    '[::1]:9090',
  ])('Host %s is answered', async (host) => {
    expect((await ask('/api/targets', { headers: { host } })).status).toBe(200)
  })

  test.each([
    'evil.example',
    'localhost.evil.example',
    'evil.example:9090',
    '10.0.0.1',
    '128.0.0.1',
    '127.0.0.1.evil.example',
    '127.0.0.256',
    '0.0.0.0:9090',
    '[::]:9090',
    'localhost@evil.example',
    'evil.example#localhost',
    'localhost, evil.example',
    'localhost:9090:1',
    '',
  ])('Host %p is 403', async (host) => {
    expect(await codeOf(await ask('/api/targets', { headers: { host } }))).toBe('403 host_not_allowed')
    expect(await codeOf(await ask('/nothing', { headers: { host } }))).toBe('403 host_not_allowed')
    expect((await ask('/healthz', { headers: { host } })).status).toBe(200)
    expect((await ask('/readyz', { headers: { host } })).status).toBe(200)
  })

  test.each(['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD'])('%s is 403', async (method) => {
    const answer = await ask('/api/reload', { method })
    expect(answer.status).toBe(403)
    if (method !== 'HEAD') expect(await codeOf(answer)).toBe('403 token_required')
  })
})

describe('with several tokens', () => {
  const tokens = [
    { name: 'ann', token: 'a-token-of-ann-0123456789', role: 'operate' },
    { name: 'eve', token: 'a-token-of-eve-0123456789', role: 'read' },
  ] as const
  const reloads: string[] = []
  const { ask, paths } = adminPort({
    token: TOKEN,
    tokens,
    supervision: {
      reload: async ({ actor }) => {
        reloads.push(actor)
        return { problems: [], changes: [] }
      },
    },
  })
  const by = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })

  test('each is known by its name', async () => {
    for (const token of [tokens[0].token, TOKEN])
      expect((await ask('/api/reload', { method: 'POST', ...by(token) })).status).toBe(200)
    expect(reloads).toEqual(['token:ann (127.0.0.1)', 'token:admin (127.0.0.1)'])
  })

  test('one that may read sees everything and changes nothing', async () => {
    const eve = by(tokens[1].token)
    for (const path of ['/api/status', '/api/targets', '/metrics', '/api/openapi.json'])
      expect([path, (await ask(path, eve)).status]).toEqual([path, 200])
    const changes = paths.filter((path) => !path.startsWith('GET'))
    expect(changes.length).toBeGreaterThan(4)
    for (const change of [...changes, 'PUT /api/keys', 'OPTIONS /api/status']) {
      const [method = '', path = ''] = change.split(' ')
      const answer = await ask(path.replace(':id', 'ci'), { method, ...eve })
      expect(`${change} ${await codeOf(answer)}`).toBe(`${change} 403 role_not_allowed`)
    }
    expect(reloads).toHaveLength(2)
  })

  test('a prefix of one, or a name, is none', async () => {
    for (const token of ['a-token-of-ann', 'ann', `${tokens[0].token}x`])
      expect(await codeOf(await ask('/api/targets', by(token)))).toBe('401 unauthorized')
  })
})

describe('pages with a token are answered under known names', () => {
  const { ask } = adminPort({ token: TOKEN, admin: { host: '10.1.2.3', hosts: ['weir.example', 'Console.Example.'] } })
  const everywhere = adminPort({ token: TOKEN, admin: { host: '0.0.0.0' } })

  test.each([
    ...['localhost:9090', '127.0.0.1', '[::1]:9090', '10.1.2.3:9090', 'weir.example', 'WEIR.example.:443'],
    ...['console.example'],
  ])('Host %s', async (host) => {
    for (const path of ['/', '/docs', '/openapi.json'])
      expect((await ask(path, { headers: { host } })).status).toBe(200)
  })

  test.each(['evil.example', 'x.weir.example', '10.1.2.4', 'weir.example, evil.example', 'weir.example@evil', ''])(
    'Host %p is 403',
    async (host) => {
      for (const path of ['/', '/docs', '/openapi.json'])
        expect(await codeOf(await ask(path, { headers: { host } }))).toBe('403 host_not_allowed')
      // What the token protects needs no name: Prometheus scrapes under any.
      const headers = { host, authorization: `Bearer ${TOKEN}` }
      expect((await ask('/metrics', { headers })).status).toBe(200)
      expect((await ask('/healthz', { headers: { host } })).status).toBe(200)
    },
  )

  test('an address that listens everywhere is reached by every address, and by no name', async () => {
    for (const host of ['10.9.8.7:9090', '[2001:db8::1]:9090', '192.168.1.1'])
      expect((await everywhere.ask('/', { headers: { host } })).status).toBe(200)
    for (const host of ['evil.example', '10.evil.example', '1.2.3.4.evil.example'])
      expect((await everywhere.ask('/', { headers: { host } })).status).toBe(403)
  })
})

describe('with a token', () => {
  const { ask, lines } = adminPort({ token: TOKEN })
  const bearer = (token: string, more = {}) => ({ headers: { authorization: `Bearer ${token}`, ...more } })

  test('any Host is answered with the token', async () => {
    expect((await ask('/api/targets', bearer(TOKEN, { host: 'weir.example' }))).status).toBe(200)
  })

  test.each(['/api/targets', '/api/nothing', '/metrics', '/anything'])('%s is 401 without it', async (path) => {
    const answer = await ask(path)
    expect(answer.headers.get('www-authenticate')).toStartWith('Bearer')
    expect(await codeOf(answer)).toBe('401 unauthorized')
  })

  test.each([
    ['another token', `Bearer ${TOKEN}x`],
    ['the beginning', `Bearer ${TOKEN.slice(0, -1)}`],
    ['another scheme', `Basic ${TOKEN}`],
    ['no token', 'Bearer'],
    ['two', `Bearer ${TOKEN}, Bearer ${TOKEN}`],
  ])('%s is 401', async (_name, authorization) => {
    expect(await codeOf(await ask('/api/targets', { headers: { authorization } }))).toBe('401 unauthorized')
  })

  test('a token in the address is no token', async () => {
    expect(await codeOf(await ask(`/api/targets?token=${TOKEN}`))).toBe('401 unauthorized')
  })

  test('wrong tokens are logged once a minute, without the token', () => {
    const logged = lines.filter(({ event }) => event === 'admin.token_rejected')
    expect(logged).toEqual([expect.objectContaining({ remote: '127.0.0.1', requests: 1 })])
    expect(JSON.stringify(lines)).not.toContain(TOKEN)
  })

  test('health needs none', async () => {
    expect((await ask('/healthz', { headers: { host: 'weir.example' } })).status).toBe(200)
    expect((await ask('/readyz')).status).toBe(200)
  })

  test('POST /api/reload is answered', async () => {
    const answer = await ask('/api/reload', { method: 'POST', ...bearer(TOKEN) })
    expect([answer.status, await answer.json()]).toEqual([200, { changes: [] }])
  })
})

test.each([
  [{ 'sec-fetch-site': 'cross-site' }, 403],
  [{ 'sec-fetch-site': 'same-site' }, 403],
  [{ origin: 'http://evil.example' }, 403],
  [{ origin: 'null' }, 403],
  [{ 'sec-fetch-site': 'same-origin', origin: 'http://localhost:9090' }, 200],
  [{ 'sec-fetch-site': 'none' }, 200],
  [{}, 200],
])('a page of another site gets nothing: %j is %d', async (headers, status) => {
  const answer = await adminPort().ask('/api/targets', { headers })
  expect(answer.status).toBe(status)
  expect(answer.headers.get('access-control-allow-origin')).toBeNull()
})

test('every answer forbids storing, framing of types and referrers', async () => {
  const { ask } = adminPort()
  const script = /src="([^"]+)"/.exec(await (await ask('/')).text())?.[1] ?? ''
  expect(script).toStartWith('/console/')
  for (const path of ['/healthz', '/api/targets', '/nothing', '/metrics', '/', script, '/docs', '/openapi.json']) {
    const { headers } = await ask(path)
    expect([headers.get('cache-control'), headers.get('x-content-type-options')]).toEqual(['no-store', 'nosniff'])
  }
})

describe('over a socket', () => {
  /** The status line of the answer to these bytes. */
  async function statusOf(text: string): Promise<string> {
    await using admin = listeningAdmin()
    const { promise, resolve } = Promise.withResolvers<string>()
    const socket = connect(admin.address.port, '127.0.0.1', () => socket.write(text))
    socket.once('data', (bytes) => resolve(bytes.toString('latin1').split('\r\n')[0] ?? ''))
    socket.once('close', () => resolve('closed'))
    try {
      return await promise
    } finally {
      socket.destroy()
    }
  }

  test.each([
    ['two hosts', 'GET /api/targets HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n', '403'],
    ['two hosts', 'GET /api/targets HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n', '403'],
    ['an absolute address', 'GET http://localhost/api/targets HTTP/1.1\r\nHost: evil.example\r\n\r\n', '403'],
    ['an empty Host', 'GET /api/targets HTTP/1.1\r\nHost:\r\n\r\n', '403'],
    ['no Host', 'GET /api/targets HTTP/1.1\r\n\r\n', '400'],
    ['no Host in HTTP/1.0', 'GET /api/targets HTTP/1.0\r\n\r\n', '403'],
    ['a tunnel', 'CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n', '403'],
    ['dots', 'GET /api/../api/targets HTTP/1.1\r\nHost: localhost\r\n\r\n', '200'],
    ['two slashes', 'GET //api/targets HTTP/1.1\r\nHost: localhost\r\n\r\n', '404'],
    ['another site', 'GET http://evil.example/api/targets HTTP/1.1\r\nHost: localhost\r\n\r\n', '200'],
  ])('%s: %j is %s', async (_name, text, status) => {
    expect(await statusOf(text)).toMatch(new RegExp(`^HTTP/1\\.[01] ${status} `))
  })
})
