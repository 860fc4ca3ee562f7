/**
 * A Redis of the test's own: on a Unix socket in a directory of its own, stopped by its process id. It also ends with the test's process,
 * however that ends: its keeper waits for the end of a pipe that only we hold.
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

  private constructor(
    private readonly program: string,
    private readonly settings: readonly string[],
  ) {}

  static start(...settings: readonly string[]): Promise<RedisServer> {
    return RedisServer.of(REDIS, ...settings)
  }

  /** Another program that speaks the same. */
  static async of(program: string, ...settings: readonly string[]): Promise<RedisServer> {
    const server = new RedisServer(program, settings)
    await server.start()
    return server
  }

  /** Starts it, or starts it again with what its directory holds; resolves when it answers. */
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

  client(): Redis {
    return new Redis(this.socket, { commandTimeout: 5000 })
  }

  signal(name: NodeJS.Signals): void {
    process.kill(this.pid, name)
  }

  async kill(): Promise<void> {
    await this.keeper?.stdin.end()
    await this.keeper?.exited
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    rmSync(this.directory, { recursive: true, force: true })
  }
}
