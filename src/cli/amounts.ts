/** Amounts of money in tables. */

/** Micro-dollars as dollars with six decimals, so that a column of them aligns: `$1.000125`. */
export function fixedDollars(microUsd: number): string {
  const micro = BigInt(microUsd)
  return `$${micro / 1_000_000n}.${(micro % 1_000_000n).toString().padStart(6, '0')}`
}
