/** The scenarios of the bench. Each runs the gateways in turn, round by round, and returns the medians. */

import type { Dialect } from './dialects.ts'
import { atConstantRate } from './ledger-pace.ts'
import type { Counts } from './load.ts'
import { cpuMs, residentBytes } from './machine.ts'
import {
  Loader,
  type ProviderProcess,
  type RequestKind,
  type Server,
  type ServerWeir,
  startRedis,
  startWeir,
} from './processes.ts'
import { BURST_EVENTS, BURSTS } from './sample-text.ts'

export interface Plan {
  readonly rounds: number
  /** Duration of one round. */
  readonly seconds: number
  /** Warm-up of each gateway before the first round, so that the code is compiled. */
  readonly warmSeconds: number
  readonly pacedStreams: number
  readonly openStreams: number
}

export const FULL: Plan = { rounds: 5, seconds: 4, warmSeconds: 4, pacedStreams: 500, openStreams: 5000 }
export const QUICK: Plan = { rounds: 3, seconds: 1.5, warmSeconds: 1.5, pacedStreams: 500, openStreams: 1000 }

/** By then all streams of a load must have sent their first event. */
const STARTED_MS_MAX = 60_000

/** One measured number of one gateway. */
export interface Figure {
  readonly gateway: string
  readonly value: number
}

export interface Measurement {
  readonly name: string
  readonly unit: string
  readonly figures: readonly Figure[]
  /** The goal for weir's figure divided by the baseline's. */
  readonly ratioMax?: number
  /** The goal for weir's figure. */
  readonly valueMax?: number
}

export interface Setup {
  readonly provider: ProviderProcess
  /** The baseline, then weir. */
  readonly gateways: readonly Server[]
  readonly plan: Plan
}

export type Scenario = (setup: Setup) => Promise<readonly Measurement[]>

export const scenarios: Readonly<Record<string, Scenario>> = {
  latency,
  json,
  burst: (setup) => burst(setup, 'chat', 2.5),
  'messages-burst': (setup) => burst(setup, 'messages', 3),
  'responses-burst': (setup) => burst(setup, 'responses', 3),
  bulk,
  paced: (setup) => paced(setup, 'chat', 1.7),
  'messages-paced': (setup) => paced(setup, 'messages', 1.9),
  'responses-paced': (setup) => paced(setup, 'responses', 1.9),
  open,
}

/** The scenarios whose baseline is weir without limits, or that have none: they start their own processes. */
export const ledgerScenarios: Readonly<
  Record<string, (provider: ProviderProcess, plan: Plan) => Promise<readonly Measurement[]>>
> = {
  limits: (provider, plan) => limits(provider, plan, 'embedded', 1.15),
  'redis-limits': (provider, plan) => limits(provider, plan, 'redis', 1.6),
  reserve,
}

/** Suffix of the name of a scenario whose callers use another dialect than the provider's Chat Completions. */
const CONVERTED: Readonly<Record<Dialect, string>> = {
  chat: '',
  messages: ', as Messages',
  responses: ', as Responses',
}

/** The result of one round of one gateway. */
interface Round {
  readonly cpuMs: number
  readonly answers: number
  readonly events: number
  readonly latencies: readonly number[]
}

const JSON_ANSWER: RequestKind = { kind: 'json', dialect: 'chat' }

async function latency(setup: Setup): Promise<readonly Measurement[]> {
  const all = [setup.provider, ...setup.gateways]
  const rounds = await interleaved(setup, all, (target, seconds) => closedLoop(target, JSON_ANSWER, 1, seconds))
  const direct = rounds.get(setup.provider) ?? []
  return ([50, 99] as const).map((p) => ({
    name: `added latency of a small JSON answer, one at a time, p${p}`,
    unit: 'µs',
    figures: figures(
      setup,
      rounds,
      (one) => percentile(one.latencies, p) - median(direct.map((d) => percentile(d.latencies, p))),
    ),
  }))
}

async function json(setup: Setup): Promise<readonly Measurement[]> {
  const rounds = await interleaved(setup, setup.gateways, (target, seconds) =>
    closedLoop(target, JSON_ANSWER, 32, seconds),
  )
  return [
    {
      name: 'small JSON, 32 connections: CPU a request',
      unit: 'µs',
      ratioMax: 2.5,
      figures: figures(setup, rounds, (one) => (one.cpuMs * 1000) / one.answers),
    },
  ]
}

