/**
 * One gateway of the chaos run: the real program on a fixed port, with a data directory that survives its kills and
 * restarts.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { createWriteStream, type WriteStream } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { lastingPort } from '../../test/support/ports.ts'
import { childrenWithRole } from '../../test/support/process-table.ts'
import { killAtExit } from './leaked-resources.ts'

const { WEIR_EXECUTABLE } = process.env
/** The words that run weir: the executable of `WEIR_EXECUTABLE`, or else the source. */
const PROGRAM: readonly string[] =
  WEIR_EXECUTABLE === undefined ? [process.execPath, join(import.meta.dir, '../../src/main.ts')] : [WEIR_EXECUTABLE]
/** A program that does not report ready by then is broken, also on a busy machine. */
const READY_MS_MAX = 180_000
/** The same of a command that does not end. */
const COMMAND_MS_MAX = 180_000
const LINES_KEPT = 20
/** What no fault explains. A worker that did not answer, or did not end in time, has been killed by its supervisor. */
const UNEXPLAINED = [
  'internal.error',
  'admin.internal_error',
  'process.crashed',
  'worker.stuck',
  'ledger.owner_stuck',
  'server.killing_workers',
]
const ADMIN_TOKEN = 'an-admin-token-of-the-chaos-run'
/** Longer than a change of a key may take until it is confirmed. */
const ADMIN_TIMEOUT_MS = 45_000

interface Start {
  /** The words of its program; by default those of the others. */
  readonly program?: readonly string[] | undefined
  /** Added to its environment. */
  readonly env?: Readonly<Record<string, string>>
}

export class Gateway {
  /** When one of its processes was killed, in `performance.now` milliseconds. */
  readonly kills: number[] = []
  /** The same for its supervisor. */
  readonly supervisorKills: number[] = []
  /** The same for the process that owns the embedded ledger of several workers. */
  readonly ownerKills: number[] = []
  /** Log lines that no injected fault explains. */
  readonly errors: string[] = []
  starts = 0
  /** Of all its processes, one after the other. */
  private readonly log: WriteStream
  private child: ChildProcess | undefined

  private constructor(
    readonly folder: string,
    readonly port: number,
    private readonly adminPort: number,
    private readonly program: readonly string[],
    private readonly env: Readonly<Record<string, string>>,
  ) {
    this.log = createWriteStream(join(folder, 'weir.log'), { flags: 'a' })
  }

  /** Writes the configuration and starts the program. `config` has neither addresses nor a data directory. */
  static async start(
    folder: string,
    config: JsonObject,
    { program = PROGRAM, env = {} }: Start = {},
  ): Promise<Gateway> {
    await mkdir(folder, { recursive: true })
    const gateway = new Gateway(folder, await lastingPort(), await lastingPort(), program, env)
    const listen = { host: '127.0.0.1', port: gateway.port }
    const admin = { host: '127.0.0.1', port: gateway.adminPort, token: ADMIN_TOKEN }
    await writeFile(
      gateway.file,
      JSON.stringify({ listen, admin, data_dir: gateway.dataDir, drain_seconds: 5, ...config }),
    )
    await gateway.start()
    return gateway
  }

  /** Of its supervisor; undefined while it is away. */
  get pid(): number | undefined {
    return this.child?.pid
  }

  get file(): string {
    return join(this.folder, 'weir.yaml')
  }

  get dataDir(): string {
    return join(this.folder, 'data')
  }

