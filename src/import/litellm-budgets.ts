/**
 * What LiteLLM limits beside keys and teams → budgets of organisations: its users (LiteLLM_UserTable), tags
 * (LiteLLM_TagTable and `tag_budget_config`), callers' own users (`max_end_user_budget`), and single models of a key
 * or a team (`model_max_budget`).
 */

import { microDollars } from '../core/decimal.ts'
import { isObject, type JsonObject, type JsonValue, parseObject } from '../core/json.ts'
import { legalTagValue, TAG_VALUE } from '../core/tag-value.ts'
import { textOf } from './dump-rows.ts'
import { publicName } from './litellm-models.ts'
import type { Notes } from './litellm-notes.ts'

/** Columns of rates, and the limits that they become. */
const COUNTS = [
  ['rpm_limit', 'requests_per_minute'],
  ['tpm_limit', 'tokens_per_minute'],
  ['max_parallel_requests', 'concurrent_requests'],
] as const

/** The limits of rates and concurrency that a row has. */
export function countsOf(row: JsonObject): readonly (readonly [name: string, value: number])[] {
  return COUNTS.flatMap(([column, name]) => {
    const value = Number(textOf(row, column) ?? Number.NaN)
    return Number.isSafeInteger(value) && value >= 0 ? [[name, value] as const] : []
  })
}

const UNIT_DAYS: Readonly<Record<string, number>> = {
  s: 1 / 86_400,
  m: 1 / 1440,
  h: 1 / 24,
  d: 1,
  w: 7,
  mo: 30,
  y: 365,
}

/** The days of a `budget_duration`. */
function daysOf(duration: string): number {
  const [, count = '1', unit = 'y'] = /^(\d+)\s*(mo|[smhdwy])$/.exec(duration) ?? []
  return Number(count) * (UNIT_DAYS[unit] ?? 365)
}

/** A window of weir, with the durations of LiteLLM that are the same. */
interface Window<Name> {
  readonly name: Name
  readonly days: number
  readonly same: readonly string[]
  readonly words: string
}

/**
 * What a row may spend, and in which window: for a duration that weir does not have, a longer one, which allows less.
 * Undefined without a budget.
 */
export function spendOf<Name extends string>(
  row: JsonObject,
  place: string,
  windows: readonly Window<Name>[],
  notes: Notes,
): { readonly window: Name | 'total'; readonly microUsd: number } | undefined {
  const budget = textOf(row, 'max_budget')
  if (budget === undefined) return undefined
  const microUsd = microDollars(budget)
  if (microUsd === undefined) {
    notes.lost(place, `max_budget ${budget} is not carried over`)
    return undefined
  }
  const duration = textOf(row, 'budget_duration')
  if (duration === undefined) return { window: 'total', microUsd }
  const window = windows.find(({ days }) => daysOf(duration) <= days)
  const which = window === undefined ? 'that never renews' : `of ${window.words}`
  if (window?.same.includes(duration) !== true)
    notes.assumed(place, `its budget for ${duration} is one ${which}, which allows less`)
  return { window: window?.name ?? 'total', microUsd }
}

/** The member `limits` of what has these. */
export function limitsFrom(counts: ReturnType<typeof countsOf>, spend: ReturnType<typeof spendOf>): JsonObject {
  const amount = spend && { spend: { [spend.window]: spend.microUsd / 1_000_000 } }
  return { ...Object.fromEntries(counts), ...amount }
}

/** The windows of budgets. */
const WINDOWS = [
  { name: 'hour', days: 1 / 24, same: ['1h', '60m'], words: 'the clock hour' },
  { name: 'day', days: 1, same: ['1d', '24h'], words: 'the day' },
  { name: 'week', days: 7, same: ['7d', '1w'], words: 'the calendar week' },
  { name: 'month', days: 31, same: ['30d', '1mo'], words: 'the calendar month' },
] as const

/** How many values of a tag a budget may name, and how many budgets an organisation may have. */
const VALUES_MAX = 1000
const BUDGETS_MAX = 100
const NAME_MAX = 64

/** What is limited alike: the values of a tag, by their limits. */
type Groups = Map<string, { readonly limits: JsonObject; readonly values: string[] }>

