/**
 * The sums that Redis keeps of a node that was away for long: one for each key, instead of its figures by day, key and
 * series, which no other node needs. When the node comes back, it spreads them over what its own log has.
 */

import { addUsage, figuresOf, minusUsage, noUsage, type UsageFigures } from '../../usage-figures.ts'
import { placeName, type UsageRow } from '../../usage-log.ts'
import type { NodeSums } from '../protocol/epochs.ts'
import type { Logged, StoredFigures } from './reconcile.ts'

/**
 * The figures by place, with the sums spread over the places that they were made of: first over what Redis has
 * acknowledged, then over settlements that it may have taken, each from the oldest day on, because a Redis that was set
 * back has lost the latest. Requests whose reservations are open were not taken. The sum of a key is exact in any case;
 * each place is, unless Redis has lost some of them, or taken some of those in doubt.
 */
export function withSums(
  sums: NodeSums | undefined,
  { figures, reservations }: StoredFigures,
  served: readonly UsageRow[],
  logged: readonly Logged[],
): ReadonlyMap<string, UsageFigures> {
  if (sums === undefined) return figures
  const spread = new Map(figures)
  const isOpen = ({ id }: Logged) => reservations.get(id)?.isOpen === true
  const open = usageByPlace(logged.filter(isOpen))
  const doubtful = usageByPlace(logged.filter((one) => isOpen(one) || one.isPending))
  const old = served.filter(({ day }) => day < sums.before).sort((a, b) => a.day - b.day)
  for (const [key, rows] of Map.groupBy(old, (row) => row.key)) {
    let left = sums.byKey.get(key) ?? noUsage
    for (const without of [doubtful, open]) {
      for (const row of rows) {
        const name = placeName(row)
        const known = spread.get(name) ?? noUsage
        const most = addUsage(row, minusUsage(without.get(name) ?? noUsage))
        const added = figuresOf(({ field }) => Math.max(0, Math.min(left[field], most[field] - known[field])))
        spread.set(name, addUsage(known, added))
        left = addUsage(left, minusUsage(added))
      }
    }
  }
  return spread
}

function usageByPlace(logged: readonly Logged[]): ReadonlyMap<string, UsageFigures> {
  const sums = new Map<string, UsageFigures>()
  for (const { usage } of logged) {
    if (usage === undefined) continue
    const name = placeName(usage)
    sums.set(name, addUsage(sums.get(name) ?? noUsage, usage))
  }
  return sums
}
