/**
 * The paths of the admin API that answer as commands do: `/api/usage`, `/api/requests` and `/api/explain`. Their
 * parameters are the flags of the commands.
 */

import { openAuditLog } from '../assembly/open-ledger.ts'
import { usageReport } from '../ledger/usage-report.ts'
import { auditLine, auditOptions, lastRows } from '../reports/audit-options.ts'
import { withLedger } from '../reports/ledger-part.ts'
import { explainRequest, needsOf, UnknownKey } from '../reports/request-explanation.ts'
import { readUsage, TooManyRows, usageOptions } from '../reports/usage-options.ts'
import { AdminError, json } from './json-answers.ts'
import { badQuery, isSet, queryOf, wholeNumber } from './query-parameters.ts'
import { ReadQueue } from './read-queue.ts'
import { newRoutes } from './route-group.ts'
import type { Supervision } from './supervision.ts'

/** As many as the workers keep. */
const RECENT_MAX = 200
const AUDIT_ROWS_MAX = 10_000
const USAGE_ROWS_MAX = 50_000

type Parts = Pick<Supervision, 'state' | 'recent'>

export function reportRoutes(supervision: Parts) {
  const reads = new ReadQueue()
  return newRoutes()
    .get('/api/usage', ({ request }) => reads.run(() => usage(supervision, request)))
    .get('/api/explain', ({ request }) => reads.run(() => explain(supervision, request)))
    .get('/api/requests', ({ request }) =>
      new URL(request.url).searchParams.has('recent')
        ? recent(supervision, request)
        : reads.run(() => requests(supervision, request)),
    )
}

async function usage(supervision: Parts, request: Request): Promise<Response> {
  const options = valid(usageOptions(queryOf(request.url, ['org', 'key', 'since', 'until', 'by']), Date.now()))
  const groups = await readUsage(supervision.state().config, options, USAGE_ROWS_MAX).catch((error: unknown) => {
    throw error instanceof TooManyRows ? new AdminError(422, 'too_many_rows', error.message) : error
  })
  return json(200, usageReport(options, options.by, groups))
}

async function requests(supervision: Parts, request: Request): Promise<Response> {
  const known = ['recent', 'org', 'key', 'request', 'since', 'until', 'model', 'outcome', 'tag', 'limit']
  const query = queryOf(request.url, known)
  wholeNumber(query, 'limit', 1, AUDIT_ROWS_MAX)
  const options = valid(auditOptions(query, Date.now()))
  const isOver = () => request.signal.aborted
  const { rows } = await withLedger(openAuditLog, supervision.state().config, (log) => lastRows(log, options, isOver))
  return json(200, { rows: rows.map(auditLine) })
}

/** The log lines of the last requests, from the workers. */
async function recent(supervision: Parts, request: Request): Promise<Response> {
  const query = queryOf(request.url, ['recent'])
  const lines = await supervision.recent(wholeNumber(query, 'recent', 1, RECENT_MAX) ?? RECENT_MAX)
  return json(200, { rows: lines.map((line): unknown => JSON.parse(line)) })
}

async function explain(supervision: Parts, request: Request): Promise<Response> {
  const query = queryOf(request.url, [
    'key',
    'model',
    'images',
    'tools',
    'tokens',
    'output-tokens',
    'ttl',
    'conversation',
  ])
  const { key, model, conversation } = query
  if (key === undefined || model === undefined) throw badQuery(`${key === undefined ? 'key' : 'model'} is required`)
  const switches = { images: isSet(query, 'images'), tools: isSet(query, 'tools') }
  const needs = valid(needsOf({ ...query, ...switches }))
  const { config, rests: resting } = supervision.state()
  try {
    return json(200, await explainRequest(config, { key, model, needs, resting, conversation }))
  } catch (error) {
    throw error instanceof UnknownKey ? new AdminError(404, 'unknown_key', error.message) : error
  }
}

/** Throws `AdminError` 400 with what is wrong with the flags. The query has their names without dashes. */
function valid<Options extends object>(options: Options | string): Options {
  if (typeof options !== 'string') return options
  throw badQuery(options.replace(/(?<!\S)--(?=[a-z])/g, ''))
}
