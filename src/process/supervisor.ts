/**
 * The supervisor: starts the workers, restarts them, and turns the operator's signals into orders. It holds the configuration and the
 * admin port, and never touches a request of the inference API.
 */

import type { Admin } from '../admin/admin-app.ts'
import type { Figures } from '../admin/metrics.ts'
import type { PeerUpdate } from '../assembly/peer-update.ts'
import type { Loaded } from '../assembly/served-config.ts'
import { remaining, targetsOf } from '../assembly/targets.ts'
import type { Config } from '../config/config.ts'
import { Breaker } from '../gateway/breaker.ts'
import { dieOnUncaught, type Log, openLog } from '../logging/log.ts'
import { type LogEventName, logEvent } from '../logging/log-events.ts'
import { type Control, openControl } from './control-socket.ts'
import type { Address } from './ipc.ts'
import { AddressProblem, authority, explain, probe } from './listen-address.ts'
import { Probes } from './probe-lease.ts'
import { needsRestart, swap } from './reload.ts'
import { Child } from './worker-process.ts'

/** A worker that dies so often before it accepts will not do better the next time. */
const EARLY_DEATHS_MAX = 3
/** Beyond `drain_seconds`: for settling and for the log. After that a worker is killed. */
const DRAIN_GRACE_MS = 10_000
const TIMER_MS_MAX = 2 ** 31 - 1

interface SupervisorOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Reads and checks the configuration, as it is to be run: the command line's flags are in it. */
  readonly load: () => Promise<Loaded>
}

/** What keeps the program from starting: one line each for the operator. */
class StartProblem extends Error {
  override readonly name = 'StartProblem'

  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'))
  }
}

