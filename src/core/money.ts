/** What a request may cost and how it is priced. Money is a whole number of micro-dollars; prices are whole micro-dollars per million units. */

/**
 * Prices of one model. Tokens: micro-dollars per million tokens ($0.25 a million = 250,000), absent where the operator gave none.
 * `image`: micro-dollars an image.
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
        /** What happens to a stream whose growth is refused. */
        readonly onExhausted: 'finish' | 'cut'
      }
    | undefined
}
