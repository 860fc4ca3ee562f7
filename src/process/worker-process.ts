/** One worker as the supervisor sees it: its process, restarted with back-off, and the questions that are put to it. */

import type { Subprocess } from 'bun'
import type { PeerUpdate } from '../assembly/peer-update.ts'
import type { Config } from '../config/config.ts'
import type { TargetRef } from '../core/model-config.ts'
import type { Logger } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'
import { Heartbeat } from './heartbeat.ts'
import { type Address, isToSupervisor, type ToSupervisor, type ToWorker } from './ipc.ts'

const BACKOFF_MS_MIN = 100
const BACKOFF_MS_MAX = 5000
/** A worker that lived this long was well: the next death begins at the shortest back-off again. */
const WELL_AFTER_MS = 10_000
/** A worker that does not accept by then is ended and restarted. */
const START_MS_MAX = 30_000
const STATUS_MS_MAX = 1000
const PREPARE_MS_MAX = 10_000

/** What Bun reads from the environment when a process starts, and at no other time. */
const RUNTIME = {
  /** It lets 256 outgoing requests run at once and makes all others wait without a sign. */
  BUN_CONFIG_MAX_HTTP_REQUESTS: '65336',
  /**
   * Names are looked up by a pool of threads, one a core: two names that no name server answers held every other look-up up for 10 s. The
   * requests for one name wait for one look-up together, and threads begin as they are needed, so this is how many names may be silent.
   */
  UV_THREADPOOL_SIZE: '256',
  /** It remembers addresses for 30 s, also those that refuse: so long a provider that moved was not found. That a name is none it forgets. */
  BUN_CONFIG_DNS_TIME_TO_LIVE_SECONDS: '5',
} as const

/**
 * The C library waits 5 s for a name server before it asks the next, longer than a connection may take: one that is gone would cost every
 * request. Whatever the operator sets wins.
 */
const RESOLVER = { RES_OPTIONS: 'timeout:1 attempts:3' } as const

interface Orders {
  readonly address: Address
  readonly config: Config
}

interface ChildEvents {
  /** It accepts on this port. */
  readonly onReady: (port: number) => void
  /** It cannot start, and says why. */
  readonly onFailed: (reason: string) => void
  /** It died without having become ready; `deaths` in a row. */
  readonly onEarlyDeath: (how: string, deaths: number) => void
  /** It has looked how many fields the largest organisation has in Redis. */
  readonly onFields: (fields: number) => void
  /** Whether it finds the ledger up has changed. */
  readonly onLedger: (up: boolean) => void
  /** It found out what the other workers should know. */
  readonly onNews: (news: PeerUpdate) => void
  /** It asks whether it may find out about a target whose rest is over. */
  readonly onClaim: (target: TargetRef) => boolean
  /** Its process is gone, however it went. */
  readonly onGone: () => void
}

type State = 'down' | 'starting' | 'ready' | 'ending'
type Process = Subprocess<'ignore', 'inherit', 'inherit'>

export class Child {
  state: State = 'down'
  private process: Process | undefined
  private orders: Orders | undefined
  private ending = false
  private startedAt = 0
  private backoffMs = BACKOFF_MS_MIN
  private deaths = 0
  private restart: NodeJS.Timeout | undefined
  private startLimit: NodeJS.Timeout | undefined
  private nextStatus = 0
  private readonly statuses = new Map<number, (reasons: readonly string[]) => void>()
  private prepared: ((problem: string | undefined) => void) | undefined
  private readonly gone = Promise.withResolvers<void>()
  private readonly heartbeat = new Heartbeat({
    ask: () => this.tell({ type: 'ping' }),
    lost: (silentMs) => this.giveUp(silentMs),
  })

  constructor(
    readonly worker: number,
    private readonly env: Readonly<Record<string, string | undefined>>,
    private readonly logger: Logger,
    private readonly events: ChildEvents,
  ) {}

  /** Starts the process. It loads its code at once and waits for orders, so that the configuration can be checked meanwhile. */
  spawn(): void {
    this.state = 'starting'
    this.startedAt = performance.now()
    this.process = Bun.spawn(workerCommand(), {
      env: { ...RESOLVER, ...this.env, ...RUNTIME },
      stdio: ['ignore', 'inherit', 'inherit'],
      ipc: (message) => {
        if (isToSupervisor(message)) this.take(message)
      },
      onExit: (_process, code, signal) => this.exited(code, signal),
    })
    this.startLimit = setTimeout(() => this.process?.kill('SIGKILL'), START_MS_MAX)
    if (this.orders !== undefined) this.tell({ type: 'start', worker: this.worker, ...this.orders })
  }

  /** Tells the process where to listen and what to serve, and every one that takes its place. */
  start(orders: Orders): void {
    this.orders = orders
    this.tell({ type: 'start', worker: this.worker, ...orders })
  }

  /** What a process that is started from now on is told. */
  set config(config: Config) {
    if (this.orders !== undefined) this.orders = { ...this.orders, config }
  }

  /** The first half of a reload. Resolves to what stands against it. */
  prepare(config: Config): Promise<string | undefined> {
    const { promise, resolve } = Promise.withResolvers<string | undefined>()
    const limit = setTimeout(() => resolve(`worker ${this.worker} does not answer`), PREPARE_MS_MAX)
    this.prepared = (problem) => {
      clearTimeout(limit)
      resolve(problem)
    }
    this.tell({ type: 'prepare', config })
    return promise
  }

  commit(): void {
    this.tell({ type: 'commit' })
  }

