/** The scenarios that compare one weir with another, or have no baseline. They start their own processes. */

import { childrenOf, ownCpuMs } from '../../test/support/process-table.ts'
import { largeEmptied, manyEmptied } from './emptied-redis.ts'
import { atConstantRate } from './ledger-pace.ts'
import { garbageOf } from './machine.ts'
import {
  buildExecutable,
  CHECKOUT,
  FOUR_BUDGETS,
  type Loader,
  type ProviderProcess,
  type Server,
  type ServerWeir,
  startRedis,
  startWeir,
  timeStart,
} from './processes.ts'
import {
  closedLoop,
  type Figure,
  figures,
  interleaved,
  type Measurement,
  type Plan,
  perAnswer,
  type Setup,
  warmUp,
} from './rounds.ts'
import { SMALL_JSON } from './scenarios.ts'
import { spliceMeasurements } from './splice.ts'
import { percentile } from './statistics.ts'
import type { Traffic } from './traffic.ts'

/** What such a scenario gets: the setup without gateways. */
export interface Bare {
  readonly provider: ProviderProcess
  readonly loader: Loader
  readonly plan: Plan
}

export const ownScenarios: Readonly<Record<string, (bare: Bare) => Promise<readonly Measurement[]>>> = {
  limits,
  redis,
  budgets,
  'budgets-redis': budgetsWithRedis,
  reserve,
  emptied,
  workers: workersWithRedis,
  'workers-embedded': workersEmbedded,
  splice: spliceMeasurements,
  start,
  idle,
  'garbage-json': (bare) => garbage(bare, SMALL_JSON, 'small JSON', 16),
  'garbage-200k': (bare) =>
    garbage(bare, { ...SMALL_JSON, size: '200k' }, 'conversation of 200 KB, Chat → OpenAI', 400),
}

async function limits(bare: Bare): Promise<readonly Measurement[]> {
  await using free = await startWeir(bare.provider, { free: true })
  await using limited = await startWeir(bare.provider)
  const baseline: Server = { ...free, name: 'weir without limits' }
  return await compared(bare, baseline, limited, 'small JSON, every limit beside none', 1.1)
}

async function redis(bare: Bare): Promise<readonly Measurement[]> {
  await using server = await startRedis()
  await using embedded = await startWeir(bare.provider)
  await using shared = await startWeir(bare.provider, { redis: server.url })
  const baseline: Server = { ...embedded, name: 'weir with the embedded ledger' }
  return await compared(bare, baseline, shared, 'small JSON, Redis beside the embedded ledger', 1.4)
}

async function budgets(bare: Bare): Promise<readonly Measurement[]> {
  await using none = await startWeir(bare.provider)
  await using four = await startWeir(bare.provider, { config: { ...FOUR_BUDGETS } })
  const baseline: Server = { ...none, name: 'weir without budgets' }
  return await compared(bare, baseline, four, 'small JSON, four budgets beside none, embedded ledger', 1.25)
}

async function budgetsWithRedis(bare: Bare): Promise<readonly Measurement[]> {
  await using server = await startRedis()
  await using other = await startRedis()
  await using none = await startWeir(bare.provider, { redis: server.url })
  await using four = await startWeir(bare.provider, { redis: other.url, config: { ...FOUR_BUDGETS } })
  const baseline: Server = { ...none, name: 'weir without budgets' }
  return await compared(bare, baseline, four, 'small JSON, four budgets beside none, Redis', 1.15)
}

/** Small JSON answers of two weirs. `weir usage` of the second must count each answer once. */
export async function compared(bare: Bare, baseline: Server, weir: ServerWeir, name: string, ratioMax: number) {
  const setup: Setup = { ...bare, gateways: [baseline, weir] }
  let answers = 0
  const counted = (target: Server, total: number) => {
    if (target === weir) answers += total
  }
  const rounds = await interleaved(
    setup,
    setup.gateways,
    async (target) => counted(target, await warmUp(setup, target, SMALL_JSON, 32)),
    async (target) => {
      const round = await closedLoop(setup, target, SMALL_JSON, 32)
      counted(target, round.total)
      return round
    },
  )
  const lost: Figure = { gateway: weir.name, value: Math.abs(answers - (await weir.charged())) }
  return [
    { name: `${name}: CPU a request`, unit: 'µs', ratioMax, figures: figures(setup.gateways, rounds, perAnswer) },
    { name: `${name}: answers not charged`, unit: '', valueMax: 0, figures: [lost] },
  ]
}

