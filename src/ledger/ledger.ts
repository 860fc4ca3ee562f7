/**
 * Money and rate held for one request. The verbs reserve, extend and settle are atomic and idempotent on the
 * reservation's id: figures are totals, never differences, so a repeated call changes nothing.
 */

import type { Limits, UnitAmounts } from '../core/limits.ts'
import type { Charge } from './audit-columns.ts'

export { type Charge, noCharge, type Outcome } from './audit-columns.ts'

/** What a request may take, or has taken so far. Whole numbers; money in micro-dollars. */
export interface Estimate {
  readonly inputTokens: number
  readonly outputTokens: number
  readonly costMicroUsd: number
}

/** Whose limits a request falls under: the organisation's and the key's, all at once. */
export interface Account {
  readonly organization: string
  readonly organizationLimits: Limits
  readonly key: string
  readonly keyLimits: Limits
}

/** What is asked to be held. */
export interface Hold {
  /** Unique for ever, made before anything is sent: the key of idempotency. */
  readonly id: string
  readonly estimate: Estimate
  /** What is charged where the gateway dies before it could settle: the input estimate's price. */
  readonly floorMicroUsd: number
  /**
   * The public name of the first candidate: under it the usage is counted where the gateway dies before it could
   * settle.
   */
  readonly model?: string | undefined
}

/** What a request takes of each unit that limits count, as it is reserved. */
export function demandOf({ estimate }: Hold): UnitAmounts {
  return { requests: 1, tokens: sum(estimate.inputTokens, estimate.outputTokens), micro_usd: estimate.costMicroUsd }
}

/** What so many requests took of each unit. */
export function usedOf(
  used: Pick<Charge, 'inputTokens' | 'outputTokens' | 'images' | 'costMicroUsd'>,
  requests: number,
): UnitAmounts {
  return { requests, tokens: sum(used.inputTokens, used.outputTokens), micro_usd: used.costMicroUsd }
}

/** Two amounts, stopping at the largest that a number holds exactly. */
export function sum(a: number, b: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, a + b)
}

/** What is left of a rate limit after a reservation, for `x-ratelimit-*`. */
export interface RateStatus {
  readonly limit: number
  readonly remaining: number
  /** How long until the bucket is full. */
  readonly resetMs: number
}

/**
 * In the order of `rateLimits`, of the organisation or the key, whichever has less left; undefined if neither has such
 * a limit.
 */
export type RateStatuses = readonly (RateStatus | undefined)[]

/** What a store needs to find a reservation again, or to charge a request that it does not know. */
export interface Admission {
  readonly id: string
  readonly account: Account
  /** By the ledger's clock: it decides the day and the month that the request is counted in. */
  readonly admittedMs: number
}

export interface Reservation extends Admission {
  readonly held: Estimate
  /** Undefined if the ledger could not be asked. */
  readonly rates?: RateStatuses | undefined
}

/** How a ledger is, for whoever asks whether this process can serve. */
export interface LedgerHealth {
  /** Requests are served. */
  readonly ready: boolean
  /** Its store takes what it is given. Under `ledger_unreachable: allow` requests are served while it does not. */
  readonly up: boolean
  /** What is wrong, in words for the operator; absent where nothing is. A ledger may be ready with a complaint. */
  readonly complaint?: string | undefined
  /** Settlements that have not reached their store yet. */
  readonly pending: number
}

export interface Ledger {
  /**
   * Throws `CallerError` `rate_limited`, `exceeds_limit` or `quota_exhausted` where a limit does not allow it (nothing
   * is consumed then), `ledger_unavailable` where it cannot be asked.
   */
  reserve(account: Account, hold: Hold): Promise<Reservation>
  /**
   * Moves the lease, records the use so far and grows what is held. False if a limit does not allow the growth: the use
   * is recorded all the same. Throws `CallerError` `ledger_unavailable` if nothing is held any more, or nobody can
   * tell: the reservation was lost, the ledger is out of reach.
   */
  extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): Promise<boolean>
  /** Never refuses: the tokens are already spent. */
  settle(reservation: Reservation, charge: Charge): Promise<'settled' | 'already_settled'>
  /** As far as is known without asking. */
  health(): LedgerHealth
  /** The same, once the store was asked now. */
  askHealth(): Promise<LedgerHealth>
  /** Lets what is buffered reach its store. After it no verb may be called. */
  close(): Promise<void>
}
