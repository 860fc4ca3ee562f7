/**
 * The Redis of the chaos run that Sentinels watch: a master, two replicas and three Sentinels, whose failovers an
 * operator orders or the death of the master causes. As in production, Sentinels write into each server's own
 * configuration file whom it follows, and a master that comes back takes writes until they make it a replica.
 */

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { lastingPort } from '../../test/support/ports.ts'
import { killAtExit } from './leaked-resources.ts'
import { isInSync, RedisServer, until } from './redis-server.ts'

const NAME = 'mymaster'
const SENTINELS = 3
const QUORUM = 2
const DOWN_AFTER_MS = 1500
const FAILOVER_TIMEOUT_MS = 10_000

/** The key of a write that only a master without replicas has. */
const MARK = 'chaos:alone'

export class SentinelSet {
  /** Failovers by which an acknowledged write was lost for certain. */
  losses = 0
  private readonly sentinels: { readonly port: number; readonly child: Bun.Subprocess }[] = []

  private constructor(private readonly servers: readonly RedisServer[]) {}

  /** Resolves when every Sentinel knows the others and the replicas, which are in sync. */
  static async start(folder: string): Promise<SentinelSet> {
    const start = (i: number) =>
      RedisServer.start(join(folder, String(i)), '--repl-diskless-sync-delay', '0', '--repl-timeout', '10')
    const [master, ...replicas] = await Promise.all([start(0), start(1), start(2)])
    for (const replica of replicas) {
      await replica.ask('REPLICAOF', '127.0.0.1', String(master.port))
      await replica.ask('CONFIG', 'REWRITE')
      await until(() => isInSync(replica))
    }
    const set = new SentinelSet([master, ...replicas])
    for (let i = 0; i < SENTINELS; i++) await set.startSentinel(join(folder, `sentinel-${i}`), master.port)
    const known = `slaves=${replicas.length},sentinels=${SENTINELS}`
    for (const { port } of set.sentinels)
      await until(async () => (await RedisServer.askPort(port, 'INFO', 'sentinel')).includes(known))
    return set
  }

  /** The value of `ledger.redis` of a gateway. */
  get place(): { sentinels: readonly string[]; name: string } {
    return { sentinels: this.sentinels.map(({ port }) => `redis://127.0.0.1:${port}`), name: NAME }
  }

  client(): Redis {
    const sentinels = this.sentinels.map(({ port }) => ({ host: '127.0.0.1', port }))
    const client = new Redis({ sentinels, name: NAME, maxRetriesPerRequest: null, failoverDetector: true })
    client.on('error', () => undefined)
    return client
  }

  /** As an operator orders it. The old master takes writes for some ten seconds more, which are lost. */
  async orderFailover(): Promise<void> {
    const before = (await this.master()).port
    while ((await this.master()).port === before) {
      // Refused while one is under way, which may also be given up.
      await this.askSentinel('FAILOVER')
      await Bun.sleep(200)
    }
    await this.settle()
  }

  /** Kills the master and starts it again after `awayMs`: before or after the Sentinels have chosen another. */
  async killMaster(awayMs: number): Promise<void> {
    const master = await this.master()
    await master.kill()
    await Bun.sleep(awayMs)
    await master.start()
    await this.settle()
  }

  /** The same after `aloneMs` in which it has kept its replicas away: what it acknowledges then is lost. */
  async killAlone(aloneMs: number, awayMs: number): Promise<void> {
    const master = await this.master()
    await master.ask('ACL', 'SETUSER', 'default', '-psync', '-sync')
    await master.ask('CLIENT', 'KILL', 'TYPE', 'replica')
    const written = String(performance.now())
    await master.ask('SET', MARK, written)
    await Bun.sleep(aloneMs)
    await this.killMaster(awayMs)
    if ((await (await this.master()).ask('GET', MARK)) !== written) this.losses++
  }

  /** The master stops for `ms`. If another is chosen meanwhile, it wakes up as a master with its old connections. */
  async freezeMaster(ms: number): Promise<void> {
    await (await this.master()).freeze(ms)
    await this.settle()
  }

  async cut(): Promise<void> {
    for (const server of this.servers) await server.ask('CLIENT', 'KILL', 'TYPE', 'normal')
  }

  async empty(): Promise<void> {
    await (await this.master()).empty()
  }

  async kill(): Promise<void> {
    for (const { child } of this.sentinels) child.kill('SIGKILL')
    await Promise.all([...this.sentinels.map(({ child }) => child.exited), ...this.servers.map((one) => one.kill())])
  }

  /** Resolves when the Sentinels agree about the one master, and both others have all that it has. */
  private async settle(): Promise<void> {
    await until(async () => {
      const views = await Promise.all(this.sentinels.map(({ port }) => masterPort(port)))
      const roles = await Promise.all(this.servers.map((server) => server.ask('ROLE')))
      const masters = this.servers.filter((_, i) => roles[i]?.startsWith('master'))
      const [master] = masters
      if (master === undefined || masters.length > 1 || views.some((port) => port !== master.port)) return false
      const follow = this.servers.map(async (server) => server === master || (await isInSync(server)))
      return (await Promise.all(follow)).every(Boolean)
    })
  }

  private async master(): Promise<RedisServer> {
    for (;;) {
      const port = await masterPort(this.sentinels[0]?.port ?? 0)
      const found = this.servers.find((server) => server.port === port)
      if (found !== undefined) return found
      await Bun.sleep(20)
    }
  }

  private async askSentinel(word: string): Promise<string> {
    return await RedisServer.askPort(this.sentinels[0]?.port ?? 0, 'SENTINEL', word, NAME)
  }

  private async startSentinel(folder: string, master: number): Promise<void> {
    await mkdir(folder, { recursive: true })
    const port = await lastingPort()
    const file = join(folder, 'sentinel.conf')
    const lines = [
      `sentinel monitor ${NAME} 127.0.0.1 ${master} ${QUORUM}`,
      `sentinel down-after-milliseconds ${NAME} ${DOWN_AFTER_MS}`,
      `sentinel failover-timeout ${NAME} ${FAILOVER_TIMEOUT_MS}`,
    ]
    await writeFile(file, `${lines.join('\n')}\n`)
    const words = ['redis-server', file, '--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--sentinel']
    const child = Bun.spawn(words, { stdout: 'ignore', stderr: 'ignore' })
    void child.exited.then(killAtExit(child.pid))
    await until(async () => (await RedisServer.askPort(port, 'PING')) === 'PONG')
    this.sentinels.push({ port, child })
  }
}

async function masterPort(sentinel: number): Promise<number> {
  const answer = await RedisServer.askPort(sentinel, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME)
  return Number(answer.split(',')[1])
}
