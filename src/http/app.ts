/** The public port: exact paths and their methods, and the answer to every other path and method. */

import type { Server } from 'bun'
import { Elysia } from 'elysia'
import { CallerError } from '../core/caller-error.ts'
import type { ImageKind } from '../core/image-request.ts'
import type { DialectName } from '../dialects/dialect.ts'
import type { ErrorFamily } from '../dialects/error-body.ts'
import { handleCountTokens } from './count-tokens-endpoint.ts'
import {
  answerProbe,
  type EdgeParts,
  type EdgeState,
  type Endpoint,
  type Handler,
  type RequestContext,
  serve,
} from './edge.ts'
import { handleEmbeddings } from './embeddings-endpoint.ts'
import { handleImages } from './images-endpoint.ts'
import { handleInference } from './inference-endpoint.ts'
import { handleModels } from './models-endpoint.ts'

interface Route extends Endpoint {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly handle: Handler
  /** Whether the path exists in a configuration; absent: always. */
  readonly isOffered?: (parts: EdgeParts) => boolean
  /** The message of the 404 if it is not offered. */
  readonly missing?: string
}

function inference(path: string, name: DialectName): Route {
  const family = name === 'messages' ? 'messages' : 'chat'
  const handle: Handler = (context) => handleInference(context, context.parts.dialects[name])
  return { method: 'POST', path, family, dialect: name, handle }
}

const compact: Route = {
  method: 'POST',
  path: '/v1/responses/compact',
  family: 'chat',
  dialect: 'responses',
  handle(context) {
    const { responses } = context.parts.dialects
    return handleInference(context, { ...responses, read: responses.readCompact })
  },
}

function counting(path: string): Route {
  return { method: 'POST', path, family: 'messages', dialect: 'messages', handle: handleCountTokens }
}

function images(kind: ImageKind): Route {
  const handle: Handler = (context) => handleImages(context, kind)
  return { method: 'POST', path: `/v1/images/${kind}`, family: 'chat', dialect: 'images', handle }
}

/** As if the path did not exist, unless a configured model makes embeddings. */
const embeddings: Route = {
  method: 'POST',
  path: '/v1/embeddings',
  family: 'chat',
  dialect: 'embeddings',
  isOffered: ({ catalog }) => catalog.has('embedding'),
  missing: 'This gateway has no model that makes embeddings, so this path does not exist; ask its operator for one.',
  handle: handleEmbeddings,
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
  embeddings,
]

type Fetch = (request: Request, server: Server<undefined>) => Response | Promise<Response>

export interface App {
  /** Serves every request. */
  readonly fetch: Fetch
  /**
   * The endpoints of `fetch` once more, for Bun's own router, which needs 3 µs a request less than Elysia's. What it
   * does not find goes to `fetch`.
   */
  readonly routes: Readonly<Record<string, Readonly<Record<string, Fetch>>>>
}

/**
 * The app over a state that a reload changes. Elysia routes by the exact path; a handler takes the raw request and
 * returns a `Response`. Everything without a route goes to `rejectOther`, whatever its method.
 */
export function createApp(state: EdgeState): App {
  let server: Server<undefined> | undefined
  state.peerOf = (request) => server?.requestIP(request)?.address ?? 'unknown'
  const app = new Elysia({
    strictPath: true,
    systemRouter: false,
    precompile: true,
    handler: { standardHostname: false },
  })
  const served = (request: Request, endpoint: Endpoint, handle: Handler) => {
    if (server === undefined) throw new Error('a request came before the server')
    return serve(state, request, server, endpoint, handle)
  }
  const guarded = (request: Request, endpoint: Endpoint, handle: Handler) =>
    served(request, endpoint, isHost(request.headers.get('host')) ? handle : rejectHost)
  const native: Record<string, Record<string, Fetch>> = {}
  for (const route of routes) {
    const handle = handlerOf(route)
    app.route(route.method, route.path, ({ request }) => guarded(request, route, handle), { parse: 'none' })
    native[route.path] = {
      [route.method]: (request: Request, from: Server<undefined>) => {
        server = from
        return guarded(request, route, handle)
      },
      // Bun would call the `GET` route of the path, and so would Elysia.
      HEAD: (request: Request) => answerProbe(state, request, route.dialect),
    }
  }
  app.all('/*', ({ request }) => guarded(request, endpointOf(pathOf(request.url)), rejectOther), { parse: 'none' })
  // Elysia compiles its handler at every read of `fetch`.
  const { fetch: route } = app.compile()
  return {
    routes: native,
    fetch(request, from) {
      server = from
      if (request.method === 'HEAD') return answerProbe(state, request, endpointOf(pathOf(request.url)).dialect)
      return route(request)
    },
  }
}

/** A name or an address, and perhaps a port. Two fields arrive joined by a comma, which does not match. */
const HOST = /^(?:[\w.~-]+|\[[\dA-Fa-f:.]+\])(?::\d{0,5})?$/

/**
 * weir does not use the Host, but a server in front that reads another host from the same bytes may have routed by it
 * (RFC 9112, section 3.2). 50 ns a request.
 */
function isHost(host: string | null): boolean {
  return host !== null && HOST.test(host)
}

function rejectHost(): never {
  const message = 'A request names its host once: send one Host header, a name and perhaps a port.'
  throw new CallerError('invalid_host', message)
}

function routeOf(path: string): Route | undefined {
  return routes.find((known) => known.path === path)
}

function endpointOf(path: string): Endpoint {
  return routeOf(path) ?? { family: familyOf(path), dialect: undefined }
}

function handlerOf({ handle, isOffered }: Route): Handler {
  if (isOffered === undefined) return handle
  return (context) => (isOffered(context.parts) ? handle(context) : rejectOther(context))
}

/** A known path with another method is 405, all else 404. */
function rejectOther({ request, parts }: RequestContext): never {
  const path = pathOf(request.url)
  const route = routeOf(path)
  if (route === undefined || route.isOffered?.(parts) === false)
    throw new CallerError('unknown_path', route?.missing ?? nothingAt(path))
  if (request.headers.get('upgrade')?.toLowerCase() === 'websocket') {
    throw new CallerError('upgrade_required', 'This API speaks plain HTTP; there are no websockets here.')
  }
  const message = `This path takes ${route.method}, not ${request.method}.`
  throw new CallerError('method_not_allowed', message, { headers: { allow: route.method } })
}

function nothingAt(path: string): string {
  return path.startsWith('/v1/models/')
    ? 'Single models cannot be requested: GET /v1/models lists all that this API key may use.'
    : 'There is nothing at this path; the paths of this API are exact and begin with /v1.'
}

function familyOf(path: string): ErrorFamily {
  return path.startsWith('/anthropic/') || path.startsWith('/v1/messages') ? 'messages' : 'chat'
}

/**
 * The path of a URL without its query. Not by `new URL`, which throws on a strange Host; without a Host, Bun gives the
 * bare path.
 */
function pathOf(url: string): string {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3)
  if (start === -1) return '/'
  const query = url.indexOf('?', start)
  return query === -1 ? url.slice(start) : url.slice(start, query)
}
