/**
 * Dumps of LiteLLM's tables of keys (LiteLLM_VerificationToken) and teams (LiteLLM_TeamTable) → keys and organisations
 * of weir. LiteLLM stores the SHA-256 of its keys, as weir does, so callers keep theirs.
 */

import { createHash } from 'node:crypto'
import { IDENTIFIER } from '../config/field-types.ts'
import { microDollars } from '../core/decimal.ts'
import { isObject, type JsonObject } from '../core/json.ts'
import type { SpentBefore } from '../core/limits.ts'
import { hasMembers, isTrue, listOf, textOf, timeOf } from './dump-rows.ts'
import { countsOf, type LitellmBudgets, limitsFrom, spendOf } from './litellm-budgets.ts'
import { publicName } from './litellm-models.ts'
import type { Notes } from './litellm-notes.ts'

/** A key as it is to be in the key store. */
export interface ImportedKey {
  readonly sha256: string
  /** A hint at the secret, which is none itself. */
  readonly shown: string
  /** As `weir keys create` takes it: organisation, id, models, limits and expires_at. */
  readonly description: JsonObject
  readonly before: SpentBefore | undefined
  readonly isBlocked: boolean
}

/** A team as an organisation. */
export interface ImportedTeam {
  /** The id of the organisation. */
  readonly id: string
  readonly organization: JsonObject
  readonly before: SpentBefore | undefined
}

/** What an import has beside the rows. */
interface ImportContext {
  readonly notes: Notes
  readonly budgets: LitellmBudgets
  readonly nowMs: number
}

/** The organisation of keys without a team. */
export const DEFAULT = 'default'
/** The team of the keys that LiteLLM's own pages make for each log-in. */
const DASHBOARD = 'litellm-dashboard'

/** Columns of a budget (LiteLLM_BudgetTable); a key that has one of its own keeps it. */
const RATE_COLUMNS = ['rpm_limit', 'tpm_limit', 'max_parallel_requests', 'soft_budget', 'model_max_budget'] as const
const SPEND_COLUMNS = ['max_budget', 'budget_duration', 'budget_reset_at'] as const

/**
 * Rows of keys or teams with the limits of the budgets that they name. The budget is in its own table, or in the row
 * (`litellm_budget_table`), as LiteLLM's API has it. One that is not found stays named.
 */
export function withBudgets(rows: readonly JsonObject[], budgets: readonly JsonObject[]): readonly JsonObject[] {
  const byId = new Map(budgets.map((budget) => [textOf(budget, 'budget_id'), budget]))
  return rows.map((row) => {
    const inner = row['litellm_budget_table']
    const budget = isObject(inner) ? inner : byId.get(textOf(row, 'budget_id') ?? '')
    if (budget === undefined) return row
    // A duration belongs to the amount beside it.
    const spend = textOf(row, 'max_budget') === undefined ? SPEND_COLUMNS : []
    const missing = [...spend, ...RATE_COLUMNS].filter((name) => textOf(row, name) === undefined)
    const taken = missing.flatMap((name) => (budget[name] === undefined ? [] : [[name, budget[name]] as const]))
    return { ...row, ...Object.fromEntries(taken), budget_id: null }
  })
}

/** Teams by their id in LiteLLM, also those that only keys name. */
export function litellmTeams(
  teams: readonly JsonObject[],
  keys: readonly JsonObject[],
  { notes, budgets, nowMs }: ImportContext,
): ReadonlyMap<string, ImportedTeam> {
  const found = new Map<string, ImportedTeam>()
  const ids = new Set([DEFAULT])
  const add = (row: JsonObject) => {
    const team = textOf(row, 'team_id')
    if (team === undefined || team === DASHBOARD || found.has(team)) return
    const id = freeId(textOf(row, 'team_alias') ?? team, ids)
    const isTeam = teams.includes(row)
    const place = `team ${textOf(row, 'team_alias') ?? team}`
    if (!isTeam) notes.assumed(place, `became organisation ${id}; its limits are in LiteLLM_TeamTable (--teams FILE)`)
    const given = isTeam ? limitsOf(row, place, notes, nowMs) : {}
    if (isTeam && isTrue(row, 'blocked'))
      notes.toDo(place, 'is blocked; disable its keys, or leave the organisation out')
    const models = isTeam ? modelsOf(row, place, notes) : undefined
    if (isTeam) budgets.addTeam(row, id, place)
    const organization = { id, ...(models === undefined ? {} : { models }), ...given.limits }
    found.set(team, { id, organization, before: given.before })
  }
  for (const row of teams) add(row)
  for (const row of keys) add(row)
  return found
}

