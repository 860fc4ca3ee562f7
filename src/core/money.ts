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
