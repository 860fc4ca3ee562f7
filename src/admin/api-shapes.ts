/**
 * The JSON of the admin API, as the console and `weir top` read it. Money is in whole micro-dollars, durations in
 * seconds or milliseconds as the name has it, times are RFC 3339 in UTC. A figure that is not known is null, never 0.
 */

import { type Static, type TSchema, Type as t } from '@sinclair/typebox'
import { TARGET_STATES } from '../gateway/target-states.ts'
import { type AuditColumn, auditColumns, SERVICE_TIER } from '../ledger/audit-columns.ts'
import { usageColumns } from '../ledger/usage-figures.ts'

export const nullable = <T extends TSchema>(schema: T) => t.Union([schema, t.Null()])
export const time = t.String({ format: 'date-time' })
export const timed = (description: string) => t.String({ format: 'date-time', description })
const share = (description?: string) =>
  t.Number({ minimum: 0, maximum: 1, ...(description === undefined ? {} : { description }) })

const figures = {
  requests_per_second: t.Number({ description: 'Requests that ended, also refused ones' }),
  open_streams: t.Integer({ description: 'Streamed requests that run' }),
  in_flight: t.Integer({ description: 'All requests that run' }),
  error_share: nullable(
    share(
      'Share of ended requests with status 5xx, a cut answer, or 429 because all providers are rate limited; ' +
        'null without requests. Other refusals (4xx) are not errors',
    ),
  ),
  limited_share: nullable(share('Share of ended requests that a limit of weir refused (429); null without requests')),
  time_to_first_token_p50_ms: nullable(t.Number()),
  time_to_first_token_p95_ms: nullable(t.Number()),
  tokens_per_second: t.Number({ description: 'Input and output tokens' }),
  cost_micro_usd_per_second: t.Number({
    description: 'For charts; the sum of the day is `cost_today_micro_usd` of the status',
  }),
}

/** The figures of the first band, also as one point of the history. */
export const figuresNow = t.Object(figures)

/** What an operator should look at. */
const attention = t.Object({
  level: t.Union([t.Literal('error'), t.Literal('warning')]),
  kind: t.String({
    description:
      'Stable: readiness, ledger, disk, model, target, credential, credit, key_expiring, budget, configuration, ' +
      'alert, worker, nodes, console',
  }),
  message: t.String(),
  since: nullable(time),
  about: nullable(
    t.Object(
      {
        band: t.Union([t.Literal('targets'), t.Literal('budgets')]),
        search: t.String({ description: 'Words that find its rows in `GET /api/targets` or `GET /api/budgets`' }),
      },
      { description: 'Null if it is about no target and no limit' },
    ),
  ),
})

/** `GET /api/status`, and the data of the event `status`. `GET /api/status?history=true` adds `history`. */
export const status = t.Object({
  time,
  node: t.String({ description: '`node_name` of this weir' }),
  listen: t.Object(
    { host: t.String(), port: t.Integer() },
    { description: 'Of the inference API; the host as configured' },
  ),
  version: t.String(),
  commit: nullable(t.String()),
  bun: t.String(),
  started_at: time,
  uptime_seconds: t.Integer(),
  ready: t.Boolean(),
  reasons: t.Array(t.String(), { description: 'Why it is not ready; empty if it is' }),
  last_reload: nullable(
    t.Object({ at: time, ok: t.Boolean(), changes: t.Array(t.String()), problems: t.Array(t.String()) }),
  ),
  ledger: t.Object({ kind: t.Union([t.Literal('embedded'), t.Literal('redis')]), up: t.Boolean() }),
  workers: t.Object({ configured: t.Integer(), ready: t.Integer(), restarts: t.Integer() }),
  now: t.Object(figures, { description: 'Over the last 10 seconds; shares and percentiles over the last minute' }),
  compatibility: t.Record(t.String(), t.String(), {
    description: 'The switches of native mode, unless an organisation or a key sets others',
  }),
  ignored_fields: t.Array(
    t.Object({ at: time, organization: t.String(), key: t.String(), fields: t.Array(t.String()) }),
    {
      description:
        'Keys whose callers have sent fields within a day that only native mode gives an effect, at most 100, the ' +
        'newest first',
    },
  ),
  targets: t.Object(Object.fromEntries(TARGET_STATES.map((state) => [state, t.Integer()])), {
    description: 'How many targets of the configuration are in each state',
  }),
  nodes: nullable(
    t.Object(
      { count: t.Integer(), now: t.Object(figures) },
      { description: 'The sums of all nodes, this one included; of latencies the slowest. Null for a single node' },
    ),
  ),
  cost_today_micro_usd: nullable(
    t.Integer({ description: 'Since 00:00 UTC, all organisations, from the ledger; null while it cannot be read' }),
  ),
  limits: t.Object(
    { near: t.Integer(), refusing: t.Integer() },
    { description: 'How many limits are in these states, as in `GET /api/budgets`' },
  ),
  problems: t.Array(attention, {
    description: 'The errors of `attention`: weir, or a model, cannot answer, or somebody has to act',
  }),
  attention: t.Array(attention, { description: 'At most 100, errors first' }),
  history: t.Optional(
    t.Object({
      step_seconds: t.Integer({ description: 'Width of a point' }),
      points: t.Array(t.Object({ at: timed('The end of the point'), ...figures }), {
        description: 'Of the last hour, the oldest first',
      }),
      nodes: t.Optional(
        t.Array(t.Object({ at: time, ...figures }), { description: 'The sums of all nodes, since there are several' }),
      ),
    }),
  ),
})

