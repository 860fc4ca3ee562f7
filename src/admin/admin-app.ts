/**
 * The admin port: health checks, metrics and the admin API. It never serves the inference API. Every error that it
 * answers, also for an unknown path, has one form.
 */

import { Elysia } from 'elysia'
import { CallerAddress } from '../core/caller-address.ts'
import { KeyProblem } from '../core/key-problem.ts'
import type { Changer } from '../keys/admin-audit.ts'
import { errorFields, type Logger } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'
import { LedgerProblem } from '../reports/ledger-part.ts'
import { UnknownKey } from '../reports/request-explanation.ts'
import { TooManyRows } from '../reports/usage-options.ts'
import { AdminAccess } from './admin-access.ts'
import { AdminData } from './admin-data.ts'
import type { FiguresNow } from './api-shapes.ts'
import { EventHub } from './event-hub.ts'
import { AdminError, COMMON_HEADERS, errorAnswer, json } from './json-answers.ts'
import { METRICS_TYPE, metricsText } from './metrics.ts'
import type { Operation, OperationParts } from './operation.ts'
import { OPERATIONS } from './operations.ts'
import { isPage, PAGE_PATHS, pageAnswer } from './pages.ts'
import { addressed, bodyOf, checkLength, checkPath, notFound, queryOf } from './request-reading.ts'
import { spendReader } from './spend-figures.ts'
import { NodeProblem, type Supervision } from './supervision.ts'
import { priceAges } from './system-series.ts'

export interface Admin {
  readonly address: { readonly host: string; readonly port: number }
  /** What this node does now. */
  readonly figures: () => FiguresNow
  /** Takes log lines of requests, each one line of JSON, and how many others ended. */
  readonly requests: (lines: readonly string[], omitted: number) => void
  /** Answers a request of a user of this machine, who needs no token. */
  readonly answerLocal: (request: Request, actor: string) => Promise<Response>
  stop(): Promise<void>
}

export interface AdminParts {
  readonly logger: Logger
  readonly supervision: Supervision
}

/** No limit: the admin port counts itself, because Bun's own 413 has no body. */
const BUN_BODY_BYTES_MAX = Number.MAX_SAFE_INTEGER
/** A slow read of the ledger takes some seconds. */
const IDLE_SECONDS = 60
/** The longest part of a path that is logged. */
const PATH_CHARS_MAX = 100
/** Reports that are read at a time, and that wait for their turn. */
const READS_MAX = 2
const WAITING_READS_MAX = 20
/** Wrong tokens are logged at most this often. */
const WRONG_TOKEN_MS = 60_000

export function createAdmin(parts: AdminParts): {
  /** Answers a request of the admin port, from an address. */
  readonly answer: (request: Request, remote: string) => Promise<Response>
  readonly answerLocal: Admin['answerLocal']
  readonly events: EventHub
  readonly figures: Admin['figures']
  /** Each method and path that it answers: `GET /api/status`. */
  readonly paths: readonly string[]
  /** Ends every event stream, and the history. */
  readonly close: () => void
} {
  const { supervision } = parts
  const data = new AdminData(supervision)
  const events = new EventHub({
    status: () => data.status(),
    onWatched: (isWatched) => supervision.watch(isWatched),
    onFailed: (error) => logInternalError(parts.logger, '/api/events', error),
  })
  const wrongTokens = new WrongTokens(parts.logger)
  const access = new AdminAccess({
    config: () => supervision.state().config.admin,
    isPublic: isPage,
    onWrongToken: (remote) => wrongTokens.add(remote),
  })
  const app = routes(parts, { data, events, supervision, reads: new ReadQueue() }, access)
  const methods = methodsByPath(app.routes)
  const answerIf = async (given: Request, check: (request: Request, path: string) => void) => {
    const request = addressed(given)
    const path = new URL(request.url).pathname
    try {
      check(request, path)
      checkLength(request)
      checkPath(path)
      checkMethod(request.method, path, methods)
      const isProbe = request.method === 'HEAD'
      const answer = await app.handle(isProbe ? new Request(request, { method: 'GET' }) : request)
      return isProbe ? new Response(null, answer) : answer
    } catch (error) {
      return errorAnswer(adminErrorOf(error) ?? internalError(parts.logger, path, error))
    }
  }
  const close = () => {
    events.close()
    data.close()
  }
  const paths = app.routes.map(({ method, path }) => `${method} ${path}`)
  return {
    answer: (request, remote) => answerIf(request, (each, path) => access.check(each, path, remote)),
    answerLocal: (request, actor) => answerIf(request, (each) => access.trust(each, actor)),
    events,
    figures: () => data.figures(),
    paths,
    close,
  }
}

