/**
 * The table of limits that an organisation, a key or a budget may have. The configuration's fields, the ledgers' state,
 * the names in the Lua scripts, the errors of rejected requests, `x-ratelimit-*` headers and `weir explain` are made
 * from it.
 *
 * To add a rate, a concurrency, or a spend limit of budgets alone, append a row: its state begins empty in stored data.
 * A spend limit of organisations and keys has to stand before those with `ofBudgets`, whose places in reservations,
 * parts and marks are stored: it needs a migration. The ledgers store the `name`, so it must not change. If the unit is
 * new, also add what a request takes of it (`demandOf` and `usedOf` in `ledger/ledger.ts`).
 */

import { isObject, type JsonObject, numberOf } from './json.ts'
import { dollarsText } from './money.ts'

interface Row {
  readonly name: string
  /** What it counts, as a plural noun; money in whole micro-dollars. */
  readonly unit: string
  /** Its field in the configuration: in `limits`, or in `limits.spend` for money. */
  readonly key: string
  /** Its property in `Limits`: in `spend` for money. */
  readonly property: string
  /** The description of its field in the configuration. */
  readonly description: string
  /** In `weir explain`, after the amount. */
  readonly words: string
  /** In a rejection: for a rate or concurrency the text after the amount, for a budget the name of the limit. */
  readonly noun: string
  /** Only the budgets of an organisation may have it. */
  readonly ofBudgets?: true
}

/** A bucket of this amount, refilled evenly over its window. */
interface Rate extends Row {
  readonly kind: 'rate'
  readonly window: 'minute'
  /** The end of its headers' names: `x-ratelimit-limit-…`. */
  readonly header?: string
}

/** A maximum of live reservations. */
interface Concurrency extends Row {
  readonly kind: 'concurrency'
  readonly unit: 'requests'
}

/**
 * A maximum for one calendar window: in UTC for organisations and keys, in the organisation's time zone for its
 * budgets. What running requests hold counts as used.
 */
interface Budget extends Row {
  readonly kind: 'budget'
  readonly window: 'hour' | 'day' | 'week' | 'month' | 'total'
}

function budget<const W extends Budget['window']>(window: W, description: string, words: string, noun: string) {
  const names = { name: window, key: window, property: window, window }
  return { ...names, kind: 'budget', unit: 'micro_usd', description, words, noun } as const
}

const table = [
  {
    name: 'requests',
    kind: 'rate',
    window: 'minute',
    unit: 'requests',
    key: 'requests_per_minute',
    property: 'requestsPerMinute',
    description: 'Requests in a minute. The limit is a bucket of that size that refills evenly',
    words: 'requests a minute',
    noun: 'requests per minute',
    header: 'requests',
  },
  {
    name: 'tokens',
    kind: 'rate',
    window: 'minute',
    unit: 'tokens',
    key: 'tokens_per_minute',
    property: 'tokensPerMinute',
    description:
      'Tokens in a minute, input and output together. The limit is a bucket of that size that refills evenly',
    words: 'tokens a minute',
    noun: 'tokens per minute',
    header: 'tokens',
  },
  {
    name: 'concurrent_requests',
    kind: 'concurrency',
    unit: 'requests',
    key: 'concurrent_requests',
    property: 'concurrentRequests',
    description: 'Requests that run at the same time',
    words: 'requests at once',
    noun: 'concurrent requests',
  },
  budget('day', 'the most in a calendar day', 'a day', 'daily spend limit'),
  budget('month', 'the most in a calendar month', 'a month', 'monthly spend limit'),
  budget('total', 'the most ever', 'in total', 'total spend limit'),
  { ...budget('hour', 'the most in an hour of the clock', 'an hour', 'hourly spend limit'), ofBudgets: true },
  { ...budget('week', 'the most in a week, which begins on Monday', 'a week', 'weekly spend limit'), ofBudgets: true },
] as const satisfies readonly (Rate | Concurrency | Budget)[]

