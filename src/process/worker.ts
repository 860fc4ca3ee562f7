/**
 * One worker process: serves the inference API on the shared port. It follows the messages of the supervisor, ends
 * when the supervisor ends, and never reads the configuration itself.
 */

import { UnusableConfiguration } from '../assembly/edge-parts.ts'
import { InferenceService } from '../assembly/inference-service.ts'
import { isLedgerProblem, openWorkerLedger } from '../assembly/open-ledger.ts'
import { loadAdapters } from '../assembly/provider-adapters.ts'
import { buildOf, findVersion, VERSION } from '../assembly/version.ts'
import type { RoomSource } from '../capacity/common-room.ts'
import type { Config } from '../config/config.ts'
import { environment } from '../config/load.ts'
import type { TargetRef } from '../core/model-config.ts'
import { slowTicker } from '../core/ticker.ts'
import type { TargetProber } from '../gateway/target-prober.ts'
import type { KeyFollower } from '../keys/key-follower.ts'
import { dieOnUncaught, type Log, openLog } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'
import { FormStore, formKey } from '../providers/form-store.ts'
import { isTyped, PROTOCOL, type ToSupervisor, type ToWorker, type WorkerStatus } from './ipc/ipc.ts'
import { PendingReplies } from './ipc/pending-replies.ts'
import { SupervisorItems } from './ipc/supervisor-items.ts'
import { SupervisorRoom } from './ipc/supervisor-room.ts'
import { FiguresPoster } from './serving/figures-poster.ts'
import { followKeys } from './serving/follow-keys.ts'
import { RequestFeed } from './serving/request-feed.ts'
import { sharedMarks } from './serving/shared-marks.ts'
import { TargetReports } from './serving/target-reports.ts'
import { WorkerServer } from './serving/worker-server.ts'
import { workerUpkeep } from './serving/worker-upkeep.ts'
import { explain } from './system/listen-address.ts'
import { LedgerWatch, logClockStep, PassedBudgetWatch } from './watchers/ledger-watch.ts'

/** How often a worker that was replaced looks whether its last connection is closed. */
const QUIET_CHECK_MS = 250
/**
 * A worker that was replaced closes kept connections without a request so long before the end of its drain, or at half
 * of a short one: a request that came at the end would be cut.
 */
const LAST_ANSWERS_MS = 4000

/** A request waits no longer than this for the lease to probe a target. Without an answer its worker probes. */
const CLAIM_MS_MAX = 500
/** How long connections that a worker accepted before its end may take to send their request. */
const LAST_REQUESTS_MS = 200

type Start = Extract<ToWorker, { type: 'start' }>

/** Everything but the listening socket. */
interface Built {
  readonly start: Start
  readonly service: InferenceService
  readonly poster: FiguresPoster
  readonly keys: KeyFollower
  readonly watch: LedgerWatch
  readonly passed: PassedBudgetWatch | undefined
  readonly stopUpkeep: () => void
}

interface Running extends Built {
  readonly server: WorkerServer
}

/**
 * Runs until the supervisor ends it. Called once, in a process that `weir serve` started. Returns at once; the exit
 * code is 0.
 */
export function work(): number {
  const log = openLog(1, environment())
  dieOnUncaught(log, {})
  new Worker(log).listen()
  return 0
}

class Worker {
  private built: Built | undefined
  private running: Running | undefined
  private draining = false
  /** When requests that still run are cut (`performance.now()`), if another worker accepts in place of this one. */
  private drainByMs = Number.POSITIVE_INFINITY
  /** The supervisor is gone. */
  private isOrphan = false
  /** SIGTERM has arrived. */
  private isTerminated = false
  /** The number of preparations begun or aborted. Only the latest preparation counts. */
  private preparations = 0
  private readonly claims = new PendingReplies<boolean>(CLAIM_MS_MAX)
  private readonly items = new SupervisorItems(send)
  private readonly forms = new FormStore((evidence) => send({ type: 'form-evidence', evidence }))
  private readonly room = new SupervisorRoom(send)
  private readonly feed = new RequestFeed((lines, omitted) => send({ type: 'requests', lines, omitted }))
  private readonly targets = new TargetReports(
    () => this.built?.service.takeTargetTimes() ?? [],
    (targets) => send({ type: 'targets', targets }),
  )
  private stopProbing: () => void = () => {}
  private mustOwnLedger = false
  private takeOverLedger: () => Promise<void> = () => Promise.resolve()
  private readonly cutNow = Promise.withResolvers<void>()

