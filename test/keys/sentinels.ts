/** A master, its replicas, and Sentinels that watch them: real processes. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import type { RedisConfig } from '../../src/core/redis-config.ts'
import { REDIS } from '../ledger/programs.ts'
import { until } from '../ledger/seen.ts'
import { lastingPort } from '../support/ports.ts'

const NAME = 'mymaster'

interface Server {
  readonly port: number
  readonly client: Redis
  readonly process: Bun.Subprocess
}

export class Sentinels implements AsyncDisposable {
  private readonly folder = mkdtempSync(join(tmpdir(), 'weir-sentinels-'))
  private readonly all: Server[] = []
  readonly servers: Server[] = []
  readonly sentinels: Server[] = []

  /** Resolves when every Sentinel knows the others and the replicas, which are in sync. */
  static async start(replicas: number, sentinels: number): Promise<Sentinels> {
    const made = new Sentinels()
    const first = await made.spawn(made.servers)
    for (let i = 0; i < replicas; i++) {
      const replica = await made.spawn(made.servers, '--replicaof', `127.0.0.1 ${first.port}`)
      await until(async () => (await replica.client.info('replication')).includes('master_link_status:up'))
    }
    const watch = [
      `monitor ${NAME} 127.0.0.1 ${first.port} ${Math.floor(sentinels / 2) + 1}`,
      `down-after-milliseconds ${NAME} 3000`,
      `failover-timeout ${NAME} 20000`,
    ]
    for (let i = 0; i < sentinels; i++) {
      const file = join(made.folder, `${i}.conf`)
      writeFileSync(file, watch.map((line) => `sentinel ${line}\n`).join(''))
      await made.spawn(made.sentinels, file)
    }
    for (const { client } of made.sentinels)
      await until(async () => {
        const info = await client.info('sentinel')
        return info.includes(`slaves=${replicas},sentinels=${sentinels}`)
      })
    return made
  }

  get place(): RedisConfig {
    const sentinels = this.sentinels.map(({ port }) => `redis://127.0.0.1:${port}`)
    return { kind: 'sentinel', sentinels, name: NAME }
  }

  /** Those that say that they are masters. */
  async masters(): Promise<readonly Server[]> {
    const roles = await Promise.all(this.servers.map(({ client }) => client.role()))
    return this.servers.filter((_, i) => roles[i]?.[0] === 'master')
  }

  /** As an operator orders it. Resolves when a replica is a master; the old one is a master, too, for some seconds. */
  async failOver(): Promise<void> {
    await this.sentinels[0]?.client.call('SENTINEL', 'FAILOVER', NAME)
    await until(async () => (await this.masters()).length > 1)
  }

  /** Resolves when the old master has become a replica that has everything. */
  async settle(): Promise<Server> {
    // Up to 18 s after a failover, which `until` does not wait.
    while ((await this.masters()).length !== 1) await Bun.sleep(100)
    const [master] = await this.masters()
    if (master === undefined) throw new Error('There is no master.')
    await until(async () => {
      const infos = await Promise.all(this.servers.map(({ client }) => client.info('replication')))
      return infos.every((info) => info.includes('role:master') || info.includes('master_link_status:up'))
    })
    return master
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { client, process } of this.all) {
      client.disconnect()
      process.kill('SIGKILL')
      await process.exited
    }
    rmSync(this.folder, { recursive: true, force: true })
  }

  private async spawn(list: Server[], ...settings: readonly string[]): Promise<Server> {
    const port = await lastingPort()
    const dir = mkdtempSync(join(this.folder, 'server-'))
    const isSentinel = settings[0]?.endsWith('.conf')
    const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir]
    const more = isSentinel ? ['--sentinel'] : ['--save', '', '--repl-diskless-sync-delay', '0']
    const words = isSentinel ? [...settings, ...place, ...more] : [...place, ...more, ...settings]
    const process = Bun.spawn([REDIS, ...words], { stdout: 'ignore', stderr: 'ignore' })
    const client = new Redis(port, { retryStrategy: () => 20, maxRetriesPerRequest: null })
    client.on('error', () => undefined)
    await client.ping()
    const server = { port, client, process }
    list.push(server)
    this.all.push(server)
    return server
  }
}
