/**
 * Callers that leave, in every phase and in every way: the call to the provider ends at once, the usage is charged, and
 * nothing stays open.
 */

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { Caller } from '../support/caller.ts'
import * as does from '../support/scenarios.ts'
import type { Scenario } from '../support/upstream.ts'
import { chat, lastingStage, type Models, STREAM } from './stage.ts'

const ways = [
  ['fin', (caller: Caller) => caller.close()],
  ['reset', (caller: Caller) => caller.reset()],
  // A caller that closes its half of the connection counts as gone: Bun does not distinguish the two.
  ['half-close', (caller: Caller) => caller.halfClose()],
] as const

const [role = '', hello = ''] = does.chatFrames(['Hello'])
const failing = does.json(500, '{"error":{"message":"x"}}')

interface Phase {
  readonly name: string
  readonly does: Scenario | readonly Scenario[]
  readonly body: JsonObject
  /** The provider that is called when the caller leaves. */
  readonly provider: number
  /** What the caller has seen by then. */
  readonly sees: string | undefined
  readonly line: JsonObject
}

const unseen = { status: 499, streamed: false, output_tokens: 0 }

const phases: readonly Phase[] = [
  { name: 'headers', does: does.silent(), body: STREAM, provider: 0, sees: undefined, line: unseen },
  { name: 'held', does: does.stalls([role]), body: STREAM, provider: 0, sees: undefined, line: unseen },
  { name: 'second', does: [failing, does.silent()], body: STREAM, provider: 1, sees: undefined, line: unseen },
  { name: 'whole', does: does.silent(), body: {}, provider: 0, sees: undefined, line: unseen },
  { name: 'whole-second', does: [failing, does.silent()], body: {}, provider: 1, sees: undefined, line: unseen },
  { name: 'half-body', does: halfBody, body: {}, provider: 0, sees: undefined, line: unseen },
  {
    name: 'stream',
    does: does.stalls([role, hello]),
    body: STREAM,
    provider: 0,
    sees: 'Hello',
    line: { status: 200, streamed: true, output_tokens: 2, fallbacks: 0 },
  },
]

/** Half of a whole answer, and then nothing. */
async function halfBody(call: Parameters<Scenario>[0]): Promise<void> {
  await call.status(200, { 'content-type': 'application/json', 'content-length': '1000' })
  await call.write('{"choices":[')
}

const models = phases.flatMap(({ name, does }) => ways.map(([way]) => [`${name}-${way}`, does] as const))
const stage = await lastingStage({ ...Object.fromEntries(models), m: does.answersText('Hi') } satisfies Models)

describe.each(ways)('by %s', (way, leave) => {
  test.each(phases)('$name', async ({ name, body, provider, sees, line }) => {
    const model = `${name}-${way}`
    await using caller = await stage.caller(model, body)
    const call = await stage.call(model, provider)
    if (sees !== undefined) await caller.until(sees)
    leave(caller)
    await call.aborted
    const written = await stage.line(model)
    expect(written).toMatchObject({
      ...line,
      outcome: 'caller_left',
      usage: 'estimated',
      provider: `p${provider}`,
      served_model: model,
    })
    expect(written).not.toHaveProperty('error')
    expect(written['input_tokens']).toBeGreaterThan(0)
    expect(written['cost_micro_usd']).toBe(Number(written['input_tokens']) + 10 * Number(written['output_tokens']))
    if (provider === 1)
      expect(written['attempts']).toMatchObject([
        { provider: 'p0', status: 500, error: 'failed' },
        { provider: 'p1', error: 'caller_left' },
      ])
  })
})

describe('while it sends the body', () => {
  const half = (parts: Uint8Array) => parts.subarray(0, parts.length - 20)
  test.each([
    ['declared', half(chat('m'))],
    [
      'chunked',
      'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer test-key-0123456789abcdef\r\n' +
        'transfer-encoding: chunked\r\n\r\n5\r\n{"mod\r\n',
    ],
  ])('%s', async (_, bytes) => {
    const before = [stage.calls('m'), stage.gateway.lines.length] as const
    await using caller = await Caller.connect(stage.gateway.port)
    caller.send(bytes)
    // An answer on another connection shows that the gateway has read this far.
    await stage.ask('m')
    caller.close()
    await stage.gateway.line(
      (line) => line['outcome'] === 'caller_left' && stage.gateway.lines.indexOf(line) >= before[1],
    )
    const line = stage.gateway.lines.slice(before[1]).find((one) => one['outcome'] === 'caller_left') ?? {}
    expect(line).toMatchObject({
      outcome: 'caller_left',
      status: 499,
      organization: 'test',
      key: 'test-key',
      dialect: 'chat',
    })
    for (const name of ['cost_micro_usd', 'usage', 'provider', 'error']) expect(line).not.toHaveProperty(name)
    expect(stage.calls('m')).toBe(before[0] + 1)
  })
})

test('one log line per request, no internal error, and nothing is in flight any more', async () => {
  const requests = stage.gateway.lines.filter(({ msg }) => msg === 'request')
  expect(new Set(requests.map((line) => line['request_id'])).size).toBe(requests.length)
  expect(requests.filter(({ outcome }) => outcome === 'caller_left').length).toBe(phases.length * ways.length + 2)
  // A request that still had something to do would delay the drain and be cut.
  expect(await stage.gateway.stop()).toEqual({ code: 0, signal: null })
  expect(stage.gateway.lines.filter(({ level }) => level !== 'info')).toEqual([])
  await Promise.all(stage.upstreams.map((upstream) => upstream.idle()))
})
