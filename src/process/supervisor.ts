/**
 * The supervisor: starts the workers, restarts them, and handles signals. It owns the configuration and the admin
 * port. It never serves the inference API.
 */

import type { Admin } from '../admin/admin-app.ts'
import type { Figures } from '../admin/metrics.ts'
import type { PeerUpdate } from '../assembly/inference-service.ts'
import type { LedgerPlace, LedgerRole } from '../assembly/open-ledger.ts'
import { remaining, targetsOf } from '../assembly/targets.ts'
import { changesOf } from '../config/changes.ts'
import type { Config } from '../config/config.ts'
import type { LoadResult } from '../config/load.ts'
import { Breaker } from '../gateway/breaker.ts'
import type { LocalItemStore } from '../items/local-item-store.ts'
import { itemStorePlace, openMachineItems } from '../items/open-item-store.ts'
import { dieOnUncaught, type Log, openLog } from '../logging/log.ts'
import { type LogEventName, logEvent } from '../logging/log-events.ts'
import { CoalescingQueue } from './coalescing-queue.ts'
import { type Control, openControl } from './control-socket.ts'
import { DiskWatch, spaceOf } from './disk-watch.ts'
import type { Address } from './ipc.ts'
import { LedgerOwnerProblem, LedgerProcess } from './ledger-process.ts'
import { AddressProblem, authority, explain, probe } from './listen-address.ts'
import { ProbeLeases } from './probe-lease.ts'
import { follow, needsRestart, type ReloadResult, swap } from './reload.ts'
import { replaceWorker } from './replacement.ts'
import { ServiceManager } from './service-manager.ts'
import { WorkerProcess } from './worker-process.ts'

/** After this many deaths in a row before it was ready, a worker will not start the next time either. */
const EARLY_DEATHS_MAX = 3
/** What a worker may take beyond `drain_seconds` to settle and to write its log. After that it is killed. */
const DRAIN_GRACE_MS = 10_000
/** A longer timer fires at once. */
const TIMER_MS_MAX = 2 ** 31 - 1

interface SupervisorOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Reads and checks the configuration, with the flags of the command line applied. */
  readonly load: () => Promise<LoadResult>
}

/** Why weir cannot start: one line for each problem, for the operator. */
class StartProblem extends Error {
  override readonly name = 'StartProblem'

  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'))
  }
}

/** Runs the gateway until a signal ends it. Resolves to the exit code and the problems to print. */
export async function supervise(options: SupervisorOptions): Promise<{ code: number; problems: readonly string[] }> {
  const log = openLog(1, options.env)
  dieOnUncaught(log, { process: 'supervisor' })
  const supervisor = new Supervisor(options, log)
  try {
    await supervisor.run()
    return { code: 0, problems: [] }
  } catch (error) {
    await supervisor.killAll()
    if (error instanceof StartProblem) return { code: 1, problems: error.problems }
    if (error instanceof AddressProblem) return { code: 1, problems: [error.message] }
    throw error
  } finally {
    await log.flush()
  }
}

/** What `systemctl status` shows. */
const SERVING = 'Serving requests'

/** The event of a reload lists at most this many changes; `weir reload` prints all. */
const LOGGED_CHANGES_MAX = 100

function logged(changes: readonly string[]): readonly string[] {
  const more = changes.length - LOGGED_CHANGES_MAX
  return more > 0 ? [...changes.slice(0, LOGGED_CHANGES_MAX), `${more} more`] : changes
}

class Supervisor {
  private readonly workers: WorkerProcess[] = []
  /** Workers that were replaced and finish what runs, and one that is about to replace another. */
  private readonly others = new Set<WorkerProcess>()
  private spawned = 0
  private config: Config | undefined
  private admin: Admin | undefined
  private control: Control | undefined
  /**
   * What the workers reported about targets: for new workers, metrics and `weir explain`. The supervisor itself calls
   * no target.
   */
  private readonly health = new Breaker()
  private readonly probes = new ProbeLeases(this.health)
  /** The number of fields of the largest organisation in Redis; undefined until a worker has counted them. */
  private fields: number | undefined
  /** The workers that report the ledger down. */
  private readonly withoutLedger = new Set<WorkerProcess>()
  /** The readiness check that runs now. Concurrent requests of `/readyz` share it. */
  private checking: Promise<readonly string[]> | undefined
  /** Owns the embedded ledger, if several workers share it. */
  private ledger: LedgerProcess | undefined
  /** The worker that owns the embedded ledger, if there is no process of its own for it. */
  private ledgerOwner: WorkerProcess | undefined
  /** What the workers' callers may refer to, if it is not in Redis. Workers are replaced, and this process is not. */
  private items: LocalItemStore | undefined
  private accepting = false
  private ending = false
  /** SIGHUP arrived before the workers were ready. */
  private reloadWanted = false
  /** SIGUSR2 arrived before the workers were ready. */
  private replaceWanted = false
  private readonly reloads = new CoalescingQueue(() => this.exclusively(() => this.reloadOnce()))
  private readonly replacements = new CoalescingQueue(() => this.exclusively(() => this.replaceOnce()))
  /** The reload or the replacement of workers that runs: the next one waits for it. */
  private changing: Promise<unknown> = Promise.resolve()
  private readonly serviceManager: ServiceManager
  /** Resolves when the end begins. */
  private readonly endings = Promise.withResolvers<void>()
  private readonly ended = Promise.withResolvers<void>()
  /** Resolves when every worker is ready; rejects with the `StartProblem` of one that cannot start. */
  private readonly started = Promise.withResolvers<void>()
  /** The port of the first worker that is ready. */
  private readonly chosenPort = Promise.withResolvers<number>()

