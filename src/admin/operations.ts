/**
 * The table of the admin API: for each operation its address, its parameters, what it answers, and what it runs. The
 * routes and `docs/openapi-admin.json` are made of it, and the commands have the same parameters as flags.
 */

import { openAuditLog } from '../assembly/open-ledger.ts'
import { targetsOf } from '../assembly/targets.ts'
import type { Config } from '../config/config.ts'
import type { JsonObject } from '../core/json.ts'
import { prefixOf, type TargetRef, targetKey } from '../core/model-config.ts'
import type { Changer } from '../keys/admin-audit.ts'
import { raiseJson } from '../keys/budget-record.ts'
import { keyJson } from '../keys/key-list.ts'
import { KeyProblem } from '../keys/key-problem.ts'
import { organizationJson } from '../keys/organization-changes.ts'
import { usageReport } from '../ledger/usage-report.ts'
import { auditLine, auditOptions, lastRows } from '../reports/audit-options.ts'
import type { LearnedField } from '../reports/explanation-words.ts'
import { KeyAdministration } from '../reports/key-administration.ts'
import { withLedger } from '../reports/ledger-part.ts'
import {
  AUDIT_PARAMETERS,
  COUNTER_PARAMETERS,
  EXPLAIN_PARAMETERS,
  type Given,
  KEY,
  ORG,
  type Parameter,
  parameter,
  USAGE_PARAMETERS,
} from '../reports/parameters.ts'
import { explainRequest, needsOf, UnknownKey } from '../reports/request-explanation.ts'
import { readUsage, TooManyRows, usageOptions } from '../reports/usage-options.ts'
import type { AdminData } from './admin-data.ts'
import type { SchemaName } from './api-shapes.ts'
import type { EventHub } from './event-hub.ts'
import { AdminError, json } from './json-answers.ts'
import { badQuery } from './request-reading.ts'
import type { Supervision } from './supervision.ts'
import { formJson } from './target-rows.ts'

export interface Operation {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** With `:id` for that of a key or an organisation. */
  readonly path: string
  readonly summary: string
  /** Of its query. */
  readonly parameters?: readonly Parameter[]
  /** What the fields of its body mean, by name; absent if it has none. */
  readonly body?: Readonly<Record<string, string>>
  /** Schemas by status; the first is that of success. */
  readonly answers: Readonly<Record<number, SchemaName | readonly SchemaName[]>>
  /** Statuses of its errors beside those of every operation. */
  readonly errors?: readonly number[]
  /** Only commands of this machine may ask for it, over the control socket. */
  readonly isLocal?: true
  /** Resolves to the JSON of its success, or to an answer of its own. */
  readonly run: (call: Call, parts: OperationParts) => object | Promise<object>
}

/** A request, checked against the row. */
interface Call {
  readonly request: Request
  readonly query: Given
  readonly body: JsonObject
  /** Of the path; empty without one. */
  readonly id: string
  /** Who sent it. */
  readonly by: Changer
}

/** What operations work with. */
export interface OperationParts {
  readonly data: AdminData
  readonly events: EventHub
  readonly supervision: Supervision
  /** Lets few reads of the ledger run at a time. */
  readonly reads: { run<T>(read: () => Promise<T>): Promise<T> }
}

/** As many as the workers keep. */
const RECENT_MAX = 200
const AUDIT_ROWS_MAX = 10_000
const USAGE_ROWS_MAX = 50_000
/** Keys in one answer, which is then about 4 MB. `weir keys list` prints all. */
const KEYS_MAX = 10_000
const BUDGET_ROWS_MAX = 1000

const KEY_BODY = {
  models: 'Patterns of public names',
  limits: 'As in the configuration; money in dollars',
  expires_at: 'A date, an RFC 3339 time or a duration such as 90d',
  tags: 'Values that hold where a request names none, by name',
  fixed_tags: 'Values that hold whatever a request names, by name',
}
const ORGANIZATION_BODY = {
  models: KEY_BODY.models,
  limits: KEY_BODY.limits,
  disabled: '`true`: its keys are rejected',
}

const COUNTER_BODY = {
  organization: 'Its organisation',
  name: 'The budget',
  value: 'The value whose counter is meant; without it, all of the budget',
  reason: 'Why, for the admin audit',
}