/** Keys that LiteLLM accepts, and those that are blocked. */
export function litellmKeys(
  rows: readonly JsonObject[],
  teams: ReadonlyMap<string, ImportedTeam>,
  { notes, budgets, nowMs }: ImportContext,
): readonly ImportedKey[] {
  // Ids in the order of the hashes are the same for each dump, whatever its order.
  const ids = new Set([DEFAULT])
  const sorted = [...rows].sort((a, b) => ((textOf(a, 'token') ?? '') < (textOf(b, 'token') ?? '') ? -1 : 1))
  return sorted.flatMap((row): readonly ImportedKey[] => {
    const token = textOf(row, 'token')
    const name = textOf(row, 'key_alias') ?? textOf(row, 'key_name') ?? `${token?.slice(0, 8)}…`
    const place = `key ${name}`
    if (token === undefined) return lost(notes, 'a key', 'has no token')
    const sha256 = hashOf(token)
    if (sha256 === undefined) return lost(notes, place, 'its token is no SHA-256')
    const team = textOf(row, 'team_id')
    if (team === DASHBOARD) return lost(notes, place, "is a log-in of LiteLLM's pages")
    const expiresMs = timeOf(row, 'expires')
    if (expiresMs !== undefined && expiresMs <= nowMs)
      return lost(notes, place, `has expired (${textOf(row, 'expires')})`)
    const id = freeId(textOf(row, 'key_alias') ?? `key-${sha256.slice(0, 8)}`, ids)
    if (id !== textOf(row, 'key_alias')) notes.assumed(place, `its id is ${id}`)
    const isBlocked = isTrue(row, 'blocked')
    if (isBlocked) notes.assumed(place, 'is blocked, and revoked in weir')
    const { limits, before } = limitsOf(row, place, notes, nowMs)
    const models = modelsOf(row, place, notes)
    noteOthers(row, place, notes)
    const organization = teams.get(team ?? '')?.id ?? DEFAULT
    const description = {
      ...{ organization, id },
      ...budgets.addKey(row, organization, id, place),
      ...(models === undefined ? {} : { models }),
      ...limits,
      ...(expiresMs === undefined ? {} : { expires_at: new Date(expiresMs).toISOString() }),
    }
    const hint = textOf(row, 'key_name') ?? ''
    return [{ sha256, shown: /^sk-\.\.\.[\w-]{1,8}$/.test(hint) ? hint : '', description, before, isBlocked }]
  })
}

function lost(notes: Notes, place: string, why: string): readonly ImportedKey[] {
  notes.lost(place, `is not carried over: ${why}`)
  return []
}

/** The column has the hash; the earliest versions of LiteLLM stored the key itself. */
function hashOf(token: string): string | undefined {
  if (/^[0-9a-f]{64}$/i.test(token)) return token.toLowerCase()
  return token.startsWith('sk-') ? createHash('sha256').update(token).digest('hex') : undefined
}