  constructor(
    private readonly options: SupervisorOptions,
    private readonly log: Log,
  ) {
    this.serviceManager = new ServiceManager(options.env, (problem) =>
      this.logEvent('systemd.unreachable', { problem }),
    )
    // It may reject before `run` awaits it, which would end the process as an unhandled rejection.
    this.started.promise.catch(() => {})
  }

  async run(): Promise<void> {
    this.onSignals()
    // The first worker loads its code while the configuration is read and checked here.
    this.spawn()
    const config = await this.load()
    if (!this.ending) {
      await this.start(config)
      if (this.reloadWanted) this.reload()
      if (this.replaceWanted) this.replaceWorkers()
    }
    await this.ended.promise
  }

  async killAll(): Promise<void> {
    await Promise.all([this.control?.close(), this.admin?.stop(), ...this.all().map((worker) => worker.kill())])
    await this.ledger?.kill()
  }

  private async load(): Promise<Config> {
    const loaded = await this.options.load()
    if (!loaded.ok) throw new StartProblem(loaded.problems)
    this.config = loaded.config
    this.items = openMachineItems(loaded.config)
    this.log.format(loaded.config.log?.format ?? 'auto')
    return loaded.config
  }

  private async start(config: Config): Promise<void> {
    const ledger = config.workers > 1 && config.ledger.kind === 'embedded' ? this.startLedger(config) : undefined
    while (this.workers.length < config.workers) this.spawn()
    await ledger
    if (this.ending) return
    const address = await this.startWorkers(config)
    if (address === undefined) return
    const admin = await this.openAdmin(config.admin)
    await this.openControl(config.dataDir)
    this.watchDisk(config.dataDir)
    await Promise.race([this.started.promise, this.ended.promise])
    if (this.ending) return
    this.accepting = true
    this.serviceManager.ready(SERVING)
    this.logEvent('server.ready', {
      address: `http://${authority(address)}`,
      admin: `http://${authority(admin.address)}`,
      workers: config.workers,
      ms: Math.round(performance.now()),
    })
  }

  /**
   * Resolves when it owns the ledger. The workers load their code meanwhile, and get their settings afterwards: they
   * must not call the owner of another weir that uses the directory. Throws `StartProblem`.
   */
  private async startLedger(place: LedgerPlace): Promise<void> {
    this.ledger = new LedgerProcess({ env: this.options.env, logger: this.log.logger, place })
    try {
      await this.ledger.start()
    } catch (error) {
      if (this.ending) return
      if (error instanceof LedgerOwnerProblem) throw new StartProblem([error.message])
      throw error
    }
  }

  /**
   * Sends the workers their settings. Resolves to the address that they share; undefined if weir ends first. If the
   * port is 0, the first worker takes a free one and keeps it: a port that the supervisor finds free could be taken
   * before a worker listens on it.
   */
  private async startWorkers(config: Config): Promise<Address | undefined> {
    const [first, ...others] = this.workers
    const address = config.listen.port === 0 ? config.listen : probe(config.listen)
    first?.start({ address, config })
    if (address.port !== 0) {
      for (const worker of others) worker.start({ address, config })
      return address
    }
    const chosen = await Promise.race([this.chosenPort.promise, this.started.promise, this.ended.promise])
    if (chosen === undefined) return undefined
    const shared = { ...address, port: chosen }
    for (const worker of others) worker.start({ address: shared, config })
    return shared
  }

  /** Loads the code of the admin port only now, while the workers load theirs. Throws `StartProblem`. */
  private async openAdmin(address: Address): Promise<Admin> {
    const { openAdmin } = await import('../admin/admin-app.ts')
    try {
      this.admin = openAdmin(address, { reasons: () => this.reasons(), figures: () => this.figures() })
      return this.admin
    } catch (error) {
      throw new StartProblem([`admin: ${explain(address, error)}`])
    }
  }