const reports: readonly Operation[] = [
  {
    method: 'GET',
    path: '/api/status',
    summary: 'What this weir is and does now, and what needs attention',
    parameters: [parameter('history', 'adds the figures of the last hour')],
    answers: { 200: 'Status' },
    run: ({ query }, { data }) => data.status(query['history'] === true),
  },
  {
    method: 'GET',
    path: '/api/targets',
    summary: 'The targets with their health',
    answers: { 200: 'Targets' },
    run: (_, { data }) => data.targets(),
  },
  {
    method: 'GET',
    path: '/api/nodes',
    summary: 'The nodes that share this Redis, and in what they differ',
    answers: { 200: 'Nodes' },
    run: (_, { supervision }) => supervision.fleet.list(),
  },
  {
    method: 'GET',
    path: '/api/budgets',
    summary: 'What is used and held of each limit, the fullest first',
    parameters: [
      ORG,
      KEY,
      ...COUNTER_PARAMETERS,
      parameter('search WORDS', 'only rows whose organisation, key, budget, value or limit has each of these words'),
      parameter('limit N', 'the first N rows', { range: [1, BUDGET_ROWS_MAX] }),
    ],
    answers: { 200: 'Budgets' },
    run: ({ query }, { data }) =>
      data.budgets({
        ...{ organization: textOf(query['org']), key: textOf(query['key']), search: textOf(query['search']) },
        ...{ name: textOf(query['name']), value: textOf(query['value']) },
        limit: Number(query['limit'] ?? BUDGET_ROWS_MAX),
      }),
  },
  {
    method: 'GET',
    path: '/api/requests',
    summary: 'Lines of the audit; with `recent` the log lines of the last requests',
    parameters: [
      parameter('recent N', 'the last N requests of the workers; excludes the others', { range: [1, RECENT_MAX] }),
      ...AUDIT_PARAMETERS,
      parameter('limit N', 'the last N lines (default: 100)', { range: [1, AUDIT_ROWS_MAX] }),
    ],
    answers: { 200: ['AuditRows', 'RequestLines'] },
    run: (call, parts) =>
      call.query['recent'] === undefined ? parts.reads.run(() => requests(call, parts)) : recent(call, parts),
  },
  {
    method: 'GET',
    path: '/api/usage',
    summary: 'Requests, tokens and spend',
    parameters: USAGE_PARAMETERS,
    answers: { 200: 'Usage' },
    errors: [422],
    run: (call, parts) => parts.reads.run(() => usage(call, parts)),
  },
  {
    method: 'GET',
    path: '/api/explain',
    summary: 'What would happen to a request',
    parameters: EXPLAIN_PARAMETERS,
    answers: { 200: 'Explanation' },
    errors: [404],
    run: (call, parts) => parts.reads.run(() => explain(call, parts)),
  },
  {
    method: 'GET',
    path: '/api/events',
    summary:
      'Server-sent events: `status` (Status) every second, `request` (a log line) for each request that ends, ' +
      '`omitted` (Omitted)',
    answers: { 200: ['Status', 'RequestLines', 'Omitted'] },
    errors: [409],
    run: ({ request, by }, { events }) => events.open(request, by.actor),
  },
]