/** Runs the gateway until it is told to end. Resolves to the exit code and the problems to print. */
export async function supervise(options: SupervisorOptions): Promise<{ code: number; problems: readonly string[] }> {
  const log = openLog()
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

class Supervisor {
  private readonly children: Child[] = []
  private config: Config | undefined
  private admin: Admin | undefined
  private control: Control | undefined
  /** What the workers found out about targets: for new workers, and for those who ask. It decides nothing here. */
  private readonly health = new Breaker()
  private readonly probes = new Probes(this.health)
  /** Of the largest organisation, in Redis; undefined until somebody has looked. */
  private fields: number | undefined
  /** The workers that find the ledger down. */
  private readonly withoutLedger = new Set<Child>()
  /** The answer that everybody who asks now waits for. */
  private asking: Promise<readonly string[]> | undefined
  private accepting = false
  private ending = false
  private reloading = false
  private reloadWanted = false
  private readonly ended = Promise.withResolvers<void>()
  /** Settles when every worker accepts, or with what keeps one from it. */
  private readonly started = Promise.withResolvers<void>()
  /** The port of the first worker that accepts. */
  private readonly chosenPort = Promise.withResolvers<number>()

  constructor(
    private readonly options: SupervisorOptions,
    private readonly log: Log,
  ) {
    // It may fail before `run` comes to wait for it.
    this.started.promise.catch(() => {})
  }

  async run(): Promise<void> {
    this.onSignals()
    // The first worker loads its code while the configuration is read and checked here.
    this.spawn()
    const config = await this.load()
    if (!this.ending) {
      await this.start(config)
      if (this.reloadWanted) void this.reload()
    }
    await this.ended.promise
  }

  async killAll(): Promise<void> {
    await Promise.all([this.control?.close(), this.admin?.stop(), ...this.children.map((child) => child.kill())])
  }

  private async load(): Promise<Config> {
    const loaded = await this.options.load()
    if (!loaded.ok) throw new StartProblem(loaded.problems)
    this.config = loaded.config
    return loaded.config
  }

  private async start(config: Config): Promise<void> {
    while (this.children.length < config.workers) this.spawn()
    const address = await this.startWorkers(config)
    if (address === undefined) return
    const admin = await this.openAdmin(config.admin)
    await this.openControl(config.dataDir)
    await Promise.race([this.started.promise, this.ended.promise])
    if (this.ending) return
    this.accepting = true
    this.logEvent('server.ready', {
      address: `http://${authority(address)}`,
      admin: `http://${authority(admin.address)}`,
      workers: config.workers,
      ms: Math.round(performance.now()),
    })
  }

  /**
   * Gives the workers their orders. Resolves to the address that they share; undefined if the program ends first. A port of 0 is chosen by
   * the first worker, which keeps it: a port that was found free here could be taken before a worker has it.
   */
  private async startWorkers(config: Config): Promise<Address | undefined> {
    const [first, ...others] = this.children
    const address = config.listen.port === 0 ? config.listen : probe(config.listen)
    first?.start({ address, config })
    if (address.port !== 0) {
      for (const child of others) child.start({ address, config })
      return address
    }
    const chosen = await Promise.race([this.chosenPort.promise, this.started.promise, this.ended.promise])
    if (chosen === undefined) return undefined
    const shared = { ...address, port: chosen }
    for (const child of others) child.start({ address: shared, config })
    return shared
  }

  /** Its code is loaded only now: the workers load theirs at the same time. */
  private async openAdmin(address: Address): Promise<Admin> {
    const { openAdmin } = await import('../admin/admin-app.ts')
    try {
      this.admin = openAdmin(address, { reasons: () => this.reasons(), figures: () => this.figures() })
      return this.admin
    } catch (error) {
      throw new StartProblem([`admin: ${explain(address, error)}`])
    }
  }

  /** Without it the gateway serves all the same; only the command line cannot ask it. */
  private async openControl(dataDir: string): Promise<void> {
    const opened = await openControl(dataDir, { rests: () => ({ rests: this.health.rests() }) })
    if ('problem' in opened) this.logEvent('control.unavailable', { problem: opened.problem })
    else this.control = opened
  }

  private spawn(): void {
    const child = new Child(this.children.length, this.options.env, this.log.logger, {
      onReady: (port) => {
        this.chosenPort.resolve(port)
        for (const rest of this.health.rests()) child.hear({ about: 'rest', rest })
        if (this.children.every((each) => each.state === 'ready')) this.started.resolve()
      },
      onFailed: (reason) => {
        this.started.reject(new StartProblem([reason]))
        if (this.accepting) {
          this.logEvent('worker.start_failed', { worker: child.worker, reason })
          child.replace()
        }
      },
      onEarlyDeath: (how, deaths) => {
        if (deaths >= EARLY_DEATHS_MAX) {
          this.started.reject(
            new StartProblem([`worker ${child.worker} died ${deaths} times before it could start (${how})`]),
          )
        }
      },
      onFields: (fields) => {
        this.fields = fields
      },
      onLedger: (up) => {
        if (up) this.withoutLedger.delete(child)
        else this.withoutLedger.add(child)
      },
      onNews: (news) => this.spread(child, news),
      onClaim: (target) => this.probes.grant(child.worker, target),
      onGone: () => {
        this.probes.gone(child.worker)
        this.withoutLedger.delete(child)
      },
    })
    this.children.push(child)
    child.spawn()
  }

  private spread(from: Child, news: PeerUpdate): void {
    if (news.about === 'rest') this.probes.hear(news.rest)
    for (const child of this.children) if (child !== from) child.hear(news)
  }

  private onSignals(): void {
    process.on('SIGTERM', () => this.end('SIGTERM'))
    process.on('SIGINT', () => this.end('SIGINT'))
    process.on('SIGHUP', () => void this.reload())
  }

  /** The first signal drains, the second cuts. */
  private end(signal: string): void {
    if (this.ending) {
      for (const child of this.children) child.cut()
      return
    }
    this.ending = true
    void this.drain(signal)
  }

  private async drain(signal: string): Promise<void> {
    const drainSeconds = this.config?.drainSeconds ?? 0
    this.logEvent('server.draining', { signal, drain_seconds: drainSeconds })
    const limit = setTimeout(
      () => {
        this.logEvent('server.killing_workers')
        for (const child of this.children) void child.kill()
      },
      Math.min(drainSeconds * 1000 + DRAIN_GRACE_MS, TIMER_MS_MAX),
    )
    await Promise.all(this.children.map((child) => child.drain()))
    clearTimeout(limit)
    await Promise.all([this.control?.close(), this.admin?.stop()])
    this.logEvent('server.stopped')
    this.ended.resolve()
  }

  /** One reload at a time; those that are asked for meanwhile become one more. */
  private async reload(): Promise<void> {
    this.reloadWanted = true
    if (this.reloading || !this.accepting) return
    this.reloading = true
    while (this.reloadWanted && !this.ending) {
      this.reloadWanted = false
      const problems = await this.reloadOnce()
      if (problems.length > 0) this.logEvent('config.rejected', { problems })
      else this.logEvent('config.reloaded')
    }
    this.reloading = false
  }

  private async reloadOnce(): Promise<readonly string[]> {
    const current = this.config
    const loaded = await this.options.load()
    if (!loaded.ok) return loaded.problems
    if (current !== undefined) {
      const problems = needsRestart(current, loaded.config)
      if (problems.length > 0) return problems
    }
    const problems = await swap(this.children, loaded.config)
    if (problems.length > 0) return problems
    if (current !== undefined) this.health.keep(remaining(current, loaded.config))
    this.config = loaded.config
    return []
  }

  private logEvent(event: LogEventName, fields?: Readonly<Record<string, unknown>>): void {
    logEvent(this.log.logger, event, fields)
  }

  private figures(): Figures {
    const targets = this.config === undefined ? [] : targetsOf(this.config)
    return {
      targets: targets.map((target) => ({ target, rest: this.health.restOf(target) })),
      workers: {
        configured: this.children.length,
        ready: this.children.filter(({ state }) => state === 'ready').length,
      },
      ledgerUp: this.withoutLedger.size === 0,
      ledgerFields: this.fields,
    }
  }

  private async reasons(): Promise<readonly string[]> {
    if (this.ending) return ['draining']
    if (!this.accepting) return ['starting']
    this.asking ??= Promise.all(this.children.map((child) => child.status()))
      .then((reasons) => reasons.flat())
      .finally(() => {
        this.asking = undefined
      })
    return await this.asking
  }
}
