/** The plain data of the book in memory: what an organisation or a key has used, and what is known of a reservation. */

import type { Budget, Figures } from '../reservation-store.ts'
import { dayOf, monthOf } from '../window.ts'

/** Estimate stop growing here. Unreached by real money ($9.0 billion); the sums stay exact up to it. */
export const AMOUNT_MAX = Number.MAX_SAFE_INTEGER

/** One rate limit's bucket; `meter.ts` says what may happen to it. */
export interface Meter {
  used: number
  /** The clock at which it was drained last. */
  at: number
  /** How many times it has stood empty: time passed that it could have drained more in. */
  idled: number
}

export interface BudgetState {
  window: number
  spent: number
  held: number
}

/** One organisation, or one key of it. */
export interface ScopeState {
  readonly organization: string
  /** '' for the organisation itself. */
  readonly key: string
  /** Of both: its name among all scopes. */
  readonly name: string
  /** The clock at which time last passed for it. */
  at: number
  readonly requests: Meter
  readonly tokens: Meter
  live: number
  /** Day, month, total. */
  readonly budgets: readonly [BudgetState, BudgetState, BudgetState]
}

type RecordState = 'live' | 'settled' | 'lost' | 'cancelled'

/** How often each meter of a scope had stood empty when it was charged; undefined if it was not, because there was no limit. */
export interface Charged {
  readonly requests: number | undefined
  readonly tokens: number | undefined
}

/** A reservation. Ended ones keep only what a repetition or a correction needs. */
export interface ReservationState {
  readonly id: string
  readonly organization: string
  state: RecordState
  /** When the lease ends; of an ended one, when it is forgotten. */
  dueMs: number
  readonly admittedMs: number
  readonly key: string
  readonly model: string
  readonly inputTokens: number
  /** Tokens that the rates were charged with. */
  accountedTokens: number
  heldMicroUsd: number
  postedInput: number
  postedOutput: number
  postedMicroUsd: number
  readonly floorMicroUsd: number
  /** The windows it belongs to, of the organisation and of the key. */
  readonly windows: readonly [readonly number[], readonly number[]]
  /** What its admission charged, of the organisation and of the key. */
  readonly charged: readonly [Charged, Charged]
}

export const UNCHARGED: Charged = { requests: undefined, tokens: undefined }

export function scopeName(organization: string, key: string): string {
  return `${organization}\0${key}`
}

export function newScope(organization: string, key: string, now: number): ScopeState {
  const budget = (window: number): BudgetState => ({ window, spent: 0, held: 0 })
  const meter = (): Meter => ({ used: 0, at: now, idled: 0 })
  return {
    organization,
    key,
    name: scopeName(organization, key),
    at: now,
    requests: meter(),
    tokens: meter(),
    live: 0,
    budgets: [budget(dayOf(now)), budget(monthOf(now)), budget(0)],
  }
}

/** What a tombstone of a call for an unknown id looks like. */
export function barred(id: string, organization: string, key: string, now: number, dueMs: number): ReservationState {
  return {
    id,
    organization,
    state: 'cancelled',
    dueMs,
    admittedMs: now,
    key,
    model: '',
    inputTokens: 0,
    accountedTokens: 0,
    heldMicroUsd: 0,
    postedInput: 0,
    postedOutput: 0,
    postedMicroUsd: 0,
    floorMicroUsd: 0,
    windows: [[], []],
    charged: [UNCHARGED, UNCHARGED],
  }
}

/** A copy that does not move with the state. */
export function figuresOf(scope: ScopeState): Figures {
  const copy = ({ window, spent, held }: BudgetState): Budget => ({ window, spent, held })
  return {
    requests: Math.ceil(scope.requests.used),
    tokens: Math.ceil(scope.tokens.used),
    live: scope.live,
    day: copy(scope.budgets[0]),
    month: copy(scope.budgets[1]),
    total: copy(scope.budgets[2]),
  }
}

/** A copy to work on: a verb that changes nothing leaves the scope as it was. */
export function copyOf(scope: ScopeState): ScopeState {
  const {
    requests,
    tokens,
    budgets: [day, month, total],
  } = scope
  return {
    ...scope,
    requests: { ...requests },
    tokens: { ...tokens },
    budgets: [{ ...day }, { ...month }, { ...total }],
  }
}