export class LitellmBudgets {
  private readonly byOrganization = new Map<string, JsonObject[]>()
  private readonly ofAll: JsonObject[] = []
  private readonly usedTags = new Map<string, JsonValue>()
  /** The users that have limits, by their id in LiteLLM. */
  private readonly users = new Map<string, JsonObject>()
  private readonly usersSeen: Groups = new Map()
  /** The keys with the same limits for a model of an organisation. */
  private readonly keysByModel = new Map<string, string[]>()

  constructor(private readonly notes: Notes) {}

  /** Users, with the limits of those that have none of their own. */
  addUsers(rows: readonly JsonObject[], { litellm_settings: settings }: JsonObject): void {
    const own = isObject(settings) ? settings : {}
    const common = {
      max_budget: own['max_internal_user_budget'],
      budget_duration: own['internal_user_budget_duration'],
    }
    for (const row of rows) {
      const user = textOf(row, 'user_id')
      if (user === undefined) continue
      const hasOwn = textOf(row, 'max_budget') !== undefined
      const limits = this.limitsOf(hasOwn ? row : { ...row, ...defined(common) }, `user ${user}`)
      if (limits === undefined) continue
      this.users.set(user, limits)
      const spend = Number(textOf(row, 'spend') ?? 0)
      if (spend > 0) this.notes.lost(`user ${user}`, `what is spent of its budget ($${spend}) is not carried over`)
    }
  }

  /** Tags: rows of their table, whose budgets are in them, and those of the configuration. */
  addTags(rows: readonly JsonObject[], { litellm_settings: settings }: JsonObject): void {
    const configured =
      isObject(settings) && isObject(settings['tag_budget_config']) ? settings['tag_budget_config'] : {}
    const all = [
      ...Object.entries(configured).flatMap(([tag, row]) => (isObject(row) ? [[tag, row] as const] : [])),
      ...rows.flatMap((row) => [[textOf(row, 'tag_name') ?? '', row] as const]),
    ]
    const groups: Groups = new Map()
    for (const [tag, row] of all) {
      const place = `tag ${tag}`
      const limits = this.limitsOf(row, place)
      if (limits === undefined) continue
      if (!new RegExp(TAG_VALUE).test(tag)) {
        this.notes.lost(place, 'its budget is not carried over: weir has no value of a tag with these characters')
      } else addTo(groups, limits, tag)
    }
    if (groups.size === 0) return
    this.useTag({ name: 'tag', from: ['header:x-litellm-tags'] })
    this.ofAll.push(...budgetsOf(groups, 'tag'))
    this.notes.assumed(
      'budgets of tags',
      'count in each organisation by itself, for requests whose header x-litellm-tags has this tag alone; others ' +
        'send X-Gateway-Tags: tag=NAME',
    )
  }

  /** `max_end_user_budget`: each value of the field `user` of the bodies. */
  addEndUsers({ litellm_settings: settings }: JsonObject): void {
    const most = isObject(settings) ? settings['max_end_user_budget'] : undefined
    if (most === undefined || most === null) return
    const limits = this.limitsOf({ max_budget: most }, 'max_end_user_budget')
    if (limits === undefined) return
    this.useTag({ name: 'end_user', from: ['user'] })
    this.ofAll.push({ name: 'end_user', per: 'tag:end_user', limits })
    this.notes.assumed('max_end_user_budget', 'counts each end user in each organisation by itself')
  }

  /** The budgets for models of a team. */
  addTeam(row: JsonObject, organization: string, place: string): void {
    for (const [model, limits] of this.modelsOf(row, place))
      this.add(organization, { name: `model-${model}`, match: { models: [model] }, limits })
  }

  /**
   * The budgets for models of a key, and its user's if it has no team: LiteLLM counts keys of teams for no user.
   * Returns what its description needs for them.
   */
  addKey(row: JsonObject, organization: string, id: string, place: string): JsonObject {
    for (const [model, limits] of this.modelsOf(row, place)) {
      const name = JSON.stringify([organization, model, limits])
      const keys = this.keysByModel.get(name) ?? []
      if (keys.push(id) === 1) {
        this.keysByModel.set(name, keys)
        this.add(organization, { name: `keys-${model}`, per: 'key', match: { keys, models: [model] }, limits })
      }
    }
    const user = textOf(row, 'user_id')
    const limits = user === undefined ? undefined : this.users.get(user)
    if (user === undefined || limits === undefined || textOf(row, 'team_id') !== undefined) return {}
    const value = legalTagValue(user)
    if (value !== user)
      this.notes.assumed(`user ${user}`, `is ${value} in weir, as no value of a tag has these characters`)
    this.useTag('user')
    addTo(this.usersSeen, limits, value)
    return { fixed_tags: { user: value } }
  }

