/**
 * Turns the replies of a reservation store into results and the caller's errors: which limit refused, whose limit it
 * is, and when to retry.
 */

import { CallerError } from '../core/caller-error.ts'
import { DAY_MS, MINUTE_MS } from '../core/durations.ts'
import {
  amountOf,
  type BudgetLimit,
  configuredName,
  type Limit,
  type Limits,
  limitTable,
  spentBefore,
  type UnitAmounts,
} from '../core/limits.ts'
import { dollarsText } from '../core/money.ts'
import { type Account, type CounterAccount, demandOf, type Hold, type Reservation, turnOf } from './ledger.ts'
import { rateLimitHeaders } from './rate-limit-headers.ts'
import { COUNTERS_MAX, type ExtendReply, type Refusal, type ReserveReply } from './reservation-store.ts'
import { windowEndMs, windowOf } from './window.ts'

/** Micro-dollars of a dollar. */
const MICRO = 1_000_000

/** The largest `retry-after`, in seconds. */
const RETRY_AFTER_MAX = 60

/**
 * The reservation that a reply grants. Throws the caller's error if a limit refuses it or the reservation that it
 * replaces has ended, and `Error` if its id was used before. `nowMs`, in Unix milliseconds, is needed for the time when
 * a budget renews.
 */
export function reservationOf(account: Account, hold: Hold, reply: ReserveReply, nowMs: number): Reservation {
  switch (reply.outcome) {
    case 'granted':
      return { id: hold.id, account, held: hold.estimate, admittedMs: reply.admittedMs, rates: reply.rates }
    case 'refused':
      throw refusalError(account, hold, reply, nowMs)
    case 'crowded':
      throw crowdedError(account, reply.counter)
    case 'ended':
      if (turnOf(hold) > 0) throw expiredError()
      throw new Error(`Reservation '${hold.id}' has already ended. Use a new id for each request.`)
  }
}

/** For a ledger in Redis that does not answer. */
export function unreachedError(cause?: unknown): CallerError {
  return new CallerError('ledger_unavailable', 'The ledger cannot be reached.', { retryAfterSeconds: 1, cause })
}

/** For an embedded ledger whose files cannot be written, so that no more changes may wait. */
export function fullError(): CallerError {
  return new CallerError('ledger_unavailable', 'The ledger cannot be written at the moment. Try again in 5 s.', {
    retryAfterSeconds: 5,
  })
}

/**
 * Whether an extension raised what is held. Throws `CallerError` `ledger_unavailable` if the reservation is gone: its
 * lease expired, or the store lost it.
 */
export function isHeld(reply: ExtendReply): boolean {
  if (reply === 'extended' || reply === 'exhausted') return reply === 'extended'
  throw expiredError()
}

function expiredError(): CallerError {
  return new CallerError('ledger_unavailable', 'The reservation of this request has expired. Send the request again.', {
    retryAfterSeconds: 1,
  })
}

type RefusedReply = Extract<ReserveReply, { readonly outcome: 'refused' }>

/** The data of a message about a refusal. */
interface Refused {
  readonly hold: Hold
  readonly refusal: Refusal
  readonly room: UnitAmounts | undefined
  /** The amount of the limit; 0 if a reload has removed it from the configuration. */
  readonly most: number
  /** What of it was spent elsewhere: the store knows only the rest. */
  readonly before: number
  /** `organisation 'acme'`, `key 'ci'` or `budget 'person' of 'ann'`. */
  readonly owner: string
}

/** Whose limit it is: in words, in the log, and the limits. */
interface Owner {
  readonly words: string
  readonly of: string
  readonly limits: Limits
  /** The windows of its budgets end at a multiple of this. */
  readonly stepMs: number
}

/** Clocks of time zones differ by multiples of it. */
const ZONE_STEP_MS = 15 * MINUTE_MS

function ownerOf(account: Account, { scope, counter = 0 }: Refusal): Owner {
  const { organization, organizationLimits, key, keyLimits, budgets } = account
  if (scope === 'organization') {
    const of = `organization:${organization}`
    return { words: `organisation '${organization}'`, of, limits: organizationLimits, stepMs: DAY_MS }
  }
  const budget = budgets?.[counter]
  if (scope === 'key' || budget === undefined) {
    return { words: `key '${key}'`, of: `key:${key}`, limits: keyLimits, stepMs: DAY_MS }
  }
  const { name, value, limits } = budget
  const words = value === '' ? `budget '${name}'` : `budget '${name}' of '${value}'`
  return { words, of: counterLabel(budget), limits, stepMs: ZONE_STEP_MS }
}

/** `budget:person:ann`, in errors and in the log. */
function counterLabel({ name, value }: Pick<CounterAccount, 'name' | 'value'>): string {
  return value === '' ? `budget:${name}` : `budget:${name}:${value}`
}

function crowdedError({ organization, budgets }: Account, counter: number): CallerError {
  const budget = budgets?.[counter] ?? { name: '', value: '' }
  const most = COUNTERS_MAX.toLocaleString('en-US')
  return new CallerError(
    'too_many_values',
    `The budget '${budget.name}' has no counter for '${budget.value}' yet, and organisation '${organization}' has ` +
      `${most} counters already, the most there may be at a time. Use a value that is in use, or wait until the ` +
      'windows of others end.',
    { limit: { name: 'counters', of: counterLabel(budget) } },
  )
}

