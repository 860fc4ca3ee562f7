/**
 * All worker processes: those that serve, those that were replaced and finish what runs, and the one that is about to
 * replace another.
 */

import type { RestartReason, RunningBuild, WorkerDeath } from '../../admin/supervision.ts'
import { remaining } from '../../assembly/targets.ts'
import type { Config } from '../../config/config.ts'
import { TIMER_MS_MAX } from '../../core/durations.ts'
import type { Logger } from '../../logging/log.ts'
import { logEvent } from '../../logging/log-events.ts'
import type { WorkerStatus } from '../ipc/ipc.ts'
import type { PassedSocket } from '../service-manager/socket-activation.ts'
import { type ListenAddress, probe } from '../system/listen-address.ts'
import type { RunningProcess } from '../system/process-usage.ts'
import { StartProblem } from '../system/start-problem.ts'
import { LedgerOwnership } from './ledger-ownership.ts'
import { programProblem } from './program-file.ts'
import { reloadAll, reloadReplaced } from './reload.ts'
import { replaceWorker } from './replacement.ts'
import { WorkerProcess } from './worker-process.ts'
import { WorkerReports } from './worker-reports.ts'

/** The time of a log line. */
const TIME = /"time":"([^"]+)"/
/** After this many deaths in a row before it was ready, a worker will not start the next time either. */
const EARLY_DEATHS_MAX = 3
/** What a worker may take beyond `drain_seconds` to settle and to write its log. After that it is killed. */
const DRAIN_GRACE_MS = 10_000

/** Lines of requests a second that the workers send together while somebody watches. */
const LINES_A_SECOND = 100

interface WorkerSetOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly logger: Logger
  /** Takes log lines of requests while somebody watches, and how many others ended. */
  readonly onRequests: (lines: readonly string[], omitted: number) => void
  /** The states of targets may have changed. */
  readonly onTargets: () => void
}

export class WorkerSet {
  readonly reports: WorkerReports
  /** How many workers died and were started again, by the reason. */
  readonly restarts: Record<RestartReason, number> = { exit: 0, signal: 0, stuck: 0 }
  lastDeath: WorkerDeath | undefined
  /** The last death of each worker, by its index. */
  private readonly deaths = new Map<number, WorkerDeath>()
  private isWatched = false
  /** Those that serve, by their index. */
  private readonly serving: WorkerProcess[] = []
  /** Those that were replaced, and one that is about to replace another. */
  private readonly others = new Set<WorkerProcess>()
  private spawned = 0
  private readonly ledger: LedgerOwnership
  /** `drain_seconds` of the configuration in force. */
  private drainSeconds = 0
  private hasStarted = false
  private isEnding = false
  private readonly ending = Promise.withResolvers<undefined>()
  /** Resolves when every worker is ready; rejects with the `StartProblem` of one that cannot start. */
  private readonly started = Promise.withResolvers<void>()
  /** The port of the first worker that is ready. */
  private readonly chosenPort = Promise.withResolvers<number>()

  constructor(private readonly options: WorkerSetOptions) {
    const { env, logger } = options
    const workers = () => this.all()
    this.ledger = new LedgerOwnership({ env, logger, workers, isEnding: () => this.isEnding })
    this.reports = new WorkerReports({ ...options, workers })
    // It may reject before anything awaits it, which would end the process as an unhandled rejection.
    this.started.promise.catch(() => {})
  }

  get size(): number {
    return this.serving.length
  }

  get readyCount(): number {
    return this.serving.filter(({ state }) => state === 'ready').length
  }

  /** The last deaths of workers that are not ready again, or were not `sinceMs` ago, in Unix milliseconds. */
  deathsSince(sinceMs: number): readonly WorkerDeath[] {
    return [...this.deaths.values()].filter(
      ({ atMs, worker }) => atMs >= sinceMs || this.serving[worker]?.state !== 'ready',
    )
  }

  /** How late the event loop of each worker is, in seconds; the later one while a process replaces another. */
  loopLag(): ReadonlyMap<number, number> {
    const lags = new Map<number, number>()
    for (const { index, pid } of this.all()) {
      const lag = pid === undefined ? undefined : this.reports.figures.gaugesOf(pid)?.loopLagSeconds
      if (lag !== undefined) lags.set(index, Math.max(lag, lags.get(index) ?? 0))
    }
    return lags
  }

