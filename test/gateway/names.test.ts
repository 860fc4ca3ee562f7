/** Host names of providers, looked up at a DNS server that is slow, does not respond, or changes its answer. */

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { type Answer, ask, Caller, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { inOwnNetwork, NameServer } from '../support/own-network.ts'
import * as does from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

const LOOPBACK = { address: '127.0.0.1' } as const
const DEADLINES = { connect_timeout_ms: 20_000, first_byte_timeout_ms: 30_000 }

function entry(host: string, port: number, deadlines: JsonObject = DEADLINES): JsonObject {
  return { dialect: 'openai', base_url: `http://${host}:${port}/v1`, api_key: 'k', ...deadlines }
}

function bytes(model: string): Uint8Array {
  const messages = [{ role: 'user', content: 'hi' }]
  return requestBytes('/v1/chat/completions', { key: KEY, body: { model, messages, stream: true } })
}

function send(gateway: Gateway, model: string): Promise<Answer> {
  return ask(gateway.port, bytes(model))
}

/** Sends requests until a model answers. */
async function answered(gateway: Gateway, model: string): Promise<Answer> {
  for (;;) {
    const answer = await send(gateway, model)
    if (answer.status === 200) return answer
    await Bun.sleep(100)
  }
}

inOwnNetwork(import.meta.path, () => {
  test('a DNS server that does not respond: the connect deadline holds, and the next candidate is called', async () => {
    using _names = await NameServer.start({ 'silent.test': 'never', 'good.test': LOOPBACK })
    await using upstream = await Upstream.start({ second: does.answersText('second') })
    await using gateway = await Gateway.start({
      providers: {
        silent: entry('silent.test', upstream.port, { connect_timeout_ms: 300 }),
        good: entry('good.test', upstream.port),
      },
      models: { alone: ['silent/alone'], followed: ['silent/followed', 'good/second'] },
    })
    const alone = await send(gateway, 'alone')
    expect([alone.status, alone.json()]).toMatchObject([504, { error: { code: 'upstream_timeout' } }])
    expect(alone.text).not.toContain('silent.test')
    const line = await gateway.request(alone.header('x-request-id'))
    expect(line).toMatchObject({ outcome: 'timed_out', attempts: [{ provider: 'silent', error: 'timeout' }] })
    expect(line).not.toHaveProperty('cost_micro_usd')
    const followed = await send(gateway, 'followed')
    expect([followed.status, followed.end, followed.header('x-gateway-fallback-count')]).toEqual([200, 'whole', '1'])
    expect(await gateway.request(followed.header('x-request-id'))).toMatchObject({
      outcome: 'completed',
      attempts: [
        { provider: 'silent', error: 'timeout' },
        { provider: 'good', status: 200 },
      ],
    })
  })

  test('a slow DNS server is waited for within the connect deadline', async () => {
    using names = await NameServer.start({ 'slow.test': { ...LOOPBACK, afterMs: 400 } })
    await using upstream = await Upstream.start({ m: does.answersText('Hello') })
    await using gateway = await Gateway.start({ providers: { slow: entry('slow.test', upstream.port) } })
    const answer = await send(gateway, 'm')
    expect([answer.status, answer.header('x-gateway-fallback-count')]).toEqual([200, '0'])
    expect(names.asked).toContain('slow.test')
  })

  test('if the first DNS server is gone, the second is asked in time', async () => {
    using silent = await NameServer.silentFirst()
    using _names = await NameServer.start({ 'good.test': LOOPBACK })
    await using upstream = await Upstream.start({ m: does.answersText('Hello') })
    const deadlines = { connect_timeout_ms: 3000 }
    await using gateway = await Gateway.start({ providers: { good: entry('good.test', upstream.port, deadlines) } })
    expect((await send(gateway, 'm')).status).toBe(200)
    expect(silent.asked).toContain('good.test')
  })

  test('a hundred requests for names that no server answers delay no other request', async () => {
    const silent = Array.from({ length: 20 }, (_, n) => `silent-${n}`)
    using names = await NameServer.start({
      ...Object.fromEntries(silent.map((name) => [`${name}.test`, 'never' as const])),
      'good.test': LOOPBACK,
    })
    await using upstream = await Upstream.start({ m: does.answersText('Hello') })
    await using gateway = await Gateway.start({
      providers: Object.fromEntries([...silent, 'good'].map((name) => [name, entry(`${name}.test`, upstream.port)])),
      models: { ...Object.fromEntries(silent.map((name) => [name, [`${name}/m`]])), m: ['good/m'] },
    })
    const waiting: Caller[] = []
    for (let n = 0; n < 100; n++) {
      const caller = await Caller.connect(gateway.port)
      caller.send(bytes(silent[n % silent.length] ?? ''))
      waiting.push(caller)
    }
    // All of them are looked up at once, and so is the one that is answered.
    await names.questions((name) => name.startsWith('silent'), silent.length)
    expect((await send(gateway, 'm')).status).toBe(200)
    expect(waiting.every(({ received }) => received.length === 0)).toBe(true)
    for (const caller of waiting) caller.close()
    const gone = (line: JsonObject) => line['msg'] === 'request' && String(line['requested_model']).startsWith('silent')
    await gateway.line(() => gateway.lines.filter(gone).length === 100)
    expect(new Set(gateway.lines.filter(gone).map((line) => line['outcome']))).toEqual(new Set(['caller_left']))
  })

  test('that a name does not exist is not cached', async () => {
    using names = await NameServer.start({})
    await using upstream = await Upstream.start({ m: does.answersText('Hello') })
    await using gateway = await Gateway.start({ providers: { new: entry('new.test', upstream.port) } })
    const answer = await send(gateway, 'm')
    expect([answer.status, answer.json()]).toMatchObject([502, { error: { code: 'upstream_failed' } }])
    names.set('new.test', LOOPBACK)
    expect((await send(gateway, 'm')).status).toBe(200)
  })

  test('a provider that moves to another address is found there within seconds', async () => {
    using names = await NameServer.start({ 'moving.test': LOOPBACK })
    const before = await Upstream.start({ m: (call) => does.answersText('before')(call) })
    const { port } = before
    await using gateway = await Gateway.start({ providers: { moving: entry('moving.test', port) } })
    expect((await send(gateway, 'm')).text).toContain('before')
    await before[Symbol.asyncDispose]()
    names.set('moving.test', { address: '127.0.0.2' })
    await using _after = await Upstream.start({ m: does.answersText('after') }, port, '127.0.0.2')
    // By default the runtime caches an address for longer than this test may take.
    expect((await answered(gateway, 'm')).text).toContain('after')
  })
})
