/**
 * The layout of the arrays that the scripts store: generates Lua names for the position of each field from the table of
 * limits. Records of the first version stay readable: a new limit adds its fields at the end, and older records lack
 * them.
 */

import { ANY_RISE, amountsOf } from '../../../core/limit-amounts.ts'
import {
  budgetLimits,
  concurrencyLimits,
  isOfOwners,
  type Limit,
  limitTable,
  limitUnits,
  ownerBudgetLimits,
  rateLimits,
} from '../../../core/limits.ts'
import { scopeNames } from '../../reservation-store.ts'

/**
 * Fields of an organisation, a key or a counter. `day`, `month` and `total` are windows; a rate's `…_idled` counts how
 * often its bucket ran empty.
 */
const FIRST_SCOPE_FIELDS = [
  ...['version', 'at', 'requests', 'tokens', 'live'],
  ...['day', 'day_spent', 'day_held', 'month', 'month_spent', 'month_held', 'total', 'total_spent', 'total_held'],
  ...['requests_drained', 'tokens_drained', 'requests_idled', 'tokens_idled'],
]

/**
 * Fields of a reservation. `organization_day` and the like are the windows at its admission, `…_idled` the counts of
 * the buckets at that time (-1: no limit).
 */
const FIRST_RESERVATION_FIELDS = [
  ...['version', 'state', 'due', 'admitted', 'key', 'series', 'input', 'accounted', 'reserved'],
  ...['posted_input', 'posted_output', 'posted', 'floor'],
  ...['organization_day', 'organization_month', 'organization_total', 'key_day', 'key_month', 'key_total'],
  ...['organization_requests_idled', 'organization_tokens_idled', 'key_requests_idled', 'key_tokens_idled'],
]

/** Units whose amounts are in the first fields of a reservation. */
const FIRST_UNITS: readonly string[] = ['requests', 'tokens', 'micro_usd']

/** Units added later: each is an argument of the scripts that reserve and settle, under its name. */
export const furtherUnits = limitUnits.filter((unit) => !FIRST_UNITS.includes(unit))

export const scopeFields: readonly string[] = extended(FIRST_SCOPE_FIELDS, limitTable.flatMap(scopeFieldsOf))

export const reservationFields: readonly string[] = extended(FIRST_RESERVATION_FIELDS, [
  'counters',
  'turn',
  ...limitTable.filter(isOfOwners).flatMap(reservationFieldsOf),
  ...furtherUnits.map(reservedField),
])

function extended(first: readonly string[], all: readonly string[]): readonly string[] {
  return [...first, ...all.filter((field) => !first.includes(field))]
}

function scopeFieldsOf({ kind, name }: Limit): readonly string[] {
  if (kind === 'rate') return [name, `${name}_drained`, `${name}_idled`]
  return kind === 'budget' ? [name, `${name}_spent`, `${name}_held`] : []
}

function reservationFieldsOf({ kind, name }: Limit): readonly string[] {
  if (kind === 'rate') return scopeNames.map((scope) => `${scope}_${name}_idled`)
  return kind === 'budget' ? scopeNames.map((scope) => `${scope}_${name}`) : []
}

function reservedField(unit: string): string {
  return `reserved_${unit}`
}

/** The fields of a reservation that have a name of their own in the scripts. */
const RESERVATION_NAMES = [
  ...['state', 'due', 'admitted', 'key', 'series', 'input', 'accounted', 'reserved'],
  ...['posted_input', 'posted_output', 'posted', 'floor'],
]

/** Windows, in the order of their numbers in the scripts. */
const PERIODS: readonly string[] = ['day', 'month', 'total', 'hour', 'week']

