/** The app of a worker that was replaced, which closes each kept connection after an answer. */

import type { App } from '../http/app.ts'

/**
 * The handlers of an app, with `connection: close` in every response: Bun then closes the connection after it. A kept
 * connection that is closed at any other time may have a request under way, which its caller would see fail.
 */
export function closingEach({ fetch, routes }: App): App {
  const closing =
    (handler: App['fetch']): App['fetch'] =>
    (request, server) => {
      const response = handler(request, server)
      return response instanceof Promise ? response.then(closed) : closed(response)
    }
  const paths = Object.entries(routes).map(([path, methods]) => {
    const handlers = Object.entries(methods).map(([method, handler]) => [method, closing(handler)] as const)
    return [path, Object.fromEntries(handlers)] as const
  })
  return { fetch: closing(fetch), routes: Object.fromEntries(paths) }
}

function closed(response: Response): Response {
  response.headers.set('connection', 'close')
  return response
}
