/**
 * One rate limit's bucket: fills with what requests take, drains evenly, and is full at a minute's worth. Knows nothing
 * of requests. `store.lua` is the same, line by line.
 */

import { NO_LIMIT } from '../../core/limits.ts'
import type { RateStatus } from '../ledger.ts'
import { AMOUNT_MAX, type Bucket } from './store-state.ts'

const MINUTE_MS = 60_000

/** What a reservation charged a bucket, and when. */
interface Charge {
  readonly amount: number
  readonly ageMs: number
  /** `idled` of the bucket at the time; undefined if there was no limit then, so that nothing was charged. */
  readonly idled: number | undefined
}

/**
 * Lets time pass. If the clock went back nothing drains. Without a limit the bucket is left alone, its clock included:
 * a request from before a reload that added the limit must not wipe out what was counted since.
 */
export function drain(bucket: Bucket, perMinute: number, now: number): void {
  if (perMinute === NO_LIMIT) return
  const elapsed = Math.max(0, now - bucket.at)
  bucket.at = now
  const left = bucket.used - (perMinute * elapsed) / MINUTE_MS
  if (left < 0) bucket.idled += 1
  bucket.used = Math.max(0, left)
}

/** Takes from a drained bucket. A limit that is not set keeps no account. */
export function take(bucket: Bucket, perMinute: number, amount: number): void {
  if (perMinute !== NO_LIMIT) bucket.used += amount
}

/**
 * Corrects a charge to what was really used, on a drained bucket. What was not used comes back in full unless the
 * bucket has stood empty since: everything that drained was charged to somebody. After that only what of the charge
 * cannot have drained yet comes back, because capacity that went by unused is not handed out later. What was used
 * beyond the charge is added.
 */
export function correct(bucket: Bucket, perMinute: number, charge: Charge, used: number): void {
  if (perMinute === NO_LIMIT) return
  bucket.used = Math.max(0, bucket.used - Math.min(charge.amount - used, returnable(bucket, perMinute, charge)))
}

function returnable(bucket: Bucket, perMinute: number, { amount, ageMs, idled }: Charge): number {
  if (idled === undefined) return 0
  return idled === bucket.idled ? amount : Math.max(0, amount - (perMinute * ageMs) / MINUTE_MS)
}

/** How long until a drained bucket has room for an amount: 0 if it has, infinite if it never will. */
export function waitMs(bucket: Bucket, perMinute: number, amount: number): number {
  if (perMinute === NO_LIMIT || bucket.used + amount <= perMinute) return 0
  return amount > perMinute ? Number.POSITIVE_INFINITY : ((bucket.used + amount - perMinute) * MINUTE_MS) / perMinute
}

/** What is left of a drained bucket; undefined without a limit. */
export function statusOf({ used }: Bucket, limit: number): RateStatus | undefined {
  if (limit === NO_LIMIT) return undefined
  return {
    limit,
    remaining: Math.max(0, Math.floor(limit - used)),
    resetMs: limit > 0 ? Math.min(AMOUNT_MAX, Math.ceil((used * MINUTE_MS) / limit)) : 0,
  }
}
