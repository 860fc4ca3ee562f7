/**
 * The interface of a reservation store: reservations, and what each organisation and key has used, holds and has spent.
 * Each verb is atomic and idempotent. There are two stores, one in memory and one in Redis.
 *
 * States of a reservation: none → live → settled · live → lost (its lease expired) → settled · none, live or lost →
 * cancelled. Settled, lost and cancelled ones are kept for a limited time, to recognise repeated and late calls.
 */

import { DAY_MS } from '../core/durations.ts'
import type { BudgetLimit, LimitName, RateLimit, UnitAmounts } from '../core/limits.ts'
import type { Account, Admission, Charge, Estimate, Hold, RateStatuses } from './ledger.ts'

/** How long reservations are kept, in milliseconds. */
export interface Terms {
  /** From a reservation's start or last extension until it is lost. */
  readonly leaseMs: number
  /** How long a settled or cancelled reservation is kept, to recognise repeated calls; 0: not at all. */
  readonly endedMs: number
  /**
   * How long a lost one is kept: a settlement within this time corrects what was charged for it. Of a later one, only
   * what exceeds the charges of the lost ones of its day and key is charged.
   */
  readonly lostMs: number
}

/**
 * The gateway extends every 10 s, so two extensions may fail before a lease expires. A node that is cut off, or off,
 * settles what ended meanwhile when it is back: 31 days are longer than such a node is left alone. There are as many
 * lost reservations as requests ran when it went away, of 360 bytes each in Redis.
 */
export const TERMS: Terms = { leaseMs: 30_000, endedMs: 600_000, lostMs: 31 * DAY_MS }

/** How far the store's clock and the gateway's may differ before no window is rolled on the word of one of them. */
export const CLOCK_SKEW_MS = 60_000

/** The owners that every request has. */
export const scopeNames = ['organization', 'key'] as const
export type ScopeName = (typeof scopeNames)[number] | 'budget'

/** Whose limit refuses a request. */
interface RefusalScope {
  readonly scope: ScopeName
  /** The place of the counter among those of the account, if it is one. */
  readonly counter?: number
}

/** The scope with this place in the lists of an account: its organisation, its key, then its counters. */
export function refusalScope(place: number): RefusalScope {
  const owner = scopeNames[place]
  return owner === undefined ? { scope: 'budget', counter: place - scopeNames.length } : { scope: owner }
}

/** The limit that refuses a request; if several do, the one with the longest wait. */
export interface Refusal extends RefusalScope {
  readonly limit: LimitName
  /** Milliseconds until this limit alone would allow the request; undefined if waiting does not help. */
  readonly waitMs: number | undefined
  /** True if the limit refuses only because of what running requests hold. */
  readonly held: boolean
  /** What of a budget is spent; undefined for other limits, and if the store is of an earlier version. */
  readonly spent?: number | undefined
}

export type ReserveReply =
  /**
   * `admittedMs` by the store's clock: it decides the windows that the request belongs to. The same for a repeated
   * call.
   */
  | { readonly outcome: 'granted'; readonly admittedMs: number; readonly rates: RateStatuses }
  /**
   * Nothing was charged. `held`: all limits that refuse do so only because of what running requests hold, which may be
   * released at any time.
   */
  | {
      readonly outcome: 'refused'
      readonly refusal: Refusal
      readonly rates: RateStatuses
      readonly held: boolean
      /**
       * The most of each unit that a request may take to pass at this moment. Absent if the process that owns the
       * ledger is of a version that does not report it.
       */
      readonly room?: UnitAmounts | undefined
    }
  /** Nothing was charged: the organisation has as many counters as it may have, and this one would be new. */
  | { readonly outcome: 'crowded'; readonly counter: number }
  /** The reservation was settled, lost or cancelled before this call. */
  | { readonly outcome: 'ended' }

/** How many counters with values of callers' making an organisation may have at a time. */
export const COUNTERS_MAX = 100_000

export type ExtendReply = 'extended' | 'exhausted' | 'ended' | 'unknown'
export type SettleReply = 'settled' | 'already_settled' | 'cancelled' | 'unknown'
export type CancelReply = 'cancelled' | 'ended'

export interface SettleOptions {
  /** Charges a request whose reservation the store lost or never had. Without it the reply is then `unknown`. */
  readonly isDirect?: boolean | undefined
  /** The sending node, and the epoch of the organisation that it knows. Only the store in Redis uses it. */
  readonly from?: { readonly node: string; readonly epoch: number } | undefined
}

/** One budget: whole micro-dollars within one window. */
export interface Budget {
  /** The day by `dayOf` or the month by `monthOf`; 0 for the total; -1 if nothing was ever held. */
  readonly window: number
  readonly spent: number
  readonly held: number
  /**
   * The cheapest request that was refused in this window because of what is spent; 0 if none was. While what is left
   * does not suffice for it, the budget is refusing. As `refusal-mark.ts`.
   */
  readonly refused: number
}

/** What one organisation, key or counter uses now: rates (rounded up), live requests, budgets. */
export type ScopeUsage = { readonly live: number } & { readonly [L in RateLimit as L['name']]: number } & {
  readonly [L in BudgetLimit as L['name']]: Budget
}

export interface ReservationStore {
  /**
   * Reserves one request, its tokens, a place among the concurrent requests and its cost, or refuses and changes
   * nothing. Ends overdue reservations first. `floorMicroUsd` is charged at least if the reservation is lost. A live
   * reservation of an earlier turn is replaced: nothing of it is charged.
   */
  reserve(account: Account, hold: Hold): PromiseLike<ReserveReply>
  /**
   * Records progress (held becomes spent), extends the lease, and raises what is held to `wanted`: money if every spend
   * limit has room (else `exhausted`), tokens if the rates have room.
   */
  extend(account: Account, id: string, soFar: Estimate, wanted: Estimate): Promise<ExtendReply>
  /** Releases what is held and corrects what is spent to the actual cost. Never refuses. */
  settle(admission: Admission, charge: Charge, options?: SettleOptions): PromiseLike<SettleReply>
  /**
   * Releases what is held. Recorded progress stays spent; no floor is charged, and that of a lost reservation is
   * returned. An unknown id can no longer be reserved.
   */
  cancel(account: Account, id: string): Promise<CancelReply>
  /**
   * Ends overdue reservations: a live one is lost and charged the greater of its progress and its floor. Resolves to
   * their count.
   */
  reap(organization: string): Promise<number>
  /** What is used, held and spent. Ends overdue reservations first. */
  figures(account: Account): Promise<AccountUsage>
}

export interface AccountUsage {
  readonly organization: ScopeUsage
  readonly key: ScopeUsage
  /** Of the counters of its budgets, in their order; absent if there are none. */
  readonly budgets?: readonly CounterUsage[] | undefined
}

/** What a counter uses now, with the end of each of its windows by the name of the limit. */
export interface CounterUsage {
  readonly usage: ScopeUsage
  readonly endsMs: { readonly [L in BudgetLimit as L['name']]: number }
  /** Until when it is kept if no request comes. */
  readonly keptMs: number
}

/** Throws `RangeError` if an amount is not a whole number from 0 to 2^53 - 1. The Lua scripts check the same. */
export function checkEstimate({ inputTokens, outputTokens, costMicroUsd }: Estimate): void {
  checkAmount(inputTokens)
  checkAmount(outputTokens)
  checkAmount(costMicroUsd)
}

function checkAmount(amount: number): void {
  if (!Number.isSafeInteger(amount) || amount < 0)
    throw new RangeError(`${amount} is not an amount: amounts are whole numbers from 0 to 2^53 - 1.`)
}