export type Limit = (typeof table)[number]
export type LimitName = Limit['name']
export type LimitUnit = Limit['unit']
export type RateLimit = Extract<Limit, { readonly kind: 'rate' }>
export type BudgetLimit = Extract<Limit, { readonly kind: 'budget' }>
type SpendLimit = Extract<Limit, { readonly unit: 'micro_usd' }>
export type CountLimit = Exclude<Limit, SpendLimit>

export const limitTable: readonly Limit[] = table
/** True for a limit that an organisation or a key may have. */
export function isOfOwners<L extends Limit>(limit: L): limit is Exclude<L, { readonly ofBudgets: true }> {
  return !('ofBudgets' in limit)
}

/** In the order in which a request is checked against them: rates, concurrency, budgets. */
export const rateLimits = table.filter((limit) => limit.kind === 'rate')
export const concurrencyLimits = table.filter((limit) => limit.kind === 'concurrency')
export const budgetLimits = table.filter((limit) => limit.kind === 'budget')
/** Of these, those that organisations and keys may have, too. The ledgers use one index for both lists. */
export const ownerBudgetLimits = budgetLimits.filter(isOfOwners)
/** Those under `limits.spend` in the configuration, then those directly under `limits`. */
export const spendLimits = table.filter((limit) => limit.unit === 'micro_usd')
/** Those that an organisation or a key may have. */
export const ownerSpendLimits = spendLimits.filter(isOfOwners)
export const countLimits = table.filter((limit) => limit.unit !== 'micro_usd')

export const limitUnits: readonly LimitUnit[] = [...new Set<LimitUnit>(table.map(({ unit }) => unit))]

/** An object with one amount for each unit. */
export function byUnit(amount: (unit: LimitUnit) => number): UnitAmounts
export function byUnit(amount: (unit: LimitUnit) => number): Readonly<Record<string, number>> {
  return Object.fromEntries(limitUnits.map((unit) => [unit, amount(unit)]))
}

/** Amounts by unit; whole numbers from 0 to 2^53 - 1. */
export type UnitAmounts = Readonly<Record<LimitUnit, number>>

/** Limits of one organisation, key or budget; absent: no limit. Spend in micro-dollars per calendar window. */
export type Limits = { readonly [L in CountLimit as L['property']]?: number | undefined } & {
  readonly spend?: Spend | undefined
  /** WebSockets that are open in one worker: not in the table, because the ledger does not know of them. */
  readonly sockets?: number | undefined
}

/** How many WebSockets an organisation or a key may have open in one worker if its limits do not name a number. */
export const SOCKETS_DEFAULT = 1000

type Spend = { readonly [L in SpendLimit as L['property']]?: number | undefined } & {
  /** Reserve the highest possible cost from the start, not a part that grows. */
  readonly strict: boolean
  /** What happens to a stream whose growth is rejected. */
  readonly onExhausted: 'finish' | 'cut'
  /** What the owner spent elsewhere before it came here: counts as spent, and the ledger has not charged it. */
  readonly before?: SpentBefore | undefined
}

/** By limit: micro-dollars, and until when they count (Unix milliseconds); absent: always. */
export type SpentBefore = {
  readonly [L in SpendLimit as L['property']]?: { readonly microUsd: number; readonly untilMs?: number | undefined }
}

/** What counts as spent under a limit at a time although the ledger has not charged it. */
export function spentBefore(limits: Limits, limit: Limit, nowMs: number): number {
  if (limit.unit !== 'micro_usd') return 0
  const { microUsd = 0, untilMs = Number.POSITIVE_INFINITY } = limits.spend?.before?.[limit.property] ?? {}
  return nowMs < untilMs ? microUsd : 0
}

/** The limits with what their owner spent elsewhere; without a limit of spend nothing depends on that. */
export function withSpentBefore(limits: Limits, before: SpentBefore | undefined): Limits {
  return limits.spend === undefined ? limits : { ...limits, spend: { ...limits.spend, before } }
}

/** The amount of one limit; undefined if it is not set. */
export function amountOf(limits: Limits, limit: Limit): number | undefined {
  return limit.unit === 'micro_usd' ? limits.spend?.[limit.property] : limits[limit.property]
}

/**
 * The limits with the names and units of the configuration: money in dollars. Without `strict` and `on_exhausted` if
 * they have their defaults.
 */
