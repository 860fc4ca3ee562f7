/** The nodes that share a Redis, for the status and the alerts: their sums, and in what they have long differed. */

import { MINUTE_MS } from '../core/durations.ts'
import type { FiguresNow, Status } from './api-shapes.ts'
import type { FleetView } from './supervision.ts'

/** A fleet that is reloaded or updated node by node differs for some minutes. */
const MIXED_MS = 5 * MINUTE_MS
/** Of a sentence. */
const NAMED_MAX = 5

/** Nodes that have differed for too long. */
export interface MixedFleet {
  readonly sinceMs: number
  /** `models[3].price on gateway-2`, for each section. */
  readonly places: readonly string[]
}

/** Undefined while the nodes are alike, or have not differed for long. */
export function mixedFleet(fleet: Pick<FleetView, 'list' | 'mixedMs'>, nowMs: number): MixedFleet | undefined {
  const { mixedMs } = fleet
  if (mixedMs === undefined || nowMs - mixedMs <= MIXED_MS) return undefined
  const { nodes, mixed } = fleet.list()
  if (mixed.length === 0) return undefined
  const names = new Map(nodes.map(({ id, name }) => [id, name]))
  // Ids distinguish two nodes of one name.
  const nameOf = (id: string) => {
    const name = names.get(id) ?? id
    return nodes.filter((node) => node.name === name).length > 1 ? `${name} (${id})` : name
  }
  return {
    sinceMs: mixedMs,
    places: mixed.map(({ section, nodes: ids }) => `${section} on ${ids.map(nameOf).join(', ')}`),
  }
}

/** A sentence about it. */
export function mixedText({ places }: MixedFleet): string {
  const more = places.length > NAMED_MAX ? ` and ${places.length - NAMED_MAX} more` : ''
  return `Nodes differ from most: ${places.slice(0, NAMED_MAX).join('; ')}${more}.`
}

/** The sums of all nodes; of latencies the slowest node's. Null for a single node. */
export function fleetFigures(own: FiguresNow, others: readonly FiguresNow[]): Status['nodes'] {
  if (others.length === 0) return null
  const all = [own, ...others]
  const sum = (of: (figures: FiguresNow) => number) =>
    Math.round(all.reduce((total, each) => total + of(each), 0) * 1000) / 1000
  const slowest = (of: (figures: FiguresNow) => number | null) => {
    const known = all.map(of).filter((ms) => ms !== null)
    return known.length === 0 ? null : Math.max(...known)
  }
  /** By what each node serves now; nodes that served in the last minute alone count alike. */
  const shareOf = (of: (figures: FiguresNow) => number | null) => {
    const known = all.flatMap((each) => {
      const share = of(each)
      return share === null ? [] : [{ share, weight: each.requests_per_second }]
    })
    const weight = known.reduce((total, each) => total + each.weight, 0)
    if (known.length === 0) return null
    const parts = known.map((each) => each.share * (weight === 0 ? 1 / known.length : each.weight / weight))
    return parts.reduce((total, part) => total + part, 0)
  }
  const now: FiguresNow = {
    requests_per_second: sum((each) => each.requests_per_second),
    open_streams: sum((each) => each.open_streams),
    in_flight: sum((each) => each.in_flight),
    error_share: shareOf((each) => each.error_share),
    limited_share: shareOf((each) => each.limited_share),
    time_to_first_token_p50_ms: slowest((each) => each.time_to_first_token_p50_ms),
    time_to_first_token_p95_ms: slowest((each) => each.time_to_first_token_p95_ms),
    tokens_per_second: sum((each) => each.tokens_per_second),
    cost_micro_usd_per_second: sum((each) => each.cost_micro_usd_per_second),
  }
  return { count: all.length, now }
}
