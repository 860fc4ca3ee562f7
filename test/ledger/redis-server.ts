/** A Redis of the test's own: on a Unix socket in a directory of its own, stopped by its process id. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'

export class RedisServer {
  readonly directory = mkdtempSync(join(tmpdir(), 'weir-redis-'))
  readonly socket = join(this.directory, 'redis.sock')
  private process: Bun.Subprocess | undefined

  private constructor(private readonly settings: readonly string[]) {}

  static async start(...settings: readonly string[]): Promise<RedisServer> {
    const server = new RedisServer(settings)
    await server.start()
    return server
  }

  /** Starts it, or starts it again with what its directory holds; resolves when it answers. */
  async start(): Promise<void> {
    this.process = Bun.spawn(
      [
        'redis-server',
        '--port',
        '0',
        '--unixsocket',
        this.socket,
        '--dir',
        this.directory,
        '--save',
        '',
        ...this.settings,
      ],
      { stdout: 'ignore', stderr: 'inherit' },
    )
    const probe = new Redis(this.socket, { retryStrategy: () => 10, maxRetriesPerRequest: null })
    probe.on('error', () => undefined)
    await probe.ping()
    probe.disconnect()
  }

  client(): Redis {
    return new Redis(this.socket, { commandTimeout: 5000 })
  }

  signal(name: NodeJS.Signals): void {
    this.process?.kill(name)
  }

  async kill(): Promise<void> {
    this.process?.kill('SIGKILL')
    await this.process?.exited
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    rmSync(this.directory, { recursive: true, force: true })
  }
}
