/**
 * The supervisor: starts and ends the workers, handles signals, reloads, and opens the admin port. It never serves the
 * inference API.
 */

import { hostname } from 'node:os'
import type { Admin } from '../admin/admin-app.ts'
import { mixedFleet } from '../admin/fleet-report.ts'
import type { ReloadResult } from '../admin/supervision.ts'
import { servingProblem } from '../assembly/data-dir.ts'
import { isLedgerProblem, lockDataDir } from '../assembly/open-ledger.ts'
import type { ConfigLoader } from '../assembly/served-config.ts'
import { VERSION } from '../assembly/version.ts'
import type { Config } from '../config/config.ts'
import { type TargetRef, targetKey } from '../core/model-config.ts'
import type { AdminEntry, Changer } from '../keys/admin-audit.ts'
import type { Lock } from '../ledger/embedded/directory-lock.ts'
import { dieOnUncaught, type Log, openLog } from '../logging/log.ts'
import { type LogEventName, logEvent } from '../logging/log-events.ts'
import type { LearnedForm } from '../providers/form-store.ts'
import { WorkerSet } from './children/worker-set.ts'
import { appendToAudit, ConfigInForce } from './config-in-force.ts'
import { type Control, openControl } from './control/control-socket.ts'
import { pointToDataDir } from './control/gateway-pointer.ts'
import { Fleet } from './fleet/fleet.ts'
import { PROTOCOL, type WorkerStatus } from './ipc/ipc.ts'
import { ServiceManager } from './service-manager/service-manager.ts'
import { type PassedSocket, passedSocket, portProblem } from './service-manager/socket-activation.ts'
import { AddressProblem, authority, explain, type ListenAddress } from './system/listen-address.ts'
import { StartProblem } from './system/start-problem.ts'
import { SystemReport } from './system-report.ts'
import type { AlertWatch, Watched } from './watchers/alert-watch.ts'
import { DiskWatch } from './watchers/disk-watch.ts'
import { ModelWatch } from './watchers/model-watch.ts'

interface SupervisorOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** The configuration file. */
  readonly file: string
  /** Reads and checks the configuration, with the flags of the command line applied. */
  readonly load: ConfigLoader
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

const BY_SIGNAL: Changer = { source: 'config', actor: 'signal:SIGHUP' }

class Supervisor {
  private readonly workers: WorkerSet
  private readonly config: ConfigInForce
  private readonly report: SystemReport
  private onRequests: (lines: readonly string[], omitted: number) => void = () => {}
  private admin: Admin | undefined
  private control: Control | undefined
  /** With Redis. */
  private dataDirLock: Lock | undefined
  private readonly fleet: Fleet
  /** Once a configuration has `alerts`. */
  private alerts: AlertWatch | undefined
  private readonly watched: Watched
  private readonly models: ModelWatch
  /** The readiness check that runs now. Concurrent requests of `/readyz` share it. */
  private checking: Promise<WorkerStatus> | undefined
  private accepting = false
  private port = 0
  private ending = false
  /** SIGHUP arrived before the workers were ready. */
  private reloadWanted = false
  /** SIGUSR2 arrived before the workers were ready. */
  private replaceWanted = false
  private readonly reloads = new CoalescingQueue((by: Changer) => this.exclusively(() => this.reloadOnce(by)))
  private readonly replacements = new CoalescingQueue(() => this.exclusively(() => this.workers.replace()))
  /** The reload or the replacement of workers that runs: the next one waits for it. */
  private changing: Promise<unknown> = Promise.resolve()
  private readonly serviceManager: ServiceManager
  private readonly ended = Promise.withResolvers<void>()
  constructor(
    private readonly options: SupervisorOptions,
    private readonly log: Log,
  ) {
    this.serviceManager = new ServiceManager(options.env, (problem) =>
      this.logEvent('systemd.unreachable', { problem }),
    )
    this.workers = new WorkerSet({
      env: options.env,
      logger: log.logger,
      onRequests: (lines, omitted) => this.onRequests(lines, omitted),
      onTargets: () => this.models.look(),
    })
    const { workers } = this
    const stateOf = (target: TargetRef) => workers.reports.targets.stateOf(target)
    this.models = new ModelWatch(log.logger, () => this.config.current, stateOf)
    this.watched = {
      ledgers: () => workers.reports.ledgers,
      stateOf,
      deathsSince: (sinceMs) => workers.deathsSince(sinceMs),
      areWorkersReady: () => workers.size > 0 && workers.readyCount === workers.size,
      reloadProblems: () => this.config.lastReload?.problems ?? [],
      mixedFleet: () => mixedFleet(this.fleet, Date.now()),
    }
    this.config = new ConfigInForce(options.load, log.logger, {
      swap: (current, next) => workers.reload(current, next),
      use: (config) => this.useAlerts(config),
    })
    this.fleet = new Fleet({
      config: () => this.config.current,
      isDraining: () => this.ending,
      figures: () => this.admin?.figures(),
      drain: (by) => this.end({ ...by }),
      reload: (by) => this.reloadNow(by),
      audit: (action, by, details) => this.audit({ ...by, action, target: this.node, details }),
      sized: (nodes) => this.workers.reports.shareAmong(nodes),
    })
    this.report = new SystemReport(workers, this.config, () => this.alerts?.failures ?? [], this.fleet)
  }

