import { afterAll, describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { openAdmin } from '../../src/admin/admin-app.ts'
import { adminParts, adminPort, listeningAdmin } from '../support/admin.ts'

async function ask(reasons: () => Promise<readonly string[]>, path: string, method = 'GET') {
  const answer = await adminPort({ supervision: { reasons } }).ask(path, { method })
  return { status: answer.status, type: answer.headers.get('content-type'), body: await answer.json() }
}

const well = async () => []
const type = 'application/json'
const TOKEN = 'a-token-of-16-chars'
const authorized = { authorization: `Bearer ${TOKEN}` }

test('/healthz is 200 also if weir is not ready', async () => {
  expect(await ask(async () => ['x'], '/healthz')).toEqual({ status: 200, type, body: { alive: true } })
})

test('/readyz is 200 without reasons and 503 with them', async () => {
  expect(await ask(well, '/readyz')).toEqual({ status: 200, type, body: { ready: true } })
  expect(await ask(async () => ['worker 1 is down', 'worker 2 is down'], '/readyz')).toEqual({
    status: 503,
    type,
    body: { ready: false, reasons: ['worker 1 is down', 'worker 2 is down'] },
  })
})

test.each(['/v1/models', '/healthz/more', '/api', '/api/status/', '/%ff'])('GET %s is 404', async (path) => {
  expect(await ask(well, path)).toEqual({
    status: 404,
    type,
    body: { error: { code: 'not_found', message: expect.stringContaining('/api/openapi.json') } },
  })
})

test('another method of a known path is 405 and names those that it takes', async () => {
  const port = adminPort({ token: TOKEN })
  const headers = authorized
  const answers = await Promise.all([
    port.ask('/api/status', { method: 'POST', headers }),
    port.ask('/api/reload', { headers }),
    port.ask('/api/events', { method: 'HEAD', headers }),
  ])
  expect(answers.map(({ status, headers }) => [status, headers.get('allow')])).toEqual([
    [405, 'GET'],
    [405, 'POST'],
    [405, 'GET'],
  ])
})

test('HEAD asks for the health without a body', async () => {
  const answer = await adminPort().ask('/readyz', { method: 'HEAD' })
  expect([answer.status, await answer.text()]).toEqual([200, ''])
})

test('an internal error is 500 without details, and the log has its place but not its message', async () => {
  const port = adminPort({ supervision: { reasons: () => Promise.reject(new RangeError('inside')) } })
  const answer = await port.ask('/readyz')
  expect(answer.status).toBe(500)
  expect(await answer.text()).not.toContain('inside')
  expect(port.lines).toEqual([
    expect.objectContaining({ event: 'admin.internal_error', path: '/readyz', error: 'RangeError' }),
  ])
  expect(JSON.stringify(port.lines)).not.toContain('inside')
})

test('a path with a % that is no escape is 404', async () => {
  const port = adminPort({ token: TOKEN })
  const answer = await port.ask('/api/keys/%E0%A4%A', { method: 'PATCH', headers: authorized })
  expect([answer.status, port.lines]).toEqual([404, []])
})

test('a change takes no parameters', async () => {
  const port = adminPort({ token: TOKEN })
  const paths = [
    ['POST', '/api/keys?id=a'],
    ['PATCH', '/api/keys/a?force=true'],
    ['DELETE', '/api/keys/a?force=true'],
    ['POST', '/api/keys/a/rotate?grace=24h'],
    ['POST', '/api/reload?check=true'],
  ] as const
  for (const [method, path] of paths) {
    const answer = await port.ask(path, { method, headers: authorized })
    expect([path, answer.status, await answer.json()]).toEqual([
      path,
      400,
      { error: { code: 'invalid_parameter', message: expect.stringContaining('unknown parameter') } },
    ])
  }
})

/** Over a socket, because Bun makes the address of a request from its `Host`. Resolves to the status and the body. */
async function send(port: number, bytes: string): Promise<readonly [number, unknown]> {
  let text = ''
  const ended = Promise.withResolvers<void>()
  const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(bytes))
  socket.setEncoding('utf8').on('data', (part: string) => {
    text += part
    if (/\r\n\r\n\{.*\}$/s.test(text)) ended.resolve()
  })
  socket.on('close', () => ended.resolve()).on('error', () => ended.resolve())
  await ended.promise
  socket.destroy()
  const [head = '', body = ''] = text.split('\r\n\r\n')
  return [Number(head.split(' ')[1]), body === '' ? undefined : JSON.parse(body)]
}

describe('over a socket', () => {
  const admin = listeningAdmin({ token: TOKEN })
  afterAll(() => admin.stop())
  const { port } = admin.address
  const authorization = `Authorization: Bearer ${TOKEN}\r\n`

  test.each(['', 'Host: [\r\n', 'Host: a b\r\n', 'Host: localhost:99999\r\n'])(
    'the health is answered with %p instead of a Host, the API with a token',
    async (host) => {
      expect(await send(port, `GET /healthz HTTP/1.0\r\n${host}\r\n`)).toEqual([200, { alive: true }])
      expect(await send(port, `GET /readyz?x HTTP/1.0\r\n${host}\r\n`)).toEqual([200, { ready: true }])
      expect((await send(port, `GET /api/targets HTTP/1.0\r\n${host}${authorization}\r\n`))[0]).toBe(200)
      expect((await send(port, `GET /api/targets HTTP/1.0\r\n${host}\r\n`))[0]).toBe(401)
    },
  )

  const tooLarge = { error: { code: 'body_too_large', message: expect.any(String) } }
  const head = `POST /api/keys HTTP/1.1\r\nHost: localhost\r\n${authorization}`

  test.each([64 * 1024 + 1, 1_000_000])('a body of %d bytes is 413 in the form of every error', async (bytes) => {
    expect(await send(port, `${head}Content-Length: ${bytes}\r\n\r\n${'x'.repeat(bytes)}`)).toEqual([413, tooLarge])
  })

  test('a body that is too large in chunks is 413, too', async () => {
    const chunk = `8000\r\n${'x'.repeat(0x8000)}\r\n`
    const chunks = `${chunk.repeat(3)}0\r\n\r\n`
    expect(await send(port, `${head}Transfer-Encoding: chunked\r\n\r\n${chunks}`)).toEqual([413, tooLarge])
  })
})

test('the port is exclusive: a second program cannot share it', async () => {
  await using admin = listeningAdmin()
  expect(() => openAdmin(admin.address, adminParts())).toThrow(expect.objectContaining({ code: 'EADDRINUSE' }))
})
