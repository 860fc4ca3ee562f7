/** Checks of budgets beyond the schema: names, what they refer to, and how many of them may apply to one request. */

import { BUDGETS_MAX, type BudgetConfig, matchesKey, matchesModel } from '../core/budget-config.ts'
import { spendLimits } from '../core/limits.ts'
import { matches } from '../core/permission.ts'
import { legalTagValue } from '../core/tag-value.ts'
import type { Check } from './check-context.ts'
import { knownTags } from './check-tags.ts'
import { globSamples } from './glob-samples.ts'
import { didYouMean, type Path } from './problems.ts'
import { type Loose, sound } from './schema-errors.ts'
import type { File } from './schema-file.ts'
import { spendProblems } from './spend-limits.ts'

type Organization = Loose<File['organizations'][number]>
type Budget = Loose<NonNullable<File['organizations'][number]['budgets']>[number]>

export function checkBudgets(check: Check, organization: Organization, path: Path): void {
  const seen = new Map<string, number>()
  organization.budgets?.forEach((budget, index) => {
    if (budget === undefined) return
    const inside = [...path, index]
    const first = budget.name === undefined ? undefined : seen.get(budget.name)
    if (first !== undefined) {
      check.problems.add([...inside, 'name'], `is the name of budgets[${first}], too; names are unique`)
    } else if (budget.name !== undefined) seen.set(budget.name, index)
    checkBudget(check, budget, inside)
  })
  checkCount(check, organization, path)
}

function checkBudget(check: Check, budget: Budget, path: Path): void {
  const { problems } = check
  checkLimits(check, budget.limits, [...path, 'limits'])
  for (const [value, limits] of Object.entries(budget.except ?? {})) {
    checkLimits(check, limits, [...path, 'except', value])
  }
  if (budget.per === undefined && !Object.hasOwn(budget, 'per') && Object.keys(budget.except ?? {}).length > 0) {
    problems.add([...path, 'except'], 'needs per: without it the budget has one counter, and no values')
  }
  for (const value of budget.per?.startsWith('tag:') === true ? Object.keys(budget.except ?? {}) : []) {
    if (legalTagValue(value) === value) continue
    const at = [...path, 'except', value]
    problems.add(at, `no tag has this value; requests whose header or user has it count as ${legalTagValue(value)}`)
  }
  if (budget.per?.startsWith('tag:')) checkTag(check, budget.per.slice('tag:'.length), [...path, 'per'])
  for (const name of Object.keys(budget.match?.tags ?? {})) checkTag(check, name, [...path, 'match', 'tags', name])
}

function checkLimits({ problems }: Check, limits: Budget['limits'], path: Path): void {
  if (limits?.spend === undefined) return
  for (const { key, words } of spendProblems(limits.spend, spendLimits)) {
    problems.add(key === undefined ? [...path, 'spend'] : [...path, 'spend', key], words)
  }
}

function checkTag(check: Check, name: string, path: Path): void {
  const names = knownTags(check)
  if (names === undefined || names.includes(name)) return
  const { problems, shown } = check
  problems.add(path, `${shown(path, name)} is not in tags of the configuration${didYouMean(name, names) || '; add it'}`)
}

/** A budget whose match can be compared. */
type Sound = Pick<BudgetConfig, 'match'>

function checkCount({ file, problems }: Check, organization: Organization, path: Path): void {
  const budgets = (organization.budgets ?? []).flatMap((budget) => (budget === undefined ? [] : [soundOf(budget)]))
  if (budgets.length <= BUDGETS_MAX) return
  // Keys of any id may be created later. Models are those of the file, of which some are patterns.
  const keys = globSamples(budgets.flatMap(({ match }) => match.keys ?? []))
  const offered = (file.models ?? []).flatMap((model) => model?.name ?? [])
  const models = globSamples([...offered, ...budgets.flatMap(({ match }) => match.models ?? [])]).filter((model) =>
    offered.some((name) => matches(name, model)),
  )
  let most = 0
  for (const key of keys) {
    const ofKey = budgets.filter((budget) => matchesKey(budget, key))
    for (const model of ofKey.length <= BUDGETS_MAX ? [] : models) {
      const names = [...new Set(ofKey.flatMap(({ match }) => Object.keys(match.tags ?? {})))]
      const both = ofKey.filter((budget) => matchesModel(budget, model))
      most = Math.max(most, mostAtOnce(both, names))
    }
  }
  if (most > BUDGETS_MAX) {
    problems.add(path, `has ${most} budgets that may apply to the same request, and at most ${BUDGETS_MAX} may`)
  }
}

/** The largest number of budgets that hold for the same values of these tags. More than `BUDGETS_MAX` is enough. */
function mostAtOnce(budgets: readonly Sound[], [tag, ...others]: readonly string[]): number {
  if (tag === undefined || budgets.length <= BUDGETS_MAX) return budgets.length
  const free = budgets.filter(({ match }) => match.tags?.[tag] === undefined)
  let most = mostAtOnce(free, others)
  for (const value of new Set(budgets.flatMap(({ match }) => match.tags?.[tag] ?? []))) {
    if (most > BUDGETS_MAX) return most
    const some = budgets.filter(({ match }) => match.tags?.[tag]?.includes(value) ?? true)
    most = Math.max(most, mostAtOnce(some, others))
  }
  return most
}

function soundOf({ match }: Budget): Sound {
  const tags = Object.entries(match?.tags ?? {}).map(([name, values]) => [name, sound(values) ?? []] as const)
  return {
    match: {
      keys: sound(match?.keys),
      models: sound(match?.models),
      ...(tags.length === 0 ? {} : { tags: Object.fromEntries(tags) }),
    },
  }
}
