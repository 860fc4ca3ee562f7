/**
 * Raises and resets of an organisation's budgets, and what it spent elsewhere. They are one record of the key store
 * without a secret, under a prefix and the organisation's id, so that everything that holds for keys holds for them:
 * one change log, gateways that follow within a second and put back what Redis loses. An earlier version of weir takes
 * it for a key that cannot be presented.
 */

import { isArray, isObject, type JsonObject, numberOf, parseObject, stringOf } from '../core/json.ts'
import { configuredLimits, type Limits, limitsOfJson, type SpentBefore, spendLimits } from '../core/limits.ts'
import { BUDGETS, type KeyRecord } from './key-record.ts'

/** New limits of a budget, or of one of its counters, until a time. */
export interface BudgetRaise {
  readonly id: string
  readonly name: string
  /** '' for all counters of the budget. */
  readonly value: string
  readonly limits: Limits
  readonly untilMs: number
  readonly createdMs: number
  readonly reason: string
  readonly actor: string
}

/** What a counter had spent at a reset: it does not count in the windows of that time. */
interface BudgetReset {
  readonly name: string
  readonly value: string
  /** By limit: micro-dollars, and until when they are left out; absent: for ever. */
  readonly spent: SpentBefore
  readonly createdMs: number
}

export interface BudgetChanges {
  readonly raises: readonly BudgetRaise[]
  readonly resets: readonly BudgetReset[]
  /** What the organisation spent under its own limits before it came here, if it did. */
  readonly before?: SpentBefore | undefined
}

const NOTHING: BudgetChanges = { raises: [], resets: [] }

export function budgetsRecordId(organization: string): string {
  return `${BUDGETS}${organization}`
}

/** Stored in `shown`, which such a record has no other use for. */
export function withBudgetChanges(record: KeyRecord, changes: BudgetChanges): KeyRecord {
  return { ...record, shown: JSON.stringify(changes) }
}

export function newBudgetsRecord(organization: string, nowMs: number, changes: BudgetChanges): KeyRecord {
  const id = budgetsRecordId(organization)
  return withBudgetChanges({ id, organization, sha256: '', shown: '', createdMs: nowMs }, changes)
}

const read = new WeakMap<KeyRecord, BudgetChanges>()

/** What a record has, also of what has ended. */
export function budgetChangesOf(record: KeyRecord | undefined): BudgetChanges {
  if (record === undefined) return NOTHING
  const known = read.get(record)
  if (known !== undefined) return known
  const value = parseObject(record.shown) ?? {}
  const list = <T>(name: string, of: (one: JsonObject) => T | undefined): readonly T[] => {
    const all = value[name]
    return isArray(all) ? all.flatMap((one) => (isObject(one) ? (of(one) ?? []) : [])) : []
  }
  const before = isObject(value['before']) ? spentOfJson(value['before']) : undefined
  const changes = { raises: list('raises', raiseOf), resets: list('resets', resetOf), before }
  read.set(record, changes)
  return changes
}

/** Those that hold at a time: windows end, and raises do. */
export function inForceAt({ raises, resets, before }: BudgetChanges, nowMs: number): BudgetChanges {
  const lasts = (spent: SpentBefore) =>
    spendLimits.some(({ property }) => spent[property] !== undefined && (spent[property].untilMs ?? Infinity) > nowMs)
  return {
    raises: raises.filter(({ untilMs }) => untilMs > nowMs),
    resets: resets.filter(({ spent }) => lasts(spent)),
    ...(before !== undefined && lasts(before) ? { before } : {}),
  }
}

function raiseOf(value: JsonObject): BudgetRaise | undefined {
  const [id, name, untilMs] = [stringOf(value['id']), stringOf(value['name']), numberOf(value['untilMs'])]
  const limits = limitsOfJson(value['limits'])
  if (id === undefined || name === undefined || untilMs === undefined || limits === undefined) return undefined
  return {
    ...{ id, name, limits, untilMs, value: stringOf(value['value']) ?? '' },
    createdMs: numberOf(value['createdMs']) ?? 0,
    reason: stringOf(value['reason']) ?? '',
    actor: stringOf(value['actor']) ?? '',
  }
}

function resetOf(value: JsonObject): BudgetReset | undefined {
  const [name, spent] = [stringOf(value['name']), value['spent']]
  if (name === undefined || !isObject(spent)) return undefined
  return {
    ...{ name, value: stringOf(value['value']) ?? '', spent: spentOfJson(spent) },
    createdMs: numberOf(value['createdMs']) ?? 0,
  }
}

function spentOfJson(spent: JsonObject): SpentBefore {
  const amounts = spendLimits.flatMap(({ property }) => {
    const one = spent[property]
    const microUsd = isObject(one) ? numberOf(one['microUsd']) : undefined
    if (microUsd === undefined || !isObject(one)) return []
    return [[property, { microUsd, untilMs: numberOf(one['untilMs']) }] as const]
  })
  return Object.fromEntries(amounts)
}

/** A raise as JSON; money of limits in dollars, as in the configuration. */
export function raiseJson(organization: string, raise: BudgetRaise): JsonObject {
  const { id, name, value, limits, untilMs, reason, actor } = raise
  return {
    ...{ id, organization, name, value: value === '' ? null : value, limits: configuredLimits(limits) },
    ...{ until: new Date(untilMs).toISOString(), reason, actor },
  }
}
