/** Several workers with the embedded ledger: the process that owns it, its death, and its end. */

import { expect, test } from 'bun:test'
import fs from 'node:fs/promises'
import { RedisServer } from '../support/redis.ts'
import { COST_MICRO_USD, pacedProvider, pricedConfiguration, SteadyLoad, usageOf } from './steady-load.ts'
import { until, Weir } from './weir.ts'

const TWO = ['--workers', '2']

/** `Z` for a process that has ended and that its parent has not noticed yet. */
async function stateOf(pid: number): Promise<string | undefined> {
  const stat = await fs.readFile(`/proc/${pid}/stat`, 'latin1')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[0]
}

function loadOn(weir: Weir): SteadyLoad {
  const port = Number(new URL(weir.address).port)
  return new SteadyLoad({ port, streams: 10, connectionsPerSecond: 50, kept: 10 })
}

test('the owner is killed under load: no request fails, and every one is charged once', async () => {
  using upstream = pacedProvider(2)
  await using weir = await Weir.ready(pricedConfiguration(upstream.baseUrl, 'embedded'), TWO)
  const load = loadOn(weir)
  for (let deaths = 1; deaths <= 3; deaths++) {
    await until(() => load.answered > 60 * deaths)
    const owner = await weir.ledgerOwner()
    if (owner !== undefined) process.kill(owner, 'SIGKILL')
    expect(await weir.line('process of the ledger died', deaths)).toMatchObject({
      event: 'ledger.owner_died',
      pid: owner,
      how: 'signal SIGKILL',
    })
    // The line that ends the alarm.
    expect(await weir.line('process of the ledger restarted', deaths)).toMatchObject({
      ...{ level: 'info', event: 'ledger.owner_restarted', ms: expect.any(Number), pid: await weir.ledgerOwner() },
    })
  }
  await load.finish()
  expect(load.failures.slice(0, 5)).toEqual([])
  expect(await usageOf(weir)).toEqual({ requests: load.answered, cost_micro_usd: load.answered * COST_MICRO_USD })
  expect((await weir.readyz()).status).toBe(200)
})

test('SIGTERM ends the owner after the workers, and nothing is lost', async () => {
  using upstream = pacedProvider(1)
  await using weir = await Weir.ready(pricedConfiguration(upstream.baseUrl, 'embedded'), TWO)
  const load = loadOn(weir)
  await until(() => load.answered > 60)
  await load.finish()
  weir.signal('SIGTERM')
  expect((await weir.ended).code).toBe(0)
  expect(weir.all('process of the ledger died')).toEqual([])
  expect(await usageOf(weir)).toEqual({ requests: load.answered, cost_micro_usd: load.answered * COST_MICRO_USD })
})

test('if the supervisor is killed, the owner ends after the workers, and a new weir can start', async () => {
  using upstream = pacedProvider(1)
  const config = pricedConfiguration(upstream.baseUrl, 'embedded')
  await using weir = await Weir.ready(config, TWO)
  const owner = await weir.ledgerOwner()
  weir.signal('SIGKILL')
  await weir.ended
  await using next = await Weir.ready(config, TWO, { folder: weir.folder })
  expect(await next.models()).toEqual(['small'])
  expect(await next.ledgerOwner()).not.toBe(owner)
})

test('a ledger that another weir owns is one clear problem', async () => {
  using upstream = pacedProvider(1)
  const config = pricedConfiguration(upstream.baseUrl, 'embedded')
  await using weir = await Weir.ready(config, TWO)
  await using second = await Weir.start(config, TWO, { folder: weir.folder })
  const { code, stderr } = await second.ended
  expect(code).toBe(1)
  expect(stderr).toContain('is in use by another process')
  expect(await weir.models()).toEqual(['small'])
})

test.each(['embedded', 'Redis'])('%s: all workers are killed at once, and new ones serve', async (kind) => {
  await using redis = await RedisServer.start()
  using upstream = pacedProvider(1)
  const ledger = kind === 'Redis' ? `{ redis: "${redis.url}" }` : kind
  await using weir = await Weir.ready(pricedConfiguration(upstream.baseUrl, ledger), ['--workers', '3'])
  for (let deaths = 3; deaths <= 9; deaths += 3) {
    const workers = await weir.workers()
    // The supervisor then finds all of them dead in one turn.
    weir.signal('SIGSTOP')
    for (const pid of workers) process.kill(pid, 'SIGKILL')
    await until(async () => (await Promise.all(workers.map(stateOf))).every((state) => state === 'Z'))
    weir.signal('SIGCONT')
    await weir.line('worker died', deaths)
    await until(async () => (await weir.readyz()).status === 200)
  }
  expect(await weir.models()).toEqual(['small'])
})
