/** The measurements of the bench. Each runs the gateways one after the other, round by round, and gives the medians. */

import type { Dialect } from './dialects.ts'
import { atPace } from './ledger-pace.ts'
import type { Counts } from './load.ts'
import { cpuMs, residentBytes } from './machine.ts'
import {
  type Asked,
  Loader,
  type ProviderProcess,
  type Served,
  type ServedWeir,
  startRedis,
  startWeir,
} from './processes.ts'
import { BURST_EVENTS, BURSTS } from './sample-text.ts'

export interface Plan {
  readonly rounds: number
  /** How long one round measures. */
  readonly seconds: number
  /** How long each gateway is warmed up before the first round: a JIT that has not seen the code measures nothing. */
  readonly warmSeconds: number
  readonly pacedStreams: number
  readonly openStreams: number
}

export const FULL: Plan = { rounds: 5, seconds: 4, warmSeconds: 4, pacedStreams: 500, openStreams: 5000 }
export const QUICK: Plan = { rounds: 3, seconds: 1.5, warmSeconds: 1.5, pacedStreams: 500, openStreams: 1000 }

/** All streams of a load must have begun to speak by then. */
const SPEAKING_MS_MAX = 60_000

/** One measured number of one gateway. */
export interface Figure {
  readonly gateway: string
  readonly value: number
}

export interface Measurement {
  readonly name: string
  readonly unit: string
  readonly figures: readonly Figure[]
  /** Of weir's figure to the pass-through's. */
  readonly ratioMax?: number
  /** Of weir's figure itself. */
  readonly valueMax?: number
}

export interface Stage {
  readonly provider: ProviderProcess
  /** The yardstick, then weir. */
  readonly gateways: readonly Served[]
  readonly plan: Plan
}

export type Scenario = (stage: Stage) => Promise<readonly Measurement[]>

export const scenarios: Readonly<Record<string, Scenario>> = {
  latency,
  json,
  burst: (stage) => burst(stage, 'chat', 2.5),
  'messages-burst': (stage) => burst(stage, 'messages', 3),
  'responses-burst': (stage) => burst(stage, 'responses', 3),
  bulk,
  paced: (stage) => paced(stage, 'chat', 1.7),
  'messages-paced': (stage) => paced(stage, 'messages', 1.9),
  'responses-paced': (stage) => paced(stage, 'responses', 1.9),
  open,
}

/** The scenarios whose yardstick is weir itself, without limits: they start what they need. */
export const ledgerScenarios: Readonly<
  Record<string, (provider: ProviderProcess, plan: Plan) => Promise<readonly Measurement[]>>
> = {
  limits: (provider, plan) => limits(provider, plan, 'embedded', 1.15),
  'redis-limits': (provider, plan) => limits(provider, plan, 'redis', 1.6),
  reserve,
}

/** The provider of the bench speaks Chat Completions; the callers of these rows speak something else. */
const CONVERTED: Readonly<Record<Dialect, string>> = {
  chat: '',
  messages: ', as Messages',
  responses: ', as Responses',
}

/** What one round of one gateway gave. */
interface Round {
  readonly cpuMs: number
  readonly answers: number
  readonly events: number
  readonly latencies: readonly number[]
}

const JSON_ANSWER: Asked = { kind: 'json', dialect: 'chat' }

async function latency(stage: Stage): Promise<readonly Measurement[]> {
  const all = [stage.provider, ...stage.gateways]
  const rounds = await interleaved(stage, all, (target, seconds) => closedLoop(target, JSON_ANSWER, 1, seconds))
  const direct = rounds.get(stage.provider) ?? []
  return ([50, 99] as const).map((p) => ({
    name: `added latency of a small JSON answer, one at a time, p${p}`,
    unit: 'µs',
    figures: figures(
      stage,
      rounds,
      (one) => percentile(one.latencies, p) - median(direct.map((d) => percentile(d.latencies, p))),
    ),
  }))
}

