/** The public port: exact paths and their methods, and the answer to every other path and method. */

import type { Server, WebSocketHandler } from 'bun'
import { Elysia } from 'elysia'
import { CallerError } from '../core/caller-error.ts'
import type { ImageKind } from '../core/image-request.ts'
import type { DialectName } from '../dialects/dialect.ts'
import type { ErrorFamily } from '../dialects/error-body.ts'
import { answerProbe, type Handler, HttpRequest } from './http-request.ts'
import { runAnthropicModels, runChat, runCount, runEmbeddings, runImages, runModels } from './inference-endpoints.ts'
import type { ApiPath, EdgeParts, EdgeState, RequestLife, Run } from './request-life.ts'
import type { SocketConnection } from './socket-connection.ts'
import { Sockets } from './sockets.ts'

/** One method of one path. A `GET` has no body. */
export interface Route extends ApiPath {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly run: Run
  /** A handshake of a WebSocket, which has no answer but the connection; all else is refused as without this route. */
  readonly isSocket?: boolean
  /** Whether it exists in a configuration; absent: always. */
  readonly isOffered?: (parts: EdgeParts) => boolean
  /** The message of the 404 if it is not offered. */
  readonly missing?: string
}

function inference(path: string, name: DialectName): Route {
  const family = name === 'messages' ? 'messages' : 'chat'
  const run: Run = (life, key, bytes) => runChat(life, key, bytes, life.parts.dialects[name])
  return { method: 'POST', path, family, dialect: name, run }
}

const compact: Route = {
  method: 'POST',
  path: '/v1/responses/compact',
  family: 'chat',
  dialect: 'responses',
  run(life, key, bytes) {
    const { readCompact: read, unparsed } = life.parts.dialects.responses
    return runChat(life, key, bytes, { read, unparsed })
  },
}

function counting(path: string): Route {
  return { method: 'POST', path, family: 'messages', dialect: 'messages', run: runCount }
}

function images(kind: ImageKind): Route {
  const run: Run = (life, key, bytes) => runImages(life, key, bytes, kind)
  return { method: 'POST', path: `/v1/images/${kind}`, family: 'chat', dialect: 'images', run }
}

/** As if the path did not exist, unless a configured model makes embeddings. */
const embeddings: Route = {
  method: 'POST',
  path: '/v1/embeddings',
  family: 'chat',
  dialect: 'embeddings',
  isOffered: ({ gateway }) => gateway.catalog.has('embedding'),
  missing: 'This gateway has no model that makes embeddings, so this path does not exist; ask its operator for one.',
  run: runEmbeddings,
}

const ROUTES: readonly Route[] = [
  { method: 'GET', path: '/v1/models', family: 'chat', dialect: 'models', run: runModels },
  { method: 'GET', path: '/anthropic/v1/models', family: 'messages', dialect: 'models', run: runAnthropicModels },
  inference('/v1/chat/completions', 'chat'),
  inference('/v1/responses', 'responses'),
  {
    ...{ method: 'GET', path: '/v1/responses', family: 'chat', dialect: 'responses', isSocket: true },
    isOffered: ({ sockets }) => sockets.isOffered,
    run: () => {},
  },
  compact,
  inference('/v1/messages', 'messages'),
  inference('/anthropic/v1/messages', 'messages'),
  counting('/v1/messages/count_tokens'),
  counting('/anthropic/v1/messages/count_tokens'),
  images('generations'),
  images('edits'),
  embeddings,
]

type Fetch = (request: Request, server: Server<SocketConnection>) => Response | Promise<Response> | undefined

export interface App {
  /** Serves every request. */
  readonly fetch: Fetch
  /**
   * The endpoints of `fetch` once more, for Bun's own router, which needs 3 µs a request less than Elysia's. What it
   * does not find goes to `fetch`.
   */
  readonly routes: Readonly<Record<string, Readonly<Record<string, Fetch>>>>
  readonly websocket: WebSocketHandler<SocketConnection>
  readonly sockets: Sockets
}

