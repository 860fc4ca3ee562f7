/** The cost of WebSockets: a turn beside a `POST` of the same weir, a continuation, and sockets without a turn. */

import { residentBytes } from '../../test/support/process-table.ts'
import type { Bare } from './ledger-scenarios.ts'
import { Loader, type Server, startWeir } from './processes.ts'
import { closedLoop, figures, interleaved, type Measurement, measured, perAnswer, start, warmUp } from './rounds.ts'
import type { SocketUse } from './socket-load.ts'
import type { ProviderName, Size, Traffic } from './traffic.ts'

const IDLE = 10_000

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

/** Opened in two halves, as streams are: the first one fills the memory that the warm-up left free. */
async function idle({ provider, loader, plan }: Bare): Promise<readonly Measurement[]> {
  await using weir = await startWeir(provider)
  const traffic: Traffic = { kind: 'burst', caller: 'responses', provider: 'openai', size: 'small' }
  const setup = { provider, gateways: [weir], loader, plan }
  await warmUp(setup, { ...weir, sockets: 'turns' }, traffic, 32)
  const target: Server = { ...weir, sockets: 'idle' }
  await using second = await Loader.start()
  await start(loader, target, traffic, IDLE / 2)
  const before = residentBytes(weir.pid)
  await start(second, target, traffic, IDLE / 2)
  await Bun.sleep(3000)
  const grown = residentBytes(weir.pid) - before
  const { cpuMs, seconds } = await measured(setup, target, plan.idleSeconds)
  await Promise.all([loader.stop(), second.stop()])
  const of = (value: number) => [{ gateway: weir.name, value }]
  return [
    { name: `${IDLE} idle WebSockets: memory each`, unit: 'KiB', valueMax: 12, figures: of(grown / (IDLE / 2) / 1024) },
    { name: `${IDLE} idle WebSockets: share of a core`, unit: '%', valueMax: 1, figures: of(cpuMs / seconds / 10) },
  ]
}