  async run(): Promise<void> {
    this.onSignals()
    // The first worker loads its code while the configuration is read and checked here.
    this.workers.spawn()
    const config = await this.config.start()
    this.log.format(config.log?.format ?? 'auto')
    if (config.nodeName !== undefined) this.log.node(config.nodeName)
    if (!this.ending) {
      await this.start(config)
      if (this.reloadWanted) this.reload()
      if (this.replaceWanted) this.replaceWorkers()
    }
    await this.ended.promise
  }

  async killAll(): Promise<void> {
    await Promise.all([this.control?.close(), this.admin?.stop(), this.workers.kill()])
  }

  private async start(config: Config): Promise<void> {
    const problem = servingProblem(config.dataDir)
    if (problem !== undefined) throw new StartProblem([problem])
    await this.lock(config)
    this.fleet.remember(config)
    const address = await this.workers.start(config, this.passedSocket(config))
    if (address === undefined) return
    this.port = address.port
    const admin = await this.openAdmin(config.admin)
    await this.openControl(config.dataDir, admin)
    new DiskWatch(config.dataDir, this.log.logger).start()
    await this.useAlerts(config)
    await this.workers.whenReady()
    if (this.ending) return
    this.accepting = true
    this.fleet.start()
    if (config.ledger.kind === 'redis' && config.compaction.keys === undefined) this.logEvent('compaction.own_key')
    this.serviceManager.ready(SERVING)
    this.logEvent('server.ready', {
      version: VERSION,
      address: `http://${authority(address)}`,
      admin: `http://${authority(admin.address)}`,
      workers: config.workers,
      ms: Math.round(performance.now()),
    })
  }

  /** Throws `StartProblem` if another gateway uses `data_dir`. */
  private async lock(config: Config): Promise<void> {
    try {
      this.dataDirLock = await lockDataDir(config)
    } catch (error) {
      if (!isLedgerProblem(error)) throw error
      throw new StartProblem([error.message])
    }
  }

  /** At the start and after each reload. The code of alerts is loaded only if a configuration has them. */
  private async useAlerts(config: Config): Promise<void> {
    if (this.alerts !== undefined) return this.alerts.use(config)
    if (config.alerts === undefined) return
    const { AlertWatch } = await import('./watchers/alert-watch.ts')
    this.alerts = new AlertWatch(config, this.log.logger, this.watched)
  }

  private passedSocket(config: Config): PassedSocket | undefined {
    const socket = passedSocket(this.options.env)
    const problem = socket && portProblem(socket, config.listen.port)
    if (problem !== undefined) throw new StartProblem([problem])
    return socket
  }

  /** Loads the code of the admin port only now, while the workers load theirs. Throws `StartProblem`. */
  private async openAdmin(address: ListenAddress): Promise<Admin> {
    const { openAdmin } = await import('../admin/admin-app.ts')
    try {
      this.admin = openAdmin(address, {
        logger: this.log.logger,
        supervision: {
          state: () => this.report.state(this.port),
          reasons: () => this.reasons(),
          isLedgerUp: async () => (await this.workers.status()).ledgerUp,
          formsOf: (target) => this.workers.reports.forms.of(target),
          forgetForms: (target, by) => this.forgetForms(target, by),
          figures: () => this.report.figures(),
          sums: this.workers.reports.figures,
          recent: (count) => this.workers.recent(count),
          watch: (isWatched) => this.workers.watch(isWatched),
          reload: (by) => this.reloadNow(by),
          forCommands: () => ({ protocol: PROTOCOL, config: this.config.forCommands() }),
          fleet: this.fleet,
          testAlerts: async () => await this.alerts?.test(),
        },
      })
      this.onRequests = this.admin.requests
      return this.admin
    } catch (error) {
      throw new StartProblem([`admin: ${explain(address, error)}`])
    }
  }

