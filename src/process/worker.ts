/**
 * One worker process: the inference API on the shared port. It does what the supervisor tells it, ends with it, and holds no
 * configuration of its own.
 */

import type { Server } from 'bun'
import { InferenceService, UnusableConfiguration } from '../assembly/inference-service.ts'
import { beginUpkeep, isLedgerProblem, keyFollower, openLedger } from '../assembly/open-ledger.ts'
import { loadAdapters } from '../assembly/provider-adapters.ts'
import { AHEAD_ADVICE } from '../ledger/window-reset.ts'
import { dieOnUncaught, type Log, openLog } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'
import { drain } from './drain.ts'
import { descriptorLimit, isCrowded } from './file-descriptors.ts'
import { isToWorker, type ToSupervisor, type ToWorker } from './ipc.ts'
import { LedgerWatch } from './ledger-watch.ts'
import { explain } from './listen-address.ts'
import { Claims } from './probe-lease.ts'

/** Never: the edge counts while it reads, and Bun's own 413 has no body and none of our headers (decisions.md 1). */
const BUN_BODY_BYTES_MAX = Number.MAX_SAFE_INTEGER
const CROWD_CHECK_MS = 250

const MANY_FIELDS =
  'revoke the keys that are not used any more (weir keys list, weir keys revoke): what Redis holds of one goes a day after its last request'

type Start = Extract<ToWorker, { type: 'start' }>

interface Running {
  readonly worker: number
  readonly server: Server<undefined>
  readonly service: InferenceService
  /** No other process can open the ledger while this one lives. */
  readonly ownsLedger: boolean
}

/** Runs until the supervisor ends it. Called once, in a process that `weir serve` started. */
export function work(): number {
  const log = openLog()
  dieOnUncaught(log, {})
  new Worker(log).listen()
  return 0
}

class Worker {
  private running: Running | undefined
  private draining = false
  /** The supervisor is gone. */
  private isOrphan = false
  /** A SIGTERM has come. */
  private isTold = false
  /** Counts what was begun and what was given up: the last one alone counts. */
  private preparations = 0
  private readonly claims = new Claims((id, target) => tell({ type: 'claim', id, target }))
  private stopKeys: () => Promise<void> = () => Promise.resolve()
  private watch: LedgerWatch | undefined
  private stopUpkeep: () => void = () => {}
  private readonly cutNow = Promise.withResolvers<void>()

  constructor(private readonly log: Log) {}

  listen(): void {
    process.on('message', (message) => {
      if (isToWorker(message)) this.handle(message)
    })
    process.on('disconnect', () => this.orphan())
    // A terminal sends its signals to the whole process group, and so do service managers; the supervisor decides what they mean.
    process.on('SIGTERM', () => {
      this.isTold = true
      if (this.isOrphan) this.cutNow.resolve()
      this.drain()
    })
    process.on('SIGINT', () => {})
    process.on('SIGHUP', () => {})
  }

  /** Nothing here waits, so that no message overtakes an earlier one; only the answers to `status` and `prepare` come later. */
  private handle(message: ToWorker): void {
    switch (message.type) {
      case 'start':
        void this.start(message)
        return
      case 'prepare':
        void this.prepare(message.config)
        return
      case 'commit':
        return this.running?.service.commit()
      case 'abort':
        this.preparations++
        return this.running?.service.abort()
      case 'status':
        void this.reasons().then((reasons) => tell({ type: 'status', id: message.id, reasons }))
        return
      case 'ping':
        return tell({ type: 'pong' })
      case 'news':
        return this.running?.service.hear(message.news)
      case 'granted':
        return this.claims.answer(message.id, message.granted)
      case 'drain':
        return this.drain()
      case 'cut':
        return this.cutNow.resolve()
    }
  }

  private async start({ worker, address, config }: Start): Promise<void> {
    if (config.workers === 1) this.log.alone()
    let service: InferenceService
    try {
      const ledger = await openLedger(config, worker === 0)
      const adapters = await loadAdapters(config)
      const claim = config.workers === 1 ? undefined : this.claims.ask
      service = new InferenceService(config, adapters, this.log, ledger, (news) => tell({ type: 'news', news }), claim)
      this.stopKeys = await this.followKeys(config, service, worker)
      this.watch = new LedgerWatch(service, this.log.logger, worker, (up) => tell({ type: 'ledger', up }))
      // One of the machine looks after what Redis holds.
      if (worker === 0) this.stopUpkeep = await this.upkeep(config, service)
    } catch (error) {
      tell({ type: 'failed', reason: problemOf(error) })
      return
    }
    try {
      const server = Bun.serve({
        hostname: address.host,
        port: address.port,
        reusePort: true,
        // Else Bun prints every stream that is cut on standard error, with the source around it.
        development: false,
        maxRequestBodySize: BUN_BODY_BYTES_MAX,
        fetch: service.fetch,
      })
      this.running = { worker, server, service, ownsLedger: config.ledger.kind === 'embedded' }
    } catch (error) {
      tell({ type: 'failed', reason: explain(address, error) })
      return
    }
    this.watch.start()
    const limit = descriptorLimit()
    setInterval(() => {
      service.state.crowded = isCrowded(limit)
      // Those that wait for a caller's next request are the first to go.
      if (service.state.crowded) this.running?.server.closeIdleConnections()
    }, CROWD_CHECK_MS).unref()
    tell({ type: 'ready', port: this.running.server.port ?? address.port })
  }