  /**
   * If the socket cannot be opened, weir serves requests all the same; only the commands that ask a running weir fail.
   */
  private async openControl(dataDir: string): Promise<void> {
    const opened = await openControl(dataDir, {
      rests: () => ({ rests: this.health.rests() }),
      reload: () => this.reloadByCommand(),
      health: async () => ({ reasons: await this.reasons() }),
    })
    if ('problem' in opened) this.logEvent('control.unavailable', { problem: opened.problem })
    else this.control = opened
  }

  /** All processes, also those that were replaced. */
  private all(): readonly WorkerProcess[] {
    return [...this.workers, ...this.others]
  }

  private spawn(): void {
    const worker = this.newWorker(this.workers.length)
    this.workers.push(worker)
    worker.spawn()
  }

  private newWorker(index: number): WorkerProcess {
    const holder = this.spawned++
    const worker: WorkerProcess = new WorkerProcess(index, this.options.env, this.log.logger, {
      onReady: (port) => {
        this.chosenPort.resolve(port)
        for (const rest of this.health.rests()) worker.forward({ about: 'rest', rest })
        if (this.workers.every((each) => each.state === 'ready')) this.started.resolve()
      },
      onFailed: (reason) => {
        this.started.reject(new StartProblem([reason]))
        if (this.accepting) {
          this.logEvent('worker.start_failed', { worker: worker.index, reason })
          worker.replace()
        }
      },
      onEarlyDeath: (how, deaths) => {
        if (deaths >= EARLY_DEATHS_MAX) {
          this.started.reject(
            new StartProblem([`worker ${worker.index} died ${deaths} times before it could start (${how})`]),
          )
        }
      },
      onFields: (fields) => {
        this.fields = fields
      },
      onLedger: (up) => {
        if (up) this.withoutLedger.delete(worker)
        else this.withoutLedger.add(worker)
      },
      onPeerUpdate: (update) => this.broadcast(worker, update),
      onProbeClaim: (target) => this.probes.grant(holder, target),
      onItems: (organization, items) => {
        for (const item of items) this.items?.putText(organization, item)
      },
      onRecall: (organization, id) => this.items?.getText(organization, id),
      ledgerRole: () => this.ledgerRole(worker),
      onGone: () => {
        this.probes.gone(holder)
        this.withoutLedger.delete(worker)
        if (this.ledgerOwner === worker) this.passLedgerOn()
      },
    })
    return worker
  }

  /**
   * A single worker owns the embedded ledger itself. While it is replaced there are two, and the new one calls the old
   * one until that is gone: the ledger has one owner, and the old worker may run for as long as its streams.
   */
  private ledgerRole(worker: WorkerProcess): LedgerRole {
    if (this.ledger !== undefined) return 'caller'
    if (this.ledgerOwner !== undefined && this.ledgerOwner !== worker) return 'caller'
    this.ledgerOwner = worker
    return this.all().some((other) => other !== worker && other.isAlive) ? 'successor' : 'owner'
  }

  private passLedgerOn(): void {
    this.ledgerOwner = [...this.workers, ...this.others].find(({ isAlive }) => isAlive)
    this.ledgerOwner?.ownLedger()
  }

  private broadcast(from: WorkerProcess, update: PeerUpdate): void {
    if (update.about === 'rest') this.probes.hear(update.rest)
    for (const worker of this.all()) if (worker !== from) worker.forward(update)
  }

  private onSignals(): void {
    process.on('SIGTERM', () => this.end('SIGTERM'))
    process.on('SIGINT', () => this.end('SIGINT'))
    process.on('SIGHUP', () => this.reload())
    process.on('SIGUSR2', () => this.replaceWorkers())
  }

  /** The first signal drains, the second cuts. */
  private end(signal: string): void {
    if (this.ending) {
      for (const worker of this.all()) worker.cut()
      return
    }
    this.ending = true
    this.endings.resolve()
    void this.drain(signal)
  }

  private async drain(signal: string): Promise<void> {
    const drainSeconds = this.config?.drainSeconds ?? 0
    this.serviceManager.stopping()
    this.logEvent('server.draining', { signal, drain_seconds: drainSeconds })
    const limit = setTimeout(
      () => {
        this.logEvent('server.killing_workers')
        for (const worker of this.all()) void worker.kill()
      },
      Math.min(drainSeconds * 1000 + DRAIN_GRACE_MS, TIMER_MS_MAX),
    )
    await Promise.all(this.all().map((worker) => worker.drain()))
    clearTimeout(limit)
    await this.ledger?.stop()
    await Promise.all([this.control?.close(), this.admin?.stop()])
    this.serviceManager.close()
    this.logEvent('server.stopped')
    this.ended.resolve()
  }

