/**
 * A Redis for one test: on a Unix socket in its own directory, stopped by its process id. It also ends when the test's
 * process dies: its parent process waits for the end of a pipe that only the test holds open.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { REDIS } from './programs.ts'

const KEEPER = '"$0" "$@" >/dev/null 2>&1 & echo $!; cat >/dev/null; kill -9 $!'

export class RedisServer {
  readonly directory = mkdtempSync(join(tmpdir(), 'weir-ledger-redis-'))
  readonly socket = join(this.directory, 'redis.sock')
  private keeper: Bun.Subprocess<'pipe', 'pipe', 'ignore'> | undefined
  private pid = 0
  private readonly clients: Redis[] = []

  private constructor(
    private readonly program: string,
    private readonly settings: readonly string[],
  ) {}

  static start(...settings: readonly string[]): Promise<RedisServer> {
    return RedisServer.of(REDIS, ...settings)
  }

  /** Starts another program with the same protocol. */
  static async of(program: string, ...settings: readonly string[]): Promise<RedisServer> {
    const server = new RedisServer(program, settings)
    await server.start()
    return server
  }

  /** Starts it, or restarts it on the data in its directory; resolves when it answers. */
  async start(): Promise<void> {
    const place = ['--port', '0', '--unixsocket', this.socket, '--dir', this.directory, '--save', '']
    const words = ['sh', '-c', KEEPER, this.program, ...place, ...this.settings]
    this.keeper = Bun.spawn(words, { stdin: 'pipe', stdout: 'pipe', stderr: 'ignore' })
    const { value } = await this.keeper.stdout.getReader().read()
    this.pid = Number(new TextDecoder().decode(value))
    const probe = new Redis(this.socket, { retryStrategy: () => 10, maxRetriesPerRequest: null })
    probe.on('error', () => undefined)
    await probe.ping()
    probe.disconnect()
  }

  /** Is disconnected when the server is disposed of. */
  client(): Redis {
    const client = new Redis(this.socket, { commandTimeout: 5000 })
    this.clients.push(client)
    return client
  }

  signal(name: NodeJS.Signals): void {
    process.kill(this.pid, name)
  }

  async kill(): Promise<void> {
    await this.keeper?.stdin.end()
    await this.keeper?.exited
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.clients) client.disconnect()
    await this.kill()
    rmSync(this.directory, { recursive: true, force: true })
  }
}
