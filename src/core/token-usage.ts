/** Token counts in the canonical form, and which of a provider's figures weir believes. */

import { plainNumber } from './exact-json.ts'

/**
 * Token counts of one request. A figure that the provider did not report is absent, never a made-up 0.
 *
 * `input` is everything that the model read; `cachedInput`, `cacheWrite5m` and `cacheWrite1h` are parts of it, as in
 * Chat Completions. (Messages leaves them out of `input_tokens`; its decoder adds them and its encoder subtracts them.)
 * `output` is everything that the model wrote; `reasoning` is a part of it. `total` is the sum of input and output, if
 * the provider reports it itself: see `outputOf`. `audioInput` is the audio in `input` that was not cached.
 */
export interface Usage {
  readonly input?: number | undefined
  readonly cachedInput?: number | undefined
  readonly cacheWrite5m?: number | undefined
  readonly cacheWrite1h?: number | undefined
  readonly output?: number | undefined
  readonly reasoning?: number | undefined
  readonly total?: number | undefined
  readonly audioInput?: number | undefined
  /** The tier that served the request, as the provider names it. */
  readonly serviceTier?: string | undefined
}

/** Each figure of the later report replaces the earlier one; a figure that it lacks keeps the earlier one. */
export function mergeUsage(earlier: Usage, later: Usage): Usage {
  return {
    input: later.input ?? earlier.input,
    cachedInput: later.cachedInput ?? earlier.cachedInput,
    cacheWrite5m: later.cacheWrite5m ?? earlier.cacheWrite5m,
    cacheWrite1h: later.cacheWrite1h ?? earlier.cacheWrite1h,
    output: later.output ?? earlier.output,
    reasoning: later.reasoning ?? earlier.reasoning,
    total: later.output === undefined ? (later.total ?? earlier.total) : later.total,
    audioInput: later.audioInput ?? earlier.audioInput,
    serviceTier: later.serviceTier ?? earlier.serviceTier,
  }
}

/**
 * The reported output with all reasoning. xAI's Chat Completions counts reasoning beside the output: it does if the
 * total exceeds input and output by just the reported reasoning. A decoder cannot add it, because the splice copies
 * only figures that are sums whatever the numbers are.
 */
export function outputOf({ input, output, reasoning, total }: Usage): number | undefined {
  if (input === undefined || output === undefined || total === undefined) return output
  return reasoning !== undefined && input + output + reasoning === total ? total - input : output
}

/** More than any model reads or writes in one request. */
const TOKENS_MAX = 100_000_000

/**
 * A provider's count if it is a whole number from 0, capped at 100 million; undefined (not reported) for anything else.
 */
export function tokenCount(value: unknown): number | undefined {
  const count = plainNumber(value)
  return typeof count === 'number' && Number.isInteger(count) && count >= 0 ? Math.min(count, TOKENS_MAX) : undefined
}

/** More than a provider's hidden instructions and reasoning take. */
const UNSEEN_TOKENS_MAX = 1_000_000

/** False if the reported count is plausible whatever our own count is, so that nothing has to be counted. */
export function needsCount(reported: number | undefined): boolean {
  return reported === undefined || reported === 0 || reported > UNSEEN_TOKENS_MAX
}

/** True if the reported count is implausible beside our own count. Charging it would use up a budget at once. */
export function isAbsurd(reported: number | undefined, counted: number): boolean {
  return reported !== undefined && reported > 10 * counted + UNSEEN_TOKENS_MAX
}

/** The reported count; undefined if it is implausible: 0 although we counted something, or absurdly high. */
export function believed(reported: number | undefined, counted: number): number | undefined {
  if (reported === undefined || (reported === 0 && counted > 0)) return undefined
  return isAbsurd(reported, counted) ? undefined : reported
}