/** The ledger without a gateway, at a constant rate. */
async function reserve({ plan: { rounds, seconds } }: Bare): Promise<readonly Measurement[]> {
  await using server = await startRedis()
  const all: Measurement[] = []
  for (const [name, url] of [
    ['embedded', undefined],
    ['Redis', server.url],
  ] as const) {
    const { latenciesMs, lost } = await atConstantRate(1000, Math.ceil(rounds * seconds), url)
    const title = `${name} ledger at 1,000 requests a second`
    const one = (value: number): readonly Figure[] => [{ gateway: 'weir', value }]
    all.push(
      { name: `${title}: reserve, p50`, unit: 'ms', figures: one(percentile(latenciesMs, 50)) },
      { name: `${title}: reserve, p99`, unit: 'ms', valueMax: 2, figures: one(percentile(latenciesMs, 99)) },
      { name: `${title}: lost`, unit: '', valueMax: 0, figures: one(lost) },
    )
  }
  return all
}

/** After FLUSHALL under load. */
async function emptied(): Promise<readonly Measurement[]> {
  await using many = await startRedis()
  const { before, after, turnMs } = await manyEmptied(many.url)
  await using large = await startRedis()
  const servedMs = await largeEmptied(large.url)
  const one = (value: number): readonly Figure[] => [{ gateway: 'weir', value }]
  const title = 'FLUSHALL under 2,000 organisations, 850 requests a second'
  const missing = Math.max(0, 100 - (100 * after) / before)
  return [
    { name: `${title}: answers missing in 2 s`, unit: '%', valueMax: 50, figures: one(missing) },
    { name: `${title}: CPU of the longest turn`, unit: 'ms', valueMax: 50, figures: one(turnMs) },
    {
      name: 'organisation with 100,000 rows of usage that Redis lost: served after',
      unit: 'ms',
      figures: one(servedMs),
    },
  ]
}

/**
 * What two workers serve beside one. Load generator, provider and Redis share the cores, so the time of day
 * would measure them: the figure is answers for each second of CPU time of the busiest worker. So much a gateway serves
 * if each worker has a core to itself; connections that are spread unevenly make it smaller.
 */
async function workers(
  bare: Bare,
  { place, busiestMin, cpuMax, redis }: WorkersOptions,
): Promise<readonly Measurement[]> {
  await using single = await startWeir(bare.provider, { redis })
  await using double = await startWeir(bare.provider, { redis, workers: 2 })
  const one: Server = { ...single, name: 'weir with one worker' }
  const setup: Setup = { ...bare, gateways: [one, double] }
  const rounds = await interleaved(
    setup,
    setup.gateways,
    async (target) => {
      // Each worker compiles its own code, so it needs as many requests as the only one of the other gateway.
      const compiled = target === double ? 2 : 1
      for (let i = 0; i < compiled; i++) await warmUp(setup, target, SMALL_JSON, WORKER_CONNECTIONS)
    },
    async (target) => {
      const pids = childrenOf(target.pid)
      const before = pids.map(ownCpuMs)
      const round = await closedLoop(setup, target, SMALL_JSON, WORKER_CONNECTIONS)
      const used = pids.map((pid, at) => ownCpuMs(pid) - (before[at] ?? 0))
      return { ...round, busiestMs: Math.max(...used), usedMs: used.reduce((sum, ms) => sum + ms, 0) }
    },
  )
  const name = `small JSON, two workers beside one, ${WORKER_CONNECTIONS} connections, ${place}`
  return [
    {
      name: `${name}: answers a CPU second of the busiest`,
      unit: '/s',
      ratioMin: busiestMin,
      figures: figures(setup.gateways, rounds, (round) => (round.total * 1000) / round.busiestMs),
    },
    {
      name: `${name}: CPU a request`,
      unit: 'µs',
      ...(cpuMax === undefined ? {} : { ratioMax: cpuMax }),
      figures: figures(setup.gateways, rounds, (round) => (round.usedMs * 1000) / round.total),
    },
    {
      name: `${name}: answers a second, all on these cores`,
      unit: '/s',
      figures: figures(setup.gateways, rounds, (round) => round.answers / round.seconds),
    },
  ]
}

