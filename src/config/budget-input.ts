/** Checks a raise or a reset of a budget that a command or the admin API sends, with the configuration's names. */

import type { BudgetConfig } from '../core/budget-config.ts'
import { type Limits, spendLimits } from '../core/limits.ts'
import { TAG_VALUE } from '../core/tag-value.ts'
import { budgetLimitsOf } from './build-limits.ts'
import { type Completed, identifier, modelName, object, optional, text } from './field-types.ts'
import { checkedInput, checkSpend, invalid, moment } from './key-input.ts'
import { budgetLimits, budgetName } from './schema-budgets.ts'

/** The longest reason, in characters. */
const REASON_MAX = 500

const counter = {
  organization: identifier('The organisation'),
  name: budgetName,
  value: optional(modelName('The value whose counter is meant')),
  reason: text('Why: it stands in the admin audit'),
}
const raiseSchema = object({ ...counter, limits: budgetLimits('The new limits'), until: text('When the raise ends') })
const resetSchema = object(counter)

export interface CounterInput {
  readonly organization: string
  readonly name: string
  /** '' for the budget as a whole. */
  readonly value: string
  readonly reason: string
}

interface RaiseInput extends CounterInput {
  readonly limits: Limits
  readonly untilMs: number
}

/** `nowMs`: a raise must end later. Throws `KeyProblem`, as all of this file does. */
export function readRaise(input: unknown, nowMs: number): RaiseInput {
  const given = checkedInput(raiseSchema, input, 'the raise') as unknown as Completed<typeof raiseSchema>
  checkSpend(given.limits, spendLimits)
  const untilMs = moment(given.until, nowMs)
  if (untilMs === undefined || untilMs <= nowMs)
    throw invalid('until: must be a date, an RFC 3339 time or a duration such as 12h, in the future')
  return { ...counterInput(given), limits: budgetLimitsOf(given.limits, 'refuse'), untilMs }
}

export function readReset(input: unknown): CounterInput {
  return counterInput(checkedInput(resetSchema, input, 'the reset') as unknown as Completed<typeof resetSchema>)
}

function counterInput({ organization, name, value = '', reason }: Completed<typeof resetSchema>): CounterInput {
  if (reason.length > REASON_MAX) throw invalid(`reason: must be at most ${REASON_MAX} characters`)
  return { organization, name, value, reason }
}

/** Checks that the budget may have a counter of this value. */
export function checkValue({ name, per }: BudgetConfig, value: string, mustName: boolean): void {
  if (per === undefined && value !== '') throw invalid(`value: the budget ${name} has one counter, and no values`)
  if (per === undefined) return
  if (value === '' && mustName) throw invalid(`value: is missing; the budget ${name} has a counter for each value`)
  if (value !== '' && typeof per === 'object' && !new RegExp(TAG_VALUE).test(value))
    throw invalid('value: must be 1 to 64 letters, digits or ._/@:-')
}
