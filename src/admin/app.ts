/** The admin port: whether the program lives and whether it is ready. It never answers for the inference API. */

import { Elysia } from 'elysia'

export interface Admin {
  readonly address: { readonly host: string; readonly port: number }
  stop(): Promise<void>
}

/** The admin API. `reasons` tells why the program is not ready: none where it is. */
export function createAdmin(reasons: () => Promise<readonly string[]>) {
  return new Elysia({ strictPath: true, systemRouter: false, handler: { standardHostname: false } })
    .onError(({ code }) =>
      code === 'NOT_FOUND'
        ? json(404, { error: 'there is nothing at this path' })
        : json(500, { error: 'this failed' }),
    )
    .get('/healthz', () => json(200, { alive: true }))
    .get('/readyz', async () => {
      const found = await reasons()
      return found.length === 0 ? json(200, { ready: true }) : json(503, { ready: false, reasons: found })
    })
}

/** Listens on the admin port: alone, so that a second program there is noticed. Throws what `Bun.serve` throws. */
export function openAdmin(
  address: { readonly host: string; readonly port: number },
  reasons: () => Promise<readonly string[]>,
): Admin {
  const app = createAdmin(reasons)
  const server = Bun.serve({ hostname: address.host, port: address.port, development: false, fetch: app.fetch })
  return {
    address: { host: address.host, port: server.port ?? address.port },
    stop: () => server.stop(true),
  }
}

function json(status: number, body: Readonly<Record<string, unknown>>): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
  })
}
