/**
 * What the workers report while they run: counted for metrics, passed on to the other workers and nodes, and kept for
 * what must outlive each worker.
 */

import type { PeerUpdate } from '../../assembly/inference-service.ts'
import type { Config } from '../../config/config.ts'
import type { TargetRef } from '../../core/model-config.ts'
import { Breaker, type TargetTimes } from '../../gateway/breaker.ts'
import { TargetStates } from '../../gateway/target-states.ts'
import { MachineItems } from '../../items/machine-items.ts'
import type { Logger } from '../../logging/log.ts'
import { logEvent } from '../../logging/log-events.ts'
import { MergedFigures } from '../../metrics/merged-figures.ts'
import type { LedgerReport, Report } from '../ipc/ipc.ts'
import { ProbeLeases } from '../ipc/probe-lease.ts'
import { itemsOfLines, sizeOf } from '../ipc/supervisor-items.ts'
import { FormKeeper } from './form-keeper.ts'
import { HintKeeper } from './hint-keeper.ts'
import { RoomKeeper } from './room-keeper.ts'
import { SharedRests } from './shared-rests.ts'
import type { WorkerProcess } from './worker-process.ts'

/** How late a worker may report the calls of its targets: they do it every 400 ms, also if nothing turns. */
const REPORT_MS_MAX = 1000

interface WorkerReportsOptions {
  readonly logger: Logger
  /** All workers, those that are replaced or replace another, too. */
  readonly workers: () => readonly WorkerProcess[]
  /** Takes log lines of requests while somebody watches, and how many others ended. */
  readonly onRequests: (lines: readonly string[], omitted: number) => void
  /** The states of targets may have changed. */
  readonly onTargets: () => void
}

export class WorkerReports {
  /**
   * What the workers reported about targets: for new workers, metrics and `weir explain`. The supervisor itself calls
   * no target.
   */
  readonly health = new Breaker()
  /** The states of targets: for metrics, the admin API, the console and alerts. */
  readonly targets = new TargetStates(this.health, Date.now, () => (this.workers.length > 1 ? REPORT_MS_MAX : 0))
  /** What the workers learned of targets: for new workers, other nodes, the admin API and `weir explain`. */
  readonly forms = new FormKeeper((news) => {
    for (const worker of this.workers) worker.forwardForms(news)
  })
  /** Keys whose callers send fields without effect. */
  readonly hints = new HintKeeper(({ organization, key, fields }) =>
    logEvent(this.options.logger, 'compatibility.fields_ignored', { organization, key, fields: fields.join(', ') }),
  )
  /** What the workers counted: for metrics, the admin API and the console. */
  readonly figures = new MergedFigures()
  /** The number of fields of the largest organisation in Redis; undefined until a worker has counted them. */
  fields: number | undefined
  private readonly probes = new ProbeLeases(this.health)
  /** With Redis, which may have other nodes: what they and this one find out of targets. */
  private rests: SharedRests | undefined
  /** Without Redis: what the workers take of the limits of providers. */
  private readonly room = new RoomKeeper()
  /** What the workers' callers may refer to, if it is not in Redis. Workers are replaced, and this process is not. */
  private readonly items = new MachineItems()
  private readonly reported = new Map<WorkerProcess, LedgerReport>()
  /** With Redis: how many nodes there are, if that is known. */
  private nodes: number | undefined

  constructor(private readonly options: WorkerReportsOptions) {}

  /** No worker reports it down. */
  get isLedgerUp(): boolean {
    return this.ledgers.every(({ up }) => up)
  }

  /** What the workers that run report of the ledger; empty until one of them has. */
  get ledgers(): readonly LedgerReport[] {
    return [...this.reported.values()]
  }

  /** A configuration is in force. */
  use(config: Config, before?: Config): void {
    this.forms.use(config)
    this.items.use(config, before)
    this.room.use(config)
    const { ledger } = config
    if (ledger.kind === 'redis') this.rests ??= new SharedRests(ledger.redis, (news) => this.broadcast(news))
    this.rests?.use(config)
  }