  /** Follows the keys that commands create. What is returned ends it. */
  private async followKeys(
    config: Start['config'],
    service: InferenceService,
    worker: number,
  ): Promise<() => Promise<void>> {
    const { logger } = this.log
    const follower = await keyFollower(config, {
      // One of the machine.
      prunes: worker === 0,
      pruneFailed: (error) => {
        const why = error instanceof Error ? error.message : String(error)
        logEvent(logger, 'keys.prune_failed', { worker, why })
      },
    })
    service.follow(follower)
    await Promise.race([follower.start(), Bun.sleep(KEYS_MS_MAX)])
    return () => follower.stop()
  }

  private upkeep(config: Start['config'], service: InferenceService): Promise<() => void> {
    const { logger } = this.log
    return beginUpkeep(config, {
      isConfigured: (organization, key) => service.isConfigured(organization, key),
      looked: (sizes) => tell({ type: 'fields', fields: Math.max(0, ...sizes.map(({ fields }) => fields)) }),
      ahead: (organization) => logEvent(logger, 'ledger.window_ahead', { organization, advice: AHEAD_ADVICE }),
      undurable: (warning) => logEvent(logger, 'ledger.undurable', { warning }),
      denied: (why) => logEvent(logger, 'ledger.fields_unknown', { why }),
      alarmed: ({ organization, fields }) =>
        logEvent(logger, 'ledger.many_fields', { organization, fields, advice: MANY_FIELDS }),
    })
  }

  private async prepare(config: Start['config']): Promise<void> {
    const preparation = ++this.preparations
    try {
      const adapters = await loadAdapters(config)
      // Given up or asked for anew meanwhile: nobody waits for this one any more.
      if (preparation !== this.preparations) return
      this.running?.service.prepare(config, adapters)
      tell({ type: 'prepared' })
    } catch (error) {
      tell({ type: 'prepared', problem: problemOf(error) })
    }
  }

  private async reasons(): Promise<readonly string[]> {
    if (this.running === undefined) return ['is starting']
    if (this.draining) return ['is draining']
    return await this.running.service.reasons()
  }

  /**
   * The supervisor is gone, however it went: nobody would restart, reload or end this process any more, and somebody is about to start the
   * program anew. What runs may finish where that holds nobody up. The embedded ledger has one owner, and a service manager that ends
   * what was left over waits for it: then it is cut and settled at once.
   */
  private orphan(): void {
    this.isOrphan = true
    const isInTheWay = this.running?.ownsLedger === true || this.isTold
    if (isInTheWay) this.cutNow.resolve()
    logEvent(this.log.logger, 'supervisor.gone', { worker: this.running?.worker, cut: isInTheWay })
    this.drain()
  }

  private drain(): void {
    if (this.draining) return
    this.draining = true
    void this.finish()
  }

  private async finish(): Promise<void> {
    if (this.running !== undefined) {
      const { server, service, worker } = this.running
      service.state.draining = true
      const end = await drain({
        server,
        inFlight: service.state.inFlight,
        drainSeconds: service.drainSeconds,
        cut: this.cutNow.promise,
      })
      if (end === 'cut') logEvent(this.log.logger, 'requests.cut', { worker })
      await this.stopKeys()
      this.watch?.stop()
      this.stopUpkeep()
      await service.close()
    }
    await this.log.flush()
    process.exit(0)
  }
}

/** The first reading of the keys is waited for, so that none of them is refused at first; a store that is away or large is not. */
const KEYS_MS_MAX = 500

/** The operator's line of a configuration that cannot be served; anything else is a bug, and ends the process. */
function problemOf(error: unknown): string {
  if (error instanceof UnusableConfiguration) return error.message
  if (isLedgerProblem(error)) return error.message
  throw error
}

/** Nobody to tell once the supervisor is gone: then `disconnect` has already begun the drain. */
function tell(message: ToSupervisor): void {
  if (process.connected) process.send?.(message)
}
