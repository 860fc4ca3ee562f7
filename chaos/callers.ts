/** The callers of the chaos run: raw connections that ask without a pause in all dialects, leave at random, and remember how each request ended. */

import { Caller, requestBytes } from '../test/support/caller.ts'
import type { Random } from '../test/support/random.ts'

const DIALECTS = [
  { path: '/v1/chat/completions', more: { max_tokens: 64 }, list: 'messages', last: 'data: [DONE]' },
  { path: '/v1/responses', more: { max_output_tokens: 64 }, list: 'input', last: 'event: response.completed' },
  { path: '/v1/messages', more: { max_tokens: 64 }, list: 'messages', last: 'event: message_stop' },
] as const

const LEAVES_ONE_IN = 12
const PATIENCE_MS = 60_000
/** Between two requests; while nobody listens, and after a refusal, as a client that waits a little would. */
const PAUSE_MS = 60
const REFUSED_PAUSE_MS = 200

/** - `whole` every byte came · `cut` it broke off, or the caller left · `refused` an error came · `drained` one came since the gateway ended · `none` not even a status came · `wrong` what must never be */
export type End = 'whole' | 'cut' | 'refused' | 'drained' | 'none' | 'wrong'

export interface Asked {
  readonly mark: string
  readonly key: string
  readonly node: number
  readonly end: End
  /** Of `x-request-id`: the reservation's id. */
  readonly id: string | undefined
  readonly status: number
  readonly endedMs: number
  /** What was wrong. */
  readonly what: string
}

export interface Load {
  /** Port of each node. */
  readonly ports: readonly number[]
  /** Ids of keys and the keys. */
  readonly keys: readonly (readonly [id: string, key: string])[]
  /** Begins every mark, so that two worlds can share a provider. */
  readonly name: string
  /** Counts the marks: one for all callers of a load. */
  readonly number: () => number
  readonly asked: Asked[]
}

/** Asks one request after the other until the time is up; one at least. */
export async function callUntil(untilMs: number, load: Load, random: Random): Promise<void> {
  do {
    const asked = await one(load, random)
    load.asked.push(asked)
    await Bun.sleep(asked.end === 'whole' || asked.end === 'cut' ? random.below(PAUSE_MS) : REFUSED_PAUSE_MS)
  } while (performance.now() < untilMs)
}

async function one(load: Load, random: Random): Promise<Asked> {
  const mark = `${load.name}-${load.number()}`
  const node = random.below(load.ports.length)
  const [key, secret] = load.keys[random.below(load.keys.length)] ?? ['', '']
  const asked = { mark, key, node, id: undefined, status: 0, what: '' }
  const { path, more, list, last } = DIALECTS[random.below(DIALECTS.length)] ?? DIALECTS[0]
  const stream = random.chance(0.6)
  const leavesMs = random.below(LEAVES_ONE_IN) === 0 ? random.below(200) : undefined
  const body = { model: 'm', stream, [list]: [{ role: 'user', content: `This is ${mark}-mark` }], ...more }
  try {
    await using caller = await Caller.connect(load.ports[node] ?? 0)
    caller.send(requestBytes(path, { key: secret, body }))
    if (leavesMs !== undefined) setTimeout(() => caller.reset(), leavesMs).unref()
    const late = setTimeout(() => caller.reset(), PATIENCE_MS)
    const answer = await caller.answer().finally(() => clearTimeout(late))
    const { status, text } = answer
    const isWhole = answer.end === 'whole' && (status !== 200 || !stream || text.includes(last))
    const end = endOf(status, isWhole, text)
    const what = end === 'wrong' ? `${status} ${answer.end} ${text.slice(-300)}` : ''
    return { ...asked, end, id: answer.header('x-request-id'), status, endedMs: performance.now(), what }
  } catch {
    // Refused, reset, or closed before a status: the gateway is being killed, or this caller left.
    return { ...asked, end: 'none', endedMs: performance.now() }
  }
}

function endOf(status: number, isWhole: boolean, text: string): End {
  if (status === 200) return isWhole ? 'whole' : 'cut'
  if (status === 503 && isWhole && text.includes('shutting down')) return 'drained'
  return isWhole && (status === 429 || status === 503) ? 'refused' : 'wrong'
}
