/** A gateway whose environment names forward proxies: all that it sends goes through them. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { isArray, type JsonObject } from '../../src/core/json.ts'
import { ask } from '../support/caller.ts'
import { Gateway } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { portOf, Upstream } from '../support/upstream.ts'
import { ForwardProxy } from '../transport/forward-proxy.ts'
import { RawServer } from '../transport/raw-server.ts'
import { chat, STREAM, seen } from './stage.ts'

const FOLDER = join(import.meta.dir, '../fixtures/tls')
const pem = (name: string): string => readFileSync(join(FOLDER, name), 'utf8')
const PASSWORD = 'word-of-the-proxy'
const MAIN = join(import.meta.dir, '../../src/main.ts')

const stack = new AsyncDisposableStack()
let proxy: ForwardProxy
let gateway: Gateway
let hook: RawServer
let env: Readonly<Record<string, string>>
/** Of the provider with TLS; refuses connections that do not come through the proxy. */
let authority = ''

beforeAll(async () => {
  const server = createServer({ key: pem('leaf.key'), cert: pem('good.crt') }, (request, response) => {
    let body = ''
    request.on('data', (bytes) => {
      body += bytes
    })
    request.on('end', () => {
      const isStream = JSON.parse(body || '{}').stream === true
      response.setHeader('content-type', isStream ? 'text/event-stream' : 'application/json')
      response.end(isStream ? does.chatFrames(['by ', 'tunnel']).join('') : does.chatBody('by tunnel'))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stack.defer(() => void server.close())
  authority = `127.0.0.1:${portOf(server)}`
  const plain = stack.use(await Upstream.start({ plain: does.answersText('passed on') }))
  hook = stack.use(await RawServer.answering((socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')))
  proxy = stack.use(await ForwardProxy.start({ answer: refuseSome }))
  const address = `http://user:${PASSWORD}@127.0.0.1:${proxy.port}`
  env = { HTTPS_PROXY: address, http_proxy: address, NODE_EXTRA_CA_CERTS: join(FOLDER, 'authority.crt') }
  const entry = (base_url: string) => ({ dialect: 'openai', base_url, api_key: 'k', connect_timeout_ms: 500 })
  gateway = stack.use(
    await Gateway.start({
      providers: {
        tunnel: entry(`https://${authority}/v1`),
        plain: entry(`http://provider.test:${plain.port}/v1`),
        forbidden: entry('https://forbidden.test/v1'),
        silent: entry('https://silent.test/v1'),
        unpaid: entry('http://unpaid.test/v1'),
      },
      models: {
        ...Object.fromEntries(['tunnel', 'plain', 'forbidden', 'silent', 'unpaid'].map((at) => [at, [`${at}/${at}`]])),
        followed: ['forbidden/m', 'tunnel/m'],
      },
      config: {
        alerts: { webhook: hook.url(), secret: 'secret-of-the-hook' },
        tracing: { endpoint: new URL(hook.url()).origin, sample: 1 },
      },
      env,
    }),
  )
})

afterAll(() => stack.disposeAsync())

function refuseSome(socket: Socket, head: string): unknown {
  if (head.startsWith('CONNECT forbidden')) return socket.end('HTTP/1.1 403 Forbidden\r\n\r\n')
  if (head.startsWith('CONNECT silent')) return socket.resume()
  if (head.includes('unpaid')) return socket.end('HTTP/1.1 407 Pay\r\ncontent-length: 0\r\n\r\n')
  return false
}

async function called(model: string, more: JsonObject = {}) {
  const answer = await ask(gateway.port, chat(model, more))
  const line = await gateway.request(answer.header('x-request-id'))
  return { answer, attempts: isArray(line['attempts']) ? line['attempts'] : [] }
}

test('a provider with TLS is called through a tunnel, and one without gets the request passed on', async () => {
  expect(seen((await called('tunnel', STREAM)).answer.text).text).toBe('by tunnel')
  expect((await called('tunnel')).answer.text).toContain('by tunnel')
  expect((await called('plain')).answer.text).toContain('passed on')
  const user = Buffer.from(`user:${PASSWORD}`).toString('base64')
  for (const beginning of [`CONNECT ${authority} `, 'POST http://provider.test:']) {
    const heads = proxy.heads.filter((head) => head.startsWith(beginning))
    expect(heads).toHaveLength(1)
    expect(heads[0]).toContain(`\r\nproxy-authorization: Basic ${user}\r\n`)
  }
})

test.each([
  ['forbidden', 502, 'unreachable', 'proxy_403'],
  ['unpaid', 502, 'unreachable', 'proxy_407'],
  ['silent', 504, 'timeout', 'connect_timeout'],
])('%s: %i, %s because of %s', async (model, status, error, cause) => {
  const { answer, attempts } = await called(model)
  expect(answer.status).toBe(status)
  expect(attempts).toMatchObject([{ error, cause }])
  expect(answer.text).not.toMatch(/proxy|127\.0\.0\.1/)
})

test('the next candidate answers if the proxy refuses the first', async () => {
  const { answer, attempts } = await called('followed')
  expect([answer.status, answer.header('x-gateway-fallback-count')]).toEqual([200, '1'])
  expect(attempts).toMatchObject([{ cause: 'proxy_403' }, { status: 200 }])
})

test('alerts and traces go through the proxy, too', async () => {
  expect(await gateway.run('alerts', 'test')).toMatchObject({ code: 0, stdout: 'delivered\n' })
  await called('plain')
  const sent = () => proxy.heads.filter((head) => head.startsWith(`POST http://127.0.0.1:${hook.port}/`))
  while (sent().length < 2) await Bun.sleep(20)
  const types = sent().map((head) => /content-type: (\S+)/.exec(head)?.[1])
  expect(types.sort()).toEqual(['application/json', 'application/x-protobuf'])
})

test('weir check --providers reports what is wrong with the proxy, and never its password', async () => {
  const check = Bun.spawn([process.execPath, MAIN, 'check', '--providers', '--config', gateway.configFile], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [out, err] = await Promise.all([check.stdout.text(), check.stderr.text()])
  expect(await check.exited).toBe(1)
  expect(out).toMatch(/^tunnel +tunnel +yes +accepted +known/m)
  expect(out).toMatch(/^forbidden +forbidden +no /m)
  const place = `the provider cannot be reached: the proxy 127.0.0.1:${proxy.port} answered`
  expect(err).toContain(`forbidden forbidden: ${place} 403 (proxy_403)\n`)
  expect(err).toContain(`unpaid unpaid: ${place} 407; check the user and the password in its address (proxy_407)\n`)
  expect(err).toContain('silent silent: no connection to the provider within 500 ms (connect_timeout)\n')
  for (const text of [out, err, gateway.output])
    for (const secret of [PASSWORD, Buffer.from(PASSWORD).toString('base64').slice(0, 12)])
      expect(text).not.toContain(secret)
})
