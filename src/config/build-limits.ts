/** Limits and budgets of the checked file in the form that the program uses: whole micro-dollars, merged exceptions. */

import { type BudgetConfig, replacedLimits } from '../core/budget-config.ts'
import { HOUR_MS } from '../core/durations.ts'
import { countLimits, type Limits, ownerSpendLimits, spendLimits } from '../core/limits.ts'
import { microUsd } from './prices.ts'
import type { CompletedFile } from './schema-file.ts'

export type FileOrganization = CompletedFile['organizations'][number]
type FileLimits = NonNullable<FileOrganization['limits']>
type FileBudget = FileOrganization['budgets'][number]

export function limitsOf(limits: FileLimits | undefined): Limits {
  if (limits === undefined) return {}
  const { spend, sockets } = limits
  const counts: Limits = { ...countsOf(limits), ...(sockets === undefined ? {} : { sockets }) }
  if (spend === undefined) return counts
  const amounts = Object.fromEntries(ownerSpendLimits.map(({ key, property }) => [property, microUsd(spend[key])]))
  return { ...counts, spend: { ...amounts, strict: spend.strict, onExhausted: spend.on_exhausted } }
}

function countsOf(limits: { readonly [K in (typeof countLimits)[number]['key']]?: number | undefined }): Limits {
  return Object.fromEntries(countLimits.map(({ key, property }) => [property, limits[key]]))
}

export function budgetOf(budget: FileBudget): BudgetConfig {
  const { name, per, match, on_exhausted: onExhausted, idle_hours: idleHours } = budget
  const limits = budgetLimitsOf(budget.limits, onExhausted)
  return {
    name,
    per: per === undefined || per === 'key' || per === 'model' ? per : { tag: per.slice('tag:'.length) },
    match,
    limits,
    except: new Map(
      Object.entries(budget.except).map(([value, own]) => [
        value,
        replacedLimits(limits, budgetLimitsOf(own, onExhausted)),
      ]),
    ),
    onExhausted,
    ...(idleHours === undefined ? {} : { idleMs: idleHours * HOUR_MS }),
  }
}

/** The limits of a budget, or those that replace some of them. */
export function budgetLimitsOf(limits: FileBudget['limits'], onExhausted: BudgetConfig['onExhausted']): Limits {
  const counts = present(countsOf(limits))
  const { spend } = limits
  if (spend === undefined) return counts
  const amounts = spendLimits.map(({ key, property }) => [property, microUsd(spend[key])] as const)
  const own = {
    strict: spend.strict === true,
    onExhausted: onExhausted === 'cut' ? ('cut' as const) : ('finish' as const),
  }
  return { ...counts, spend: { ...present(Object.fromEntries(amounts)), ...own } }
}

/** Without what is undefined. */
function present<T extends object>(values: T): T
function present(values: object): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))
}