  /** For SIGHUP. One that arrives while weir starts is done after the start. */
  private reload(): void {
    if (this.accepting) void this.reloads.request()
    else this.reloadWanted = true
  }

  /** For `weir reload`. */
  private async reloadByCommand(): Promise<ReloadResult> {
    if (!this.accepting || this.ending) return { problems: [this.ending ? 'draining' : 'starting'], changes: [] }
    return await this.reloads.request()
  }

  private async reloadOnce(): Promise<ReloadResult> {
    if (this.ending) return { problems: ['draining'], changes: [] }
    this.serviceManager.reloading()
    const result = await this.replaceConfig()
    if (!this.ending) this.serviceManager.ready(SERVING)
    if (result.problems.length > 0) this.logEvent('config.rejected', { problems: result.problems })
    else this.logEvent('config.reloaded', { changes: logged(result.changes) })
    return result
  }

  private async replaceConfig(): Promise<ReloadResult> {
    const current = this.config
    const loaded = await this.options.load()
    if (!loaded.ok) return { problems: loaded.problems, changes: [] }
    if (current === undefined) return { problems: ['starting'], changes: [] }
    const restart = needsRestart(current, loaded.config)
    const problems = restart.length > 0 ? restart : await swap(this.workers, loaded.config)
    if (problems.length > 0) return { problems, changes: [] }
    for (const retired of this.others) void follow(retired, loaded.config)
    this.health.keep(remaining(current, loaded.config))
    if (itemStorePlace(current) !== itemStorePlace(loaded.config)) this.items = openMachineItems(loaded.config)
    this.config = loaded.config
    return { problems: [], changes: changesOf(current, loaded.config) }
  }

  private exclusively<T>(change: () => Promise<T>): Promise<T> {
    const done = this.changing.then(change, change)
    this.changing = done
    return done
  }

  /** For SIGUSR2. One that arrives while weir starts is done after the start. */
  private replaceWorkers(): void {
    if (this.accepting) void this.replacements.request()
    else this.replaceWanted = true
  }

  /** One by one. If a new worker cannot take over, the others stay, too: they would fail in the same way. */
  private async replaceOnce(): Promise<void> {
    const startMs = performance.now()
    for (const old of [...this.workers]) {
      if (this.ending) return
      const next = this.newWorker(old.index)
      this.others.add(next)
      const onTakenOver = () => this.takenOver(old, next)
      const reason = await replaceWorker({ old, next, onTakenOver, ended: this.endings.promise })
      if (reason === undefined) continue
      this.others.delete(next)
      if (!this.ending) this.logEvent('workers.replace_failed', { worker: old.index, reason })
      return
    }
    const problem = this.ending ? undefined : await this.ledger?.replace()
    if (problem !== undefined) this.logEvent('ledger.owner_kept', { reason: problem })
    const ms = Math.round(performance.now() - startMs)
    this.logEvent('workers.replaced', { workers: this.workers.length, ms })
  }

  private takenOver(old: WorkerProcess, next: WorkerProcess): void {
    this.others.delete(next)
    this.others.add(old)
    this.workers[old.index] = next
    const drainMs = (this.config?.drainSeconds ?? 0) * 1000 + DRAIN_GRACE_MS
    const limit = setTimeout(() => void old.kill(), Math.min(drainMs, TIMER_MS_MAX))
    void old.whenGone.then(() => {
      clearTimeout(limit)
      this.others.delete(old)
      if (this.all().length === 1) next.writesAlone()
    })
  }

  /** Its timer does not keep the process alive. */
  private watchDisk(dataDir: string): void {
    new DiskWatch(dataDir, this.log.logger).start()
  }

  private logEvent(event: LogEventName, fields?: Readonly<Record<string, unknown>>): void {
    logEvent(this.log.logger, event, fields)
  }

  private figures(): Figures {
    const targets = this.config === undefined ? [] : targetsOf(this.config)
    return {
      targets: targets.map((target) => ({ target, rest: this.health.restOf(target) })),
      workers: {
        configured: this.workers.length,
        ready: this.workers.filter(({ state }) => state === 'ready').length,
      },
      ledgerUp: this.withoutLedger.size === 0,
      ledgerFields: this.fields,
      freeBytes: this.config === undefined ? undefined : spaceOf(this.config.dataDir)?.freeBytes,
    }
  }

  private async reasons(): Promise<readonly string[]> {
    if (this.ending) return ['draining']
    if (!this.accepting) return ['starting']
    this.checking ??= Promise.all(this.workers.map((worker) => worker.status()))
      .then((reasons) => reasons.flat())
      .finally(() => {
        this.checking = undefined
      })
    return await this.checking
  }
}
