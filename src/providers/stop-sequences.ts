/** The caller's stop sequences, for every provider. */

/**
 * Those that the provider accepts; undefined if there are none. Empty ones stop nothing, and every provider rejects
 * them. Claude also rejects blank ones, such as a line end, on whatever platform.
 */
export function stopSequences(stop: readonly string[], model: { readonly isClaude: boolean }): string[] | undefined {
  if (stop.length === 0) return undefined
  const accepted = stop.filter((sequence) => (model.isClaude ? sequence.trim() : sequence) !== '')
  return accepted.length > 0 ? accepted : undefined
}