  constructor(private readonly log: Log) {}

  listen(): void {
    process.on('message', (message) => {
      if (isTyped<ToWorker>(message)) this.handle(message)
    })
    process.on('disconnect', () => this.orphan())
    // Terminals and service managers signal the whole process group; the supervisor decides what a signal means.
    process.on('SIGTERM', () => {
      this.isTerminated = true
      if (this.isOrphan) this.cutNow.resolve()
      this.drain()
    })
    process.on('SIGINT', () => {})
    process.on('SIGHUP', () => {})
    send({ type: 'hello', protocol: PROTOCOL, version: VERSION })
  }

  /**
   * Awaits nothing, so that no message overtakes an earlier one. Only the answers to `status` and `prepare` come
   * later.
   */
  private handle(message: ToWorker): void {
    switch (message.type) {
      case 'start':
        void this.start(message)
        return
      case 'own':
        void this.ownLedger()
        return
      case 'lend':
        return send({ type: 'lent', problem: this.lend() })
      case 'adopt':
        if (this.built !== undefined) this.serve(this.built)
        return
      case 'retire':
        return this.retire()
      case 'alone':
        return this.log.alone(true)
      case 'prepare':
        void this.prepare(message.config)
        return
      case 'commit':
        this.running?.service.commit()
        return this.running?.keys.configurationChanged()
      case 'abort':
        this.preparations++
        return this.running?.service.abort()
      case 'status':
        void this.status().then((status) => send({ type: 'status', id: message.id, ...status }))
        return
      case 'ping':
        return send({ type: 'pong' })
      case 'watch':
        return this.feed.watch(message.linesASecond)
      case 'recent':
        return send({ type: 'recent', id: message.id, lines: this.feed.recent() })
      case 'news':
        return this.running?.service.apply(message.news)
      case 'granted':
        return this.claims.answer(message.id, message.granted)
      case 'remembered':
        return this.items.taken(message.size)
      case 'recalled':
        return this.items.answer(message.id, message.json)
      case 'forms': {
        const { forms, forgotten } = message
        this.forms.forget((form) => forgotten.includes(formKey(form)))
        this.forms.receive(forms)
        return
      }
      case 'room':
        return this.room.answer(message.id, message.taken)
      case 'drain':
        return this.drain()
      case 'cut':
        return this.cutNow.resolve()
    }
  }

  private async start(start: Start): Promise<void> {
    const { config, replaces = false } = start
    this.items.sendsLines = start.takesItemLines === true
    this.log.alone(config.workers === 1 && !replaces)
    this.log.format(config.log?.format ?? 'auto')
    if (config.nodeName !== undefined) this.log.node(config.nodeName)
    try {
      this.built = await this.build(start)
    } catch (error) {
      send({ type: 'failed', reason: problemOf(error) })
      return
    }
    if (adopts(start)) send({ type: 'built' })
    else this.serve(this.built)
  }