function routes({ supervision, logger }: AdminParts, parts: OperationParts, access: AdminAccess) {
  const spend = spendReader(() => supervision.state().config)
  // Exact paths alone, and none of Elysia's own.
  const app = new Elysia({ strictPath: true, systemRouter: false, handler: { standardHostname: false } })
    .onError(({ error, code, path }) => {
      const known = code === 'NOT_FOUND' ? notFound() : adminErrorOf(error)
      return errorAnswer(known ?? internalError(logger, path, error))
    })
    .get('/healthz', () => json(200, { alive: true }))
    .get('/readyz', async () => {
      const found = await supervision.reasons()
      return found.length === 0 ? json(200, { ready: true }) : json(503, { ready: false, reasons: found })
    })
    .get('/metrics', async () => {
      const [rows, limits] = await Promise.all([spend(), parts.data.spendLimits()])
      const text = metricsText({
        ...supervision.figures(),
        spend: rows,
        limits,
        priceAges: priceAges(supervision.state().config),
      })
      return new Response(text, { headers: { 'content-type': METRICS_TYPE, ...COMMON_HEADERS } })
    })
    .get('/api/openapi.json', async () => {
      const { adminDocument } = await import('../reference/reference-files.ts')
      return new Response(await adminDocument(), { headers: { 'content-type': 'application/json', ...COMMON_HEADERS } })
    })
  for (const path of PAGE_PATHS) app.get(path, (context) => pageAnswer(context.path))
  for (const operation of OPERATIONS) {
    // Without a parameter in its path a route has no `params`.
    app.route(operation.method, operation.path, ({ request, params }: Matched) =>
      answerOf(operation, request, params?.id ?? '', access.changerOf(request), parts),
    )
  }
  return app
}

interface Matched {
  readonly request: Request
  readonly params?: { readonly id?: string }
}

/** What the row of the table answers. */
async function answerOf(
  { parameters = [], body, answers, isLocal, run }: Operation,
  request: Request,
  id: string,
  by: Changer,
  parts: OperationParts,
): Promise<Response> {
  if (isLocal === true && by.source !== 'cli') throw notFound()
  const query = queryOf(request.url, parameters)
  const call = { request, query, body: body === undefined ? {} : await bodyOf(request), id, by }
  const result = await run(call, parts)
  return result instanceof Response ? result : json(Number(Object.keys(answers)[0]), result)
}

const KEY_PROBLEMS = {
  unknown: [404, 'not_found'],
  exists: [409, 'already_exists'],
  conflict: [409, 'conflict'],
  invalid: [422, 'invalid'],
  unconfirmed: [503, 'unconfirmed'],
} as const satisfies Readonly<Record<KeyProblem['kind'], readonly [number, string]>>

const NODE_PROBLEMS = { unknown: [404, 'unknown_node'], silent: [503, 'node_silent'] } as const

/** Undefined for a bug of weir. */
function adminErrorOf(error: unknown): AdminError | undefined {
  if (error instanceof AdminError) return error
  if (!(error instanceof Error)) return undefined
  const problem = problemOf(error)
  return problem && new AdminError(...problem, error.message)
}

function problemOf(error: Error): readonly [status: number, code: string] | undefined {
  if (error instanceof KeyProblem) return KEY_PROBLEMS[error.kind]
  if (error instanceof NodeProblem) return NODE_PROBLEMS[error.kind]
  if (error instanceof LedgerProblem) return [503, 'ledger_unavailable']
  if (error instanceof UnknownKey) return [404, 'unknown_key']
  return error instanceof TooManyRows ? [422, 'too_many_rows'] : undefined
}

/** Lets only a few reads of the ledger run at a time, so that many askers do not slow each other and weir down. */
class ReadQueue {
  private running = 0
  private readonly waiting: (() => void)[] = []

