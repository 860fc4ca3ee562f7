/** Which candidates are called in spite of their rest, if every candidate of a request rests. */

import type { Candidate } from '../catalog/resolve.ts'
import type { Breaker } from './breaker.ts'

/**
 * The one whose rest ends first before the others: the first that can be called is the only one. During a rest that its
 * provider asked for, and with automatic selection during any rest, a candidate is not called. If the rest is over and
 * another request is still probing the target, it is.
 */
export function callableAtRest(
  candidates: readonly Candidate[],
  breaker: Pick<Breaker, 'restOf'>,
  isAutomatic: boolean,
): Candidate[] {
  const resting = candidates.flatMap((candidate) => {
    const rest = breaker.restOf(candidate.target)
    if (rest === undefined) return []
    // While another worker probes a target, its rest is over; `restMs` is the time for the probe.
    const isAsked = rest.asked && !rest.probing
    return rest.restMs > 0 && (isAutomatic || isAsked) ? [] : [{ candidate, rest }]
  })
  return resting.sort((one, other) => one.rest.restMs - other.rest.restMs).map(({ candidate }) => candidate)
}