  /** Entries of the configuration's `tags`. */
  get tags(): readonly JsonValue[] {
    return [...this.usedTags.values()]
  }

  /** The member `budgets` of an organisation, if it has some. `isDefault`: it has the keys without a team. */
  of(organization: string, isDefault: boolean): JsonObject {
    const own = this.byOrganization.get(organization) ?? []
    const budgets = [...(isDefault ? budgetsOf(this.usersSeen, 'user') : []), ...this.ofAll, ...own]
    if (budgets.length > BUDGETS_MAX) {
      const words = `has ${budgets.length} budgets, of which ${BUDGETS_MAX} are carried over`
      this.notes.lost(`organisation ${organization}`, words)
    }
    return budgets.length === 0 ? {} : { budgets: budgets.slice(0, BUDGETS_MAX) }
  }

  private add(organization: string, budget: JsonObject): void {
    const own = this.byOrganization.get(organization) ?? []
    own.push({ ...budget, name: freeName(String(budget['name']), own) })
    this.byOrganization.set(organization, own)
  }

  private useTag(tag: string | { readonly name: string; readonly from: readonly string[] }): void {
    this.usedTags.set(typeof tag === 'string' ? tag : tag.name, tag)
  }

  /** `{model: {budget_limit, time_period}}`, as text or an object; earlier versions have other names or an amount. */
  private modelsOf(row: JsonObject, place: string): readonly (readonly [model: string, limits: JsonObject])[] {
    const value = row['model_max_budget']
    const models = isObject(value) ? value : (parseObject(textOf(row, 'model_max_budget') ?? '') ?? {})
    return Object.entries(models).flatMap(([model, own]) => {
      const {
        budget_limit,
        max_budget = budget_limit,
        time_period,
        budget_duration = time_period,
      } = isObject(own) ? own : { max_budget: own }
      const budget = defined({ max_budget, budget_duration })
      const limits = this.limitsOf(budget, `${place}, model_max_budget of ${model}`)
      return limits === undefined ? [] : [[publicName(model), limits] as const]
    })
  }

  private limitsOf(row: JsonObject, place: string): JsonObject | undefined {
    const limits = limitsFrom(countsOf(row), spendOf(row, place, WINDOWS, this.notes))
    return Object.keys(limits).length === 0 ? undefined : limits
  }
}

function addTo(groups: Groups, limits: JsonObject, value: string): void {
  const name = JSON.stringify(limits)
  const group = groups.get(name) ?? { limits, values: [] }
  groups.set(name, group)
  if (!group.values.includes(value)) group.values.push(value)
}

/** A budget for the values of a tag that have the same limits. */
function budgetsOf(groups: Groups, tag: string): readonly JsonObject[] {
  const parts = [...groups.values()].flatMap(({ limits, values }) =>
    Array.from({ length: Math.ceil(values.length / VALUES_MAX) }, (_, i) => ({
      limits,
      values: values.sort().slice(i * VALUES_MAX, (i + 1) * VALUES_MAX),
    })),
  )
  return parts.map(({ limits, values }, i) => ({
    name: i === 0 ? tag : `${tag}-${i + 1}`,
    per: `tag:${tag}`,
    match: { tags: { [tag]: values } },
    limits,
  }))
}

/** A legal name of a budget that none of the others has. */
function freeName(name: string, others: readonly JsonObject[]): string {
  const legal = name.replaceAll(/[^A-Za-z0-9._-]+/g, '-').slice(0, NAME_MAX - 4)
  const base = legal.replace(/^[^A-Za-z0-9]+/, '') || 'budget'
  for (let number = 1; ; number++) {
    const free = number === 1 ? base : `${base}-${number}`
    if (others.every((other) => other['name'] !== free)) return free
  }
}

/** Without members that are undefined or null. */
function defined(members: Readonly<Record<string, JsonValue | undefined>>): JsonObject {
  return Object.fromEntries(Object.entries(members).flatMap(([name, value]) => (value == null ? [] : [[name, value]])))
}