const changes: readonly Operation[] = [
  {
    method: 'GET',
    path: '/api/keys',
    summary: 'The keys and their states',
    parameters: [ORG, parameter('limit N', 'the first N keys by id', { range: [1, KEYS_MAX] })],
    answers: { 200: 'Keys' },
    run: async (call, parts) => {
      const limit = Number(call.query['limit'] ?? KEYS_MAX)
      const listed = await keysOf(call, parts).list(textOf(call.query['org']), limit + 1)
      return { keys: listed.slice(0, limit).map(keyJson), more: listed.length > limit }
    },
  },
  {
    method: 'POST',
    path: '/api/keys',
    summary: 'Create a key; the answer has its secret',
    body: { organization: 'Its organisation', id: 'Its name, unique', ...KEY_BODY },
    answers: { 201: 'KeyWithSecret' },
    errors: [409, 422],
    run: async (call, parts) => {
      const keys = keysOf(call, parts)
      const { record, secret } = await keys.changes.create(call.body)
      return { ...(await keys.changedJson(record)), secret }
    },
  },
  {
    method: 'PATCH',
    path: '/api/keys/:id',
    summary: 'Change a key: what is absent stays, null removes',
    body: KEY_BODY,
    answers: { 200: 'ChangedKey' },
    errors: [404, 409, 422],
    run: async (call, parts) => {
      const keys = keysOf(call, parts)
      return await keys.changedJson(await keys.changes.update(call.id, call.body))
    },
  },
  {
    method: 'POST',
    path: '/api/keys/:id/rotate',
    summary: 'Give a key a new secret',
    body: { grace: 'How long the old secret is accepted, such as 24h; not at all unless given' },
    answers: { 200: 'KeyWithSecret' },
    errors: [404, 409, 422],
    run: async (call, parts) => {
      const other = Object.keys(call.body).find((name) => name !== 'grace')
      if (other !== undefined) throw new KeyProblem('invalid', `${other}: unknown key; known here: grace`)
      const keys = keysOf(call, parts)
      const { record, secret } = await keys.changes.rotate(call.id, call.body['grace'])
      return { ...(await keys.changedJson(record)), secret }
    },
  },
  {
    method: 'DELETE',
    path: '/api/keys/:id',
    summary: 'Revoke a key',
    answers: { 200: 'RevokedKey' },
    errors: [404, 409],
    run: async (call, parts) => {
      const { outcome, isConfigured } = await keysOf(call, parts).changes.revoke(call.id)
      return { id: call.id, source: isConfigured ? 'configuration' : 'store', state: 'revoked', outcome }
    },
  },
  {
    method: 'GET',
    path: '/api/organizations',
    summary: 'The organisations of the configuration and of the key store',
    answers: { 200: 'Organizations' },
    run: async (call, parts) => ({
      organizations: (await keysOf(call, parts).organizations()).map(organizationJson),
    }),
  },
  {
    method: 'POST',
    path: '/api/organizations',
    summary: 'Create an organisation',
    body: { id: 'Its name, unique', ...ORGANIZATION_BODY },
    answers: { 201: 'ChangedOrganization' },
    errors: [409, 422],
    run: async (call, parts) => {
      const keys = keysOf(call, parts)
      return keys.changedOrganizationJson(await keys.organizationChanges.create(call.body))
    },
  },
  {
    method: 'PATCH',
    path: '/api/organizations/:id',
    summary: 'Change an organisation: what is absent stays, null removes',
    body: ORGANIZATION_BODY,
    answers: { 200: 'ChangedOrganization' },
    errors: [404, 409, 422],
    run: async (call, parts) => {
      const keys = keysOf(call, parts)
      return keys.changedOrganizationJson(await keys.organizationChanges.update(call.id, call.body))
    },
  },
  {
    method: 'POST',
    path: '/api/budgets/raises',
    summary: 'Raise a budget, or one of its counters, until a time: the limits are new ones, no additions',
    body: {
      ...COUNTER_BODY,
      limits: 'The new limits; those that are not named stay',
      until: 'A date, an RFC 3339 time or a duration such as 12h',
    },
    answers: { 201: 'BudgetRaise' },
    errors: [404, 409, 422],
    run: async (call, parts) => {
      const { organization, raise } = await keysOf(call, parts).budgetChanges.raise(call.body)
      return raiseJson(organization, raise)
    },
  },
  {
    method: 'DELETE',
    path: '/api/budgets/raises/:id',
    summary: 'End a raise',
    answers: { 200: 'EndedRaise' },
    errors: [404],
    run: async (call, parts) => {
      await keysOf(call, parts).budgetChanges.end(call.id)
      return { id: call.id, state: 'ended' }
    },
  },
  {
    method: 'POST',
    path: '/api/budgets/reset',
    summary: 'Let a counter begin anew: what it has spent in its present windows counts no more',
    body: COUNTER_BODY,
    answers: { 200: 'BudgetReset' },
    errors: [404, 409, 422],
    run: async (call, parts) => {
      const { organization, name, value, reason } = await keysOf(call, parts).budgetChanges.reset(call.body)
      return { organization, name, value: value === '' ? null : value, reason }
    },
  },
  {
    method: 'POST',
    path: '/api/targets/:id/forget',
    summary: 'Forget what was learned of how requests to a target are to be written (`id`: `PROVIDER/MODEL`, encoded)',
    answers: { 200: 'ForgottenForms' },
    errors: [404],
    run: async ({ id, by }, { supervision }) => {
      const target = targetNamed(supervision.state().config, decoded(id))
      const forgotten = await supervision.forgetForms(target, by)
      return { target: targetKey(target), forgotten: forgotten.map(formJson) }
    },
  },
  {
    method: 'POST',
    path: '/api/nodes/:id/drain',
    summary: 'Let a node finish what runs, and end (`id`: its id, or its name if no other has it)',
    answers: { 200: 'DrainedNode' },
    errors: [404],
    run: async ({ id, by }, { supervision }) => {
      const node = await supervision.fleet.drain(decoded(id), by)
      return { id: node.id, name: node.name, state: node.state }
    },
  },
  {
    method: 'POST',
    path: '/api/nodes/:id/reload',
    summary: 'Make a node read its configuration again',
    answers: { 200: 'ReloadedNode', 422: 'ReloadedNode' },
    errors: [404],
    run: async ({ id, by }, { supervision }) => {
      const [node] = await supervision.fleet.reload(decoded(id), by)
      return node === undefined ? {} : json(node.problems.length > 0 ? 422 : 200, node)
    },
  },
  {
    method: 'POST',
    path: '/api/nodes/reload',
    summary: 'Make every node read its configuration again',
    answers: { 200: 'ReloadedNodes', 422: 'ReloadedNodes' },
    run: async ({ by }, { supervision }) => {
      const nodes = await supervision.fleet.reload(undefined, by)
      return json(nodes.some(({ problems }) => problems.length > 0) ? 422 : 200, { nodes })
    },
  },
  {
    method: 'POST',
    path: '/api/reload',
    summary: 'Read the configuration again',
    answers: { 200: 'Reloaded', 422: 'RejectedReload' },
    run: async ({ by }, { supervision }) => {
      const { problems, ...done } = await supervision.reload(by)
      return problems.length > 0 ? json(422, { problems }) : done
    },
  },
]

