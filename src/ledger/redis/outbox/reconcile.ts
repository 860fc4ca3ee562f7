/**
 * Reconciles a store that has lost settlements with a node's log: decides which are resent one by one, and which sums
 * are given back. In the end the store has charged what the node served, whichever way each request takes.
 */

import { addUsage, figuresOf, minusUsage, noUsage, type UsageFigures, usageColumns } from '../../usage-figures.ts'
import { placeName, type UsageRow } from '../../usage-log.ts'
import type { FoundReservation } from '../protocol/epochs.ts'

/** A settlement that the log still has as an entry. */
export interface Logged {
  readonly id: string
  /** False: the store acknowledged it. */
  readonly isPending: boolean
  /** Its usage, day, key and series; undefined if no provider was called. */
  readonly usage: UsageRow | undefined
}

/** What the store has, after it began to refuse settlements that the node had sent before. */
export interface StoredFigures {
  /** The figures of this node, by `placeName`. */
  readonly figures: ReadonlyMap<string, UsageFigures>
  /** Reservations of all nodes, by id. */
  readonly reservations: ReadonlyMap<string, FoundReservation>
}

export interface Plan {
  /** Settlements to send as if they had never been sent. */
  readonly resend: readonly string[]
  /** Pending settlements that are not sent any more: if the store lacks them, the rows have them. */
  readonly absorb: readonly string[]
  readonly rows: readonly UsageRow[]
}

/** Requests wait while these are resent one by one, of all organisations together; 1,000 take 0.1 s. */
export const RESEND_MAX = 1000

/**
 * `served`: everything that this node served, one row for each place. `resendMax`: how many settlements may be resent
 * besides those whose reservations are open.
 */
export function reconcile(
  served: readonly UsageRow[],
  logged: readonly Logged[],
  found: StoredFigures,
  resendMax = RESEND_MAX,
): Plan {
  const resend: string[] = []
  const absorb: string[] = []
  const missing = new Map<string, UsageRow>()
  for (const row of served) {
    const name = placeName(row)
    missing.set(name, { ...row, ...less(row, found.figures.get(name) ?? noUsage) })
  }
  // The store may have taken these and lost their ids, or never have received them.
  const doubtful = new Map<string, Logged[]>()
  for (const one of logged) {
    const state = found.reservations.get(one.id)
    if (state?.isOpen === true) {
      resend.push(one.id)
      if (one.usage !== undefined) take(missing, one.usage)
    } else if (state === undefined && one.usage !== undefined) {
      doubtful.getOrInsert(placeName(one.usage), []).push(one)
    } else if (one.isPending) absorb.push(one.id)
  }
  for (const [name, some] of doubtful) {
    const row = missing.get(name)
    const sum = some.reduce((figures, { usage }) => addUsage(figures, usage ?? noUsage), noUsage)
    // If the place lacks at least their sum, resending them has the same result as the sum, and the audit trail names
    // each.
    if (row !== undefined && isAtLeast(row, sum) && resend.length + some.length <= resendMax) {
      missing.set(name, { ...row, ...less(row, sum) })
      resend.push(...some.map(({ id }) => id))
    } else absorb.push(...some.filter(({ isPending }) => isPending).map(({ id }) => id))
  }
  // What the store has beyond the log was served, and its row was lost: it stays.
  const rows = [...missing.values()].map((row) => ({ ...row, ...lacking(row) }))
  return { resend, absorb, rows: rows.filter(isSomething) }
}

function take(missing: Map<string, UsageRow>, usage: UsageRow): void {
  const name = placeName(usage)
  const row = missing.get(name) ?? { ...usage, ...noUsage }
  missing.set(name, { ...row, ...less(row, usage) })
}

function less(a: UsageFigures, b: UsageFigures): UsageFigures {
  return addUsage(a, minusUsage(b))
}

function isAtLeast(a: UsageFigures, b: UsageFigures): boolean {
  return usageColumns.every(({ field }) => a[field] >= b[field])
}

function isSomething(figures: UsageFigures): boolean {
  return usageColumns.some(({ field }) => figures[field] > 0)
}

function lacking(figures: UsageFigures): UsageFigures {
  return figuresOf(({ field }) => Math.max(0, figures[field]))
}