  take(message: Report, worker: WorkerProcess): void {
    const { holder } = worker
    switch (message.type) {
      case 'fields':
        this.fields = message.fields
        return
      case 'fields-ignored':
        return this.hints.note(message.hint)
      case 'figures':
        return this.figures.add(message.figures, worker.pid)
      case 'targets':
        return this.hear(message.targets, holder)
      case 'ledger':
        this.reported.set(worker, { up: message.up, problem: message.problem })
        return
      case 'requests':
        return this.options.onRequests(message.lines, message.omitted)
      case 'news': {
        const { news } = message
        if (news.about === 'rest' || news.about === 'room') this.rests?.send(news)
        return this.broadcast(news, worker)
      }
      case 'remember':
      case 'item-lines': {
        const items = message.type === 'remember' ? message.items : itemsOfLines(message)
        this.items.put(message.organization, items)
        return worker.send({ type: 'remembered', size: sizeOf(items) })
      }
      case 'recall': {
        const json = this.items.getText(message.organization, message.item)
        return worker.send({ type: 'recalled', id: message.id, json })
      }
      case 'form-evidence':
        return this.forms.hear(message.evidence)
      case 'take-room': {
        const taken = this.room.take(message.asks, message.isLow, holder, message.turns)
        return worker.send({ type: 'room', id: message.id, taken })
      }
      case 'give-room':
        return this.room.give(message.amounts, holder)
      case 'hold-room':
        return this.room.renew(message.held, holder)
      case 'report-room':
        return this.room.report(message.reports)
      case 'claim':
        void this.grantProbe(holder, message.target).then((granted) =>
          worker.send({ type: 'granted', id: message.id, granted }),
        )
    }
  }

  /** A worker is ready: it gets what the others know. */
  inform(worker: WorkerProcess): void {
    for (const rest of this.health.rests()) worker.forward({ about: 'rest', rest })
    if (this.nodes !== undefined) worker.forward({ about: 'fleet', nodes: this.nodes })
  }

  /** So many nodes share the Redis. */
  shareAmong(nodes: number | undefined): void {
    if (nodes === this.nodes) return
    this.nodes = nodes
    this.broadcast({ about: 'fleet', nodes })
  }

  /** The process of a worker is gone. `pid`: of the process, if it could be started. */
  gone(worker: WorkerProcess, pid: number | undefined): void {
    if (pid !== undefined) this.figures.gone(pid)
    this.probes.gone(worker.holder)
    this.room.gone(worker.holder)
    this.reported.delete(worker)
  }

  /** After the last worker, which gives its room back. */
  close(): void {
    this.forms.close()
    this.rests?.close()
    this.room.close()
  }

  private get workers(): readonly WorkerProcess[] {
    return this.options.workers()
  }

  /** Resolves to whether a worker may probe a target: one at a time of all nodes. */
  private async grantProbe(holder: number, target: TargetRef): Promise<boolean> {
    if (!this.probes.grant(holder, target)) return false
    const granted = (await this.rests?.claim(target)) ?? true
    if (!granted) this.probes.refuse(holder, target)
    return granted
  }

  private hear(times: readonly TargetTimes[], holder: number): void {
    for (const each of times) this.targets.hear(each, holder)
    this.options.onTargets()
    if (times.some(({ failedMs, answeredMs }) => failedMs > answeredMs)) this.judgeSoon()
  }

  /** Judges failures of several workers, once each of them has reported what answered meanwhile. */
  private judgeSoon(): void {
    const judge = () => {
      for (const rest of this.targets.dueRests()) {
        this.probes.hear(rest)
        for (const worker of this.workers) worker.forward({ about: 'rest', rest })
      }
      this.options.onTargets()
    }
    if (this.workers.length > 1) setTimeout(judge, REPORT_MS_MAX + 100).unref()
  }

  /** Passes on what a worker, or without `from` another node, found out. */
  private broadcast(update: PeerUpdate, from?: WorkerProcess): void {
    if (update.about === 'rest') {
      this.probes.hear(update.rest)
      this.targets.hearRest(update.rest)
      this.options.onTargets()
    }
    for (const worker of this.workers) if (worker !== from) worker.forward(update)
  }
}
