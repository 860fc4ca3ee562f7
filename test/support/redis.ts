/** A Redis server for one test: on a free port, without persistence, ended with `await using`. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { REDIS } from '../ledger/programs.ts'
import { Caller } from './caller.ts'
import { lastingPort } from './ports.ts'

export class RedisServer implements AsyncDisposable {
  private constructor(
    private readonly child: Bun.Subprocess,
    private readonly folder: string,
    readonly port: number,
  ) {}

  /** Starts `redis-server` with further options (`['--maxmemory', '1mb']`); resolves when it answers. */
  static async start(options: readonly string[] = [], at?: number): Promise<RedisServer> {
    const folder = await mkdtemp(join(tmpdir(), 'weir-redis-'))
    const port = at ?? (await lastingPort())
    const base = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder]
    const child = Bun.spawn([REDIS, ...base, ...options], { stdout: 'ignore', stderr: 'ignore' })
    const server = new RedisServer(child, folder, port)
    while (!(await server.answers())) {
      if (child.exitCode !== null) throw new Error(`redis-server ended with ${child.exitCode}`)
      await Bun.sleep(10)
    }
    return server
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}/0`
  }

  get pid(): number {
    return this.child.pid
  }

  /** SIGSTOP and SIGCONT pause and resume it; SIGKILL is a crash. */
  signal(signal: 'SIGSTOP' | 'SIGCONT' | 'SIGKILL'): void {
    this.child.kill(signal)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill('SIGKILL')
    await this.child.exited
    await rm(this.folder, { recursive: true, force: true })
  }

  private async answers(): Promise<boolean> {
    try {
      await using caller = await Caller.connect(this.port)
      caller.send('PING\r\n')
      // While it loads its data it answers with an error.
      return (await caller.until('\r\n')).startsWith('+PONG')
    } catch {
      return false
    }
  }
}
