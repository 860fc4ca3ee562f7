/**
 * When a budget is refusing: a request was refused in this window because of what is spent, and would be refused again.
 * `store.lua` and `reserve.lua` are the same. A limit that is raised, and spend that turns out lower, end it.
 */

/**
 * Whether the budget itself refuses a request. One that is dearer than the whole limit shows nothing about the budget,
 * unless that is used up: then any other would be refused, too.
 */
export function isRefusedForSpend(limit: number, spent: number, wanted: number): boolean {
  return wanted > 0 && wanted > limit - spent && (wanted <= limit || (spent > 0 && spent >= limit))
}

/** `refused`: the cheapest request that was refused in this window; 0 if none was. */
export function isRefusing(limit: number, spent: number, refused: number): boolean {
  return refused > 0 && refused > limit - spent
}

/** The mark after one more refusal. If room was made since the last one, what was refused before no longer counts. */
export function refusedAfter(limit: number, spent: number, refused: number, wanted: number): number {
  return isRefusing(limit, spent, refused) ? Math.min(refused, wanted) : wanted
}
