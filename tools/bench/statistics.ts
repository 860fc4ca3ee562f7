/** Percentiles and medians of measured values. */

/** The smallest value that at least `p` percent of the values do not exceed (nearest rank); NaN without values. */
export function percentile(values: readonly number[], p: number): number {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted[Math.max(0, Math.ceil((sorted.length * p) / 100) - 1)] ?? Number.NaN
}

export function median(values: readonly number[]): number {
  return percentile(values, 50)
}
