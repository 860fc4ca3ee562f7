/** The admin port: liveness, readiness and metrics. It never serves the inference API. */

import { Elysia } from 'elysia'
import type { Figures, Metrics } from './metrics.ts'

export interface Admin {
  readonly address: { readonly host: string; readonly port: number }
  stop(): Promise<void>
}

interface AdminParts {
  /** Resolves to why weir is not ready; empty if it is. */
  readonly reasons: () => Promise<readonly string[]>
  readonly figures: () => Figures
}

/** The admin API. */
export function createAdmin({ reasons, figures }: AdminParts) {
  let metrics: Metrics | undefined
  return new Elysia({ strictPath: true, systemRouter: false, handler: { standardHostname: false } })
    .onError(({ code }) =>
      code === 'NOT_FOUND'
        ? json(404, { error: 'not found; the paths are /healthz, /readyz and /metrics' })
        : json(500, { error: 'internal error' }),
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

/** Loads the package on first use: it takes 70 ms, which every start would pay for. */
async function metricsOf(figures: AdminParts['figures']): Promise<Metrics> {
  const { Metrics } = await import('./metrics.ts')
  return new Metrics(figures)
}

/** Listens on the admin port exclusively, so that a second weir on it fails. Throws what `Bun.serve` throws. */
export function openAdmin(address: { readonly host: string; readonly port: number }, parts: AdminParts): Admin {
  const app = createAdmin(parts)
  const server = Bun.serve({
    hostname: address.host,
    port: address.port,
    // Explicit, because with `development: false` alone Bun shares the port with other processes.
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