async function burst(setup: Setup, dialect: Dialect, ratioMax: number): Promise<readonly Measurement[]> {
  const request = { kind: 'burst', dialect } as const
  const rounds = await interleaved(setup, setup.gateways, (target, seconds) => closedLoop(target, request, 32, seconds))
  return [
    {
      name: `streams of ${BURST_EVENTS} events at once${CONVERTED[dialect]}: CPU an event`,
      unit: 'µs',
      ratioMax,
      figures: figures(setup, rounds, (one) => (one.cpuMs * 1000) / one.events),
    },
  ]
}

async function bulk(setup: Setup): Promise<readonly Measurement[]> {
  const request = { kind: 'bulk', dialect: 'chat' } as const
  const rounds = await interleaved(setup, setup.gateways, (target, seconds) => closedLoop(target, request, 8, seconds))
  return [
    {
      name: `streams of ${BURSTS.bulk} × ${BURST_EVENTS} events at once: CPU an event`,
      unit: 'µs',
      figures: figures(setup, rounds, (one) => (one.cpuMs * 1000) / one.events),
    },
  ]
}

async function paced(setup: Setup, dialect: Dialect, ratioMax: number): Promise<readonly Measurement[]> {
  const streams = setup.plan.pacedStreams
  const rounds = await interleaved(setup, setup.gateways, async (target, seconds) => {
    const { round } = await held(setup, target, { kind: 'paced', dialect }, streams, seconds)
    return round
  })
  const name = `${streams} streams of 50 events a second${CONVERTED[dialect]}`
  return [
    {
      name: `${name}: CPU an event`,
      unit: 'µs',
      ratioMax,
      figures: figures(setup, rounds, (one) => (one.cpuMs * 1000) / one.events),
    },
    ...([50, 99] as const).map((p) => ({
      name: `${name}: event under way, p${p}`,
      unit: 'µs',
      figures: figures(setup, rounds, (one) => percentile(one.latencies, p)),
    })),
  ]
}

const SLOW: RequestKind = { kind: 'slow', dialect: 'chat' }

/** Runs once for each gateway: in a second round, memory that the allocator kept would count as free. */
async function open(setup: Setup): Promise<readonly Measurement[]> {
  const streams = setup.plan.openStreams
  const rounds = new Map<Server, Round[]>()
  const memory: Figure[] = []
  for (const gateway of setup.gateways) {
    await closedLoop(gateway, JSON_ANSWER, 32, setup.plan.warmSeconds)
    const { round, grownBytes } = await held(setup, gateway, SLOW, streams, Math.max(setup.plan.seconds, 3))
    rounds.set(gateway, [round])
    memory.push({ gateway: gateway.name, value: grownBytes / streams / 1024 })
  }
  const name = `${streams} open streams of an event a second`
  return [
    { name: `${name}: memory a stream`, unit: 'KiB', valueMax: 60, figures: memory },
    {
      name: `${name}: CPU an event`,
      unit: 'µs',
      figures: figures(setup, rounds, (one) => (one.cpuMs * 1000) / one.events),
    },
  ]
}

/** Small JSON answers with every limit, compared with weir without limits. `weir usage` must count each answer once. */
async function limits(
  provider: ProviderProcess,
  plan: Plan,
  kind: 'embedded' | 'redis',
  ratioMax: number,
): Promise<readonly Measurement[]> {
  await using redis = kind === 'redis' ? await startRedis() : undefined
  await using free = await startWeir(provider)
  await using limited = await startWeir(provider, redis === undefined ? {} : { redis: redis.url })
  const baseline: Server = { ...free, name: 'weir without limits' }
  const setup: Setup = { provider, gateways: [baseline, limited], plan }
  let answers = 0
  const rounds = await interleaved(setup, setup.gateways, async (target, seconds) => {
    const round = await closedLoop(target, JSON_ANSWER, 32, seconds)
    if (target === limited) answers += round.total
    return round
  })
  const name = `small JSON with every limit, ${kind === 'redis' ? 'Redis' : 'embedded'} ledger`
  return [
    {
      name: `${name}: CPU a request, beside weir without`,
      unit: 'µs',
      ratioMax,
      figures: figures(setup, rounds, (one) => (one.cpuMs * 1000) / one.answers),
    },
    { name: `${name}: answers not charged`, unit: '', valueMax: 0, figures: [await lost(limited, answers)] },
  ]
}

