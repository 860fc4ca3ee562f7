/** Rounds of load: each gateway is warmed up by a number of requests, then all are measured in turn, round by round. */

import { cpuMs, residentBytes } from '../../test/support/process-table.ts'
import type { Counts } from './load-counter.ts'
import { Loader, type ProviderProcess, type Server } from './processes.ts'
import { median } from './statistics.ts'
import { SIZE_BYTES, type Traffic } from './traffic.ts'

export interface Plan {
  readonly rounds: number
  /** Duration of one round. */
  readonly seconds: number
  /** Requests of each gateway before the first round, so that its code is compiled. */
  readonly warmJson: number
  readonly warmStreams: number
  readonly warmMegabytes: number
  readonly pacedStreams: number
  readonly openStreams: number
  readonly idleSeconds: number
}

export const FULL: Plan = {
  rounds: 5,
  seconds: 1.5,
  warmJson: 50_000,
  warmStreams: 10_000,
  warmMegabytes: 2000,
  pacedStreams: 500,
  openStreams: 5000,
  idleSeconds: 30,
}
export const QUICK: Plan = {
  rounds: 3,
  seconds: 1,
  warmJson: 10_000,
  warmStreams: 2000,
  warmMegabytes: 400,
  pacedStreams: 500,
  openStreams: 4000,
  idleSeconds: 10,
}

/** By then all streams of a load must have sent their first event. */
const STARTED_MS_MAX = 60_000
/** Between the first requests of a load and its measurement. */
const SETTLING_MS = 200

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
  readonly ratioMin?: number
  /** The goal for weir's figure. */
  readonly valueMax?: number
}

export interface Setup {
  readonly provider: ProviderProcess
  /** The baseline, then weir. */
  readonly gateways: readonly Server[]
  readonly loader: Loader
  readonly plan: Plan
}

/** The result of one round of one gateway. */
export interface Round {
  readonly seconds: number
  /** CPU time of the gateway's processes. */
  readonly cpuMs: number
  /** CPU time of the load generator and the provider. */
  readonly loadMs: number
  readonly answers: number
  readonly events: number
  readonly latency: Counts['latency']
}

/** Requests before the first round. */
export function warmUpOf(plan: Plan, { kind, size }: Traffic): number {
  if (size !== 'small') return Math.ceil((plan.warmMegabytes * 1e6) / SIZE_BYTES[size])
  return kind === 'json' ? plan.warmJson : plan.warmStreams
}

/** Warms up each target with `connections`, then runs rounds of all targets in turn. */
export async function interleaved<R>(
  setup: Setup,
  targets: readonly Server[],
  warmUp: (target: Server) => Promise<unknown>,
  run: (target: Server) => Promise<R>,
): Promise<ReadonlyMap<Server, readonly R[]>> {
  for (const target of targets) await warmUp(target)
  const seen = new Map<Server, R[]>(targets.map((target) => [target, []]))
  for (let round = 0; round < setup.plan.rounds; round++)
    for (const target of targets) seen.get(target)?.push(await run(target))
  return seen
}

/** Warms up and measures connections that send the next request as soon as they have the answer. */
export function closedRounds(setup: Setup, targets: readonly Server[], traffic: Traffic, connections: number) {
  return interleaved(
    setup,
    targets,
    (target) => warmUp(setup, target, traffic, Math.max(connections, 8)),
    (target) => closedLoop(setup, target, traffic, connections),
  )
}

/** Sends the plan's number of requests. Resolves to the number of answers. */
export async function warmUp(
  { loader, plan }: Setup,
  target: Server,
  traffic: Traffic,
  connections: number,
): Promise<number> {
  loader.open(target, traffic, connections, true)
  const usual = warmUpOf(plan, traffic) * (target.warmUps ?? 1)
  const wanted = target.interpreted ? Math.ceil(usual / 50) : usual
  for (let counts = await loader.read(); counts.answers < wanted; counts = await loader.read()) {
    checkAnswers(counts, target)
    await Bun.sleep(20)
  }
  await loader.stop()
  return (await loader.read()).answers
}