/** Lua locals for every position that the scripts use, so that no script contains a position as a number. */
export function layoutLua(): string {
  const bySlot = (fields: readonly string[], names: readonly string[]) => names.map((name) => slotOf(fields, name))
  const rates = rateLimits.map(({ name }) => name)
  const budgets = budgetLimits.map(({ name }) => name)
  const ownBudgets = ownerBudgetLimits.map(({ name }) => name)
  const scope = (end: string, names: readonly string[]) => bySlot(scopeFields, withEnd(names, end))
  const fieldsOf = (owner: string, names: readonly string[], end: string) =>
    withEnd(names, end).map((name) => `${owner}_${name}`)
  const perScope = (names: readonly string[], end: string) =>
    list(scopeNames.map((owner) => list(bySlot(reservationFields, fieldsOf(owner, names, end)))))
  const periods = PERIODS.map((_, index) => index + 1)
  const ofHold = [...RESERVATION_NAMES, ...furtherUnits.map(reservedField)]
  return [
    locals(['AT', 'LIVE'], bySlot(scopeFields, ['at', 'live'])),
    locals(upper(RESERVATION_NAMES), bySlot(reservationFields, RESERVATION_NAMES)),
    locals(['HAS_COUNTERS', 'TURN'], bySlot(reservationFields, ['counters', 'turn'])),
    locals(upper(limitUnits), limitUnits.map(unitNumber)),
    locals(upper(PERIODS), periods),
    // What the end of a hold needs of its reservation: it has neither a key nor a series.
    locals(['HOLD_FIELDS'], [Math.max(...bySlot(reservationFields, ofHold))]),
    locals(['SCOPE_FIELDS', 'RATES', 'BUDGETS'], [scopeFields.length, rates.length, budgets.length]),
    // Those of an organisation or a key come first.
    locals(['OWN_BUDGETS'], [ownerBudgetLimits.length]),
    `local UNKNOWN_LIMITS = ${list(amountsOf({}, 'unknown'))}`,
    locals(['LIMIT_COUNT', 'ANY_RISE'], [limitTable.length, ANY_RISE]),
    locals(['UNITS', 'FIRST_FURTHER_UNIT'], [limitUnits.length, FIRST_UNITS.length + 1]),
    `local LIMITS = ${list(limitTable.map(({ name }) => `'${name}'`))}`,
    `local SCOPE_NAMES = ${list(scopeNames.map((name) => `'${name}'`))}`,
    `local CONCURRENCY = ${list(concurrencyLimits.map(limitNumber))}`,
    `local RATE, RATE_UNIT = ${list(rateLimits.map(limitNumber))}, ${list(unitsOf(rateLimits))}`,
    `local USED, DRAINED = ${list(scope('', rates))}, ${list(scope('_drained', rates))}`,
    `local IDLED, IDLED_BEFORE = ${list(scope('_idled', rates))}, ${perScope(rates, '_idled')}`,
    `local BUDGET, BUDGET_UNIT = ${list(budgetLimits.map(limitNumber))}, ${list(unitsOf(budgetLimits))}`,
    `local PERIOD = ${list(budgetLimits.map(({ window }) => PERIODS.indexOf(window) + 1))}`,
    `local BUDGET_UNITS = ${list([...new Set(unitsOf(budgetLimits))])}`,
    `local WINDOW = ${list(scope('', budgets))}`,
    `local ADMISSION = ${perScope(ownBudgets, '')}`,
    `local SPENT, HELD = ${list(scope('_spent', budgets))}, ${list(scope('_held', budgets))}`,
    `local FURTHER_RESERVED = {${furtherUnits.map(furtherSlot).join()} }`,
    `local function empty_scope(at, day, month) return ${list(scopeFields.map(initial))} end`,
    `local function empty_reservation() return ${list(['VERSION', ...reservationFields.slice(1).map(() => 0)])} end`,
    '',
  ].join('\n')
}

/** The Lua expression for a field of an empty scope. */
function initial(field: string): string {
  if (field === 'version') return 'VERSION'
  if (field === 'at' || field.endsWith('_drained')) return 'at'
  const budget = budgetLimits.find(({ name }) => name === field)
  return budget?.window === 'day' || budget?.window === 'month' ? budget.window : '0'
}

function slotOf(fields: readonly string[], name: string): number {
  const slot = fields.indexOf(name) + 1
  if (slot === 0) throw new RangeError(`No stored field is named '${name}'.`)
  return slot
}

function furtherSlot(unit: Limit['unit']): string {
  return ` [${unitNumber(unit)}] = ${slotOf(reservationFields, reservedField(unit))}`
}

function unitsOf(limits: readonly Limit[]): readonly number[] {
  return limits.map(({ unit }) => unitNumber(unit))
}

function unitNumber(unit: Limit['unit']): number {
  return limitUnits.indexOf(unit) + 1
}

function limitNumber(limit: Limit): number {
  return limitTable.indexOf(limit) + 1
}

function withEnd(names: readonly string[], end: string): readonly string[] {
  return names.map((name) => `${name}${end}`)
}

function upper(names: readonly string[]): readonly string[] {
  return names.map((name) => name.toUpperCase())
}

function list(values: readonly (string | number)[]): string {
  return `{ ${values.join(', ')} }`
}

function locals(names: readonly string[], values: readonly number[]): string {
  return `local ${names.join(', ')} = ${values.join(', ')}`
}
