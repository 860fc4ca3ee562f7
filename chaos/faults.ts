/** What is done to the gateways and to Redis in the chaos run, drawn from a seed: one thing after the other, with a little time between. */

import type { Random } from '../test/support/random.ts'
import type { StoreCluster } from './cluster.ts'
import type { Node } from './node.ts'
import type { Store } from './redis-server.ts'

/** One thing that may happen, and how often beside the others. */
export interface Wreck {
  readonly name: string
  readonly weight: number
  act(random: Random): Promise<unknown>
}

const BETWEEN_MS = { first: 300, last: 1500 }

/** Wrecks until the time is up. Each ends with everything running again. Gives how often each was done. */
export async function wreckUntil(
  untilMs: number,
  wrecks: readonly Wreck[],
  random: Random,
): Promise<ReadonlyMap<string, number>> {
  const done = new Map<string, number>()
  const names = wrecks.flatMap((wreck) => Array.from({ length: wreck.weight }, () => wreck))
  for (;;) {
    await Bun.sleep(random.between(BETWEEN_MS.first, BETWEEN_MS.last))
    const wreck = names[random.below(names.length)]
    if (wreck === undefined || performance.now() >= untilMs) return done
    await wreck.act(random)
    done.set(wreck.name, (done.get(wreck.name) ?? 0) + 1)
  }
}

export function gatewayWrecks(nodes: readonly Node[]): readonly Wreck[] {
  const any = (random: Random): Node => {
    const node = nodes[random.below(nodes.length)]
    if (node === undefined) throw new Error('There is no gateway to wreck.')
    return node
  }
  return [
    {
      name: 'gateway killed',
      weight: 3,
      act: async (random) => {
        const node = any(random)
        await node.kill()
        await Bun.sleep(random.below(800))
        await node.start()
      },
    },
    {
      name: 'supervisor killed',
      weight: 1,
      act: async (random) => {
        const node = any(random)
        await node.killSupervisor()
        await Bun.sleep(random.below(200))
        await node.start()
      },
    },
    { name: 'worker killed', weight: 1, act: async (random) => any(random).killWorker() },
    { name: 'gateway frozen', weight: 1, act: (random) => any(random).freeze(random.between(100, 1500)) },
  ]
}

export function storeWrecks(store: Store): readonly Wreck[] {
  return [
    {
      name: 'Redis killed',
      weight: 2,
      act: async (random) => {
        await store.kill()
        await Bun.sleep(random.below(1500))
        await store.start()
      },
    },
    { name: 'Redis frozen', weight: 2, act: (random) => store.freeze(random.between(100, 1500)) },
    {
      name: 'Redis set back',
      weight: 4,
      act: async (random) => {
        const copy = await store.copy()
        await Bun.sleep(random.between(200, 4000))
        await store.setBack(copy)
      },
    },
    { name: 'Redis back at its last snapshot', weight: 2, act: () => store.loseSinceSnapshot() },
    { name: 'scripts flushed', weight: 2, act: () => store.ask('SCRIPT', 'FLUSH') },
    { name: 'connections cut', weight: 2, act: () => store.ask('CLIENT', 'KILL', 'TYPE', 'normal') },
  ]
}

export function clusterWrecks(cluster: StoreCluster): readonly Wreck[] {
  return [
    { name: 'failover', weight: 6, act: () => cluster.failover() },
    { name: 'connections cut', weight: 2, act: () => cluster.cut() },
  ]
}
