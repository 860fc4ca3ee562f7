/**
 * The interface of a ledger: it reserves money and rates for one request. Reserve, extend and settle are atomic and
 * idempotent by the reservation's id: their amounts are totals, never differences, so a repeated call changes nothing.
 */

import type { Later } from '../core/later.ts'
import type { AlertShares } from '../core/limit-amounts.ts'
import type { Limits, UnitAmounts } from '../core/limits.ts'
import type { ReservationPipeline } from '../core/redis-config.ts'
import type { Charge } from './audit-columns.ts'

export { type Charge, noCharge, type Outcome } from './audit-columns.ts'

/** What a request may use, or has used so far. Whole numbers; money in micro-dollars. */
export interface Estimate {
  readonly inputTokens: number
  readonly outputTokens: number
  readonly costMicroUsd: number
}

/**
 * The owners of the limits that apply to a request: its organisation, its key and the counters of the budgets that it
 * matches. All limits of all of them apply.
 */
export interface Account {
  readonly organization: string
  readonly organizationLimits: Limits
  readonly key: string
  readonly keyLimits: Limits
  /** The shares of all spend limits that are alerted of; absent: no crossing is recorded. */
  readonly alertShares?: AlertShares | undefined
  /** Absent if it matches none; at most `BUDGETS_MAX` of `core/budget-config.ts`. */
  readonly budgets?: readonly CounterAccount[] | undefined
  /** The time zone of the windows of its budgets. */
  readonly timeZone?: string | undefined
}

/** The counter of a budget that a request counts in. */
export interface CounterAccount {
  /** The name of the budget, and the value that the counter is for; '' if the budget has one counter. */
  readonly name: string
  readonly value: string
  readonly limits: Limits
  /**
   * Milliseconds after its last request when the counter ends, though not before its windows that end; absent: with the
   * last of its windows.
   */
  readonly idleMs?: number | undefined
  /** The value is of the caller's making, so that the number of counters is bounded. */
  readonly isBounded?: boolean | undefined
  /** A request that it refuses may be served by another model. The ledger does not need it. */
  readonly downgrades?: boolean | undefined
}

/** How the stores name a counter: no name of a budget has a tab. */
export function counterName({ name, value }: Pick<CounterAccount, 'name' | 'value'>): string {
  return value === '' ? name : `${name}\t${value}`
}

/** The budget and the value of a counter with this name. */
export function counterOf(name: string): Pick<CounterAccount, 'name' | 'value'> {
  const tab = name.indexOf('\t')
  return tab < 0 ? { name, value: '' } : { name: name.slice(0, tab), value: name.slice(tab + 1) }
}

/** What a reservation is to hold. */
export interface Hold {
  /** Unique, made before anything is sent: calls with the same id are repetitions. */
  readonly id: string
  readonly estimate: Estimate
  /** Charged if the gateway dies before it settles: the price of the estimated input. */
  readonly floorMicroUsd: number
  /** The public name of the first candidate. The usage counts for it if the gateway dies before it settles. */
  readonly model?: string | undefined
  /** The usage counts for them in the same case. As in `core/tags.ts`. */
  readonly tags?: string | undefined
  /**
   * How often the request went on to another candidate, perhaps under other owners, reserved or refused; absent: it is
   * the first. With a higher turn than its reservation has, that is reserved anew in one step; with a lower one the
   * call is a late repetition.
   */
  readonly turn?: number | undefined
  /** Absent if another output limit would not change what is reserved. For the message of a refusal alone. */
  readonly choice?: OutputChoice | undefined
}

/** A request that could be sent again with a smaller output limit. */
export interface OutputChoice {
  /**
   * The largest output limit below the request's own whose reservation takes no more than `room` of any unit; undefined
   * if there is none.
   */
  largestOutput(room: UnitAmounts): number | undefined
}

/** From 0. */
export function turnOf({ turn = 0 }: Hold): number {
  return turn
}

/** What a reservation takes of each unit that limits count. */
export function demandOf({ estimate }: Pick<Hold, 'estimate'>): UnitAmounts {
  return { requests: 1, tokens: sum(estimate.inputTokens, estimate.outputTokens), micro_usd: estimate.costMicroUsd }
}

/** What a number of requests used of each unit. */
export function usedOf(
  used: Pick<Charge, 'inputTokens' | 'outputTokens' | 'images' | 'costMicroUsd'>,
  requests: number,
): UnitAmounts {
  return { requests, tokens: sum(used.inputTokens, used.outputTokens), micro_usd: used.costMicroUsd }
}

/** The sum of two amounts, at most 2^53 - 1: larger sums would not be exact. */
export function sum(a: number, b: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, a + b)
}

/** What is left of a rate limit after a reservation, for the `x-ratelimit-*` headers. */
export interface RateStatus {
  readonly limit: number
  readonly remaining: number
  /** Milliseconds until the whole limit is available again. */
  readonly resetMs: number
}

/**
 * In the order of `rateLimits`, for the owner that has least left; undefined if none of them has the limit.
 */
export type RateStatuses = readonly (RateStatus | undefined)[]

/** What a store needs to find a reservation, or to charge a request that it does not know. */
export interface Admission {
  readonly id: string
  readonly account: Account
  /** Unix milliseconds of the ledger's clock. The request counts in this day and month. */
  readonly admittedMs: number
}

export interface Reservation extends Admission {
  readonly held: Estimate
  /** Undefined if the ledger could not be reached. */
  readonly rates?: RateStatuses | undefined
}

/** The state of a ledger, for health checks. */
export interface LedgerHealth {
  /** The ledger accepts requests. */
  readonly ready: boolean
  /** Its store accepts writes. With `ledger_unreachable: allow` requests are served even if it does not. */
  readonly up: boolean
  /** What is wrong, for the operator; absent if nothing is. A ledger can have a complaint and be ready. */
  readonly complaint?: string | undefined
  /** Count of settlements that have not reached the store yet. */
  readonly pending: number
}

/** What `settle` did: it changes nothing if the reservation had ended. */
export type Settled = 'settled' | 'already_settled'

/** A ledger in this process returns results, and throws errors at once; of others both come later. */
export interface Ledger {
  /** For what requests ask of the same Redis before they can go on; absent without Redis. */
  readonly pipeline?: ReservationPipeline | undefined
  /**
   * Throws `CallerError` `rate_limited`, `exceeds_limit` or `quota_exhausted` if a limit rejects the request (then
   * nothing is charged), `ledger_unavailable` if the ledger cannot be reached or written.
   *
   * `before`: the reservation of the turn before, with the same id. It is replaced, or stays as it is if this throws.
   */
  reserve(account: Account, hold: Hold, before?: Reservation): Reservation | Later<Reservation>
  /**
   * Extends the lease, records the use so far and raises what is held. False if a limit has no room for that; the use
   * is recorded anyway. Throws `CallerError` `ledger_unavailable` if the reservation was lost or the ledger cannot be
   * reached.
   */
  extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): boolean | Later<boolean>
  /** Charges the actual use and releases the rest. Never refuses: the tokens are already used. */
  settle(reservation: Reservation, charge: Charge): Settled | Later<Settled>
  /** The last known state. */
  health(): LedgerHealth
  /** Checks the store and returns its state. */
  askHealth(): Promise<LedgerHealth>
  /** Writes buffered changes to the store and closes it. Nothing may be called after it. */
  close(): Promise<void>
}
