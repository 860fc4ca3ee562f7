/** The public port: exact paths and their methods, and what every other one is told. */

import type { Server } from 'bun'
import { Elysia } from 'elysia'
import { CallerError } from '../core/caller-error.ts'
import type { ImageKind } from '../core/image-request.ts'
import type { DialectName } from '../dialects/dialect.ts'
import type { ErrorFamily } from '../dialects/error-body.ts'
import { handleCountTokens } from './count-tokens-endpoint.ts'
import { type EdgeState, type Handled, traceOf, type Visit, visit } from './edge.ts'
import { idHeaders } from './headers.ts'
import { handleImages } from './images-endpoint.ts'
import { handleInference } from './inference-endpoint.ts'
import { handleModels } from './models-endpoint.ts'

type Handler = (visit: Visit, server: Server<undefined>) => Promise<Handled> | Handled

interface Route {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly family: ErrorFamily
  readonly dialect: string
  readonly handle: Handler
}

function inference(path: string, name: DialectName): Route {
  const family = name === 'messages' ? 'messages' : 'chat'
  const handle: Handler = (it, server) => handleInference(it, it.parts.dialects[name].accept, server)
  return { method: 'POST', path, family, dialect: name, handle }
}

const compact: Route = {
  method: 'POST',
  path: '/v1/responses/compact',
  family: 'chat',
  dialect: 'responses',
  handle: (it, server) => handleInference(it, it.parts.dialects.responses.acceptCompact, server),
}

function counting(path: string): Route {
  return { method: 'POST', path, family: 'messages', dialect: 'messages', handle: handleCountTokens }
}

function images(kind: ImageKind): Route {
  const handle: Handler = (it, server) => handleImages(it, kind, server)
  return { method: 'POST', path: `/v1/images/${kind}`, family: 'chat', dialect: 'images', handle }
}

const routes: readonly Route[] = [
  { method: 'GET', path: '/v1/models', family: 'chat', dialect: 'models', handle: handleModels },
  inference('/v1/chat/completions', 'chat'),
  inference('/v1/responses', 'responses'),
  compact,
  inference('/v1/messages', 'messages'),
  inference('/anthropic/v1/messages', 'messages'),
  counting('/v1/messages/count_tokens'),
  counting('/anthropic/v1/messages/count_tokens'),
  images('generations'),
  images('edits'),
]

export interface App {
  readonly fetch: (request: Request, server: Server<undefined>) => Response | Promise<Response>
}

/**
 * The app over a state that a reload changes. Elysia routes by the exact path; a handler gets the raw request and answers with a
 * `Response`. What no route takes ends in `refuseOther`, whatever its method.
 */
export function createApp(state: EdgeState): App {
  let server: Server<undefined> | undefined
  state.remoteOf = (request) => server?.requestIP(request)?.address ?? 'unknown'
  const app = new Elysia({
    strictPath: true,
    systemRouter: false,
    precompile: true,
    handler: { standardHostname: false },
  })
  for (const { method, path, family, dialect, handle } of routes) {
    const enter = ({ request }: { request: Request }) =>
      visit(state, request, { family, dialect }, (it) => {
        if (server === undefined) throw new Error('a request came before the server')
        return handle(it, server)
      })
    app.route(method, path, enter, { parse: 'none' })
  }
  app.all('/*', ({ request }) => refuseOther(state, request), { parse: 'none' })
  // Elysia compiles its handler anew at every look at `fetch`.
  const { fetch: route } = app.compile()
  return {
    fetch(request, from) {
      server = from
      // Elysia would ask the `GET` route of the path.
      if (request.method === 'HEAD') return answerProbe(state, request)
      return isHost(request.headers.get('host')) ? route(request) : refuseHost(state, request)
    },
  }
}

/** `HEAD` answers at once and says nothing, without authentication: agents probe with it. */
function answerProbe(state: EdgeState, request: Request): Response {
  const trace = traceOf(state, request)
  trace.dialect = routeOf(pathOf(request.url))?.dialect
  trace.status = 200
  trace.end('completed')
  return new Response(null, { headers: idHeaders(trace.requestId) })
}

/** A name or an address, and perhaps a port. Two fields arrive joined by a comma. */
const HOST = /^(?:[\w.~-]+|\[[\dA-Fa-f:.]+\])(?::\d{0,5})?$/

/** Nothing depends on the Host; but servers in front that saw another one in these bytes would have (RFC 9112, 3.2). 50 ns a request. */
function isHost(host: string | null): boolean {
  return host !== null && HOST.test(host)
}

function refuseHost(state: EdgeState, request: Request): Response | Promise<Response> {
  const path = pathOf(request.url)
  const dialect = routeOf(path)?.dialect
  return visit(state, request, { family: familyOf(path), ...(dialect !== undefined && { dialect }) }, () => {
    throw new CallerError(
      'invalid_host',
      'A request names its host once: send one Host header, a name and perhaps a port.',
    )
  })
}

function routeOf(path: string): Route | undefined {
  return routes.find((known) => known.path === path)
}

/** A known path with another method is 405, all else 404. */
function refuseOther(state: EdgeState, request: Request): Response | Promise<Response> {
  const path = pathOf(request.url)
  const route = routeOf(path)
  return visit(
    state,
    request,
    { family: route?.family ?? familyOf(path), ...(route && { dialect: route.dialect }) },
    () => {
      if (route === undefined) throw new CallerError('unknown_path', nothingAt(path))
      if (request.headers.get('upgrade')?.toLowerCase() === 'websocket') {
        throw new CallerError('upgrade_required', 'This API speaks plain HTTP; there are no websockets here.')
      }
      const message = `This path takes ${route.method}, not ${request.method}.`
      throw new CallerError('method_not_allowed', message, { headers: { allow: route.method } })
    },
  )
}

function nothingAt(path: string): string {
  return path.startsWith('/v1/models/')
    ? 'Single models cannot be requested: GET /v1/models lists all that this API key may use.'
    : 'There is nothing at this path; the paths of this API are exact and begin with /v1.'
}

function familyOf(path: string): ErrorFamily {
  return path.startsWith('/anthropic/') || path.startsWith('/v1/messages') ? 'messages' : 'chat'
}

/** The path of a URL without its query. Not by `new URL`, which throws on a strange Host; without a Host, Bun gives the bare path. */
function pathOf(url: string): string {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3)
  if (start === -1) return '/'
  const query = url.indexOf('?', start)
  return query === -1 ? url.slice(start) : url.slice(start, query)
}