  /** Runs it when its turn comes. Throws `AdminError` 409 if too many wait. */
  async run<T>(read: () => Promise<T>): Promise<T> {
    if (this.running >= READS_MAX) {
      if (this.waiting.length >= WAITING_READS_MAX)
        throw new AdminError(409, 'busy', 'Too many reports are being read. Try again later.')
      await new Promise<void>((resolve) => this.waiting.push(resolve))
    } else this.running++
    try {
      return await read()
    } finally {
      const next = this.waiting.shift()
      if (next === undefined) this.running--
      else next()
    }
  }
}

/** Addresses of callers as the inference port has them: of the proxies that the configuration in force trusts. */
class Callers {
  private known: { readonly proxies: readonly string[]; readonly address: CallerAddress } | undefined

  constructor(private readonly trusted: () => readonly string[] | undefined) {}

  addressOf({ headers }: Request, peer: string | undefined): string {
    if (peer === undefined) return 'unknown'
    const proxies = this.trusted() ?? NO_PROXIES
    if (this.known?.proxies !== proxies) this.known = { proxies, address: new CallerAddress(proxies) }
    return this.known.address.of(headers, peer)
  }
}

const NO_PROXIES: readonly string[] = []

/** Listens on the admin port exclusively, so that a second weir on it fails. Throws what `Bun.serve` throws. */
export function openAdmin(address: { readonly host: string; readonly port: number }, parts: AdminParts): Admin {
  const { answer, answerLocal, events, figures, close } = createAdmin(parts)
  const callers = new Callers(() => parts.supervision.state().config.listen.trustedProxies)
  const server = Bun.serve({
    hostname: address.host,
    port: address.port,
    // Explicit, because with `development: false` alone Bun shares the port with other processes.
    reusePort: false,
    development: false,
    idleTimeout: IDLE_SECONDS,
    maxRequestBodySize: BUN_BODY_BYTES_MAX,
    fetch: (request, self) => answer(request, callers.addressOf(request, self.requestIP(request)?.address)),
  })
  return {
    address: { host: address.host, port: server.port ?? address.port },
    requests: (lines, omitted) => events.requests(lines, omitted),
    answerLocal,
    figures,
    async stop() {
      close()
      await server.stop(true)
    },
  }
}

/** The methods of each path; a path may have parameters (`/api/keys/:id`). */
function methodsByPath(
  known: readonly { readonly method: string; readonly path: string }[],
): readonly { readonly pattern: RegExp; readonly method: string }[] {
  return known.map(({ method, path }) => ({
    method,
    pattern: new RegExp(`^${path.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/:[A-Za-z]+/g, '[^/]+')}$`),
  }))
}

/** Throws `AdminError` 404 or 405. `HEAD` is for health checks alone: other answers would be computed for nothing. */
function checkMethod(method: string, path: string, known: ReturnType<typeof methodsByPath>): void {
  const allowed = known.filter(({ pattern }) => pattern.test(path)).map((each) => each.method)
  if (allowed.length === 0) throw notFound()
  if (path === '/healthz' || path === '/readyz') allowed.push('HEAD')
  if (allowed.includes(method)) return
  const allow = allowed.join(', ')
  throw new AdminError(405, 'method_not_allowed', `This path takes ${allow}.`, { allow })
}

function internalError(logger: Logger, path: string, error: unknown): AdminError {
  logInternalError(logger, path, error)
  return new AdminError(
    500,
    'internal_error',
    'An internal error occurred; this is a bug in weir. Its details are in the log: look for admin.internal_error.',
  )
}

function logInternalError(logger: Logger, path: string, error: unknown): void {
  logEvent(logger, 'admin.internal_error', { path: path.slice(0, PATH_CHARS_MAX), ...errorFields(error) })
}

/** Logs wrong tokens: the first at once, then their number once a minute. */
class WrongTokens {
  private count = 0
  private loggedMs = Number.NEGATIVE_INFINITY

  constructor(private readonly logger: Logger) {}

  add(remote: string): void {
    this.count++
    const nowMs = performance.now()
    if (nowMs - this.loggedMs < WRONG_TOKEN_MS) return
    logEvent(this.logger, 'admin.token_rejected', { remote, requests: this.count })
    this.count = 0
    this.loggedMs = nowMs
  }
}
