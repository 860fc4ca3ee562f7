/**
 * The Redis Cluster of the chaos run: three masters, and a replica of the first; these two take each other's place when
 * one is killed.
 */

import { join } from 'node:path'
import { Cluster } from 'ioredis'
import { isInSync, RedisServer, until } from './redis-server.ts'

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

export class RedisCluster {
  private constructor(
    private readonly servers: readonly RedisServer[],
    /** Master and replica of the lowest slots. */
    private pair: readonly [RedisServer, RedisServer],
  ) {}

  /** Resolves when every slot has its master and the replica is in sync. */
  static async start(folder: string): Promise<RedisCluster> {
    const start = (i: number) => RedisServer.start(join(folder, String(i)), ...SETTINGS)
    const [first, second, third, replica] = await Promise.all([start(0), start(1), start(2), start(3)])
    const masters = [first, second, third]
    for (const [i, server] of masters.entries()) {
      await server.ask('CLUSTER', 'ADDSLOTSRANGE', ...(SLOTS[i] ?? []).map(String))
      await server.ask('CLUSTER', 'SET-CONFIG-EPOCH', String(i + 1))
    }
    for (const server of [second, third, replica]) await first.ask('CLUSTER', 'MEET', '127.0.0.1', String(server.port))
    for (const server of masters)
      await until(async () => (await server.ask('CLUSTER', 'INFO')).includes('cluster_state:ok'))
    const id = await first.ask('CLUSTER', 'MYID')
    await until(async () => (await replica.ask('CLUSTER', 'NODES')).includes(id))
    await until(async () => (await replica.ask('CLUSTER', 'REPLICATE', id)) === 'OK')
    await until(() => isInSync(replica))
    return new RedisCluster([...masters, replica], [first, replica])
  }

  get urls(): readonly string[] {
    return this.servers.map(({ url }) => url)
  }

  client(): Cluster {
    const gateways = this.servers.map(({ port }) => ({ host: '127.0.0.1', port }))
    const client = new Cluster(gateways, {
      clusterRetryStrategy: () => 50,
      redisOptions: { maxRetriesPerRequest: null },
    })
    client.on('error', () => undefined)
    return client
  }

  /** Kills the master, waits until its replica has taken over, and restarts it as the replica of the other. */
  async failover(): Promise<void> {
    const [master, replica] = this.pair
    await until(() => isInSync(replica))
    await master.kill()
    await until(async () => (await replica.ask('ROLE')).startsWith('master'))
    await master.start()
    this.pair = [replica, master]
  }

  async cut(): Promise<void> {
    for (const server of this.servers) await server.ask('CLIENT', 'KILL', 'TYPE', 'normal')
  }

  async empty(): Promise<void> {
    for (const server of this.servers) if ((await server.ask('ROLE')).startsWith('master')) await server.empty()
  }

  async kill(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.kill()))
  }
}
