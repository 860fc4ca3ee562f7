/** A provider whose machine vanishes: no end, no reset, no error ever arrives. It counts as one that stalls. */

import { expect, test } from 'bun:test'
import { join } from 'node:path'
import type { JsonObject } from '../../src/core/json.ts'
import { until } from '../process/weir.ts'
import { Caller } from '../support/caller.ts'
import { FarMachine } from '../support/far-machine.ts'
import { Gateway } from '../support/gateway.ts'
import { inOwnNetwork } from '../support/own-network.ts'
import { childrenOf } from '../support/process-table.ts'
import * as does from '../support/scenarios.ts'
import { type Scenario, Upstream } from '../support/upstream.ts'
import { chat, STREAM, seen } from './stage.ts'

const LONG = { connect_timeout_ms: 15_000, first_byte_timeout_ms: 15_000, idle_timeout_ms: 15_000 }
const FAR = join(import.meta.dir, '../support/far-provider.ts')

/**
 * A gateway before a provider far away, for models by their own names, and one at hand, for those that are
 * `NAME-followed`.
 */
async function gatewayTo(far: FarMachine, near: Upstream, deadlines: JsonObject): Promise<Gateway> {
  const entry = { dialect: 'openai', base_url: `http://${far.host}:8080/v1`, api_key: 'k', ...LONG, ...deadlines }
  const names = ['well', 'talks', 'silent']
  return await Gateway.start({
    providers: { far: entry, near: near.url },
    models: Object.fromEntries(
      names.flatMap((name) => [
        [name, [`far/${name}`]],
        [`${name}-followed`, [`far/${name}`, 'near/second']],
      ]),
    ),
  })
}

async function callerOf(gateway: Gateway, model: string, body: JsonObject): Promise<Caller> {
  const caller = await Caller.connect(gateway.port)
  caller.send(chat(model, body))
  return caller
}

function workerOf(gateway: Gateway): number {
  return childrenOf(gateway.pid)[0] ?? 0
}

/** How each request that the ledger admitted was settled. */
async function endings(gateway: Gateway): Promise<unknown> {
  const { stdout } = await gateway.run('audit', '--limit', '0', '--json')
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).ended)
}

inOwnNetwork(import.meta.path, () => {
  test('in the middle of a stream: cut at the idle deadline, settled, nothing left open', async () => {
    await using near = await Upstream.start()
    await using far = await FarMachine.start(FAR)
    await using gateway = await gatewayTo(far, near, { idle_timeout_ms: 300 })
    await using caller = await callerOf(gateway, 'talks-followed', STREAM)
    await caller.until('Hello')
    expect(far.socketsOf(workerOf(gateway))).toBeGreaterThan(0)
    far.vanish()
    const answer = await caller.answer()
    expect([answer.status, answer.end]).toEqual([200, 'cut'])
    expect(seen(answer.text)).toMatchObject({ finish: undefined, done: false })
    const line = await gateway.request(answer.header('x-request-id'))
    expect(line).toMatchObject({ outcome: 'timed_out', usage: 'estimated', fallbacks: 0 })
    expect(Number(line['output_tokens'])).toBeGreaterThan(0)
    expect(near.calls).toEqual([])
    await until(() => far.socketsOf(workerOf(gateway)) === 0)
    expect(await endings(gateway)).toEqual(['settled'])
  })

  test('once it has the request: the first-byte deadline, and the next candidate', async () => {
    await using near = await Upstream.start({ second: does.answersText('second') })
    await using far = await FarMachine.start(FAR)
    await using gateway = await gatewayTo(far, near, { first_byte_timeout_ms: 1000 })
    await using streamed = await callerOf(gateway, 'silent-followed', STREAM)
    await using whole = await callerOf(gateway, 'silent-followed', {})
    await far.prints('silent', 2)
    far.vanish()
    for (const caller of [streamed, whole]) await answeredBySecond(gateway, caller)
    await until(() => far.socketsOf(workerOf(gateway)) === 0)
    expect(await endings(gateway)).toEqual(['settled', 'settled'])
  })

  test('between two requests of one connection: the connect deadline, long before the first byte’s', async () => {
    await using near = await Upstream.start({ second: does.answersText('second') })
    await using far = await FarMachine.start(FAR)
    await using gateway = await gatewayTo(far, near, { connect_timeout_ms: 600 })
    await using first = await callerOf(gateway, 'well', {})
    expect((await first.answer()).status).toBe(200)
    // It waits for the next request.
    expect(far.socketsOf(workerOf(gateway))).toBe(1)
    far.vanish()
    await using caller = await callerOf(gateway, 'well-followed', {})
    await answeredBySecond(gateway, caller)
    await until(() => far.socketsOf(workerOf(gateway)) === 0)
    expect(await endings(gateway)).toEqual(['settled', 'settled'])
  })

  test('only a proxy can reach it: a provider that cannot be reached directly does not fail for that', async () => {
    const release = Promise.withResolvers<void>()
    const slow: Scenario = async (call) => {
      await release.promise
      await does.answersText('by the proxy')(call)
    }
    await using proxy = await Upstream.start({ well: slow, silent: does.silent() })
    await using far = await FarMachine.start(FAR)
    far.vanish()
    const entry = { dialect: 'openai', base_url: `http://${far.host}:8080/v1`, api_key: 'k', connect_timeout_ms: 200 }
    await using gateway = await Gateway.start({
      providers: { far: entry, hasty: { ...entry, first_byte_timeout_ms: 1500 } },
      models: { well: ['far/well'], silent: ['hasty/silent'] },
      env: { HTTP_PROXY: `http://127.0.0.1:${proxy.port}` },
    })
    await using waiting = await callerOf(gateway, 'well', {})
    await using late = await callerOf(gateway, 'silent', {})
    // When this one runs into its deadline, the other is long past that for connecting.
    expect((await late.answer()).status).toBe(504)
    release.resolve()
    const answer = await waiting.answer()
    expect([answer.status, answer.text.includes('by the proxy')]).toEqual([200, true])
  })
})

/** The answer is whole and the next candidate's; the log shows that the far one timed out. */
async function answeredBySecond(gateway: Gateway, caller: Caller): Promise<void> {
  const answer = await caller.answer()
  expect([answer.status, answer.end, answer.header('x-gateway-fallback-count')]).toEqual([200, 'whole', '1'])
  const line = await gateway.request(answer.header('x-request-id'))
  expect(line).toMatchObject({ outcome: 'completed', attempts: [{ provider: 'far', error: 'timeout' }, {}] })
}