export function configuredLimits(limits: Limits): JsonObject {
  const counts = countLimits.map((limit) => [limit.key, amountOf(limits, limit)] as const)
  const amounts = spendLimits.map((limit) => [limit.key, dollarsOf(amountOf(limits, limit))] as const)
  const spend = {
    ...present(amounts),
    ...(limits.spend?.strict === true ? { strict: true } : {}),
    ...(limits.spend?.onExhausted === 'cut' ? { on_exhausted: 'cut' } : {}),
  }
  const all = present([...counts, ['sockets', limits.sockets]])
  return { ...all, ...(limits.spend === undefined ? {} : { spend }) }
}

function present(entries: readonly (readonly [string, number | undefined])[]): Readonly<Record<string, number>> {
  return Object.fromEntries(entries.flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])))
}

function dollarsOf(microUsd: number | undefined): number | undefined {
  return microUsd === undefined ? undefined : microUsd / 1_000_000
}

/**
 * Reads `Limits` that were stored as JSON. What is not a limit is left out; undefined if nothing is left. Plain loops:
 * a start reads as many as there are keys.
 */
export function limitsOfJson(value: unknown): Limits | undefined {
  if (!isObject(value)) return undefined
  const limits: Record<string, unknown> = {}
  let isEmpty = true
  for (const property of COUNTED) {
    const amount = amountIn(value, property)
    if (amount === undefined) continue
    limits[property] = amount
    isEmpty = false
  }
  const spend = isObject(value['spend']) ? spendOfJson(value['spend']) : undefined
  if (spend !== undefined) limits['spend'] = spend
  return isEmpty && spend === undefined ? undefined : limits
}

const COUNTED = [...countLimits.map(({ property }) => property), 'sockets']

function spendOfJson(value: JsonObject): Spend | undefined {
  const spend: Record<string, number> = {}
  let isEmpty = true
  for (const { property } of spendLimits) {
    const amount = amountIn(value, property)
    if (amount === undefined) continue
    spend[property] = amount
    isEmpty = false
  }
  if (isEmpty) return undefined
  const before = isObject(value['before']) ? beforeOfJson(value['before']) : undefined
  return {
    ...spend,
    strict: value['strict'] === true,
    onExhausted: value['onExhausted'] === 'cut' ? 'cut' : 'finish',
    ...(before === undefined ? {} : { before }),
  }
}

function beforeOfJson(value: JsonObject): SpentBefore {
  return Object.fromEntries(
    spendLimits.flatMap(({ property }) => {
      const found = value[property]
      const [microUsd, untilMs] = isObject(found) ? [amountIn(found, 'microUsd'), amountIn(found, 'untilMs')] : []
      return microUsd === undefined ? [] : [[property, { microUsd, untilMs }]]
    }),
  )
}

function amountIn(value: JsonObject, property: string): number | undefined {
  const amount = numberOf(value[property])
  return amount !== undefined && Number.isSafeInteger(amount) && amount >= 0 ? amount : undefined
}

/** An amount of a limit for people: `60`, or `$5.00`. */
export function amountText({ unit }: Limit, amount: number): string {
  return unit === 'micro_usd' ? dollarsText(amount) : String(amount)
}

/** Its name in the configuration, below `limits`: `requests_per_minute`, `spend.day`. */
export function configuredName(limit: Limit): string {
  return limit.unit === 'micro_usd' ? `spend.${limit.key}` : limit.key
}

/** Whether one of several owners has a limit for which a condition holds. */
export function hasLimit(owners: readonly Limits[], condition: (limit: Limit) => boolean = () => true): boolean {
  return owners.some((limits) => limitTable.some((limit) => condition(limit) && amountOf(limits, limit) !== undefined))
}

/** An object with one property for each limit of a list. */
export function byName<Name extends LimitName, Value>(
  limits: readonly (Limit & { readonly name: Name })[],
  value: (limit: Limit & { readonly name: Name }, index: number) => Value,
): Readonly<Record<Name, Value>>
export function byName(
  limits: readonly Limit[],
  value: (limit: Limit, index: number) => unknown,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(limits.map((limit, index) => [limit.name, value(limit, index)]))
}
