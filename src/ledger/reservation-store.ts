/**
 * The reservation store: what every organisation and key has used, holds and has spent, and the reservations on it.
 * Each verb is atomic and idempotent. There are two stores, one in memory and one in Redis.
 *
 * States of a reservation: none → live → settled · live → lost (its lease ran out) → settled · none, live or lost →
 * cancelled. Settled, lost and cancelled ones are kept for a limited time, so that a verb that arrives twice or late is
 * recognised.
 */

import type { BudgetLimit, LimitName, RateLimit } from '../core/limits.ts'
import type { Account, Admission, Charge, Estimate, Hold, RateStatuses } from './ledger.ts'

/** How long things live, in milliseconds. */
export interface Terms {
  /** From a reservation's start or last extension until it counts as lost. */
  readonly leaseMs: number
  /** How long a settled or cancelled reservation is remembered, for verbs that come twice; 0: not at all. */
  readonly endedMs: number
  /** How long a lost one is: a settlement until then corrects what was charged for it. */
  readonly lostMs: number
}

/** design: three chances to extend, every 10 s, before a lease of 30 s ends. */
export const TERMS: Terms = { leaseMs: 30_000, endedMs: 600_000, lostMs: 3_600_000 }

/** How far the store's clock and the gateway's may differ before no window is rolled on the word of one of them. */
export const CLOCK_SKEW_MS = 60_000

export const scopeNames = ['organization', 'key'] as const
export type ScopeName = (typeof scopeNames)[number]

/** The limit that refuses a request: of all that do, the one that will do so longest. */
export interface Refusal {
  readonly scope: ScopeName
  readonly limit: LimitName
  /** How long until that limit alone would let the request pass; undefined where no waiting helps. */
  readonly waitMs: number | undefined
  /** True if only what running requests hold stands in the way. */
  readonly held: boolean
}

export type ReserveReply =
  /**
   * `admittedMs` by the store's clock: it decides the windows that the request belongs to. The same for a repeated call.
   */
  | { readonly outcome: 'granted'; readonly admittedMs: number; readonly rates: RateStatuses }
  /**
   * Nothing was consumed. `held`: all limits that refuse do so only because of what running requests hold, which may
   * come free at any time.
   */
  | {
      readonly outcome: 'refused'
      readonly refusal: Refusal
      readonly rates: RateStatuses
      readonly held: boolean
    }
  /** The reservation was settled, lost or cancelled before this call came. */
  | { readonly outcome: 'ended' }

export type ExtendReply = 'extended' | 'exhausted' | 'ended' | 'unknown'
export type SettleReply = 'settled' | 'already_settled' | 'cancelled' | 'unknown'
export type CancelReply = 'cancelled' | 'ended'

export interface SettleOptions {
  /** Charges a request whose reservation the store lost or never had. Without it the reply is then `unknown`. */
  readonly isDirect?: boolean | undefined
  /** The node that sends it, and the epoch of the organisation that it knows; a store that loses nothing ignores it. */
  readonly from?: { readonly node: string; readonly epoch: number } | undefined
}

/** One budget: whole micro-dollars within one window. */
export interface Budget {
  /** Of `dayOf` or `monthOf`; 0 for the total. -1 where nothing was ever held. */
  readonly window: number
  readonly spent: number
  readonly held: number
}

/** What one organisation or key has used and holds, as of now. Rates are rounded up. */
export type ScopeUsage = { readonly live: number } & { readonly [L in RateLimit as L['name']]: number } & {
  readonly [L in BudgetLimit as L['name']]: Budget
}

export interface ReservationStore {
  /**
   * Holds one request, its tokens, a place among the concurrent ones and its cost, or refuses and changes nothing. Ends
   * first what is overdue. `floorMicroUsd` is charged where the reservation is lost.
   */
  reserve(account: Account, hold: Hold): Promise<ReserveReply>
  /**
   * Posts progress (held becomes spent), prolongs the lease, and grows what is held to `wanted`: money where every
   * spend limit has room (else `exhausted`), tokens where the rates have.
   */
  extend(account: Account, id: string, soFar: Estimate, wanted: Estimate): Promise<ExtendReply>
  /** Frees what is held and makes `spent` what the request cost. Never refuses. */
  settle(admission: Admission, charge: Charge, options?: SettleOptions): Promise<SettleReply>
  /**
   * Frees what is held; what was posted stays spent, and no floor is charged, of a lost one neither. An unknown one is
   * barred from being reserved.
   */
  cancel(account: Account, id: string): Promise<CancelReply>
  /**
   * Ends what is overdue: a live reservation is lost and charged the greater of its progress and its floor. Gives how
   * many.
   */
  reap(organization: string): Promise<number>
  /** What is used, held and spent. Ends first what is overdue. */
  figures(account: Account): Promise<AccountUsage>
}

export interface AccountUsage {
  readonly organization: ScopeUsage
  readonly key: ScopeUsage
}

/**
 * Throws where an amount is not a whole number from 0 to 2^53 - 1. The scripts check the same: neither side trusts the
 * other.
 */
export function checkEstimate({ inputTokens, outputTokens, costMicroUsd }: Estimate): void {
  for (const amount of [inputTokens, outputTokens, costMicroUsd]) {
    if (!Number.isSafeInteger(amount) || amount < 0) throw new RangeError(`${amount} is no amount.`)
  }
}