async function json(stage: Stage): Promise<readonly Measurement[]> {
  const rounds = await interleaved(stage, stage.gateways, (target, seconds) =>
    closedLoop(target, JSON_ANSWER, 32, seconds),
  )
  return [
    {
      name: 'small JSON, 32 connections: CPU a request',
      unit: 'µs',
      ratioMax: 2.5,
      figures: figures(stage, rounds, (one) => (one.cpuMs * 1000) / one.answers),
    },
  ]
}

async function burst(stage: Stage, dialect: Dialect, ratioMax: number): Promise<readonly Measurement[]> {
  const ask = { kind: 'burst', dialect } as const
  const rounds = await interleaved(stage, stage.gateways, (target, seconds) => closedLoop(target, ask, 32, seconds))
  return [
    {
      name: `streams of ${BURST_EVENTS} events at once${CONVERTED[dialect]}: CPU an event`,
      unit: 'µs',
      ratioMax,
      figures: figures(stage, rounds, (one) => (one.cpuMs * 1000) / one.events),
    },
  ]
}

async function bulk(stage: Stage): Promise<readonly Measurement[]> {
  const ask = { kind: 'bulk', dialect: 'chat' } as const
  const rounds = await interleaved(stage, stage.gateways, (target, seconds) => closedLoop(target, ask, 8, seconds))
  return [
    {
      name: `streams of ${BURSTS.bulk} × ${BURST_EVENTS} events at once: CPU an event`,
      unit: 'µs',
      figures: figures(stage, rounds, (one) => (one.cpuMs * 1000) / one.events),
    },
  ]
}

async function paced(stage: Stage, dialect: Dialect, ratioMax: number): Promise<readonly Measurement[]> {
  const streams = stage.plan.pacedStreams
  const rounds = await interleaved(stage, stage.gateways, async (target, seconds) => {
    const { round } = await held(stage, target, { kind: 'paced', dialect }, streams, seconds)
    return round
  })
  const name = `${streams} streams of 50 events a second${CONVERTED[dialect]}`
  return [
    {
      name: `${name}: CPU an event`,
      unit: 'µs',
      ratioMax,
      figures: figures(stage, rounds, (one) => (one.cpuMs * 1000) / one.events),
    },
    ...([50, 99] as const).map((p) => ({
      name: `${name}: event under way, p${p}`,
      unit: 'µs',
      figures: figures(stage, rounds, (one) => percentile(one.latencies, p)),
    })),
  ]
}

const SLOW: Asked = { kind: 'slow', dialect: 'chat' }

/** Once for each gateway: memory that was given back to the allocator would be counted as free the second time. */
async function open(stage: Stage): Promise<readonly Measurement[]> {
  const streams = stage.plan.openStreams
  const rounds = new Map<Served, Round[]>()
  const memory: Figure[] = []
  for (const gateway of stage.gateways) {
    await closedLoop(gateway, JSON_ANSWER, 32, stage.plan.warmSeconds)
    const { round, grownBytes } = await held(stage, gateway, SLOW, streams, Math.max(stage.plan.seconds, 3))
    rounds.set(gateway, [round])
    memory.push({ gateway: gateway.name, value: grownBytes / streams / 1024 })
  }
  const name = `${streams} open streams of an event a second`
  return [
    { name: `${name}: memory a stream`, unit: 'KiB', valueMax: 60, figures: memory },
    {
      name: `${name}: CPU an event`,
      unit: 'µs',
      figures: figures(stage, rounds, (one) => (one.cpuMs * 1000) / one.events),
    },
  ]
}

/** Small JSON with every limit there is, beside weir without any. Every answer that a caller got must be in the usage, once. */
async function limits(
  provider: ProviderProcess,
  plan: Plan,
  kind: 'embedded' | 'redis',
  ratioMax: number,
): Promise<readonly Measurement[]> {
  await using redis = kind === 'redis' ? await startRedis() : undefined
  await using free = await startWeir(provider)
  await using limited = await startWeir(provider, redis === undefined ? {} : { redis: redis.url })
  const yardstick: Served = { ...free, name: 'weir without limits' }
  const stage: Stage = { provider, gateways: [yardstick, limited], plan }
  let answers = 0
  const rounds = await interleaved(stage, stage.gateways, async (target, seconds) => {
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
      figures: figures(stage, rounds, (one) => (one.cpuMs * 1000) / one.answers),
    },
    { name: `${name}: answers not charged`, unit: '', valueMax: 0, figures: [await lost(limited, answers)] },
  ]
}