  private async build(start: Start): Promise<Built> {
    const { worker, config, ledger: role } = start
    const { logger } = this.log
    const stepped = (stepMs: number) => logClockStep(logger, stepMs)
    const { ledger, takeOver, reportPassed } = await openWorkerLedger(config, role, worker === 0, stepped)
    this.takeOverLedger = takeOver
    // The owner has ended since this process was started.
    if (this.mustOwnLedger) await takeOver()
    const service = new InferenceService({
      config,
      adapters: await loadAdapters(config),
      log: { logger, request: (fields, level) => this.feed.add(this.log.request(fields, level)) },
      ledger,
      items: this.items,
      forms: this.forms,
      marks: sharedMarks(config.dataDir),
      room: await roomSource(config, this.room),
      publish: (update) => send({ type: 'news', news: update }),
      claimProbe: config.workers === 1 && config.ledger.kind === 'embedded' ? undefined : this.claimProbe,
      targetTurned: () => this.targets.turned(),
      fieldsIgnored: (hint) => send({ type: 'fields-ignored', hint }),
    })
    const keys = await followKeys(config, service, logger, worker)
    const watch = new LedgerWatch(service, logger, worker, (up, problem) => send({ type: 'ledger', up, problem }))
    const passed = reportPassed && new PassedBudgetWatch(reportPassed, service, logger)
    // One worker of each machine maintains the data in Redis.
    const measured = (fields: number) => send({ type: 'fields', fields })
    const stopUpkeep = worker === 0 ? await workerUpkeep(config, service, logger, measured) : () => {}
    return { start, service, poster: posterOf(service), keys, watch, passed, stopUpkeep }
  }

  private readonly claimProbe = (target: TargetRef): Promise<boolean> =>
    this.claims.ask((id) => send({ type: 'claim', id, target }), true)

  /** If it cannot, this process ends, and the next one opens the ledger or reports why not. */
  private async ownLedger(): Promise<void> {
    this.mustOwnLedger = true
    try {
      await this.takeOverLedger()
    } catch (error) {
      logEvent(this.log.logger, 'ledger.owner_failed', { pid: process.pid, reason: problemOf(error) })
      await this.log.flush()
      process.exit(1)
    }
  }

  /** Accepts requests from now on: from a socket of its own, or from the one that the supervisor has sent. */
  private serve(built: Built): void {
    const { start, service, passed } = built
    const { worker, address } = start
    const isPassed = adopts(start)
    let server: WorkerServer
    try {
      server = WorkerServer.open(address, isPassed, start.config.listen.proxyProtocol === true, service)
    } catch (error) {
      const reason = isPassed ? `cannot take over the listening socket: ${String(error)}` : explain(address, error)
      send({ type: 'failed', reason })
      return
    }
    this.running = { ...built, server }
    built.watch.start()
    if (passed !== undefined) slowTicker.add(passed)
    built.poster.start()
    this.targets.start()
    if (worker === 0) this.probeTargets(service.prober())
    server.watchDescriptors(this.log.logger, worker)
    send({ type: 'ready', port: server.port })
    void findVersion().then((version) => send({ type: 'build', build: buildOf(version) }))
  }

  /** One worker of each machine does, until another takes over. */
  private probeTargets(prober: TargetProber): void {
    slowTicker.add(prober)
    this.stopProbing = () => slowTicker.remove(prober)
  }

  /** Sends the listening socket to the supervisor. Returns the problem, if there is one. */
  private lend(): string | undefined {
    if (this.running === undefined || this.draining) return 'the old worker does not accept requests'
    // Another process writes to the log soon.
    this.log.alone(false)
    try {
      this.running.server.lend()
      return undefined
    } catch (error) {
      return `the old worker cannot pass on its listening socket: ${String(error)}`
    }
  }

  /** Another worker accepts from the socket. Ends when the last connection is closed, or after `drain_seconds`. */
  private retire(): void {
    if (this.running === undefined || this.draining) return
    const { server, service } = this.running
    this.stopProbing()
    server.leave()
    const drainMs = service.drainSeconds * 1000
    this.drainByMs = performance.now() + drainMs
    const idleUntilMs = this.drainByMs - Math.min(LAST_ANSWERS_MS, drainMs / 2)
    const look = () => {
      if (performance.now() >= idleUntilMs) void server.closeIdle()
      if (server.isQuiet || performance.now() >= this.drainByMs) this.drain()
      else if (!this.draining) setTimeout(look, QUIET_CHECK_MS)
    }
    look()
  }