/** What a target has taught about how requests to it are written. */
export const learnedForms = t.Array(
  t.Object({
    field: t.String({ description: 'The field that requests have now, or no longer have' }),
    model: t.String({ description: "The provider's own name of the model; another than the target's for a pattern" }),
    since: time,
    until: nullable(timed('Null: for good')),
    seen: t.String({ description: 'The message that the target rejected a request with' }),
  }),
)

const target = t.Object({
  provider: t.String(),
  model: t.String({ description: "The provider's own name of the model" }),
  serves: t.Array(t.String(), {
    description: 'Public names of the models that have it as a target, in the order of the configuration',
  }),
  state: t.Union(
    TARGET_STATES.map((state) => t.Literal(state)),
    {
      description:
        '`unknown`: never called. `healthy`: answered since it last failed. `failing`: its last calls failed, and it ' +
        'does not rest yet. `resting`: it is skipped. `probing`: its rest is over, and it gets one request at a time ' +
        'until one succeeds',
    },
  ),
  reason: nullable(
    t.String({ description: 'How it last failed: timeout, credential, …; null while it is healthy or unknown' }),
  ),
  since: nullable(timed('The first failure since it last answered')),
  rest_seconds: nullable(t.Number({ description: 'Until it is tried again' })),
  attempts: t.Integer({ description: 'This and the following figures are of the last 15 minutes' }),
  success_share: nullable(share()),
  first_byte_p50_ms: nullable(t.Number()),
  first_byte_p95_ms: nullable(t.Number()),
  traffic_share: nullable(share('Its share of all attempts that were answered')),
  weight: nullable(t.Number({ description: 'Configured weight, with `spread: weighted`' })),
  room: t.Array(
    t.Object({
      limit: t.String({ description: 'requests, tokens, concurrent_requests, spend.month, reported.requests, …' }),
      of: t.Union([t.Literal('target'), t.Literal('provider')]),
      left: share('What is left of it for all workers and nodes, as far as this node knows'),
    }),
    { description: 'Limits of the target and its provider, and those that it reports; the scarcest first' },
  ),
  learned: learnedForms,
  last_error: nullable(
    t.Object({
      at: time,
      error: t.String(),
      status: nullable(t.Integer()),
      cause: nullable(t.String({ description: 'Why it could not be reached: ECONNREFUSED, connect_timeout, …' })),
    }),
  ),
})

/** `GET /api/targets`, in the order of the configuration. */
export const targets = t.Object({ rows: t.Array(target) })

const budget = t.Object({
  organization: t.String(),
  key: nullable(t.String({ description: 'Null: of the organisation as a whole' })),
  limit: t.String({ description: "The configuration's name: spend.day, requests_per_minute, …" }),
  unit: t.Union([t.Literal('micro_usd'), t.Literal('requests'), t.Literal('tokens')]),
  amount: t.Integer(),
  used: t.Integer(),
  held: t.Integer({ description: 'By requests that run. Always 0 for rates, which have no reservations of their own' }),
  state: t.Union([t.Literal('ok'), t.Literal('near'), t.Literal('refusing')], {
    description:
      '`near`: a share of `alerts.spend` is spent (0.8 without any); `refusing`: a request was refused in this ' +
      'window because of what is spent, and would be again. Rates and concurrency are always `ok`',
  }),
  renews_at: nullable(timed('When the window ends; null for spend.total and for rates, which refill evenly')),
  budget: t.Optional(t.String({ description: 'The name of the budget, of a counter' })),
  value: t.Optional(nullable(t.String({ description: 'The value of the counter; null if the budget has one' }))),
  raise: t.Optional(nullable(t.Object({ id: t.String(), until: time, reason: t.String() }))),
  used_up_at: nullable(timed('When it is used up at the rate of the last hour; null if not before it renews')),
})

