/**
 * When a budget is refusing: a request was refused in this window because of what is spent, and would be refused again.
 * The stores mark the cheapest request that they refused (`store.lua` and `reserve.lua` are the same); readers, who
 * know the whole limit, decide what that means. A limit that is raised, and spend that turns out lower, end it.
 */

/** Whether a budget would refuse a request even if nothing ran. */
export function isRefusedForSpend(limit: number, spent: number, wanted: number): boolean {
  return wanted > 0 && wanted > limit - spent
}

/** The mark after one more refusal. If room was made since the last one, what was refused before no longer counts. */
export function refusedAfter(limit: number, spent: number, refused: number, wanted: number): number {
  return isRefusedForSpend(limit, spent, refused) ? Math.min(refused, wanted) : wanted
}

/**
 * `refused`: the cheapest request that was refused in this window; 0 if none was. One that is dearer than the whole
 * limit shows nothing about the budget, unless that is used up: then any other would be refused, too. A limit of 0
 * is used up from the start.
 */
export function isRefusing(limit: number, spent: number, refused: number): boolean {
  return isRefusedForSpend(limit, spent, refused) && (refused <= limit || spent >= limit)
}