  /**
   * If the socket cannot be opened, weir serves requests all the same; only the commands that ask a running weir fail.
   */
  private async openControl(dataDir: string, admin: Admin): Promise<void> {
    const opened = await openControl(dataDir, admin.answerLocal)
    if ('problem' in opened) {
      this.logEvent('control.unavailable', { problem: opened.problem })
      return
    }
    const removePointer = pointToDataDir(this.options.file, dataDir)
    this.control = {
      close: async () => {
        removePointer()
        await opened.close()
      },
    }
  }

  private onSignals(): void {
    process.on('SIGTERM', () => this.end({ signal: 'SIGTERM' }))
    process.on('SIGINT', () => this.end({ signal: 'SIGINT' }))
    process.on('SIGHUP', () => this.reload())
    process.on('SIGUSR2', () => this.replaceWorkers())
  }

  /** The first signal drains, the second cuts. `why`: the signal, or who asked for it. */
  private end(why: Readonly<Record<string, string>>): void {
    if (this.ending) return this.workers.cut()
    this.ending = true
    // The next gateway may start while the requests of this one end: both write to the outbox, as workers do.
    this.dataDirLock?.release()
    void this.drain(why)
  }

  private async drain(why: Readonly<Record<string, string>>): Promise<void> {
    const drainSeconds = this.config.current?.drainSeconds ?? 0
    this.serviceManager.stopping()
    this.logEvent('server.draining', { ...why, drain_seconds: drainSeconds })
    void this.fleet.beat()
    await this.workers.drain()
    await Promise.all([this.alerts?.close(), this.fleet.leave()])
    await Promise.all([this.control?.close(), this.admin?.stop()])
    this.serviceManager.close()
    this.logEvent('server.stopped')
    this.ended.resolve()
  }

  /** For `weir targets forget` and the admin API. */
  private async forgetForms(target: TargetRef, by: Changer): Promise<readonly LearnedForm[]> {
    const forgotten = this.workers.reports.forms.forget(target)
    if (forgotten.length === 0) return forgotten
    const fields = [...new Set(forgotten.map(({ field }) => field))]
    const { provider, model } = target
    this.logEvent('target.form_forgotten', { ...by, provider, model, fields })
    await this.audit({ ...by, action: 'target.forgotten', target: targetKey(target), details: { fields } })
    return forgotten
  }

  private async audit(entry: Omit<AdminEntry, 'timeMs'>): Promise<void> {
    const { current } = this.config
    if (current !== undefined) await appendToAudit(current, [{ timeMs: Date.now(), ...entry }], this.log.logger)
  }

  private get node(): string {
    return this.config.current?.nodeName ?? hostname()
  }

  /** For SIGHUP. One that arrives while weir starts is done after the start. */
  private reload(): void {
    if (this.accepting) void this.reloads.request(BY_SIGNAL)
    else this.reloadWanted = true
  }

  /** For `weir reload` and the admin API. */
  private async reloadNow(by: Changer): Promise<ReloadResult> {
    if (!this.accepting || this.ending) return { problems: [this.ending ? 'draining' : 'starting'], changes: [] }
    return await this.reloads.request(by)
  }

  private async reloadOnce({ source, actor }: Changer): Promise<ReloadResult> {
    if (this.ending) return { problems: ['draining'], changes: [] }
    this.serviceManager.reloading()
    const result = await this.config.reload(actor)
    this.models.look()
    void this.fleet.beat()
    if (!this.ending) this.serviceManager.ready(SERVING)
    if (result.problems.length > 0) this.logEvent('config.rejected', { source, actor, problems: result.problems })
    else this.logEvent('config.reloaded', { source, actor, changes: logged(result.changes) })
    return result
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

  private logEvent(event: LogEventName, fields?: Readonly<Record<string, unknown>>): void {
    logEvent(this.log.logger, event, fields)
  }

  private async reasons(): Promise<readonly string[]> {
    if (this.ending) return ['draining']
    if (!this.accepting) return ['starting']
    this.checking ??= this.workers.status().finally(() => {
      this.checking = undefined
    })
    return (await this.checking).reasons
  }
}

/**
 * Runs a change of weir one at a time. All that are requested during one share the next, which counts as made by the
 * first of them.
 */
class CoalescingQueue<T, By = void> {
  private running: Promise<T> | undefined
  private next: Promise<T> | undefined

  constructor(private readonly change: (by: By) => Promise<T>) {}

  /** Resolves to the result of a change that began after this call. */
  request(by: By): Promise<T> {
    const { running } = this
    if (running === undefined) return this.begin(by)
    this.next ??= running.then(() => {
      this.next = undefined
      return this.begin(by)
    })
    return this.next
  }

  private begin(by: By): Promise<T> {
    const running = this.change(by).finally(() => {
      if (this.running === running) this.running = undefined
    })
    this.running = running
    return running
  }
}
