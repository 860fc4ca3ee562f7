/**
 * The faults that the chaos run injects into gateways and Redis, drawn from a seed: one after the other, with short
 * pauses.
 */

import type { Random } from '../../test/support/random.ts'
import type { RedisCluster } from './cluster.ts'
import type { Gateway } from './gateway.ts'
import type { RedisServer } from './redis-server.ts'
import type { SentinelSet } from './sentinels.ts'

/** A fault, and its weight among the others. */
export interface Fault {
  readonly name: string
  readonly weight: number
  /** Redis may lose writes that it has acknowledged. */
  readonly isSetback?: true
  act(random: Random): Promise<unknown>
}

interface Pause {
  readonly first: number
  readonly last: number
}

export const BETWEEN_MS: Pause = { first: 300, last: 1500 }

/** A fault that was injected, in `performance.now` milliseconds. */
export interface Injected {
  readonly name: string
  readonly fromMs: number
  readonly untilMs: number
  readonly isSetback: boolean
}

/** Injects faults until `untilMs`; after each one everything runs again. Resolves to those that were injected. */
export async function injectFaults(
  untilMs: number,
  faults: readonly Fault[],
  random: Random,
  between: Pause = BETWEEN_MS,
): Promise<readonly Injected[]> {
  const done: Injected[] = []
  const names = faults.flatMap((wreck) => Array.from({ length: wreck.weight }, () => wreck))
  for (;;) {
    await Bun.sleep(random.between(between.first, between.last))
    const wreck = names[random.below(names.length)]
    if (wreck === undefined || performance.now() >= untilMs) return done
    const fromMs = performance.now()
    await wreck.act(random)
    done.push({ name: wreck.name, fromMs, untilMs: performance.now(), isSetback: wreck.isSetback === true })
  }
}

export function gatewayFaults(gateways: readonly Gateway[]): readonly Fault[] {
  const any = (random: Random): Gateway => {
    const gateway = gateways[random.below(gateways.length)]
    if (gateway === undefined) throw new Error('There is no gateway.')
    return gateway
  }
  return [
    {
      name: 'gateway killed',
      weight: 3,
      act: async (random) => {
        const gateway = any(random)
        await gateway.kill()
        await Bun.sleep(random.below(800))
        await gateway.start()
      },
    },
    {
      name: 'supervisor killed',
      weight: 1,
      act: async (random) => {
        const gateway = any(random)
        await gateway.killSupervisor()
        await Bun.sleep(random.below(200))
        await gateway.start()
      },
    },
    { name: 'worker killed', weight: 1, act: async (random) => any(random).killWorker() },
    { name: 'gateway frozen', weight: 1, act: (random) => any(random).freeze(random.between(100, 1500)) },
  ]
}

/** For gateways whose workers share the embedded ledger. */
export function sharedLedgerFaults(gateways: readonly Gateway[]): readonly Fault[] {
  const each = async (act: (gateway: Gateway) => void) => {
    for (const gateway of gateways) act(gateway)
  }
  return [
    { name: 'owner of the ledger killed', weight: 3, act: () => each((gateway) => gateway.killLedgerOwner()) },
    { name: 'workers replaced', weight: 1, act: () => each((gateway) => gateway.replaceWorkers()) },
  ]
}

export function redisFaults(server: RedisServer): readonly Fault[] {
  return [
    {
      // It loses nothing: its file has what it has acknowledged.
      name: 'Redis killed',
      weight: 2,
      act: async (random) => {
        await server.kill()
        await Bun.sleep(random.below(1500))
        await server.start()
      },
    },
    { name: 'Redis frozen', weight: 2, act: (random) => server.freeze(random.between(100, 1500)) },
    {
      name: 'Redis restored from a copy',
      weight: 4,
      isSetback: true,
      act: async (random) => {
        const copy = await server.copy()
        await Bun.sleep(random.between(200, 4000))
        await server.restoreCopy(copy)
      },
    },
    { name: 'Redis restored from its snapshot', weight: 2, isSetback: true, act: () => server.restoreSnapshot() },
    { name: 'scripts flushed', weight: 2, act: () => server.ask('SCRIPT', 'FLUSH') },
    { name: 'connections cut', weight: 2, act: () => server.ask('CLIENT', 'KILL', 'TYPE', 'normal') },
  ]
}

export function clusterFaults(cluster: RedisCluster): readonly Fault[] {
  return [
    { name: 'failover', weight: 6, isSetback: true, act: () => cluster.failover() },
    { name: 'connections cut', weight: 2, act: () => cluster.cut() },
  ]
}

/** Redis loses what the old master acknowledged and the new one has not: up to ten seconds of writes. */
export function sentinelFaults(set: SentinelSet): readonly Fault[] {
  return [
    { name: 'failover ordered', weight: 4, isSetback: true, act: () => set.orderFailover() },
    {
      name: 'master killed that was alone',
      weight: 3,
      isSetback: true,
      act: (random) => set.killAlone(random.between(200, 2500), random.between(3000, 6000)),
    },
    { name: 'master killed', weight: 2, isSetback: true, act: (random) => set.killMaster(random.below(6000)) },
    { name: 'master frozen', weight: 1, isSetback: true, act: (random) => set.freezeMaster(random.between(500, 6000)) },
    { name: 'connections cut', weight: 1, act: () => set.cut() },
  ]
}
