/**
 * What a node's settlements have spent in the counters of budgets, so that it can give back what Redis loses of them:
 * of each counter one sum for the newest window of each limit. The node's log and Redis keep the same sums.
 */

import { budgetLimits } from '../../../core/limits.ts'
import { type Account, type Charge, counterName, usedOf } from '../../ledger.ts'
import { usageOf } from '../../usage-figures.ts'
import type { UsageRow } from '../../usage-log.ts'
import { keptUntil, windowsIn } from '../../window.ts'
import type { Settlement } from './settlement.ts'

/** Windows, and what was spent in each, in the order of `budgetLimits`. */
export interface SpentInWindows {
  readonly windows: readonly number[]
  readonly spent: readonly number[]
}

export interface CounterSpend extends SpentInWindows {
  readonly organization: string
  /** As `counterName` names it. */
  readonly counter: string
  /** That of its windows. */
  readonly timeZone: string
  /** Until when the counter is kept: what comes later counts in a new one. */
  readonly keptMs: number
}

/** What a node gives back: usage of a place, which its organisation and key spent, or what was spent in a counter. */
export type GivenRow = UsageRow | CounterSpend

/** What Redis has of a node's counters. */
export interface FoundCounters {
  /** By the counter's name. */
  readonly parts: ReadonlyMap<string, SpentInWindows>
  /** By the id of a reservation that is open: the counters that its settlement is charged to, and their windows. */
  readonly holds: ReadonlyMap<string, ReadonlyMap<string, readonly number[]>>
}

/** Until when Redis keeps counters, by their names, in an epoch of their organisation. */
export interface KeptCounters {
  readonly epoch: number
  /** Undefined for one that has ended. */
  readonly keptMs: ReadonlyMap<string, number | undefined>
}

export const NO_COUNTERS_FOUND: FoundCounters = { parts: new Map(), holds: new Map() }

/** What settlements of an account have spent in the counters that it has. */
export interface AccountSpend extends SpentInWindows {
  readonly account: Account
}

/** What a settlement spends in the counters of its account; undefined for nothing. */
export function spendOf({ account, admittedMs, charge }: Settlement): AccountSpend | undefined {
  if (account.budgets === undefined || usageOf(charge) === undefined) return undefined
  const spent = spentOf(charge)
  if (spent.every((amount) => amount === 0)) return undefined
  return { account, windows: windowsIn(account.timeZone ?? 'UTC', admittedMs).windows, spent }
}

/** The same for each of the counters. */
export function spendByCounter({ account, windows, spent }: AccountSpend, nowMs: number): readonly CounterSpend[] {
  const { budgets = [], organization, timeZone = 'UTC' } = account
  const { ends } = windowsIn(timeZone, nowMs)
  return budgets.map((counter) => {
    const keptMs = keptUntil(nowMs, ends, counter)
    return { organization, counter: counterName(counter), timeZone, keptMs, windows, spent }
  })
}

function spentOf(charge: Charge): readonly number[] {
  const used = usedOf(charge, 1)
  return budgetLimits.map(({ unit }) => used[unit])
}

/** A counter's sum with another of the same counter, in the later of their windows each. */
export function addSpend(sum: CounterSpend, added: CounterSpend): CounterSpend {
  return { ...added, keptMs: Math.max(sum.keptMs, added.keptMs), ...addedInWindows(sum, added) }
}

/** A sum with another, in the later of their windows each. */
export function addedInWindows(sum: SpentInWindows, added: SpentInWindows): SpentInWindows {
  const add = (before: number, more: number) => Math.min(Number.MAX_SAFE_INTEGER, before + more)
  // Most are of one time, and have the same list.
  if (sum.windows === added.windows)
    return { windows: sum.windows, spent: sum.spent.map((before, i) => add(before, added.spent[i] ?? 0)) }
  const later = budgetLimits.map((_, i) => Math.sign((added.windows[i] ?? 0) - (sum.windows[i] ?? 0)))
  return {
    windows: later.map((sign, i) => (sign > 0 ? added : sum).windows[i] ?? 0),
    spent: later.map((sign, i) => {
      const [before, more] = [sum.spent[i] ?? 0, added.spent[i] ?? 0]
      if (sign !== 0) return sign > 0 ? more : before
      return add(before, more)
    }),
  }
}

/** What Redis lacks of a node's sums, without what the settlements that are resent one by one will charge. */
export function lackingSpend(
  sums: readonly CounterSpend[],
  { parts, holds }: FoundCounters,
  resent: readonly Settlement[],
  nowMs: number,
): readonly CounterSpend[] {
  const charged = new Map<string, SpentInWindows[]>()
  for (const settlement of resent) {
    for (const [counter, windows] of countersOf(settlement, holds)) {
      charged.getOrInsert(counter, []).push({ windows, spent: spentOf(settlement.charge) })
    }
  }
  return sums.flatMap((sum) => {
    const part = parts.get(sum.counter)
    // It has ended, unless requests of other nodes have kept it.
    if (part === undefined && sum.keptMs <= nowMs) return []
    const others = charged.get(sum.counter) ?? []
    const spent = sum.spent.map((amount, i) => {
      const window = sum.windows[i] ?? 0
      if ((part?.windows[i] ?? 0) > window) return 0
      const known = part === undefined ? others : [part, ...others]
      return Math.max(
        0,
        known.reduce((left, one) => left - (one.windows[i] === window ? (one.spent[i] ?? 0) : 0), amount),
      )
    })
    return spent.some((amount) => amount > 0) ? [{ ...sum, spent }] : []
  })
}

/**
 * The counters that a settlement will be charged to, and the windows of each: those of its account. Redis may have been
 * set back to an earlier turn of the request, which counts in others: the settlement releases it there.
 */
function countersOf(
  { id, account, admittedMs }: Settlement,
  holds: FoundCounters['holds'],
): ReadonlyMap<string, readonly number[]> {
  const { budgets = [], timeZone = 'UTC' } = account
  const names = budgets.map(counterName)
  const hold = holds.get(id)
  if (hold !== undefined && Bun.deepEquals([...hold.keys()], names)) return hold
  const { windows } = windowsIn(timeZone, admittedMs)
  return new Map(names.map((counter) => [counter, windows]))
}
