/** One gateway of the chaos run: the real program on a fixed port and a directory that outlives it, killed without warning and started again. */

import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isObject, type JsonObject } from '../src/core/json.ts'
import { lastingPort } from '../test/support/ports.ts'
import { noted } from './leaked-resources.ts'

const MAIN = join(import.meta.dir, '../src/main.ts')
/** A program that does not say that it is ready by then is broken; a busy machine is slow. */
const READY_MS_MAX = 20_000
const LINES_KEPT = 20

export class Node {
  /** When a process of it was killed, by `performance.now`. */
  readonly deaths: number[] = []
  /** Log lines that no fault explains. */
  readonly alarms: string[] = []
  starts = 0
  private child: ChildProcess | undefined

  private constructor(
    readonly folder: string,
    readonly port: number,
  ) {}

  /** Writes its configuration and starts it. `config` lacks the address and the directory. */
  static async start(folder: string, config: JsonObject): Promise<Node> {
    const node = new Node(folder, await lastingPort())
    await mkdir(folder, { recursive: true })
    const listen = { host: '127.0.0.1', port: node.port }
    const admin = { host: '127.0.0.1', port: 0 }
    await writeFile(node.file, JSON.stringify({ listen, admin, data_dir: node.dataDir, drain_seconds: 5, ...config }))
    await node.start()
    return node
  }

  get file(): string {
    return join(this.folder, 'weir.yaml')
  }

  get dataDir(): string {
    return join(this.folder, 'data')
  }

  /** Resolves once it accepts. */
  async start(): Promise<void> {
    const { PATH = '' } = process.env
    this.starts++
    const child = spawn(process.execPath, [MAIN, 'serve', '--config', this.file], {
      cwd: this.folder,
      env: { PATH, HOME: this.folder },
      stdio: ['ignore', 'pipe', 'pipe'],
      // A process group of its own: a kill takes the workers along.
      detached: true,
    })
    this.child = child
    if (child.pid !== undefined) child.once('close', noted(-child.pid))
    const ready = Promise.withResolvers<void>()
    let said = ''
    readLines(child, (line) => {
      said = `${said}\n${line}`.slice(-2000)
      if (line.includes('"msg":"ready"')) ready.resolve()
      this.hear(line)
    })
    child.once('close', () => ready.reject(new Error(`the gateway ended before it was ready: ${said}`)))
    const late = setTimeout(() => ready.reject(new Error(`the gateway did not get ready: ${said}`)), READY_MS_MAX)
    await ready.promise.finally(() => clearTimeout(late))
  }

  /** SIGKILL for the supervisor and all workers. */
  async kill(): Promise<void> {
    const { child } = this
    if (child?.pid === undefined) return
    const closed = new Promise((resolve) => child.once('close', resolve))
    process.kill(-child.pid, 'SIGKILL')
    this.deaths.push(performance.now())
    await closed
    this.child = undefined
  }

  /**
   * SIGKILL for the supervisor alone. Its workers settle what they have, so that no death is noted: nothing may be missing. Another program may
   * be started at once.
   */
  async killSupervisor(): Promise<void> {
    const { child } = this
    if (child?.pid === undefined) return
    const exited = new Promise((resolve) => child.once('exit', resolve))
    process.kill(child.pid, 'SIGKILL')
    await exited
    this.child = undefined
  }

  /** SIGKILL for one worker; the supervisor starts another. */
  killWorker(): void {
    const [worker] = this.workers()
    if (worker === undefined) return
    try {
      process.kill(worker, 'SIGKILL')
      this.deaths.push(performance.now())
    } catch {
      // It ended between the look and the signal.
    }
  }

  async freeze(ms: number): Promise<void> {
    const pid = this.child?.pid
    if (pid === undefined) return
    process.kill(-pid, 'SIGSTOP')
    await Bun.sleep(ms)
    process.kill(-pid, 'SIGCONT')
  }

  /** Ends it in good order. */
  async stop(): Promise<void> {
    const { child } = this
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    const closed = new Promise((resolve) => child.once('close', resolve))
    process.kill(child.pid, 'SIGTERM')
    await closed
    this.child = undefined
  }

  /** What a command of the program prints, as JSON. */
  async command(...words: readonly string[]): Promise<JsonObject> {
    const child = Bun.spawn([process.execPath, MAIN, ...words, '--json', '--config', this.file], {
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [text, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    if ((await child.exited) !== 0) throw new Error(`weir ${words.join(' ')}: ${errors}`)
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : {}
  }

  private workers(): readonly number[] {
    const pid = this.child?.pid
    if (pid === undefined) return []
    try {
      return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
    } catch {
      return []
    }
  }

  private hear(line: string): void {
    const isAlarm = line.includes('"msg":"internal error"') || !line.startsWith('{')
    if (isAlarm && this.alarms.length < LINES_KEPT) this.alarms.push(line.slice(0, 500))
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
