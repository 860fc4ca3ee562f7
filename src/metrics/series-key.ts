/** The key of a series in a map. Names of the configuration have no control characters. */
export function keyOf(labels: readonly string[]): string {
  return labels.join('\0')
}