/** What only commands of this machine may ask. */
const local: readonly Operation[] = [
  {
    method: 'GET',
    path: '/local/config',
    summary: 'The configuration in force, without the credentials that no command uses',
    answers: { 200: [] },
    isLocal: true,
    run: (_, { supervision }) => supervision.forCommands(),
  },
  {
    method: 'GET',
    path: '/local/rests',
    summary: 'The targets that rest, and what was learned of targets',
    answers: { 200: [] },
    isLocal: true,
    run: (_, { supervision }) => {
      const { config, rests, isLedgerUp: ledgerUp } = supervision.state()
      return { rests, ledgerUp, learned: learnedOf(config, supervision) }
    },
  },
  {
    method: 'POST',
    path: '/local/alerts-test',
    summary: 'Post one alert to each hook',
    answers: { 200: [] },
    isLocal: true,
    run: async (_, { supervision }) => ({ hooks: await supervision.testAlerts() }),
  },
]

/** Every path below `/api` but that of the document, and those of commands. */
export const OPERATIONS: readonly Operation[] = [...reports, ...changes, ...local]

function keysOf({ by }: Call, { supervision }: OperationParts): KeyAdministration {
  return new KeyAdministration(supervision.state().config, by)
}

function textOf(value: string | boolean | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined
}

async function usage({ query }: Call, { supervision }: OperationParts): Promise<object> {
  const options = valid(usageOptions(query, Date.now()))
  const groups = await readUsage(supervision.state().config, options, USAGE_ROWS_MAX).catch((error: unknown) => {
    throw error instanceof TooManyRows ? new AdminError(422, 'too_many_rows', error.message) : error
  })
  return usageReport(options, options.by, groups)
}

async function requests({ query, request }: Call, { supervision }: OperationParts): Promise<object> {
  const options = valid(auditOptions(query, Date.now()))
  const isOver = () => request.signal.aborted
  const { rows } = await withLedger(openAuditLog, supervision.state().config, (log) => lastRows(log, options, isOver))
  return { rows: rows.map(auditLine) }
}

/** The log lines of the last requests, from the workers. */
async function recent({ query }: Call, { supervision }: OperationParts): Promise<object> {
  const other = Object.keys(query).find((name) => name !== 'recent')
  if (other !== undefined) throw badQuery(`recent excludes ${other}`)
  const lines = await supervision.recent(Number(query['recent']))
  return { rows: lines.map((line): unknown => JSON.parse(line)) }
}

async function explain({ query }: Call, { supervision }: OperationParts): Promise<object> {
  const { key, model, conversation, tier } = query
  const needs = valid(needsOf(query))
  const { config, rests: resting, isLedgerUp } = supervision.state()
  const learned = learnedOf(config, supervision)
  try {
    return await explainRequest(config, {
      ...{ key: String(key), model: String(model), needs, resting, learned, isLedgerUp },
      conversation: textOf(conversation),
      tier: textOf(tier),
      tags: textOf(query['tags']),
    })
  } catch (error) {
    throw error instanceof UnknownKey ? new AdminError(404, 'unknown_key', error.message) : error
  }
}

/** The target of the configuration, or the model of one of its patterns. Throws `AdminError` 404. */
function targetNamed(config: Config, name: string): TargetRef {
  const targets = targetsOf(config)
  const exact = targets.find((each) => targetKey(each) === name)
  if (exact !== undefined) return exact
  const pattern = targets.find((each) => name.startsWith(prefixOf(targetKey(each)) ?? `${name}/`))
  if (pattern !== undefined) return { ...pattern, concrete: name.slice(pattern.provider.length + 1) }
  throw new AdminError(404, 'unknown_target', `No target is '${name}'. GET /api/targets lists all of them.`)
}

/** What was learned of all targets of the configuration. */
function learnedOf(config: Config, supervision: Supervision): readonly LearnedField[] {
  return targetsOf(config).flatMap((target) =>
    supervision
      .formsOf(target)
      .map(({ model, field, untilMs }) => ({ provider: target.provider, model, field, untilMs })),
  )
}

function decoded(id: string): string {
  try {
    return decodeURIComponent(id)
  } catch {
    return id
  }
}

/** Throws `AdminError` 400 with what is wrong with the parameters, which have no dashes in a query. */
function valid<Options extends object>(options: Options | string): Options {
  if (typeof options !== 'string') return options
  throw badQuery(options.replace(/(?<!\S)--(?=[a-z])/g, ''))
}
