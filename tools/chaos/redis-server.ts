/**
 * The Redis of the chaos run: a real server on a fixed port with an append-only file, which can be killed, frozen, and
 * restored from older data.
 */

import { cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { lastingPort } from '../../test/support/ports.ts'
import { killAtExit } from './leaked-resources.ts'

const APPENDED = 'appendonlydir'
/** Its configuration file: empty, until Sentinels write into it whom it follows. */
const OWN_FILE = 'redis.conf'

export class RedisServer {
  private child: Bun.Subprocess | undefined
  private copies = 0

  private constructor(
    private readonly folder: string,
    readonly port: number,
    private readonly settings: readonly string[],
  ) {}

  static async start(folder: string, ...settings: readonly string[]): Promise<RedisServer> {
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, OWN_FILE), '')
    const server = new RedisServer(folder, await lastingPort(), settings)
    await server.start()
    await server.ask('SAVE')
    return server
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}/0`
  }

  /** Resolves when it answers. Throws if it exits instead. */
  async start(appendOnly: 'yes' | 'no' = 'yes'): Promise<void> {
    const place = ['--port', String(this.port), '--bind', '127.0.0.1', '--dir', this.folder, '--save', '']
    const persistence = ['--appendonly', appendOnly, '--appendfsync', 'everysec', '--auto-aof-rewrite-percentage', '0']
    const words = ['redis-server', join(this.folder, OWN_FILE), ...place, ...persistence, ...this.settings]
    const child = Bun.spawn(words, { stdout: 'ignore', stderr: 'ignore' })
    this.child = child
    void child.exited.then(killAtExit(child.pid))
    const probe = this.client()
    // While it reads its file, it answers LOADING.
    const ping = async () => {
      while (!(await probe.ping().then(Boolean, () => false)) && child.exitCode === null) await Bun.sleep(10)
    }
    await Promise.race([ping(), child.exited])
    probe.disconnect()
    if (child.exitCode !== null) throw new Error(`redis-server ended with ${child.exitCode} before it answered.`)
  }

  client(): Redis {
    return clientOf(this.port)
  }

  async kill(): Promise<void> {
    this.child?.kill('SIGKILL')
    await this.child?.exited
  }

  async freeze(ms: number): Promise<void> {
    this.child?.kill('SIGSTOP')
    await Bun.sleep(ms)
    this.child?.kill('SIGCONT')
  }

  /** Copies its file as it is now, perhaps in the middle of a command. */
  async copy(): Promise<string> {
    const copy = join(this.folder, `copy-${this.copies++}`)
    await cp(join(this.folder, APPENDED), copy, { recursive: true })
    return copy
  }

  /** Restarts with a copy: writes since then are lost. */
  async restoreCopy(copy: string): Promise<void> {
    await this.kill()
    await rm(join(this.folder, APPENDED), { recursive: true, force: true })
    await cp(copy, join(this.folder, APPENDED), { recursive: true })
    await rm(copy, { recursive: true, force: true })
    await this.start()
  }

  /**
   * Restarts with the last snapshot, as a server without an append-only file would after a kill, and takes the next
   * snapshot. A server reads the snapshot only if it starts without the append-only file, so it gets that file
   * afterwards.
   */
  async restoreSnapshot(): Promise<void> {
    await this.kill()
    await rm(join(this.folder, APPENDED), { recursive: true, force: true })
    await this.start('no')
    await this.ask('CONFIG', 'SET', 'appendonly', 'yes')
    const isWritten = (info: string) => info.includes('aof_enabled:1') && info.includes('aof_rewrite_in_progress:0')
    while (!isWritten(await this.ask('INFO', 'persistence'))) await Bun.sleep(10)
    await this.ask('SAVE')
  }

  /** Deletes all data and cuts every connection, so that gateways notice at once. */
  async empty(): Promise<void> {
    await this.ask('FLUSHALL')
    await this.ask('CLIENT', 'KILL', 'TYPE', 'normal')
  }

  /** Sends one command. Resolves to the reply as text, or to the error. */
  async ask(name: string, ...rest: readonly string[]): Promise<string> {
    return await RedisServer.askPort(this.port, name, ...rest)
  }

  /** The same for any server on this machine, such as a Sentinel. */
  static async askPort(port: number, name: string, ...rest: readonly string[]): Promise<string> {
    const client = clientOf(port)
    const answer = await client.call(name, ...rest).catch(String)
    client.disconnect()
    return String(answer)
  }
}

function clientOf(port: number): Redis {
  const client = new Redis(port, { retryStrategy: () => 20, maxRetriesPerRequest: null })
  client.on('error', () => undefined)
  return client
}

export async function isInSync(replica: RedisServer): Promise<boolean> {
  const info = await replica.ask('INFO', 'replication')
  return info.includes('role:slave') && info.includes('master_link_status:up')
}

export async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await Bun.sleep(20)
}