  /** The different builds that run. */
  builds(): readonly RunningBuild[] {
    const found = this.all().flatMap(({ build }) => (build === undefined ? [] : [build]))
    const distinct = new Map(found.map((build) => [JSON.stringify(build), build]))
    return [...distinct.values()].map((build) => ({ process: 'worker', ...build }))
  }

  /** The processes that run: workers, and the owner of the ledger if it is a process of its own. */
  processes(): readonly RunningProcess[] {
    const workers = this.all().flatMap(({ index, pid }): readonly RunningProcess[] =>
      pid === undefined ? [] : [{ process: 'worker', worker: String(index), pid }],
    )
    const owner = this.ledger.process?.pid
    return owner === undefined ? workers : [...workers, { process: 'ledger', worker: '', pid: owner }]
  }

  /** Starts one more worker. It loads its code, and waits for its settings. */
  spawn(): void {
    const worker = this.newWorker(this.serving.length)
    this.serving.push(worker)
    worker.spawn()
  }

  /**
   * Starts all workers of a configuration. Resolves to the address that they share; undefined if the end begins first.
   * `socket`: they accept from it instead of sockets of their own. Throws `StartProblem` or `AddressProblem`.
   */
  async start(config: Config, socket?: PassedSocket): Promise<ListenAddress | undefined> {
    this.use(config)
    // The workers load their code meanwhile.
    const owned = this.ledger.start(config)
    while (this.serving.length < config.workers) this.spawn()
    await owned
    return this.isEnding ? undefined : await this.sendSettings(config, socket)
  }

  /** Resolves when every worker is ready. Rejects with the `StartProblem` of one that cannot start. */
  async whenReady(): Promise<void> {
    await Promise.race([this.started.promise, this.ending.promise])
    this.hasStarted = true
  }

  /** Asks each worker; of one that does not answer the last report of the ledger counts. */
  async status(): Promise<Required<WorkerStatus>> {
    const all = await Promise.all(this.serving.map((worker) => worker.status()))
    const isUp = all.every(({ ledgerUp = this.reports.isLedgerUp }) => ledgerUp)
    return { reasons: all.flatMap(({ reasons }) => reasons), ledgerUp: isUp }
  }

  /** Whether the workers send the lines of requests that end. */
  watch(isWatched: boolean): void {
    this.isWatched = isWatched
    for (const worker of this.all()) this.sendWatch(worker)
  }

  /** Resolves to the log lines of the last requests, the newest first. */
  async recent(count: number): Promise<readonly string[]> {
    const lines = (await Promise.all(this.all().map((worker) => worker.recent()))).flat()
    const timed = lines.map((line) => ({ line, time: TIME.exec(line)?.[1] ?? '' }))
    timed.sort((one, other) => (one.time < other.time ? 1 : one.time > other.time ? -1 : 0))
    return timed.slice(0, count).map(({ line }) => line)
  }

  /** Lets all workers use a new configuration. Resolves to the problems; if there are any, nothing has changed. */
  async reload(current: Config, next: Config): Promise<readonly string[]> {
    const problems = await reloadAll(this.serving, next)
    if (problems.length > 0) return problems
    for (const retired of this.others) void reloadReplaced(retired, next)
    const remains = remaining(current, next)
    this.reports.health.keep(remains)
    this.reports.targets.keep(remains)
    this.use(next, current)
    return []
  }

  /** One by one. If a new worker cannot take over, the others stay, too: they would fail in the same way. */
  async replace(): Promise<void> {
    const startMs = performance.now()
    const unsafe = programProblem()
    if (unsafe !== undefined) {
      logEvent(this.options.logger, 'workers.replace_failed', { reason: unsafe })
      return
    }
    for (const old of [...this.serving]) {
      if (this.isEnding) return
      const next = this.newWorker(old.index)
      this.others.add(next)
      const onTakenOver = () => this.takenOver(old, next)
      const reason = await replaceWorker({ old, next, onTakenOver, ended: this.ending.promise })
      if (reason === undefined) continue
      this.others.delete(next)
      if (!this.isEnding) logEvent(this.options.logger, 'workers.replace_failed', { worker: old.index, reason })
      return
    }
    const problem = this.isEnding ? undefined : await this.ledger.process?.replace()
    if (problem !== undefined) logEvent(this.options.logger, 'ledger.owner_kept', { reason: problem })
    const ms = Math.round(performance.now() - startMs)
    const version = this.serving[0]?.version
    logEvent(this.options.logger, 'workers.replaced', { version, workers: this.serving.length, ms })
  }