/** The caller's error. `nowMs`, in Unix milliseconds, is needed for the time when a budget renews. */
function refusalError(account: Account, hold: Hold, reply: RefusedReply, nowMs: number): CallerError {
  const { refusal, rates, room } = reply
  const limit = limitNamed(refusal.limit)
  const { words: owner, of, limits, stepMs } = ownerOf(account, refusal)
  const [most, before] = [amountOf(limits, limit) ?? 0, spentBefore(limits, limit, nowMs)]
  const refused = { hold, refusal, room, most, before, owner }
  const detail = {
    headers: rateLimitHeaders({ rates }),
    limit: { name: configuredName(limit), of },
    ...(refusal.scope === 'budget' ? { counter: refusal.counter } : {}),
  }
  if (limit.kind !== 'budget') {
    const noun = most === 1 ? limit.noun.replace('requests', 'request').replace('tokens', 'token') : limit.noun
    const words = `${most} ${noun} for ${owner}`
    if (refusal.waitMs === undefined) {
      return new CallerError('exceeds_limit', tooLarge(limit, words, refused), { ...detail, type: limit.name })
    }
    const retryAfterSeconds = retrySeconds(refusal.waitMs)
    const message = `Rate limit reached: ${words}. Try again in ${retryAfterSeconds} s.`
    return new CallerError('rate_limited', message, { ...detail, type: limit.name, retryAfterSeconds })
  }
  if (refusal.held && refusal.waitMs !== undefined) {
    const retryAfterSeconds = retrySeconds(refusal.waitMs)
    const message =
      `${demandWords(limit, hold)}, more than running requests leave of ${budgetWords(limit, refused)}. ` +
      `Try again in ${retryAfterSeconds} s.`
    const { unit } = limit
    const type = unit === 'micro_usd' ? 'spend' : unit
    return new CallerError('rate_limited', message, { ...detail, type, retryAfterSeconds })
  }
  const renewsAt = renewal(limit, refused, nowMs, stepMs)
  const message = exhaustedWords(limit, refused, renewsAt) + smallerWords(refused)
  return new CallerError('quota_exhausted', message, {
    ...detail,
    quota: {
      limit: limit.unit === 'micro_usd' ? most / MICRO : most,
      spent: (before + (refusal.spent ?? 0)) / (limit.unit === 'micro_usd' ? MICRO : 1),
      window: limit.window,
      scope: of,
      resets_at: renewsAt ?? null,
    },
  })
}

function limitNamed(name: Limit['name']): Limit {
  const limit = limitTable.find((one) => one.name === name)
  if (limit === undefined) throw new RangeError(`No limit is named '${name}'.`)
  return limit
}

function retrySeconds(waitMs: number): number {
  return Math.min(RETRY_AFTER_MAX, Math.max(1, Math.ceil(waitMs / 1000)))
}

function tooLarge({ kind, unit, noun }: Limit, words: string, { hold, most, owner }: Refused): string {
  if (kind === 'concurrency' || unit === 'requests') {
    // Each request counts one, so the limit is 0.
    return `${owner[0]?.toUpperCase()}${owner.slice(1)} is limited to ${most} ${noun}, so every request is rejected.`
  }
  return (
    `This request needs up to ${countText(demandOf(hold)[unit], unit)}, more than the whole limit of ${words}. ` +
    'Waiting does not help: send less, or request a smaller output limit.'
  )
}

/** The beginning of a message about a budget. */
function demandWords({ unit }: BudgetLimit, hold: Hold): string {
  const demand = demandOf(hold)[unit]
  return unit === 'micro_usd'
    ? `This request may cost ${dollarsText(demand)}`
    : `This request needs ${countText(demand, unit)}`
}

function countText(amount: number, unit: string): string {
  return `${amount} ${amount === 1 ? unit.replace(/s$/, '') : unit}`
}

function budgetWords({ unit, noun }: BudgetLimit, { most, owner }: Refused): string {
  return `the ${noun} of ${unit === 'micro_usd' ? dollarsText(most) : most} for ${owner}`
}

function exhaustedWords(limit: BudgetLimit, refused: Refused, renewsAt: string | undefined): string {
  const { hold, most } = refused
  const [demand, budget] = [demandWords(limit, hold), budgetWords(limit, refused)]
  if (demandOf(hold)[limit.unit] > most) return `${demand}, more than ${budget}. Waiting does not help.`
  const left = `${demand}, more than is left of ${budget}`
  return renewsAt === undefined ? `${left}. The limit does not renew.` : `${left}. The limit renews at ${renewsAt}.`
}

/** When the budget renews; undefined if waiting does not help. */
function renewal(
  limit: BudgetLimit,
  { hold, most, before, refusal }: Refused,
  nowMs: number,
  stepMs: number,
): string | undefined {
  if (demandOf(hold)[limit.unit] > most) return undefined
  const end = before === 0 ? undefined : windowEndMs(limit.window, windowOf(limit.window, nowMs))
  const waitMs = refusal.waitMs ?? (end === undefined ? undefined : end - nowMs)
  if (waitMs === undefined) return undefined
  // Rounding removes the few seconds that the clocks may differ.
  const renewsAt = new Date(Math.round((nowMs + waitMs) / stepMs) * stepMs)
  return `${renewsAt.toISOString().slice(0, 19)}Z`
}

/** What the caller can do now. Nothing if no output limit helps, or if none changes what is reserved. */
function smallerWords({ hold, room }: Refused): string {
  const largest = room && hold.choice?.largestOutput(room)
  return largest === undefined ? '' : ` With an output limit of at most ${countText(largest, 'tokens')} it passes now.`
}
