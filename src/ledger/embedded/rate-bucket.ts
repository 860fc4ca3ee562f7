/**
 * One rate limit's bucket: fills with what requests take, drains evenly, and is full at a minute's worth. Knows nothing of requests.
 * `store.lua` is the same, line by line.
 */

import type { Allowance } from '../ledger.ts'
import { AMOUNT_MAX, type Meter } from './store-state.ts'

const MINUTE_MS = 60_000

/** What a reservation charged a meter, and when. */
interface Charge {
  readonly amount: number
  readonly ageMs: number
  /** `idled` of the meter at the time; undefined if there was no limit then, so that nothing was charged. */
  readonly idled: number | undefined
}

/**
 * Lets time pass. If the clock went back nothing drains. Without a limit the meter is left alone, its clock included: a request from before a
 * reload that added the limit must not wipe out what was counted since.
 */
export function drain(meter: Meter, perMinute: number | undefined, now: number): void {
  if (perMinute === undefined) return
  const elapsed = Math.max(0, now - meter.at)
  meter.at = now
  const left = meter.used - (perMinute * elapsed) / MINUTE_MS
  if (left < 0) meter.idled += 1
  meter.used = Math.max(0, left)
}

/** Takes from a drained meter. A limit that is not set keeps no account. */
export function take(meter: Meter, perMinute: number | undefined, amount: number): void {
  if (perMinute !== undefined) meter.used += amount
}

/**
 * Corrects a charge to what was really used, on a drained meter. What was not used comes back in full unless the bucket has stood empty
 * since: everything that drained was charged to somebody. After that only what of the charge cannot have drained yet comes back, because
 * capacity that went by unused is not handed out later. What was used beyond the charge is added.
 */
export function correct(meter: Meter, perMinute: number | undefined, charge: Charge, used: number): void {
  if (perMinute === undefined) return
  meter.used = Math.max(0, meter.used - Math.min(charge.amount - used, returnable(meter, perMinute, charge)))
}

function returnable(meter: Meter, perMinute: number, { amount, ageMs, idled }: Charge): number {
  if (idled === undefined) return 0
  return idled === meter.idled ? amount : Math.max(0, amount - (perMinute * ageMs) / MINUTE_MS)
}

/** How long until a drained meter has room for an amount: 0 if it has, infinite if it never will. */
export function waitMs(meter: Meter, perMinute: number | undefined, amount: number): number {
  if (perMinute === undefined || meter.used + amount <= perMinute) return 0
  return amount > perMinute ? Number.POSITIVE_INFINITY : ((meter.used + amount - perMinute) * MINUTE_MS) / perMinute
}

/** What is left of a drained meter. */
export function allowance({ used }: Meter, limit: number | undefined): Allowance | undefined {
  if (limit === undefined) return undefined
  return {
    limit,
    remaining: Math.max(0, Math.floor(limit - used)),
    resetMs: limit > 0 ? Math.min(AMOUNT_MAX, Math.ceil((used * MINUTE_MS) / limit)) : 0,
  }
}
