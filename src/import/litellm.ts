/**
 * The configuration of a LiteLLM proxy → a configuration of weir, and a line for everything that cannot be carried over
 * or had to be assumed. The result passes `weir check` once the variables that it names are set.
 */

import { LineCounter, parseDocument, stringify } from 'yaml'
import { hashOf } from '../config/key-hash.ts'
import { amountProblem } from '../config/spend-limits.ts'
import { isHashOfWellKnown } from '../config/well-known-secrets.ts'
import { explained } from '../config/yaml-errors.ts'
import { DAY_MS } from '../core/durations.ts'
import { isArray, isObject, type JsonObject, type JsonValue, stringOf } from '../core/json.ts'
import { LitellmBudgets } from './litellm-budgets.ts'
import { DEFAULT, type ImportedKey, type ImportedTeam, litellmKeys, litellmTeams, withBudgets } from './litellm-keys.ts'
import { litellmModels } from './litellm-models.ts'
import { Notes } from './litellm-notes.ts'
import { variableOf } from './litellm-settings.ts'

interface Imported {
  /** The text of a `weir.yaml`. */
  readonly text: string
  /** One line each. */
  readonly notes: readonly string[]
  readonly keys: readonly ImportedKey[]
  readonly teams: readonly ImportedTeam[]
}

/** What a proxy has beside its configuration. */
interface LitellmExtras {
  /** LiteLLM's file of model prices, by name. */
  readonly prices?: JsonObject | undefined
  /** Rows of its tables of keys, of teams, and of the budgets that they name. */
  readonly keys?: readonly JsonObject[] | undefined
  readonly teams?: readonly JsonObject[] | undefined
  readonly budgets?: readonly JsonObject[] | undefined
  /** Rows of those of users and of tags. */
  readonly users?: readonly JsonObject[] | undefined
  readonly tags?: readonly JsonObject[] | undefined
}

/** The top-level keys that weir has a counterpart of. */
const READ: ReadonlySet<string> = new Set([
  'model_list',
  'litellm_settings',
  'router_settings',
  'general_settings',
  'environment_variables',
  'credential_list',
])

/** Settings of LiteLLM that weir needs no setting for: it does the same, or has nothing of the kind to turn off. */
const NEEDLESS: ReadonlySet<string> = new Set(['drop_params', 'set_verbose', 'telemetry', 'enable_pre_call_checks'])

/** The text of a LiteLLM file; a problem if it is not one. */
export function fromLitellm(
  text: string,
  { prices = {}, keys: keyRows = [], teams: teamRows = [], budgets = [], users = [], tags = [] }: LitellmExtras = {},
  nowMs = Date.now(),
): Imported | { readonly problem: string; readonly notes?: readonly string[] } {
  const lineCounter = new LineCounter()
  const document = parseDocument(text, { uniqueKeys: false, prettyErrors: false, lineCounter })
  const error = document.errors[0]
  if (error !== undefined) {
    const { line } = lineCounter.linePos(error.pos[0])
    return { problem: `is not YAML: line ${line}: ${explained(error, text, line)}` }
  }
  const file: JsonValue = document.toJS({ maxAliasCount: 1000 })
  if (!isObject(file) || !isArray(file['model_list']))
    return { problem: 'has no model_list, which the configuration of a LiteLLM proxy has' }
  const notes = new Notes()
  const { providers, models } = litellmModels(file, prices, notes)
  if (models.length === 0) return { problem: 'has no model that weir can serve', notes: notes.lines }
  const [keys, teams] = [withBudgets(keyRows, budgets), withBudgets(teamRows, budgets)]
  const context = { notes, budgets: new LitellmBudgets(notes), nowMs }
  context.budgets.addUsers(withBudgets(users, budgets), file)
  context.budgets.addTags(withBudgets(tags, budgets), file)
  context.budgets.addEndUsers(file)
  const moved = litellmTeams(teams, keys, context)
  const imported = litellmKeys(keys, moved, context)
  const limits = spendLimit(file, models, notes)
  const own = { id: DEFAULT, ...limits, keys: [masterKey(file, notes)] }
  const named = context.budgets.tags
  const weir = {
    ...alerts(file, notes),
    ...routing(file, notes),
    ...(named.length === 0 ? {} : { tags: named }),
    providers,
    models,
    organizations: [
      { ...own, ...context.budgets.of(DEFAULT, true) },
      ...Array.from(moved.values(), (team) => ({ ...team.organization, ...context.budgets.of(team.id, false) })),
    ],
  }
  ignored(file, notes)
  const head = '# Made by weir import litellm. Check it with: weir check --strict\n'
  const written = head + stringify(weir, { lineWidth: 0 })
  return { text: written, notes: notes.lines, keys: imported, teams: [...moved.values()] }
}

/** `alerting: [slack]`, whose address LiteLLM has in SLACK_WEBHOOK_URL. */
function alerts(file: JsonObject, notes: Notes): JsonObject {
  const { alerting } = sectionOf(file, 'general_settings')
  const kinds = isArray(alerting) ? alerting : []
  for (const kind of kinds) {
    if (kind !== 'slack')
      notes.lost('general_settings.alerting', `${String(kind)} is not carried over; see alerts.hooks`)
  }
  if (!kinds.includes('slack')) return {}
  notes.assumed('general_settings.alerting', 'slack gets all alerts of weir; alerts.hooks[].events chooses some')
  return { alerts: { hooks: [{ url: `\${SLACK_WEBHOOK_URL}`, format: 'slack' }], spend: [0.85, 1] } }
}

function sectionOf(file: JsonObject, name: string): JsonObject {
  const section = file[name]
  return isObject(section) ? section : {}
}