  /** Resolves when it accepts requests. */
  async start(): Promise<void> {
    const { PATH = '' } = process.env
    this.starts++
    const [command = '', ...words] = this.program
    const child = spawn(command, [...words, 'serve', '--config', this.file], {
      cwd: this.folder,
      env: { PATH, HOME: this.folder, ...this.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      // Its own process group, so that a kill reaches the workers.
      detached: true,
    })
    this.child = child
    if (child.pid !== undefined) child.once('close', killAtExit(-child.pid))
    const ready = Promise.withResolvers<void>()
    let output = ''
    readLines(child, (line) => {
      output = `${output}\n${line}`.slice(-2000)
      if (line.includes('"msg":"ready"')) ready.resolve()
      this.onLine(line)
    })
    child.once('close', () => ready.reject(new Error(`the gateway ended before it was ready: ${output}`)))
    const late = setTimeout(() => ready.reject(new Error(`the gateway did not get ready: ${output}`)), READY_MS_MAX)
    await ready.promise.finally(() => clearTimeout(late))
  }

  /** SIGKILL for the supervisor and all workers. */
  async kill(): Promise<void> {
    const { child } = this
    if (child?.pid === undefined) return
    const closed = new Promise((resolve) => child.once('close', resolve))
    process.kill(-child.pid, 'SIGKILL')
    this.kills.push(performance.now())
    this.supervisorKills.push(performance.now())
    await closed
    this.child = undefined
  }

  /**
   * SIGKILL for the supervisor alone. Its workers settle what they have, so no kill is recorded: no charge may be
   * missing. The program may be started again at once.
   */
  async killSupervisor(): Promise<void> {
    const { child } = this
    if (child?.pid === undefined) return
    const exited = new Promise((resolve) => child.once('exit', resolve))
    process.kill(child.pid, 'SIGKILL')
    this.supervisorKills.push(performance.now())
    await exited
    this.child = undefined
  }

  /** SIGKILL for one worker; the supervisor starts another. */
  killWorker(): void {
    if (this.killChild('worker')) this.kills.push(performance.now())
  }

  /**
   * SIGKILL for the process that owns the embedded ledger of several workers. They repeat what it had not written, so
   * this is not among `kills`: no charge may be missing, unless they are killed before the next owner has them.
   */
  killLedgerOwner(): void {
    if (this.killChild('ledger-owner')) this.ownerKills.push(performance.now())
  }

  /** SIGUSR2. Nothing may be missing either. */
  replaceWorkers(): void {
    this.child?.kill('SIGUSR2')
  }

  async freeze(ms: number): Promise<void> {
    const pid = this.child?.pid
    if (pid === undefined) return
    process.kill(-pid, 'SIGSTOP')
    await Bun.sleep(ms)
    process.kill(-pid, 'SIGCONT')
  }

  /** Shuts it down. */
  async stop(): Promise<void> {
    const { child } = this
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    const closed = new Promise((resolve) => child.once('close', resolve))
    process.kill(child.pid, 'SIGTERM')
    await closed
    this.child = undefined
  }

  /** Runs a command of the program and parses its JSON. */
  async command(...words: readonly string[]): Promise<JsonObject> {
    const value: unknown = JSON.parse(await this.run(...words, '--json'))
    return isObject(value) ? value : {}
  }

  /** Runs a command of the program. Resolves to what it prints, without the last newline; rejects if it fails. */
  async run(...words: readonly string[]): Promise<string> {
    const child = Bun.spawn([...this.program, ...words, '--config', this.file], {
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const late = setTimeout(() => {
      this.errors.push(`weir ${words.join(' ')} did not end within ${COMMAND_MS_MAX / 1000} s`)
      child.kill('SIGKILL')
    }, COMMAND_MS_MAX)
    const [text, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    const code = await child.exited
    clearTimeout(late)
    if (code !== 0) throw new Error(`weir ${words.join(' ')}: ${errors}`)
    return text.trimEnd()
  }

  /** Calls its admin API and parses the answer. Rejects if that reports no success. */
  async administer(method: string, path: string, body: JsonObject = {}): Promise<JsonObject> {
    const answer = await fetch(`http://127.0.0.1:${this.adminPort}${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
      ...(method === 'DELETE' ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(ADMIN_TIMEOUT_MS),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : {}
  }

  /** False if it has no process with this role at the moment. */
  private killChild(role: 'worker' | 'ledger-owner'): boolean {
    const pid = this.child?.pid
    if (pid === undefined) return false
    const [child] = childrenWithRole(pid, role)
    if (child === undefined) return false
    try {
      process.kill(child, 'SIGKILL')
      return true
    } catch {
      // It ended at this moment.
      return false
    }
  }

  private onLine(line: string): void {
    this.log.write(`${line}\n`)
    const isError = UNEXPLAINED.some((event) => line.includes(`"event":"${event}"`)) || !line.startsWith('{')
    if (isError && this.errors.length < LINES_KEPT) this.errors.push(line.slice(0, 500))
  }
}

function readLines(child: ChildProcess, take: (line: string) => void): void {
  for (const stream of [child.stdout, child.stderr]) {
    let rest = ''
    stream?.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) if (line !== '') take(line)
    })
  }
}