/** A legal id that no other has, made of a name. */
function freeId(name: string, ids: Set<string>): string {
  const legal = name
    .replaceAll(/[^A-Za-z0-9._@-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 56)
  const base = new RegExp(IDENTIFIER).test(legal) ? legal : 'key'
  for (let number = 1; ; number++) {
    const id = number === 1 ? base : `${base}-${number}`
    if (ids.has(id)) continue
    ids.add(id)
    return id
  }
}

/** Names that mean all models, and one that means none. */
const ALL = new Set(['all-team-models', 'all-proxy-models', '*'])

function modelsOf(row: JsonObject, place: string, notes: Notes): readonly string[] | undefined {
  const names = listOf(row, 'models')
  if (names.length === 0 || names.some((name) => ALL.has(name))) return undefined
  const own = names.filter((name) => name !== 'no-default-models').map(publicName)
  if (own.length > 0) return [...new Set(own)]
  notes.assumed(place, 'may use no model')
  return []
}

interface ImportedLimits {
  readonly limits?: { readonly limits: JsonObject }
  readonly before?: SpentBefore | undefined
}

/** Of output, for a request without an output limit: as `SLICE_TOKENS` of the gateway. */
const RESERVED_TOKENS = 4096

function limitsOf(row: JsonObject, place: string, notes: Notes, nowMs: number): ImportedLimits {
  const counts = countsOf(row)
  const tokens = counts.find(([name]) => name === 'tokens_per_minute')?.[1] ?? RESERVED_TOKENS
  if (tokens < RESERVED_TOKENS)
    notes.toDo(
      place,
      `tpm_limit ${tokens} refuses requests without max_tokens, for which weir reserves ${RESERVED_TOKENS} tokens of ` +
        'output; raise it, or let callers name max_tokens',
    )
  const spend = spendOf(row, place, WINDOWS, notes)
  const limits = limitsFrom(counts, spend)
  const before = spend && spentBefore(row, spend.window, place, notes, nowMs)
  return Object.keys(limits).length === 0 ? { before } : { limits: { limits }, before }
}

/** The calendar windows of organisations and keys. */
const WINDOWS = [
  { name: 'day', days: 1, same: ['1d', '24h'], words: 'the UTC day' },
  { name: 'month', days: 31, same: ['30d', '1mo'], words: 'the calendar month' },
] as const

/** What counts as spent until LiteLLM would have renewed the budget, or weir does. */
function spentBefore(
  row: JsonObject,
  window: 'day' | 'month' | 'total',
  place: string,
  notes: Notes,
  nowMs: number,
): SpentBefore | undefined {
  const microUsd = microDollars(textOf(row, 'spend') ?? '0')
  if (microUsd === undefined || microUsd === 0) {
    if (microUsd === undefined) notes.lost(place, `spend ${textOf(row, 'spend')} is not carried over`)
    return undefined
  }
  if (window === 'total') return { total: { microUsd } }
  const renewedMs = timeOf(row, 'budget_reset_at')
  if (renewedMs !== undefined && renewedMs <= nowMs) {
    notes.assumed(place, `its budget was to renew at ${textOf(row, 'budget_reset_at')}, so its spend counts no more`)
    return undefined
  }
  const at = new Date(nowMs)
  const [year, month, day] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()]
  const endMs = window === 'day' ? Date.UTC(year, month, day + 1) : Date.UTC(year, month + 1, 1)
  return { [window]: { microUsd, untilMs: Math.min(endMs, renewedMs ?? endMs) } }
}

/** Columns that weir has nothing for, if they have a value. */
const OTHERS = ['aliases', 'config', 'permissions', 'router_settings', 'metadata'] as const

function noteOthers(row: JsonObject, place: string, notes: Notes): void {
  const softs = textOf(row, 'soft_budget') === undefined ? [] : ['soft_budget']
  const found = [...OTHERS.filter((name) => hasMembers(row, name)), ...softs]
  if (found.length > 0) notes.lost(place, `${found.join(', ')} ${found.length === 1 ? 'is' : 'are'} not carried over`)
  const budget = textOf(row, 'budget_id')
  if (budget === undefined) return
  notes.toDo(place, `has the limits of budget ${budget}; dump the table LiteLLM_BudgetTable, and add --budgets FILE`)
}