/** `num_retries` and the timeouts of all requests. */
function routing(file: JsonObject, notes: Notes): JsonObject {
  const retries = numeric(file, 'num_retries')
  const seconds = numeric(file, 'request_timeout') ?? numeric(file, 'timeout')
  const found: Record<string, JsonValue> = {}
  if (retries !== undefined) {
    found['max_attempts'] = Math.min(100, Math.max(1, Math.floor(retries) + 1))
    notes.assumed(
      'num_retries',
      `became routing.max_attempts ${found['max_attempts']}; weir retries on other targets only`,
    )
  }
  if (seconds !== undefined) found['total_timeout_ms'] = Math.min(DAY_MS, Math.max(1, Math.round(seconds * 1000)))
  return Object.keys(found).length === 0 ? {} : { routing: found }
}

/** A number of `router_settings`, else of `litellm_settings`. */
function numeric(file: JsonObject, name: string): number | undefined {
  const found = sectionOf(file, 'router_settings')[name] ?? sectionOf(file, 'litellm_settings')[name]
  return typeof found === 'number' && Number.isFinite(found) && found >= 0 ? found : undefined
}

/** The master key becomes a key of callers: LiteLLM's administrators use it for both. */
function masterKey(file: JsonObject, notes: Notes): JsonObject {
  const written = stringOf(sectionOf(file, 'general_settings')['master_key'])
  const place = 'general_settings.master_key'
  const variable = written === undefined ? undefined : variableOf(written)
  if (variable !== undefined) return { id: 'default', key: `\${${variable}}` }
  if (written === undefined) {
    notes.toDo('general_settings', 'has no master_key; set WEIR_KEY in the environment: openssl rand -hex 24')
  } else if (!/^[\x21-\x2b\x2d-\x7e]{16,512}$/.test(written) || isHashOfWellKnown(hashOf(written))) {
    notes.toDo(place, 'is too short or easy to guess; set WEIR_KEY in the environment instead: openssl rand -hex 24')
  } else {
    notes.toDo(place, 'stands in the file; keep it in the environment instead')
    return { id: 'default', key: written }
  }
  return { id: 'default', key: `\${WEIR_KEY}` }
}

/** The member `limits`: `max_budget` in dollars for `budget_duration`, which weir has for days and months. */
function spendLimit(file: JsonObject, models: readonly JsonObject[], notes: Notes): JsonObject {
  const settings = sectionOf(file, 'litellm_settings')
  const { max_budget: most, budget_duration: duration } = settings
  if (typeof most !== 'number' || most <= 0) return {}
  const wrong = amountProblem(most)
  if (wrong !== undefined) {
    notes.lost('litellm_settings.max_budget', `${most} is not carried over: it ${wrong}`)
    return {}
  }
  const windows: Readonly<Record<string, string>> = { '1d': 'day', '24h': 'day', '30d': 'month', '1mo': 'month' }
  const window = duration === undefined ? 'total' : windows[String(duration)]
  const unpriced = models.filter((model) => !Object.hasOwn(model, 'price')).map((model) => String(model['name']))
  if (window === undefined) {
    notes.lost(
      'litellm_settings.budget_duration',
      `${String(duration)} is not carried over; weir has day, month, total`,
    )
  } else if (unpriced.length > 0) {
    const advice = `give them a price, then set limits: { spend: { ${window}: ${most} } }`
    notes.toDo(
      'litellm_settings.max_budget',
      `is not carried over, because these have no price: ${unpriced.join(', ')}; ${advice}`,
    )
  } else {
    return { limits: { spend: { [window]: most } } }
  }
  return {}
}

/** What the sections above have read. */
const HANDLED: Readonly<Record<string, ReadonlySet<string>>> = {
  litellm_settings: new Set([
    ...['num_retries', 'request_timeout', 'timeout', 'max_budget', 'budget_duration'],
    ...['fallbacks', 'default_fallbacks', 'tag_budget_config', 'max_end_user_budget'],
    ...['max_internal_user_budget', 'internal_user_budget_duration'],
  ]),
  router_settings: new Set([
    ...['num_retries', 'timeout', 'request_timeout', 'fallbacks', 'default_fallbacks', 'model_group_alias'],
  ]),
  general_settings: new Set(['master_key', 'alerting']),
}

/** Where weir has the thing under another name. */
const ADVICE: Readonly<Record<string, string>> = {
  routing_strategy:
    'weir spreads conversations by weight (spread: weighted), or tries targets in order (spread: order)',
  redis_host: 'ledger: { redis: … } shares limits between nodes',
  redis_url: 'ledger: { redis: … } shares limits between nodes',
  database_url: 'weir needs no database; keys and spend in it stay there',
  success_callback: 'weir writes one log line per request',
  callbacks: 'weir writes one log line per request',
  cache: 'weir does not cache answers',
  context_window_fallbacks: 'weir falls back when a request does not fit context_window, if fallbacks name the model',
}

function ignored(file: JsonObject, notes: Notes): void {
  for (const [name, handled] of Object.entries(HANDLED)) {
    for (const key of Object.keys(sectionOf(file, name))) {
      if (handled.has(key) || NEEDLESS.has(key)) continue
      const advice = ADVICE[key]
      notes.lost(`${name}.${key}`, `is not carried over${advice === undefined ? '' : `; ${advice}`}`)
    }
  }
  for (const name of Object.keys(sectionOf(file, 'environment_variables')))
    notes.toDo(`environment_variables.${name}`, 'set it in the environment of weir')
  for (const key of Object.keys(file)) if (!READ.has(key)) notes.lost(key, 'is not carried over')
}
