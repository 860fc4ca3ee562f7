/**
 * The callers of the chaos run: raw connections that send requests in all dialects, disconnect at random, and record
 * how each request ended.
 */

import type { JsonObject } from '../../src/core/json.ts'
import { Caller, requestBytes } from '../../test/support/caller.ts'
import type { Random } from '../../test/support/random.ts'
import type { ArrivalClock } from './arrival-clock.ts'
import { LONG_TEXT, TIER_NAMES } from './provider.ts'

const DIALECTS = [
  { path: '/v1/chat/completions', more: { max_tokens: 64 }, list: 'messages', last: 'data: [DONE]' },
  { path: '/v1/responses', more: { max_output_tokens: 64 }, list: 'input', last: 'event: response.completed' },
  { path: '/v1/messages', more: { max_tokens: 64 }, list: 'messages', last: 'event: message_stop' },
] as const

/** Values of the tag `project`; '' for a request without it. */
export const PROJECTS = ['', 'a', 'b']
export const LEAVES_ONE_IN = 12
const LONG_ONE_IN = 6
export const PATIENCE_MS = 60_000
/** Pauses between two requests: after an answer, and after a rejection or a connection that failed. */
export const PAUSE_MS = 60
export const REFUSED_PAUSE_MS = 200

/**
 * - `complete`: every byte arrived
 * - `cut`: the answer was cut, or the caller disconnected
 * - `rejected`: a 429 or a 503
 * - `drained`: a 503 because the gateway shut down
 * - `none`: no status arrived
 * - `wrong`: anything else
 */
export type End = 'complete' | 'cut' | 'rejected' | 'drained' | 'none' | 'wrong'

export interface Result {
  readonly mark: string
  readonly key: string
  /** The value of its tag `project`; '' if it has none. */
  readonly project: string
  readonly gateway: number
  readonly end: End
  /** The value of `x-request-id`, which is the id of the reservation. */
  readonly id: string | undefined
  readonly status: number
  /** When its last byte was read (`performance.now`); it arrived after `arrivedAfterMs`. */
  readonly endedMs: number
  readonly arrivedAfterMs: number
  /** The beginning of a wrong answer. */
  readonly what: string
  /** Of a turn over a WebSocket: whether it continued an earlier one. */
  readonly turn?: 'first' | 'continued'
}

export interface Load {
  /** The first organization of its keys. */
  readonly organization: string
  /** Port of each gateway. */
  readonly ports: readonly number[]
  /** Ids of keys with the keys themselves. */
  readonly keys: readonly (readonly [id: string, key: string])[]
  /** Prefix of every mark, so that setups can share a provider. */
  readonly name: string
  /** Returns the next number for a mark; all callers of a load share it. */
  readonly number: () => number
  readonly clock: ArrivalClock
  readonly results: Result[]
}

/** Sends one request after the other until `untilMs`, at least one. */
export async function callUntil(untilMs: number, load: Load, random: Random): Promise<void> {
  do {
    const result = await one(load, random)
    load.results.push(result)
    await Bun.sleep(result.end === 'complete' || result.end === 'cut' ? random.below(PAUSE_MS) : REFUSED_PAUSE_MS)
  } while (performance.now() < untilMs)
}

async function one(load: Load, random: Random): Promise<Result> {
  const mark = `${load.name}-${load.number()}`
  const gateway = random.below(load.ports.length)
  const [key, secret] = load.keys[random.below(load.keys.length)] ?? ['', '']
  const project = PROJECTS[random.below(PROJECTS.length)] ?? ''
  const request = { mark, key, project, gateway, id: undefined, status: 0, what: '' }
  const { path, more, list, last } = DIALECTS[random.below(DIALECTS.length)] ?? DIALECTS[0]
  const stream = random.chance(0.6)
  const leavesMs = random.below(LEAVES_ONE_IN) === 0 ? random.below(200) : undefined
  const content = textOf(mark, random)
  const body = { model: 'm', stream, [list]: [{ role: 'user', content }], ...more, ...tierOf(random) }
  try {
    await using caller = await Caller.connect(load.ports[gateway] ?? 0)
    const fields = project === '' ? {} : { 'x-gateway-tags': `project=${project}` }
    caller.send(requestBytes(path, { key: secret, body, fields }))
    if (leavesMs !== undefined) setTimeout(() => caller.reset(), leavesMs).unref()
    const late = setTimeout(() => caller.reset(), PATIENCE_MS)
    const answer = await caller.answer().finally(() => clearTimeout(late))
    const { status, text } = answer
    const times = { endedMs: performance.now(), arrivedAfterMs: load.clock.earliestMs }
    const isWhole = answer.end === 'whole' && (status !== 200 || !stream || text.includes(last))
    const end = endOf(status, isWhole, text)
    const what = end === 'wrong' ? `${status} ${answer.end} ${text.slice(-300)}` : ''
    return { ...request, end, id: answer.header('x-request-id'), status, ...times, what }
  } catch {
    // The connection failed before a status: the gateway was killed, or this caller disconnected.
    return { ...request, end: 'none', endedMs: performance.now(), arrivedAfterMs: load.clock.earliestMs }
  }
}

/** Now and then so long that other prices hold. */
export function textOf(mark: string, random: Random): string {
  const text = `This is ${mark}-mark`
  return random.below(LONG_ONE_IN) === 0 ? text + LONG_TEXT : text
}

export function tierOf(random: Random): JsonObject {
  return random.chance(0.5) ? { service_tier: random.pick(TIER_NAMES) } : {}
}

function endOf(status: number, isWhole: boolean, text: string): End {
  if (status === 200) return isWhole ? 'complete' : 'cut'
  if (status === 503 && isWhole && text.includes('shutting down')) return 'drained'
  return isWhole && (status === 429 || status === 503) ? 'rejected' : 'wrong'
}
