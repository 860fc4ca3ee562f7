/**
 * The admin port: health checks, metrics and the admin API. It never serves the inference API. Every error that it
 * answers, also for an unknown path, has one form.
 */

import { errorFields, type Logger } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'
import { REFERENCE_PATHS } from '../reference/reference-paths.ts'
import { LedgerProblem } from '../reports/ledger-part.ts'
import { AdminAccess } from './admin-access.ts'
import { AdminData } from './admin-data.ts'
import { apiRoutes } from './api-routes.ts'
import { consoleRoutes, isConsolePath } from './console-routes.ts'
import { EventHub } from './event-hub.ts'
import { AdminError, COMMON_HEADERS, errorAnswer, json } from './json-answers.ts'
import { keysRoutes } from './keys-routes.ts'
import type { Metrics } from './metrics.ts'
import { organizationsRoutes } from './organizations-routes.ts'
import { referenceRoutes } from './reference-routes.ts'
import { reportRoutes } from './report-routes.ts'
import { addressed, checkLength, checkPath, notFound } from './request-reading.ts'
import { newRoutes } from './route-group.ts'
import { spendReader } from './spend-figures.ts'
import type { Supervision } from './supervision.ts'

export interface Admin {
  readonly address: { readonly host: string; readonly port: number }
  /** Takes log lines of requests, each one line of JSON, and how many others ended. */
  readonly requests: (lines: readonly string[], omitted: number) => void
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
/** Wrong tokens are logged at most this often. */
const WRONG_TOKEN_MS = 60_000

const PUBLIC: readonly string[] = REFERENCE_PATHS

/** Answers a request of the admin port. */
type AdminHandler = (request: Request, remote?: string) => Promise<Response>

export function createAdmin(parts: AdminParts): {
  readonly answer: AdminHandler
  readonly events: EventHub
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
    isPublic: (path) => PUBLIC.includes(path) || isConsolePath(path),
    onWrongToken: (remote) => wrongTokens.add(remote),
  })
  const app = routes(parts, data, events, (request) => access.actorOf(request))
  const methods = methodsByPath(app.routes)
  const answer: AdminHandler = async (given, remote = 'unknown') => {
    const request = addressed(given)
    const path = new URL(request.url).pathname
    try {
      access.check(request, path, remote)
      checkLength(request)
      checkPath(path)
      checkMethod(request.method, path, methods)
      const isProbe = request.method === 'HEAD'
      const answer = await app.handle(isProbe ? new Request(request, { method: 'GET' }) : request)
      return isProbe ? new Response(null, answer) : answer
    } catch (error) {
      return errorAnswer(error instanceof AdminError ? error : internalError(parts.logger, path, error))
    }
  }
  const close = () => {
    events.close()
    data.close()
  }
  const paths = app.routes.map(({ method, path }) => `${method} ${path}`)
  return { answer, events, paths, close }
}

function routes(
  { supervision, logger }: AdminParts,
  data: AdminData,
  events: EventHub,
  actorOf: (request: Request) => string,
) {
  let metrics: Metrics | undefined
  const probes = newRoutes()
    .onError(({ error, code, path }) => {
      if (error instanceof AdminError) return errorAnswer(error)
      if (error instanceof LedgerProblem) return errorAnswer(new AdminError(503, 'ledger_unavailable', error.message))
      return errorAnswer(code === 'NOT_FOUND' ? notFound() : internalError(logger, path, error))
    })
    .get('/healthz', () => json(200, { alive: true }))
    .get('/readyz', async () => {
      const found = await supervision.reasons()
      return found.length === 0 ? json(200, { ready: true }) : json(503, { ready: false, reasons: found })
    })
    .get('/metrics', async () => {
      metrics ??= await metricsOf(supervision, data)
      const { text, type } = await metrics.text()
      return new Response(text, { headers: { 'content-type': type, ...COMMON_HEADERS } })
    })
  return probes
    .use(consoleRoutes())
    .use(apiRoutes({ data, events, supervision, actorOf }))
    .use(reportRoutes(supervision))
    .use(keysRoutes(() => supervision.state().config, actorOf))
    .use(organizationsRoutes(() => supervision.state().config, actorOf))
    .use(referenceRoutes())
}

/** Loads the package on first use: it takes 70 ms, which every start would pay for. */
async function metricsOf(supervision: Supervision, data: AdminData): Promise<Metrics> {
  const { Metrics } = await import('./metrics.ts')
  const spend = spendReader(() => supervision.state().config)
  return new Metrics(async () => {
    const [rows, limits] = await Promise.all([spend(), data.spendLimits()])
    return { ...supervision.figures(), spend: rows, limits }
  })
}

/** Listens on the admin port exclusively, so that a second weir on it fails. Throws what `Bun.serve` throws. */
export function openAdmin(address: { readonly host: string; readonly port: number }, parts: AdminParts): Admin {
  const { answer, events, close } = createAdmin(parts)
  const server = Bun.serve({
    hostname: address.host,
    port: address.port,
    // Explicit, because with `development: false` alone Bun shares the port with other processes.
    reusePort: false,
    development: false,
    idleTimeout: IDLE_SECONDS,
    maxRequestBodySize: BUN_BODY_BYTES_MAX,
    fetch: (request, self) => answer(request, self.requestIP(request)?.address),
  })
  return {
    address: { host: address.host, port: server.port ?? address.port },
    requests: (lines, omitted) => events.requests(lines, omitted),
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