const WORKER_CONNECTIONS = 64

interface WorkersOptions {
  readonly place: string
  /** Goals: answers for each CPU second of the busiest process, and CPU time of all processes for a request. */
  readonly busiestMin: number
  readonly cpuMax?: number
  readonly redis?: string | undefined
}

/** The busiest of two workers must not get more than 5/9 of the work. */
async function workersWithRedis(bare: Bare): Promise<readonly Measurement[]> {
  await using server = await startRedis()
  return await workers(bare, { place: 'Redis', busiestMin: 1.8, redis: server.url })
}

/** The process that owns the ledger counts, too: it must not be the busiest. */
async function workersEmbedded(bare: Bare): Promise<readonly Measurement[]> {
  return await workers(bare, { place: 'embedded ledger', busiestMin: 1.7, cpuMax: 1.25 })
}

/** From the start of the program to the first 200 of `/readyz`, of both forms in turn. */
async function start({ provider, plan }: Bare): Promise<readonly Measurement[]> {
  await using executable = await buildExecutable()
  const built: number[] = []
  const checkout: number[] = []
  for (let round = 0; round < 2 * plan.rounds + 1; round++) {
    built.push(await timeStart([executable.path], provider))
    checkout.push(await timeStart(CHECKOUT, provider))
  }
  const median = (times: readonly number[]) => [{ gateway: 'weir', value: percentile(times, 50) }]
  return [
    { name: 'start of the executable: ready after', unit: 'ms', valueMax: 250, figures: median(built) },
    { name: 'start from a checkout: ready after', unit: 'ms', figures: median(checkout) },
  ]
}

/** CPU time of a gateway without requests: right after some traffic, and later. */
async function idle(bare: Bare): Promise<readonly Measurement[]> {
  await using weir = await startWeir(bare.provider)
  await warmUp({ ...bare, gateways: [weir] }, weir, { ...SMALL_JSON, kind: 'burst' }, 32)
  await Bun.sleep(2000)
  const [worker = weir.pid] = childrenOf(weir.pid)
  const processes = { worker, supervisor: weir.pid }
  const measurements: Measurement[] = []
  for (const when of ['right after a load', 'later']) {
    const before = Object.values(processes).map(ownCpuMs)
    const startedMs = performance.now()
    await Bun.sleep(bare.plan.idleSeconds * 1000)
    const tookMs = performance.now() - startedMs
    for (const [at, [name, pid]] of Object.entries(processes).entries()) {
      const value = ((ownCpuMs(pid) - (before[at] ?? 0)) / tookMs) * 100
      const figures: readonly Figure[] = [{ gateway: 'weir', value }]
      measurements.push({ name: `idle ${name}, ${when}: share of a core`, unit: '%', valueMax: 0.2, figures })
    }
  }
  return measurements
}

/**
 * Memory that a request leaves to the collector: what all collections freed, from the runtime's own log of them. The
 * figure means nothing unless some of them ran.
 */
async function garbage(bare: Bare, traffic: Traffic, name: string, valueMax: number): Promise<readonly Measurement[]> {
  await using weir = await startWeir(bare.provider, { env: { BUN_JSC_logGC: '1', BUN_JSC_useConcurrentGC: '0' } })
  const setup: Setup = { ...bare, gateways: [weir] }
  const connections = traffic.size === 'small' ? 32 : 8
  await warmUp(setup, weir, traffic, connections)
  const before = garbageOf(await weir.errors())
  const answers = await warmUp(setup, weir, traffic, connections)
  const after = garbageOf(await weir.errors())
  if (after.collections - before.collections < 5) throw new Error('too few garbage collections to measure')
  const value = (after.kilobytes - before.kilobytes) / answers
  return [{ name: `${name}: garbage a request`, unit: 'KB', valueMax, figures: [{ gateway: 'weir', value }] }]
}