/** One round. `total` counts the answers before and after the measurement, too. */
export async function closedLoop(
  setup: Setup,
  target: Server,
  traffic: Traffic,
  connections: number,
): Promise<Round & { readonly total: number }> {
  const { loader } = setup
  loader.open(target, traffic, connections, true)
  await Bun.sleep(SETTLING_MS)
  const round = await measured(setup, target, setup.plan.seconds)
  await loader.stop()
  const counts = await loader.read()
  checkAnswers(counts, target)
  return { ...round, total: counts.answers }
}

/** Opens streams and waits until each of them has sent an event, or sockets until they are open. */
export async function start(loader: Loader, target: Server, traffic: Traffic, streams: number): Promise<void> {
  loader.open(target, traffic, streams, false)
  const deadline = performance.now() + STARTED_MS_MAX
  for (let counts = await loader.read(); counts.started < streams; counts = await loader.read()) {
    checkAnswers(counts, target)
    if (performance.now() > deadline)
      throw new Error(`${target.name}: only ${counts.started} of ${streams} streams have started`)
    await Bun.sleep(50)
  }
  await Bun.sleep(SETTLING_MS)
}

/** Completes the streams that `start` opened. */
async function finish(loader: Loader, target: Server, streams: number): Promise<void> {
  await loader.stop()
  const counts = await loader.read()
  checkAnswers(counts, target)
  if (counts.answers !== streams)
    throw new Error(`${target.name}: ${counts.answers} of ${streams} streams were complete`)
}

/** Streams that are all open at once: measured while all of them send events, then completed. */
export async function held(setup: Setup, target: Server, traffic: Traffic, streams: number): Promise<Round> {
  await start(setup.loader, target, traffic, streams)
  const round = await measured(setup, target, setup.plan.seconds)
  setup.provider.finish()
  await finish(setup.loader, target, streams)
  return round
}

/**
 * Opens streams in two halves. Returns by how many bytes a stream the second half made the gateway grow: the first half
 * fills the memory that the warm-up has left free in the gateway's heap.
 */
export async function bytesAStream(setup: Setup, target: Server, traffic: Traffic, streams: number): Promise<number> {
  const half = Math.floor(streams / 2)
  await using second = await Loader.start()
  await start(setup.loader, target, traffic, half)
  const before = residentBytes(target.pid)
  await start(second, target, traffic, half)
  await Bun.sleep(3000)
  const grown = residentBytes(target.pid) - before
  setup.provider.finish()
  await finish(setup.loader, target, half)
  await finish(second, target, half)
  return grown / half
}

/** One round of what runs. */
export async function measured({ loader, provider }: Setup, target: Server, seconds: number): Promise<Round> {
  const loadCpu = () => cpuMs(loader.pid) + cpuMs(provider.pid)
  const counts = await loader.read()
  const [cpu, load, startedMs] = [cpuMs(target.pid), loadCpu(), performance.now()]
  await Bun.sleep(seconds * 1000)
  const [used, usedByLoad, tookMs] = [cpuMs(target.pid) - cpu, loadCpu() - load, performance.now() - startedMs]
  const after = await loader.read()
  checkAnswers(after, target)
  return {
    seconds: tookMs / 1000,
    cpuMs: used,
    loadMs: usedByLoad,
    answers: after.answers - counts.answers,
    events: after.events - counts.events,
    latency: after.latency,
  }
}

/** Throws if an answer was wrong: then the figures mean nothing. */
function checkAnswers(counts: Counts, target: Server): void {
  if (counts.failures > 0)
    throw new Error(`${target.name}: ${counts.failures} answers failed: ${counts.reasons.join('; ')}`)
}

/** The median of each gateway's rounds. */
export function figures<R>(
  gateways: readonly Server[],
  rounds: ReadonlyMap<Server, readonly R[]>,
  of: (round: R) => number,
): Figure[] {
  return gateways.map((gateway) => ({ gateway: gateway.name, value: median((rounds.get(gateway) ?? []).map(of)) }))
}

export const perAnswer = (round: Round) => (round.cpuMs * 1000) / round.answers
export const perEvent = (round: Round) => (round.cpuMs * 1000) / round.events
