/** How many tokens one request took, in the one way of counting that this program uses. */

/**
 * Token counts of one request. A figure that the provider did not report is absent, never a made-up 0.
 *
 * `input` is everything that the model read: `cachedInput`, `cacheWrite5m` and `cacheWrite1h` are parts of it
 * (Chat Completions count so; Messages leave them out of `input_tokens`, which its decoder and encoder undo).
 * `output` is everything that the model wrote; `reasoning` is a part of it.
 */
export interface Usage {
  readonly input?: number | undefined
  readonly cachedInput?: number | undefined
  readonly cacheWrite5m?: number | undefined
  readonly cacheWrite1h?: number | undefined
  readonly output?: number | undefined
  readonly reasoning?: number | undefined
}

/** The later report wins figure by figure; a figure that it lacks does not erase an earlier one. */
export function mergeUsage(earlier: Usage, later: Usage): Usage {
  return {
    input: later.input ?? earlier.input,
    cachedInput: later.cachedInput ?? earlier.cachedInput,
    cacheWrite5m: later.cacheWrite5m ?? earlier.cacheWrite5m,
    cacheWrite1h: later.cacheWrite1h ?? earlier.cacheWrite1h,
    output: later.output ?? earlier.output,
    reasoning: later.reasoning ?? earlier.reasoning,
  }
}

/** No model reads or writes so much in one request. */
const TOKENS_MAX = 100_000_000

/** A provider's count: a whole number from 0, of more than 100 million no more than that. Anything else counts as not reported. */
export function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? Math.min(value, TOKENS_MAX) : undefined
}

/** Hidden instructions and reasoning do not take so much. */
const UNSEEN_TOKENS_MAX = 1_000_000

/** True for a count that is a provider's mistake, beside what we counted ourselves: it would empty a budget at once. */
export function isAbsurd(reported: number | undefined, counted: number): boolean {
  return reported !== undefined && reported > 10 * counted + UNSEEN_TOKENS_MAX
}