/**
 * The app over a state that a reload changes. Each route is registered once: with Elysia and, by the same row, with
 * Bun's router. What no route takes is refused, whatever its method. Throws if two routes have one path and method.
 */
export function createApp(state: EdgeState, routes: readonly Route[] = ROUTES): App {
  let server: Server<SocketConnection> | undefined
  state.peerOf = (request) => server?.requestIP(request)?.address ?? 'unknown'
  const app = new Elysia({
    strictPath: true,
    systemRouter: false,
    precompile: true,
    handler: { standardHostname: false },
  })
  const serve = (request: Request, endpoint: ApiPath, handle: Handler) => {
    if (server === undefined) throw new Error('a request came before the server')
    const http = new HttpRequest(state, request, server, endpoint)
    return http.serve(isHost(request.headers.get('host')) ? handle : rejectHost)
  }
  const sockets = new Sockets(state)
  const byPath = Map.groupBy(routes, ({ path }) => path)
  const refuse: Handler = ({ life }) => rejectOther(life, byPath.get(pathOf(life.head.url)) ?? [])
  const native: Record<string, Record<string, Fetch>> = {}
  for (const route of routes) {
    const { method, path } = route
    // The later one would silently replace the earlier.
    if (native[path]?.[method] !== undefined) throw new Error(`${method} ${path} has two routes`)
    const handle = handlerOf(route, refuse, sockets)
    // Only Bun's router has a connection that can become a socket.
    if (!route.isSocket) app.route(method, path, ({ request }) => serve(request, route, handle), { parse: 'none' })
    // Bun would call the `GET` route of the path for a `HEAD`, and so would Elysia.
    native[path] ??= { HEAD: (request) => answerProbe(state, request, route) }
    native[path][method] = (request, from) => {
      server = from
      return serve(request, route, handle)
    }
  }
  const apiPathOf = ({ url }: Request): ApiPath =>
    byPath.get(pathOf(url))?.[0] ?? { family: familyOf(pathOf(url)), dialect: undefined }
  app.all('/*', ({ request }) => serve(request, apiPathOf(request), refuse), { parse: 'none' })
  // Elysia compiles its handler at every read of `fetch`.
  const { fetch: route } = app.compile()
  return {
    sockets,
    websocket: sockets.handler,
    routes: native,
    fetch(request, from) {
      server = from
      return request.method === 'HEAD' ? answerProbe(state, request, apiPathOf(request)) : route(request)
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

function handlerOf({ method, run, isOffered, isSocket }: Route, refuse: Handler, sockets: Sockets): Handler {
  if (isSocket === true)
    return (http) => {
      const isOpened = isHandshake(http.life.head) && isOffered?.(http.life.parts) !== false
      return isOpened ? http.runBare((_, key) => http.upgrade(key, sockets)) : refuse(http)
    }
  const handle: Handler = method === 'GET' ? (http) => http.runBare(run) : (http) => http.receive(run)
  return isOffered === undefined ? handle : (http) => (isOffered(http.life.parts) ? handle(http) : refuse(http))
}

/** A known path with another method is 405, all else 404. */
function rejectOther({ head, parts }: RequestLife, onPath: readonly Route[]): never {
  const path = pathOf(head.url)
  const methods = onPath.flatMap(({ method, isOffered, isSocket }) =>
    isSocket === true || isOffered?.(parts) === false ? [] : [method],
  )
  if (methods.length === 0) throw new CallerError('unknown_path', onPath[0]?.missing ?? nothingAt(path))
  if (isHandshake(head)) throw new CallerError('upgrade_required', 'There are no WebSockets at this path.')
  const message = `This path takes ${methods.join(' or ')}, not ${head.method}.`
  throw new CallerError('method_not_allowed', message, { headers: { allow: methods.join(', ') } })
}

function isHandshake({ headers }: RequestLife['head']): boolean {
  return headers.get('upgrade')?.toLowerCase() === 'websocket'
}

function nothingAt(path: string): string {
  return /^(?:\/anthropic)?\/v1\/models\//.test(path)
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
