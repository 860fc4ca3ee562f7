/** The admin port: whether the program lives, whether it is ready, and its figures. It never answers for the inference API. */

import { Elysia } from 'elysia'
import type { Figures, Metrics } from './metrics.ts'

export interface Admin {
  readonly address: { readonly host: string; readonly port: number }
  stop(): Promise<void>
}

/** What the port tells of. */
interface AdminParts {
  /** Why the program is not ready: none where it is. */
  readonly reasons: () => Promise<readonly string[]>
  readonly figures: () => Figures
}

/** The admin API. */
export function createAdmin({ reasons, figures }: AdminParts) {
  let metrics: Metrics | undefined
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
    .get('/metrics', async () => {
      metrics ??= await metricsOf(figures)
      const { text, type } = await metrics.text()
      return new Response(text, { headers: { 'content-type': type, 'cache-control': 'no-store' } })
    })
}

/** Its package takes 70 ms to load, which would be part of every start. */
async function metricsOf(figures: AdminParts['figures']): Promise<Metrics> {
  const { Metrics } = await import('./metrics.ts')
  return new Metrics(figures)
}

/** Listens on the admin port: alone, so that a second program there is noticed. Throws what `Bun.serve` throws. */
export function openAdmin(address: { readonly host: string; readonly port: number }, parts: AdminParts): Admin {
  const app = createAdmin(parts)
  const server = Bun.serve({
    hostname: address.host,
    port: address.port,
    // Said aloud: with `development: false` alone Bun shares the port with whoever else does.
    reusePort: false,
    development: false,
    fetch: app.fetch,
  })
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
