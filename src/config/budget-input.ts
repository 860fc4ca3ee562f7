/** Checks a raise or a reset of a budget that a command or the admin API sends, with the configuration's names. */

import type { BudgetConfig } from '../core/budget-config.ts'
import { isObject } from '../core/json.ts'
import { type Limits, spendLimits } from '../core/limits.ts'
import { TAG_VALUE } from '../core/tags.ts'
import { budgetLimitsOf } from './build-limits.ts'
import { type Completed, identifier, modelName, object, optional, text } from './field-types.ts'
import { durationMs } from './key-input.ts'
import { budgetLimits, budgetName } from './schema-budgets.ts'
import { problemsOf } from './schema-errors.ts'
import { spendProblems } from './spend-limits.ts'
import { instant } from './timestamps.ts'

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

type Checked<T> = { readonly value: T } | { readonly problem: string }

/** `nowMs`: a raise must end later. */
export function readRaise(input: unknown, nowMs: number): Checked<RaiseInput> {
  if (!isObject(input)) return { problem: 'the raise must be an object' }
  const problems = problemsOf(raiseSchema, input)
  if (problems.length > 0) return { problem: problems.join('; ') }
  const given = input as unknown as Completed<typeof raiseSchema>
  const [spend] = given.limits.spend === undefined ? [] : spendProblems(given.limits.spend, spendLimits)
  if (spend !== undefined)
    return { problem: `limits.spend${spend.key === undefined ? '' : `.${spend.key}`}: ${spend.words}` }
  const ms = durationMs(given.until)
  const untilMs = ms === undefined ? instant(given.until) : nowMs + ms
  if (untilMs === undefined || untilMs <= nowMs) {
    return { problem: 'until: must be a date, an RFC 3339 time or a duration such as 12h, in the future' }
  }
  const own = counterInput(given)
  if ('problem' in own) return own
  return { value: { ...own.value, limits: budgetLimitsOf(given.limits, 'refuse'), untilMs } }
}

export function readReset(input: unknown): Checked<CounterInput> {
  if (!isObject(input)) return { problem: 'the reset must be an object' }
  const problems = problemsOf(resetSchema, input)
  return problems.length > 0
    ? { problem: problems.join('; ') }
    : counterInput(input as unknown as Completed<typeof resetSchema>)
}

function counterInput({
  organization,
  name,
  value = '',
  reason,
}: Completed<typeof resetSchema>): Checked<CounterInput> {
  if (reason.length > REASON_MAX) return { problem: `reason: must be at most ${REASON_MAX} characters` }
  return { value: { organization, name, value, reason } }
}

/** What is wrong with the value of a counter; undefined if the budget may have it. */
export function valueProblem({ name, per }: BudgetConfig, value: string, mustName: boolean): string | undefined {
  if (per === undefined) return value === '' ? undefined : `value: the budget ${name} has one counter, and no values`
  if (value === '') return mustName ? `value: is missing; the budget ${name} has a counter for each value` : undefined
  if (typeof per === 'object' && !new RegExp(TAG_VALUE).test(value)) {
    return 'value: must be 1 to 64 letters, digits or ._/@:-'
  }
  return undefined
}