  abort(): void {
    this.tell({ type: 'abort' })
  }

  /** Tells it what another worker found out. One that is not ready yet has nothing to keep it in. */
  hear(news: PeerUpdate): void {
    if (this.state === 'ready') this.tell({ type: 'news', news })
  }

  /** Ends the running process in good order; a new one with the newest orders takes its place. */
  replace(): void {
    this.process?.kill('SIGTERM')
  }

  /** Why this worker is not ready; none where it is. */
  status(): Promise<readonly string[]> {
    if (this.state !== 'ready')
      return Promise.resolve([this.named(this.state === 'down' ? 'is down' : `is ${this.state}`)])
    const id = this.nextStatus++
    const { promise, resolve } = Promise.withResolvers<readonly string[]>()
    const limit = setTimeout(() => this.answer(id, ['does not answer']), STATUS_MS_MAX)
    this.statuses.set(id, (reasons) => {
      clearTimeout(limit)
      resolve(reasons.map((reason) => this.named(reason)))
    })
    this.tell({ type: 'status', id })
    return promise
  }

  /** Lets the process finish what it does and end. Resolves when it is gone. */
  drain(): Promise<void> {
    this.end()
    this.tell({ type: 'drain' })
    return this.gone.promise
  }

  cut(): void {
    this.tell({ type: 'cut' })
  }

  kill(): Promise<void> {
    this.end()
    this.process?.kill('SIGKILL')
    return this.gone.promise
  }

  private end(): void {
    this.ending = true
    clearTimeout(this.restart)
    if (this.process === undefined) this.gone.resolve()
    else this.state = 'ending'
  }

  private listensOn(port: number): void {
    if (this.orders === undefined) return
    this.orders = { ...this.orders, address: { ...this.orders.address, port } }
  }

  private named(reason: string): string {
    return `worker ${this.worker} ${reason}`
  }

  private tell(message: ToWorker): void {
    // Between the end of a process and the start of the next there is nobody to tell; the next one gets its orders when it starts.
    if (this.process !== undefined && this.process.exitCode === null) this.process.send(message)
  }

  private answer(id: number, reasons: readonly string[]): void {
    this.statuses.get(id)?.(reasons)
    this.statuses.delete(id)
  }

  private take(message: ToSupervisor): void {
    this.heartbeat.heard()
    switch (message.type) {
      case 'ready':
        clearTimeout(this.startLimit)
        this.deaths = 0
        if (!this.ending) this.state = 'ready'
        // A worker that is looked at in a debugger stands still for as long as its reader likes.
        if (this.env['BUN_INSPECT'] === undefined) this.heartbeat.start()
        // The one that takes its place shall have the same, also if any port was good enough for this one.
        this.listensOn(message.port)
        this.events.onReady(message.port)
        return
      case 'failed':
        this.events.onFailed(message.reason)
        return
      case 'prepared':
        this.prepared?.(message.problem)
        return
      case 'status':
        this.answer(message.id, message.reasons)
        return
      case 'pong':
        return
      case 'fields':
        this.events.onFields(message.fields)
        return
      case 'ledger':
        this.events.onLedger(message.up)
        return
      case 'news':
        this.events.onNews(message.news)
        return
      case 'claim':
        this.tell({ type: 'granted', id: message.id, granted: this.events.onClaim(message.target) })
        return
    }
  }

  /** Its loop stands still: no order reaches it, and no signal but this one. */
  private giveUp(silentMs: number): void {
    const { process, worker } = this
    logEvent(this.logger, 'worker.stuck', { worker, pid: process?.pid, silent_ms: silentMs })
    process?.kill('SIGKILL')
  }

  private exited(code: number | null, signal: NodeJS.Signals | number | null): void {
    const pid = this.process?.pid
    const wasReady = this.state === 'ready'
    this.process = undefined
    this.state = 'down'
    clearTimeout(this.startLimit)
    this.heartbeat.stop()
    this.events.onGone()
    this.prepared?.(this.named('died'))
    for (const id of [...this.statuses.keys()]) this.answer(id, ['is down'])
    if (this.ending) {
      this.gone.resolve()
      return
    }
    const how = signal === null ? `exit code ${code}` : `signal ${signal}`
    if (!wasReady) this.events.onEarlyDeath(how, ++this.deaths)
    if (!this.ending) this.restartLater(pid, how)
  }

  private restartLater(pid: number | undefined, how: string): void {
    if (performance.now() - this.startedAt >= WELL_AFTER_MS) this.backoffMs = BACKOFF_MS_MIN
    const restartInMs = this.backoffMs
    this.backoffMs = Math.min(this.backoffMs * 2, BACKOFF_MS_MAX)
    logEvent(this.logger, 'worker.died', { worker: this.worker, pid, how, restart_in_ms: restartInMs })
    this.restart = setTimeout(() => this.spawn(), restartInMs)
  }
}

/**
 * Keeps Bun from loading what lies in the working directory: `.env`, the `preload` of bunfig.toml, the `paths` of tsconfig.json. A compiled
 * binary loads none of them.
 */
const ISOLATION = ['--no-env-file', '--config=/dev/null', '--tsconfig-override=/dev/null', '--no-install'] as const

/** How this program starts itself as a worker: with the script's path from a checkout, without one if it is a compiled binary. */
function workerCommand(): string[] {
  const compiled = import.meta.path.startsWith('/$bunfs/')
  return compiled ? [process.execPath, 'worker'] : [process.execPath, ...ISOLATION, Bun.main, 'worker']
}
