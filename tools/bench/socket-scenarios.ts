/** The cost of WebSockets: a turn beside a `POST` of the same weir, a continuation, and sockets without a turn. */

import { residentBytes } from '../../test/support/process-table.ts'
import type { Bare } from './ledger-scenarios.ts'
import { Loader, type Server, startWeir } from './processes.ts'
import { closedLoop, figures, interleaved, type Measurement, measured, perAnswer, start, warmUp } from './rounds.ts'
import type { SocketUse } from './socket-load.ts'
import type { ProviderName, Size, Traffic } from './traffic.ts'

const IDLE = 10_000
const IDLE_STEPS = 4
/** An idle worker collects every few seconds. */
const RESTING_MS = 6000
const RESTING_LOOKS_MAX = 10

export const socketScenarios = {
  'socket-turn': (bare: Bare) => besidePost(bare, 'turn of 64 events', 'turns', 'small', 'openai', 1.1),
  'socket-continuation-openai': (bare: Bare) => continuation(bare, 'openai', 1),
  'socket-continuation-responses': (bare: Bare) => continuation(bare, 'responses', 0.5),
  'socket-idle': idle,
} as const

function continuation(bare: Bare, provider: ProviderName, ratioMax: number): Promise<readonly Measurement[]> {
  return besidePost(bare, 'continuation of 200 KB by 1 KB', 'continued', '200k', provider, ratioMax)
}

/** Beside `POST`s with the whole conversation to the same process, in turn. */
async function besidePost(
  { provider, loader, plan }: Bare,
  what: string,
  sockets: SocketUse,
  size: Size,
  name: ProviderName,
  ratioMax: number,
): Promise<readonly Measurement[]> {
  await using weir = await startWeir(provider)
  const post: Server = { ...weir, name: 'POST' }
  const socket: Server = { ...weir, sockets }
  const setup = { provider, gateways: [post, socket], loader, plan }
  const traffic: Traffic = { kind: 'burst', caller: 'responses', provider: name, size }
  const connections = size === 'small' ? 32 : 8
  const rounds = await interleaved(
    setup,
    setup.gateways,
    (target) => warmUp(setup, target, traffic, connections),
    (target) => closedLoop(setup, target, traffic, connections),
  )
  return [
    {
      name: `${what} over a WebSocket beside a POST, Responses → ${name}: CPU`,
      unit: 'µs',
      ratioMax,
      figures: figures(setup.gateways, rounds, perAnswer),
    },
  ]
}

/**
 * Opened in steps, each of which is waited for until the memory of the processes is at rest: what a socket takes is the
 * slope over all of them, from the process without any. Without a load before, whose memory sockets would take up
 * unseen. The share of a core is that of all of them and the process.
 */
async function idle({ provider, loader, plan }: Bare): Promise<readonly Measurement[]> {
  await using weir = await startWeir(provider)
  const traffic: Traffic = { kind: 'burst', caller: 'responses', provider: 'openai', size: 'small' }
  const setup = { provider, gateways: [weir], loader, plan }
  const target: Server = { ...weir, sockets: 'idle' }
  await start(loader, target, traffic, 1)
  const sizes = [await restingBytes(weir.pid)]
  const alone = await measured(setup, target, plan.idleSeconds)
  await using openers = new AsyncDisposableStack()
  for (let step = 0; step < IDLE_STEPS; step++) {
    await start(openers.use(await Loader.start()), target, traffic, IDLE / IDLE_STEPS)
    sizes.push(await restingBytes(weir.pid))
  }
  const held = await measured(setup, target, plan.idleSeconds)
  const share = ({ cpuMs, seconds }: { readonly cpuMs: number; readonly seconds: number }) => cpuMs / seconds / 10
  const of = (value: number) => [{ gateway: weir.name, value }]
  const bytes = slopeOf(sizes) / (IDLE / IDLE_STEPS)
  return [
    { name: `${IDLE} idle WebSockets: memory each`, unit: 'KiB', valueMax: 12, figures: of(bytes / 1024) },
    { name: 'no WebSocket: share of a core', unit: '%', figures: of(share(alone)) },
    { name: `${IDLE} idle WebSockets: share of a core`, unit: '%', valueMax: 1, figures: of(share(held)) },
  ]
}

/** The memory of processes once it has stayed within a hundredth for as long as the collector takes to run again. */
async function restingBytes(pid: number): Promise<number> {
  let bytes = residentBytes(pid)
  for (let looks = 0; looks < RESTING_LOOKS_MAX; looks++) {
    await Bun.sleep(RESTING_MS)
    const before = bytes
    bytes = residentBytes(pid)
    if (Math.abs(bytes - before) < before / 100) break
  }
  return bytes
}

/** How much the sizes grow from one to the next: the line through all of them, by least squares. */
function slopeOf(sizes: readonly number[]): number {
  const middle = (sizes.length - 1) / 2
  const mean = sizes.reduce((sum, size) => sum + size, 0) / sizes.length
  let [product, square] = [0, 0]
  for (const [index, size] of sizes.entries()) {
    product += (index - middle) * (size - mean)
    square += (index - middle) ** 2
  }
  return product / square
}
