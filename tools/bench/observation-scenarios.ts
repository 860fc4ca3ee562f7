/** What it costs weir to be watched: metrics, traces, an open console. */

import { join } from 'node:path'
import { type Bare, compared } from './ledger-scenarios.ts'
import { type Server, startWeir } from './processes.ts'
import type { Measurement } from './rounds.ts'

const WITHOUT_METRICS = { BUN_OPTIONS: `--preload ${join(import.meta.dir, 'without-metrics.ts')}` }

/** Metrics are always on: the baseline is a weir whose counting was replaced by nothing. */
export async function metrics(bare: Bare): Promise<readonly Measurement[]> {
  await using blind = await startWeir(bare.provider, { env: WITHOUT_METRICS })
  await using counting = await startWeir(bare.provider)
  const baseline: Server = { ...blind, name: 'weir without metrics' }
  return await compared(bare, baseline, counting, 'small JSON, metrics beside none', 1.02)
}

/** With metrics, traces of a request in a hundred, a console that is open, and Prometheus. */
export async function observed(bare: Bare): Promise<readonly Measurement[]> {
  using collector = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => Response.json({}) })
  const tracing = { endpoint: `http://127.0.0.1:${collector.port}`, sample: 0.01 }
  await using blind = await startWeir(bare.provider, { env: WITHOUT_METRICS })
  await using watched = await startWeir(bare.provider, { config: { tracing } })
  const ended = new AbortController()
  const console = readAll(`${watched.admin}/api/events`, ended.signal)
  const scrapes = setInterval(() => void fetch(`${watched.admin}/metrics`).then((answer) => answer.text()), 5000)
  try {
    const baseline: Server = { ...blind, name: 'weir without metrics' }
    return await compared(bare, baseline, watched, 'small JSON, metrics, traces and console beside none', 1.05)
  } finally {
    clearInterval(scrapes)
    ended.abort()
    await console
  }
}

/** Reads a stream until it is aborted. */
async function readAll(url: string, signal: AbortSignal): Promise<void> {
  try {
    const { body } = await fetch(url, { signal })
    for await (const _ of body ?? []);
  } catch (error) {
    if (!signal.aborted) throw error
  }
}