async function lost(weir: ServerWeir, answers: number): Promise<Figure> {
  return { gateway: weir.name, value: Math.abs(answers - (await weir.charged())) }
}

/** The ledger without a gateway, at a constant rate. */
async function reserve(_provider: ProviderProcess, { rounds, seconds }: Plan): Promise<readonly Measurement[]> {
  await using redis = await startRedis()
  const all: Measurement[] = []
  for (const [name, url] of [
    ['embedded', undefined],
    ['Redis', redis.url],
  ] as const) {
    const { latenciesMs, lost } = await atConstantRate(1000, rounds * seconds, url)
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

/** Warms up each target, then runs rounds of all targets in turn. */
async function interleaved(
  setup: Setup,
  targets: readonly Server[],
  run: (target: Server, seconds: number) => Promise<Round>,
): Promise<Map<Server, Round[]>> {
  const { rounds, seconds, warmSeconds } = setup.plan
  for (const target of targets) await run(target, warmSeconds)
  const seen = new Map<Server, Round[]>(targets.map((target) => [target, []]))
  for (let round = 0; round < rounds; round++)
    for (const target of targets) seen.get(target)?.push(await run(target, seconds))
  return seen
}

/** Connections that send the next request as soon as they have the answer, for `seconds`. */
async function closedLoop(
  target: Server,
  request: RequestKind,
  connections: number,
  seconds: number,
): Promise<Round & { readonly total: number }> {
  await using loader = await Loader.start()
  loader.open(target, request, connections, true)
  await Bun.sleep(200)
  const round = await measured(loader, target, seconds)
  await loader.stop()
  const counts = await loader.read()
  checkAnswers(counts, target)
  return { ...round, total: counts.answers }
}

/** Streams that are all open at once: measured while all of them send events, then completed. */
async function held(setup: Setup, target: Server, request: RequestKind, streams: number, seconds: number) {
  await using loader = await Loader.start()
  const before = residentBytes(target.pid)
  loader.open(target, request, streams, false)
  const deadline = performance.now() + STARTED_MS_MAX
  for (let counts = await loader.read(); counts.started < streams; counts = await loader.read()) {
    checkAnswers(counts, target)
    if (performance.now() > deadline)
      throw new Error(`${target.name}: only ${counts.started} of ${streams} streams have started`)
    await Bun.sleep(50)
  }
  await Bun.sleep(200)
  await loader.read()
  const round = await measured(loader, target, seconds)
  const grownBytes = residentBytes(target.pid) - before
  setup.provider.finish()
  await loader.stop()
  const counts = await loader.read()
  checkAnswers(counts, target)
  if (counts.answers !== streams)
    throw new Error(`${target.name}: ${counts.answers} of ${streams} streams were complete`)
  return { round, grownBytes }
}

async function measured(loader: Loader, target: Server, seconds: number): Promise<Round> {
  const counts = await loader.read()
  const cpu = cpuMs(target.pid)
  await Bun.sleep(seconds * 1000)
  const used = cpuMs(target.pid) - cpu
  const after = await loader.read()
  checkAnswers(after, target)
  return {
    cpuMs: used,
    answers: after.answers - counts.answers,
    events: after.events - counts.events,
    latencies: after.latencies,
  }
}

/** Throws if an answer was wrong: then the figures mean nothing. */
function checkAnswers(counts: Counts, target: Server): void {
  if (counts.failures > 0)
    throw new Error(`${target.name}: ${counts.failures} answers failed: ${counts.reasons.join('; ')}`)
}

function figures(setup: Setup, rounds: ReadonlyMap<Server, readonly Round[]>, of: (round: Round) => number): Figure[] {
  return setup.gateways.map((gateway) => ({
    gateway: gateway.name,
    value: median((rounds.get(gateway) ?? []).map(of)),
  }))
}

function median(values: readonly number[]): number {
  return percentile(values, 50)
}

function percentile(values: readonly number[], p: number): number {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * p) / 100))] ?? Number.NaN
}
