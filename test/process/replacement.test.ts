/** SIGUSR2: workers are replaced under load, and nobody notices. */

import { expect, test } from 'bun:test'
import manifest from '../../package.json' with { type: 'json' }
import { RedisServer } from '../support/redis.ts'
import { budgetOf, COST_MICRO_USD, pacedProvider, pricedConfiguration, SteadyLoad, usageOf } from './steady-load.ts'
import { until, Weir } from './weir.ts'

/** More replacements and longer streams than in a usual run. */
const REPLACEMENTS = Number(process.env['WEIR_REPLACEMENTS'] ?? 2)
const STREAM_SECONDS = Number(process.env['WEIR_REPLACEMENT_STREAM_SECONDS'] ?? 3)

test.each([
  ['Redis', 1],
  ['Redis', 2],
  ['embedded', 1],
  ['embedded', 2],
] as const)(
  'ledger %s, workers %d: replaced under load, no request fails and every one is charged',
  async (kind, workers) => {
    await using redis = await RedisServer.start()
    using upstream = pacedProvider(STREAM_SECONDS)
    const ledger = kind === 'Redis' ? `{ redis: "${redis.url}" }` : 'embedded'
    await using weir = await Weir.ready(pricedConfiguration(upstream.baseUrl, ledger), ['--workers', String(workers)])
    const load = new SteadyLoad({
      port: Number(new URL(weir.address).port),
      streams: 20,
      connectionsPerSecond: 50,
      kept: 10,
      sockets: 5,
    })
    let current = await weir.workers()
    for (let count = 1; count <= REPLACEMENTS; count++) {
      await until(() => load.answered > 50 * count)
      weir.signal('SIGUSR2')
      expect(await weir.line('workers replaced', count)).toMatchObject({
        ...{ event: 'workers.replaced', workers, version: expect.stringContaining(manifest.version) },
      })
      const before = current
      current = await weir.workers()
      expect(current.filter((pid) => !before.includes(pid)).length).toBeGreaterThanOrEqual(workers)
    }
    await load.finish()
    expect(load.failures.slice(0, 5)).toEqual([])
    // All of them were answered with `connection: close` by the workers that were replaced.
    expect(load.closed).toBeGreaterThan(0)
    // The old workers end when their last stream has ended.
    await until(async () => (await weir.workers()).length === workers)
    expect(await usageOf(weir)).toEqual({
      requests: load.answered,
      cost_micro_usd: load.answered * COST_MICRO_USD,
    })
    expect(await budgetOf(weir)).toEqual({ used: load.answered * COST_MICRO_USD, held: 0 })
  },
)