  private async prepare(config: Start['config']): Promise<void> {
    const preparation = ++this.preparations
    try {
      const adapters = await loadAdapters(config)
      // Aborted, or replaced by a later one: the supervisor no longer waits for this one.
      if (preparation !== this.preparations) return
      this.running?.service.prepare(config, adapters)
      send({ type: 'prepared' })
    } catch (error) {
      send({ type: 'prepared', problem: problemOf(error) })
    }
  }

  private async status(): Promise<WorkerStatus> {
    if (this.built === undefined) return { reasons: ['is starting'] }
    if (this.draining) return { reasons: ['is draining'] }
    return await this.built.service.status()
  }

  /**
   * The supervisor is gone: it can no longer restart, reload or end this process, and weir is probably about to be
   * started again. Running requests may finish, unless they are in the way: the embedded ledger has one owner, so the
   * new weir waits for this process; and a service manager that sent SIGTERM waits for it. Then they are cut and
   * settled at once.
   */
  private orphan(): void {
    this.isOrphan = true
    // No other process can open the embedded ledger while this one runs.
    const ownsLedger = this.running?.start.config.ledger.kind === 'embedded'
    const mustCut = ownsLedger || this.isTerminated
    if (mustCut) this.cutNow.resolve()
    logEvent(this.log.logger, 'supervisor.gone', { worker: this.running?.start.worker, cut: mustCut })
    this.drain()
  }

  private drain(): void {
    if (this.draining) return
    this.draining = true
    void this.finish()
  }

  private async finish(): Promise<void> {
    if (this.running !== undefined) {
      const { server, service, start, keys, watch, passed, stopUpkeep, poster } = this.running
      // The socket stays open after this process, and another one accepts from it then.
      if (start.adopts === true) await this.leaveInTime(server)
      const seconds = Math.max(0, Math.min(service.drainSeconds, (this.drainByMs - performance.now()) / 1000))
      const end = await server.drain(seconds, this.cutNow.promise)
      if (end === 'cut') logEvent(this.log.logger, 'requests.cut', { worker: start.worker })
      await keys.stop()
      watch.stop()
      if (passed !== undefined) slowTicker.remove(passed)
      stopUpkeep()
      await service.close()
      poster.stop()
      this.targets.stop()
      this.stopProbing()
    }
    await this.log.flush()
    process.exit(0)
  }

  /**
   * Connections wait in the socket for the next worker. Those that this one has accepted already get the time to send
   * their request: the end of the server closes every connection without one.
   */
  private async leaveInTime(server: WorkerServer): Promise<void> {
    server.leave()
    await Promise.race([Bun.sleep(LAST_REQUESTS_MS), this.cutNow.promise])
  }
}

/** The source of room of providers for this worker. What speaks to Redis is loaded only if it is needed. */
async function roomSource({ ledger }: Config, ofMachine: RoomSource): Promise<RoomSource> {
  if (ledger.kind !== 'redis') return ofMachine
  const { RedisRoom } = await import('../capacity/redis-room.ts')
  return new RedisRoom(ledger.redis)
}

function posterOf(service: InferenceService): FiguresPoster {
  const { inFlight } = service.state
  const { sockets } = service.app
  return new FiguresPoster({
    figures: service.figures,
    gauges: () => ({
      inFlight: inFlight.size,
      streams: inFlight.streams,
      sockets: sockets.count,
      socketStateBytes: sockets.memory.bytes,
      outboxPending: service.health().pending,
      ...service.waiting(),
    }),
    send: (post) => send({ type: 'figures', figures: post }),
  })
}

/** Whether the supervisor sends the listening socket. */
function adopts(start: Start): boolean {
  return start.replaces === true || start.adopts === true
}

/**
 * The message for the operator if the configuration cannot be served. Any other error is a bug: it is thrown, and
 * ends the process.
 */
function problemOf(error: unknown): string {
  if (error instanceof UnusableConfiguration) return error.message
  if (isLedgerProblem(error)) return error.message
  throw error
}

/** Does nothing if the supervisor is gone; `disconnect` has begun the drain then. */
function send(message: ToSupervisor): void {
  if (process.connected) process.send?.(message)
}