  /** Lets all workers finish what runs, and ends them; then the owner of the ledger. */
  async drain(): Promise<void> {
    this.isEnding = true
    this.ending.resolve(undefined)
    const limit = this.limit(() => {
      logEvent(this.options.logger, 'server.killing_workers')
      for (const worker of this.all()) void worker.kill()
    })
    await Promise.all(this.all().map((worker) => worker.drain()))
    clearTimeout(limit)
    this.reports.close()
    await this.ledger.process?.stop()
  }

  /** Ends a drain at once. */
  cut(): void {
    for (const worker of this.all()) worker.send({ type: 'cut' })
  }

  async kill(): Promise<void> {
    this.isEnding = true
    await Promise.all(this.all().map((worker) => worker.kill()))
    this.reports.close()
    await this.ledger.process?.kill()
  }

  private sendWatch(worker: WorkerProcess): void {
    const linesASecond = this.isWatched ? Math.ceil(LINES_A_SECOND / Math.max(1, this.size)) : 0
    worker.send({ type: 'watch', linesASecond })
  }

  private all(): readonly WorkerProcess[] {
    return [...this.serving, ...this.others]
  }

  /** Calls back when the workers should have ended. */
  private limit(late: () => void): ReturnType<typeof setTimeout> {
    return setTimeout(late, Math.min(this.drainSeconds * 1000 + DRAIN_GRACE_MS, TIMER_MS_MAX))
  }

  private use(config: Config, before?: Config): void {
    this.drainSeconds = config.drainSeconds
    this.reports.use(config, before)
  }

  /**
   * If the port is 0, the first worker takes a free one and keeps it: a port that the supervisor finds free could be
   * taken before a worker listens on it.
   */
  private async sendSettings(config: Config, socket?: PassedSocket): Promise<ListenAddress | undefined> {
    if (socket !== undefined) {
      const address = { ...config.listen, port: socket.port }
      for (const worker of this.serving) worker.start({ address, config, socket: socket.descriptor })
      return address
    }
    const [first, ...others] = this.serving
    const address = config.listen.port === 0 ? config.listen : probe(config.listen)
    first?.start({ address, config })
    if (address.port !== 0) {
      for (const worker of others) worker.start({ address, config })
      return address
    }
    const chosen = await Promise.race([this.chosenPort.promise, this.started.promise, this.ending.promise])
    if (chosen === undefined) return undefined
    const shared = { ...address, port: chosen }
    for (const worker of others) worker.start({ address: shared, config })
    return shared
  }

  private newWorker(index: number): WorkerProcess {
    const { env, logger } = this.options
    const worker: WorkerProcess = new WorkerProcess(index, this.spawned++, env, logger, {
      onReady: (port) => {
        this.chosenPort.resolve(port)
        this.reports.inform(worker)
        if (this.isWatched) this.sendWatch(worker)
        if (this.serving.every((each) => each.state === 'ready')) this.started.resolve()
      },
      onFailed: (reason) => {
        this.started.reject(new StartProblem([reason]))
        if (!this.hasStarted) return
        logEvent(logger, 'worker.start_failed', { worker: index, reason })
        worker.replace()
      },
      onEarlyDeath: (how, deaths) => {
        if (deaths < EARLY_DEATHS_MAX) return
        this.started.reject(new StartProblem([`worker ${index} died ${deaths} times before it could start (${how})`]))
      },
      onReport: (report) => this.reports.take(report, worker),
      learnedForms: () => this.reports.forms.all(),
      onDeath: (how, reason) => {
        this.restarts[reason]++
        this.lastDeath = { atMs: Date.now(), worker: index, how }
        this.deaths.set(index, this.lastDeath)
      },
      ledgerRole: () => this.ledger.roleOf(worker),
      onGone: (pid) => {
        this.reports.gone(worker, pid)
        this.ledger.gone(worker)
      },
    })
    return worker
  }

  private takenOver(old: WorkerProcess, next: WorkerProcess): void {
    this.others.delete(next)
    this.others.add(old)
    this.serving[old.index] = next
    const limit = this.limit(() => void old.kill())
    void old.whenGone.then(() => {
      clearTimeout(limit)
      this.others.delete(old)
      if (this.all().length === 1) next.send({ type: 'alone' })
    })
  }
}
