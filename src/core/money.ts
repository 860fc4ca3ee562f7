/**
 * Prices and limits. Money is a whole number of micro-dollars; prices are whole micro-dollars per million tokens, or
 * per image.
 */

/**
 * Prices of one model. Tokens: micro-dollars per million tokens ($0.25 per million = 250,000). `image`: micro-dollars
 * per image. Absent if the operator set none.
 */
export interface Price {
  readonly input?: number | undefined
  readonly cachedInput?: number | undefined
  readonly cacheWrite?: number | undefined
  readonly cacheWrite1h?: number | undefined
  readonly output?: number | undefined
  readonly image?: number | undefined
}

/** Limits of one organisation or one key; absent = none. Spend in micro-dollars over UTC calendar windows. */
export interface Limits {
  readonly requestsPerMinute?: number | undefined
  readonly tokensPerMinute?: number | undefined
  readonly concurrentRequests?: number | undefined
  readonly spend?:
    | {
        readonly day?: number | undefined
        readonly month?: number | undefined
        readonly total?: number | undefined
        /** Hold the worst case from the start, rather than a slice that grows. */
        readonly strict: boolean
        /** What happens to a stream whose reservation cannot grow. */
        readonly onExhausted: 'finish' | 'cut'
      }
    | undefined
}
