/**
 * Prices, and amounts in words. Money is a whole number of micro-dollars; prices are whole micro-dollars per million
 * tokens, or per image.
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

/** Micro-dollars as dollars, with 2 to 6 decimals: `$5.00`, `$0.000125`. */
export function dollarsText(microUsd: number): string {
  const micro = BigInt(microUsd)
  const fraction = (micro % 1_000_000n)
    .toString()
    .padStart(6, '0')
    .replace(/0{1,4}$/, '')
  return `$${micro / 1_000_000n}.${fraction}`
}
