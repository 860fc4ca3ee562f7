/** The Redis Cluster of the chaos run: three masters, and a replica of the first that takes its place when it is killed, and is killed in turn. */

import { join } from 'node:path'
import { Cluster } from 'ioredis'
import { Store } from './redis-server.ts'

const SETTINGS = [
  '--cluster-enabled',
  'yes',
  '--cluster-node-timeout',
  '1000',
  '--cluster-replica-validity-factor',
  '0',
]
const SLOTS = [
  [0, 5460],
  [5461, 10_922],
  [10_923, 16_383],
] as const

export class StoreCluster {
  private constructor(
    private readonly stores: readonly Store[],
    /** The two that share the lowest slots; the master first. */
    private pair: readonly [Store, Store],
  ) {}

  /** Resolves when every slot has its master, and the replica is in step. */
  static async start(folder: string): Promise<StoreCluster> {
    const start = (i: number) => Store.start(join(folder, String(i)), ...SETTINGS)
    const [first, second, third, replica] = await Promise.all([start(0), start(1), start(2), start(3)])
    const masters = [first, second, third]
    for (const [i, store] of masters.entries()) {
      await store.ask('CLUSTER', 'ADDSLOTSRANGE', ...(SLOTS[i] ?? []).map(String))
      await store.ask('CLUSTER', 'SET-CONFIG-EPOCH', String(i + 1))
    }
    for (const store of [second, third, replica]) await first.ask('CLUSTER', 'MEET', '127.0.0.1', String(store.port))
    for (const store of masters)
      await until(async () => (await store.ask('CLUSTER', 'INFO')).includes('cluster_state:ok'))
    const id = await first.ask('CLUSTER', 'MYID')
    await until(async () => (await replica.ask('CLUSTER', 'NODES')).includes(id))
    await until(async () => (await replica.ask('CLUSTER', 'REPLICATE', id)) === 'OK')
    await until(() => isInStep(replica))
    return new StoreCluster([...masters, replica], [first, replica])
  }

  get urls(): readonly string[] {
    return this.stores.map(({ url }) => url)
  }

  client(): Cluster {
    const nodes = this.stores.map(({ port }) => ({ host: '127.0.0.1', port }))
    const client = new Cluster(nodes, { clusterRetryStrategy: () => 50, redisOptions: { maxRetriesPerRequest: null } })
    client.on('error', () => undefined)
    return client
  }

  /** The master dies, its replica takes over, and the dead one comes back as the replica of the other. */
  async failover(): Promise<void> {
    const [master, replica] = this.pair
    await until(() => isInStep(replica))
    await master.kill()
    await until(async () => (await replica.ask('ROLE')).startsWith('master'))
    await master.start()
    this.pair = [replica, master]
  }

  async cut(): Promise<void> {
    for (const store of this.stores) await store.ask('CLIENT', 'KILL', 'TYPE', 'normal')
  }

  async empty(): Promise<void> {
    for (const store of this.stores) if ((await store.ask('ROLE')).startsWith('master')) await store.empty()
  }

  async kill(): Promise<void> {
    await Promise.all(this.stores.map((store) => store.kill()))
  }
}

async function isInStep(replica: Store): Promise<boolean> {
  const info = await replica.ask('INFO', 'replication')
  return info.includes('role:slave') && info.includes('master_link_status:up')
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await Bun.sleep(20)
}