/**
 * `GET /api/budgets`: all limits of organisations, of counters of budgets, and of keys that were used, those that
 * refuse first, then the fullest, at most 1,000; `organization`, `key`, `name`, `value` and `search` filter.
 */
export const budgets = t.Object({
  rows: t.Array(budget),
  more: t.Integer({ description: 'How many were left out of those that match' }),
  total: t.Integer({ description: 'How many there are without `search`, and without those of keys beyond 5,000' }),
})

/**
 * The event `request` of `GET /api/events`: the fields of the request's log line. `GET /api/requests` answers
 * `{"rows": […]}` with lines of the audit. `GET /api/requests?recent=200` answers `{"rows": […]}` with the log lines of
 * the last requests that ended, refused ones too, the newest first: the console starts with them.
 */
export const requestLine = t.Record(t.String(), t.Unknown())

const column = {
  text: t.String(),
  count: t.Integer(),
  money: t.Integer({ description: 'Micro-dollars' }),
  time: nullable(time),
  flag: t.Boolean(),
  outcome: nullable(t.String()),
  end: t.String({ description: 'How the ledger learned of the end' }),
  tags: t.Record(t.String(), t.String()),
} as const satisfies Record<AuditColumn['type'], TSchema>

const serviceTier = t.String({ description: '`default` for the base tier; empty if the answer names none' })

/** A line of the audit: `GET /api/requests`, and `weir audit --json`. A text that is not known is null. */
export const auditRow = t.Object(
  Object.fromEntries([
    ...auditColumns.map(({ name, type }) => [name, type === 'text' ? nullable(column.text) : column[type]]),
    [SERVICE_TIER, serviceTier],
  ]),
)

const usageFigures = Object.fromEntries(usageColumns.map(({ name }) => [name, t.Integer()]))

/** `GET /api/usage`, and `weir usage --json`: a row has a text for each column of `by`, too. */
export const usage = t.Object({
  since: t.String({ format: 'date' }),
  until: t.String({ format: 'date', description: 'Not included' }),
  by: t.String({ description: 'The columns, with commas between them' }),
  rows: t.Array(t.Object(usageFigures, { additionalProperties: t.String() })),
  total: t.Object(usageFigures),
})

/** A row of `GET /api/nodes`. */
export const node = t.Object({
  id: t.String({ description: 'New with each start' }),
  host: t.String(),
  name: t.String({ description: '`node_name`' }),
  version: t.String(),
  commit: nullable(t.String()),
  since: timed('When it was started'),
  workers: t.Integer({ description: 'As configured' }),
  state: t.Union([t.Literal('ready'), t.Literal('draining')]),
  digests: t.Object(
    { configuration: t.String(), models: t.String(), prices: t.String(), organizations: t.String() },
    { description: 'Equal on two nodes if these parts of their configurations are; they disclose nothing else' },
  ),
  requests_per_second: figures.requests_per_second,
  open_streams: figures.open_streams,
  failed_ratio: figures.error_share,
  spend_micro_usd_per_hour: t.Integer({ description: 'At the rate of the last 10 seconds' }),
  seen_at: timed('When it was last heard of: every 5 s, and at most 20 s ago'),
})

/** `GET /api/nodes`, and `weir nodes --json`. */
export const nodes = t.Object({
  nodes: t.Array(node, {
    description: 'Those that share this Redis, by name; with the embedded ledger this one alone',
  }),
  mixed: t.Array(
    t.Object({
      section: t.String({ description: 'Of the configuration, as the file has it: `models[3].price`; or `version`' }),
      nodes: t.Array(t.String(), { description: 'The ids of the nodes that have it otherwise than most' }),
    }),
    { description: 'Where nodes differ; empty if they do not' },
  ),
})

/** `POST /api/nodes/:id/reload`. */
export const reloadedNode = t.Object({
  id: t.String(),
  name: t.String(),
  changes: t.Array(t.String()),
  problems: t.Array(t.String(), { description: 'Why nothing was applied; empty if it was' }),
})

export type FiguresNow = Static<typeof figuresNow>
export type Attention = Static<typeof attention>
export type Status = Static<typeof status>
export type TargetRow = Static<typeof target>
export type Targets = Static<typeof targets>
export type Nodes = Static<typeof nodes>
export type NodeRow = Static<typeof node>
export type ReloadedNode = Static<typeof reloadedNode>
export type BudgetRow = Static<typeof budget>
export type Budgets = Static<typeof budgets>
export type { Explanation } from '../reports/explanation-shape.ts'
