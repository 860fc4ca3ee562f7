/**
 * The table of the admin API: for each operation its address, its parameters, what it answers, and what it runs. The
 * routes and `docs/openapi-admin.json` are made of it, and the commands have the same parameters as flags.
 */

import { openAuditLog } from '../assembly/open-ledger.ts'
import { targetsOf } from '../assembly/targets.ts'
import type { Config } from '../config/config.ts'
import { stringOf } from '../core/json.ts'
import { prefixOf, type TargetRef, targetKey } from '../core/model-config.ts'
import { usageReport } from '../ledger/usage-report.ts'
import { auditLine, auditOptions, lastRows } from '../reports/audit-options.ts'
import type { LearnedField, RoomNow } from '../reports/explanation-words.ts'
import { withLedger } from '../reports/ledger-part.ts'
import {
  AUDIT_PARAMETERS,
  COUNTER_PARAMETERS,
  EXPLAIN_PARAMETERS,
  KEY,
  ORG,
  parameter,
  USAGE_PARAMETERS,
} from '../reports/parameters.ts'
import { explainRequest, needsOf } from '../reports/request-explanation.ts'
import { readUsage, usageOptions } from '../reports/usage-options.ts'
import { AdminError, json } from './json-answers.ts'
import { keyOperations } from './key-operations.ts'
import type { Call, Operation, OperationParts } from './operation.ts'
import { badQuery } from './request-reading.ts'
import type { Supervision } from './supervision.ts'
import { formJson } from './target-rows.ts'

/** As many as the workers keep. */
const RECENT_MAX = 200
const AUDIT_ROWS_MAX = 10_000
const USAGE_ROWS_MAX = 50_000
const BUDGET_ROWS_MAX = 1000

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
        ...{ organization: stringOf(query['org']), key: stringOf(query['key']), search: stringOf(query['search']) },
        ...{ name: stringOf(query['name']), value: stringOf(query['value']) },
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
    summary: 'The targets that rest, what was learned of targets, and what room they have',
    answers: { 200: [] },
    isLocal: true,
    run: async (_, { supervision }) => {
      const ledgerUp = await supervision.isLedgerUp()
      const { config, rests } = supervision.state()
      return { rests, ledgerUp, learned: learnedOf(config, supervision), room: roomOf(supervision) }
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
export const OPERATIONS: readonly Operation[] = [...reports, ...keyOperations, ...changes, ...local]

async function usage({ query }: Call, { supervision }: OperationParts): Promise<object> {
  const options = valid(usageOptions(query, Date.now()))
  return usageReport(options, options.by, await readUsage(supervision.state().config, options, USAGE_ROWS_MAX))
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
  const isLedgerUp = await supervision.isLedgerUp()
  const { config, rests: resting } = supervision.state()
  const learned = learnedOf(config, supervision)
  return await explainRequest(config, {
    ...{ key: String(key), model: String(model), needs, resting, learned, isLedgerUp, room: roomOf(supervision) },
    ...{ conversation: stringOf(conversation), tier: stringOf(tier), tags: stringOf(query['tags']) },
  })
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

/** What is left of the limits of providers, and what waits for it; undefined without such limits. */
function roomOf({ sums }: Supervision): RoomNow | undefined {
  const { left } = sums.gauges()
  return left && { left, queue: sums.queue() }
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