async function lost(weir: ServedWeir, answers: number): Promise<Figure> {
  return { gateway: weir.name, value: Math.abs(answers - (await weir.charged())) }
}

/** The ledger alone, at an even pace. */
async function reserve(_provider: ProviderProcess, { rounds, seconds }: Plan): Promise<readonly Measurement[]> {
  await using redis = await startRedis()
  const all: Measurement[] = []
  for (const [name, url] of [
    ['embedded', undefined],
    ['Redis', redis.url],
  ] as const) {
    const { latenciesMs, lost } = await atPace(1000, rounds * seconds, url)
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

/** Warm-up of each target, then round after round of all of them in turn. */
async function interleaved(
  stage: Stage,
  targets: readonly Served[],
  run: (target: Served, seconds: number) => Promise<Round>,
): Promise<Map<Served, Round[]>> {
  const { rounds, seconds, warmSeconds } = stage.plan
  for (const target of targets) await run(target, warmSeconds)
  const seen = new Map<Served, Round[]>(targets.map((target) => [target, []]))
  for (let round = 0; round < rounds; round++)
    for (const target of targets) seen.get(target)?.push(await run(target, seconds))
  return seen
}

/** Connections that ask again as soon as they are answered, for a while. */
async function closedLoop(
  target: Served,
  asked: Asked,
  connections: number,
  seconds: number,
): Promise<Round & { readonly total: number }> {
  await using loader = await Loader.start()
  loader.open(target, asked, connections, true)
  await Bun.sleep(200)
  const round = await measured(loader, target, seconds)
  await loader.stop()
  const counts = await loader.read()
  right(counts, target)
  return { ...round, total: counts.answers }
}

/** Streams that are all open at once: measured while all of them speak, then ended whole. */
async function held(stage: Stage, target: Served, asked: Asked, streams: number, seconds: number) {
  await using loader = await Loader.start()
  const before = residentBytes(target.pid)
  loader.open(target, asked, streams, false)
  const deadline = performance.now() + SPEAKING_MS_MAX
  for (let counts = await loader.read(); counts.speaking < streams; counts = await loader.read()) {
    right(counts, target)
    if (performance.now() > deadline)
      throw new Error(`${target.name}: only ${counts.speaking} of ${streams} streams speak`)
    await Bun.sleep(50)
  }
  await Bun.sleep(200)
  await loader.read()
  const round = await measured(loader, target, seconds)
  const grownBytes = residentBytes(target.pid) - before
  stage.provider.finish()
  await loader.stop()
  const counts = await loader.read()
  right(counts, target)
  if (counts.answers !== streams) throw new Error(`${target.name}: ${counts.answers} of ${streams} streams ended whole`)
  return { round, grownBytes }
}

async function measured(loader: Loader, target: Served, seconds: number): Promise<Round> {
  const counts = await loader.read()
  const cpu = cpuMs(target.pid)
  await Bun.sleep(seconds * 1000)
  const used = cpuMs(target.pid) - cpu
  const after = await loader.read()
  right(after, target)
  return {
    cpuMs: used,
    answers: after.answers - counts.answers,
    events: after.events - counts.events,
    latencies: after.latencies,
  }
}

/** A figure of answers that were wrong is none. */
function right(counts: Counts, target: Served): void {
  if (counts.failures > 0)
    throw new Error(`${target.name}: ${counts.failures} answers failed: ${counts.reasons.join('; ')}`)
}

function figures(stage: Stage, rounds: ReadonlyMap<Served, readonly Round[]>, of: (round: Round) => number): Figure[] {
  return stage.gateways.map((gateway) => ({
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
