/**
 * Every deadline of a provider, and the one over all attempts, with small values: what each ends, and what it does
 * not.
 */

import { describe, expect, test } from 'bun:test'
import net from 'node:net'
import * as does from '../support/scenarios.ts'
import { portOf, type Scenario } from '../support/upstream.ts'
import { STREAM, Stage, seen } from './stage.ts'

const [role = '', hello = '', ...restOf] = does.chatFrames(['Hello'])
const LONG = {
  connect_timeout_ms: 20_000,
  first_byte_timeout_ms: 20_000,
  idle_timeout_ms: 20_000,
  total_timeout_ms: 20_000,
}

/** A port whose connections the kernel accepts and nothing answers. */
async function blackHole(): Promise<{ readonly port: number } & Disposable> {
  const sockets: net.Socket[] = []
  const server = net.createServer((socket) => {
    socket.on('error', () => {})
    sockets.push(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const end = () => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  return { port: portOf(server), [Symbol.dispose]: end }
}

describe('before an answer: 504, after the next candidate was called', () => {
  test('connect: TLS that is never answered', async () => {
    using hole = await blackHole()
    const provider = { ...LONG, connect_timeout_ms: 300, base_url: `https://127.0.0.1:${hole.port}/v1` }
    await using stage = await Stage.start({ m: does.silent() }, { provider })
    const answer = await stage.ask('m', STREAM)
    expect([answer.status, answer.json()]).toMatchObject([504, { error: { code: 'upstream_timeout' } }])
    expect(await stage.lineOf(answer)).toMatchObject({
      outcome: 'timed_out',
      attempts: [{ provider: 'p0', error: 'timeout' }],
    })
  })

  test('connect: does not apply to a provider that is connected and thinks', async () => {
    const release = Promise.withResolvers<void>()
    await using stage = await Stage.start(
      {
        slow: async (call) => {
          await release.promise
          await does.answersText('Hello')(call)
        },
        late: does.stalls(['{']),
      },
      { provider: { ...LONG, connect_timeout_ms: 300, idle_timeout_ms: 1500 } },
    )
    const late = stage.ask('late')
    const thinking = stage.ask('slow')
    // When this one reaches its deadline, the other is long past its own for connecting.
    expect((await late).status).toBe(504)
    release.resolve()
    expect((await thinking).status).toBe(200)
  })

  test.each([
    ['first byte, no headers', does.silent()],
    ['first byte, headers alone', does.stalls([])],
  ])('%s', async (_, scenario) => {
    await using stage = await Stage.start(
      { m: scenario, both: [scenario, does.answersText('second')] },
      { provider: { ...LONG, first_byte_timeout_ms: 500 } },
    )
    for (const body of [STREAM, {}]) {
      const answer = await stage.ask('m', body)
      expect([answer.status, answer.json()]).toMatchObject([504, { error: { code: 'upstream_timeout' } }])
      expect(await stage.lineOf(answer)).toMatchObject({
        outcome: 'timed_out',
        status: 504,
        attempts: [{ error: 'timeout' }],
      })
      expect((await stage.ask('both', body)).text).toContain('second')
    }
    for (const call of stage.upstreams[0]?.calls ?? []) expect((await call.aborted).by).toBe('gateway')
  })

  test('idle, in the middle of a whole answer', async () => {
    await using stage = await Stage.start(
      { declared: half({ 'content-length': '1000' }), chunked: half({ 'transfer-encoding': 'chunked' }) },
      { provider: { ...LONG, idle_timeout_ms: 200 } },
    )
    for (const name of ['declared', 'chunked']) {
      expect((await stage.ask(name)).status).toBe(504)
      await (await stage.call(name)).aborted
    }
  })

  test('over all attempts; a stream that has begun by then goes on', async () => {
    const release = Promise.withResolvers<void>()
    await using stage = await Stage.start(
      {
        found: does.waits([role, hello], release.promise, does.rest(restOf)),
        silent: [does.silent(), does.answersText('never')],
      },
      { provider: LONG, config: { routing: { total_timeout_ms: 1500 } } },
    )
    await using found = await stage.caller('found', STREAM)
    await found.until('Hello')
    const answer = await stage.ask('silent', STREAM)
    expect(answer.status).toBe(504)
    expect(stage.calls('silent', 1)).toBeLessThan(2)
    release.resolve()
    const whole = await found.answer()
    expect([whole.end, seen(whole.text).done]).toEqual(['whole', true])
  })
})

/** The beginning of a whole answer, and then nothing. */
function half(fields: Readonly<Record<string, string>>): Scenario {
  return async (call) => {
    await call.status(200, { 'content-type': 'application/json', ...fields })
    await call.write('transfer-encoding' in fields ? '4\r\n{"ch\r\n' : '{"ch')
  }
}

describe('after content: a cut', () => {
  test.each([
    ['idle', { idle_timeout_ms: 1000 }, does.stalls([role, hello])],
    ['total', { total_timeout_ms: 1500 }, does.endless([role, hello], ': still here\n\n')],
  ])('%s', async (_, deadline, scenario) => {
    await using stage = await Stage.start(
      { m: [scenario, does.answersText('never')] },
      { provider: { ...LONG, ...deadline } },
    )
    const answer = await stage.ask('m', STREAM)
    expect([answer.status, answer.end, seen(answer.text)]).toEqual([
      200,
      'cut',
      { text: 'Hello', finish: undefined, done: false },
    ])
    await (await stage.call('m')).aborted
    const line = await stage.lineOf(answer)
    expect(line).toMatchObject({ outcome: 'timed_out', status: 200, usage: 'estimated', output_tokens: 2 })
    expect(line['cost_micro_usd']).toBeGreaterThan(20)
    expect(stage.calls('m', 1)).toBe(0)
  })
})
