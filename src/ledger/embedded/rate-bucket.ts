/**
 * The bucket of one rate limit: requests fill it, it drains evenly, and it is full at the amount of one minute.
 * `store.lua` implements the same.
 */

import { NO_LIMIT } from '../../core/limit-amounts.ts'
import type { RateStatus } from '../ledger.ts'
import { AMOUNT_MAX, type Bucket, NOT_CHARGED } from './store-state.ts'

const MINUTE_MS = 60_000

/** What a reservation charged a bucket, and when. */
interface Charge {
  readonly amount: number
  readonly ageMs: number
  /** `idled` of the bucket at the time; `NOT_CHARGED` if there was no limit then. */
  readonly idled: number
}

/** What a bucket has at a time: less than 0 if it became empty before. If the clock stepped back, nothing drains. */
function balanceAt(bucket: Bucket, perMinute: number, now: number): number {
  const elapsed = Math.max(0, now - bucket.at)
  return bucket.used - (perMinute * elapsed) / MINUTE_MS
}

/** What is in a bucket at a time. Changes nothing: a request that is refused leaves no trace. */
export function levelAt(bucket: Bucket, perMinute: number, now: number): number {
  return perMinute === NO_LIMIT ? bucket.used : Math.max(0, balanceAt(bucket, perMinute, now))
}

/**
 * Advances a bucket to `now`. Without a limit the bucket and its clock stay
 * as they are: a request from before a reload that added the limit must not erase what was counted since.
 */
export function drain(bucket: Bucket, perMinute: number, now: number): void {
  if (perMinute === NO_LIMIT) return
  const left = balanceAt(bucket, perMinute, now)
  bucket.at = now
  if (left < 0) bucket.idled += 1
  bucket.used = Math.max(0, left)
}

/** Charges a drained bucket. Without a limit nothing is counted. */
export function take(bucket: Bucket, perMinute: number, amount: number): void {
  if (perMinute !== NO_LIMIT) bucket.used += amount
}

/**
 * Corrects a charge to the actual use, on a drained bucket. The unused part is returned in full if the bucket has not
 * been empty since: then everything that drained was charged to some request. Otherwise only the part of the charge
 * that cannot have drained yet is returned, because unused capacity must not be granted later. Use beyond the
 * charge is added.
 */
export function correct(bucket: Bucket, perMinute: number, charge: Charge, used: number): void {
  if (perMinute === NO_LIMIT) return
  bucket.used = Math.max(0, bucket.used - Math.min(charge.amount - used, returnable(bucket, perMinute, charge)))
}

function returnable(bucket: Bucket, perMinute: number, { amount, ageMs, idled }: Charge): number {
  if (idled === NOT_CHARGED) return 0
  return idled === bucket.idled ? amount : Math.max(0, amount - (perMinute * ageMs) / MINUTE_MS)
}

/**
 * Milliseconds until a bucket that holds `level` now has room for an amount: 0 if it has room now, infinite if it never
 * will.
 */
export function waitMs(level: number, perMinute: number, amount: number): number {
  if (perMinute === NO_LIMIT || level + amount <= perMinute) return 0
  return amount > perMinute ? Number.POSITIVE_INFINITY : ((level + amount - perMinute) * MINUTE_MS) / perMinute
}

/** How much room a bucket that holds `level` has. */
export function remainingOf(level: number, limit: number): number {
  return Math.max(0, Math.floor(limit - level))
}

export function statusOf(level: number, limit: number): RateStatus {
  return {
    limit,
    remaining: remainingOf(level, limit),
    resetMs: limit > 0 ? Math.min(AMOUNT_MAX, Math.ceil((level * MINUTE_MS) / limit)) : 0,
  }
}
