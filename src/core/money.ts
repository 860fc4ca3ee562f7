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
