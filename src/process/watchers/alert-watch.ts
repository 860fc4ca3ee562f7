/**
 * Watches, in the supervisor, for what is worth an alert: spend, targets, the ledger, the disk, workers, reloads, keys
 * that expire. States are compared each second with those that were reported, so that each ends. No request waits for
 * it: the ledger records that spend has reached a threshold, and this takes the records. It reads what is
 * spent of each limit as well, but rarely: after a limit or a share was changed, or beside a gateway of an earlier
 * version, spend may be past a threshold of which the ledger has no record.
 */

import { hostname } from 'node:os'
import type { MixedFleet } from '../../admin/fleet-report.ts'
import { DEATH_SHOWN_MS, fullBelow } from '../../admin/status-report.ts'
import type { WorkerDeath } from '../../admin/supervision.ts'
import type { Occurrence, ReportedOnce } from '../../alerts/alert.ts'
import { Alerts, type HookFailure, type TestedHook } from '../../alerts/alerts.ts'
import { expiringKeys } from '../../alerts/key-expiry.ts'
import { type LimitSpend, reachedThresholds, refusingLimit } from '../../alerts/spend-thresholds.ts'
import { alertLedger } from '../../assembly/alert-ledger.ts'
import type { Config } from '../../config/config.ts'
import { DAY_MS } from '../../core/durations.ts'
import type { TargetRef } from '../../core/model-config.ts'
import type { TargetState } from '../../gateway/target-states.ts'
import type { Logger } from '../../logging/log.ts'
import { type CounterLimitUsage, counterUsagesOf } from '../../reports/counter-usage.ts'
import { LedgerProblem, withLedger } from '../../reports/ledger-part.ts'
import { type LimitUsage, limitUsagesOf } from '../../reports/limit-usage.ts'
import { pauseAfterReading } from '../../reports/reading-pause.ts'
import {
  configuredExpiringKeys,
  type StoredKeys,
  storedKeysOf,
  withStoredOrganizations,
} from '../../reports/stored-keys.ts'
import type { LedgerReport } from '../ipc/ipc.ts'
import { spendsOfCrossings } from './crossing-limits.ts'
import { spaceOf } from './disk-watch.ts'
import { isDiskFull } from './ledger-watch.ts'
import { targetAlerts } from './target-alerts.ts'

const LOOK_MS = 1000
const KEYS_MS = 30_000
const SPEND_MS = 30_000
const FORGET_MS = 3_600_000
/** Alerts about spend that are queued at once, in 28 ms of CPU time. */
const QUEUED_A_LOOK = 600
const DISK_MS = 5000
/** The problems of a reload that an alert lists, and the characters of each. */
const PROBLEMS_MAX = 10
const PROBLEM_CHARS_MAX = 300
/** How long the end waits for what the last requests have spent. */
const LAST_READ_MS = 1000

/** How long it is known that nodes which differ were reported. */
const MIXED_KEPT_MS = 30 * DAY_MS

const NO_KEYS: StoredKeys = { limited: [], expiring: [] }

/** The state of the gateway, asked for again and again. */
export interface Watched {
  /** What the workers report of the ledger; empty until one of them has. */
  readonly ledgers: () => readonly LedgerReport[]
  readonly stateOf: (target: TargetRef) => TargetState
  /** The deaths of workers that are not ready again, or were not at a time. */
  readonly deathsSince: (sinceMs: number) => readonly WorkerDeath[]
  readonly areWorkersReady: () => boolean
  /** Of the last reload; empty if it succeeded. */
  readonly reloadProblems: () => readonly string[]
  /** Undefined unless nodes have differed for too long. */
  readonly mixedFleet: () => MixedFleet | undefined
}

export class AlertWatch {
  private readonly alerts: Alerts
  private readonly ledger: ReturnType<typeof alertLedger>
  private readonly timer: ReturnType<typeof setInterval>
  private diskDueMs = Number.NEGATIVE_INFINITY
  private isDiskFull = false
  private stored = NO_KEYS
  private keysDueMs = Number.NEGATIVE_INFINITY
  private spendDueMs = Number.NEGATIVE_INFINITY
  private usages: readonly LimitUsage[] = []
  /** The limits of counters that refuse. */
  private counters: readonly CounterLimitUsage[] = []
  private countersDueMs = Number.NEGATIVE_INFINITY
  /** Until then they are not read again, whatever happens. */
  private countersRestMs = Number.NEGATIVE_INFINITY
  private crossingsDueMs = Number.NEGATIVE_INFINITY
  private forgetDueMs = FORGET_MS
  private reading: Promise<void> | undefined
  /** The nodes that differ, as they were reported. */
  private mixed = 'null'
  /** What the last reading found, so that the queue is asked for news alone. */
  private reported: ReadonlySet<string> = new Set()

  /** `config`: with `alerts`. */
  constructor(
    private config: Config,
    logger: Logger,
    private readonly watched: Watched,
  ) {
    if (config.alerts === undefined) throw new Error('The configuration has no alerts.')
    this.ledger = alertLedger(config, () => this.alerts.claims())
    const nodes = config.ledger.kind === 'redis' ? this.ledger : undefined
    const node = config.nodeName ?? hostname()
    this.alerts = new Alerts({ dataDir: config.dataDir, config: config.alerts, node, logger, nodes })
    this.timer = setInterval(() => this.look(), LOOK_MS)
    this.timer.unref()
    this.look()
  }

  /** After a reload. Without `alerts` nothing new is reported, and what waits is still delivered. */
  use(config: Config): void {
    this.config = config
    // Shares that were added, and limits that were lowered, may be reached already.
    this.reported = new Set()
    this.keysDueMs = Number.NEGATIVE_INFINITY
    this.spendDueMs = Number.NEGATIVE_INFINITY
    this.countersDueMs = this.countersRestMs
    if (config.alerts !== undefined) this.alerts.use(config.alerts)
  }

  get failures(): readonly HookFailure[] {
    return this.alerts.failures
  }

  /** Undefined if the configuration has no `alerts`. */
  async test(): Promise<readonly TestedHook[] | undefined> {
    return this.isOn ? await this.alerts.test() : undefined
  }

  /** Call after the workers have ended: reads what their last requests spent, and lets attempts end. */
  async close(): Promise<void> {
    clearInterval(this.timer)
    const lastRead = async () => {
      await this.reading
      this.spendDueMs = Number.NEGATIVE_INFINITY
      this.countersDueMs = Number.NEGATIVE_INFINITY
      this.crossingsDueMs = Number.NEGATIVE_INFINITY
      await this.read()
    }
    await Promise.race([lastRead(), Bun.sleep(LAST_READ_MS)])
    await this.alerts.close()
    this.ledger.close()
  }

  private get isOn(): boolean {
    return this.config.alerts !== undefined
  }

  private look(): void {
    if (!this.isOn) return
    this.lookAtTargets()
    this.lookAtLedger()
    this.lookAtDisk()
    this.lookAtProcesses()
    this.lookAtFleet()
    this.alerts.remind()
    if (performance.now() >= this.forgetDueMs) {
      this.forgetDueMs = performance.now() + FORGET_MS
      this.alerts.forget()
    }
    this.reading ??= this.read().finally(() => {
      this.reading = undefined
    })
  }

  private lookAtTargets(): void {
    const { stateOf } = this.watched
    for (const { type, found, isOpen } of targetAlerts(this.config, stateOf, Date.now()))
      this.alerts.hold(type, found, isOpen)
  }

  private lookAtLedger(): void {
    const reports = this.watched.ledgers()
    if (reports.length === 0) return
    const down = reports.find(({ up }) => !up)
    const reason = down?.problem ?? 'The ledger does not answer.'
    const found: readonly Occurrence[] = down === undefined ? [] : [{ type: 'ledger.down', fields: { reason } }]
    const ended = this.alerts.hold('ledger.down', found)
    if (ended > 0) this.alerts.report({ type: 'ledger.up', fields: {} })
  }

  /** Early, because on a full disk the alert could not be kept. */
  private lookAtDisk(): void {
    const { dataDir } = this.config
    if (performance.now() < this.diskDueMs) return
    this.diskDueMs = performance.now() + DISK_MS
    const space = spaceOf(dataDir)
    const isReported = this.watched.ledgers().some(({ problem }) => isDiskFull(problem))
    if (space === undefined && !isReported) return
    // A full disk has space again once twice as much is free.
    const limit = fullBelow(space?.totalBytes ?? 0) * (this.isDiskFull ? 2 : 1)
    this.isDiskFull = isReported || (space !== undefined && space.freeBytes < limit)
    const fields = { data_dir: dataDir, free_bytes: space?.freeBytes ?? null }
    this.alerts.hold('disk.full', this.isDiskFull ? [{ type: 'disk.full', fields }] : [])
  }

  private lookAtProcesses(): void {
    const { deathsSince, areWorkersReady, reloadProblems } = this.watched
    const died = deathsSince(Date.now() - DEATH_SHOWN_MS).map(
      ({ worker, how }): Occurrence => ({ type: 'worker.died', fields: { worker, how } }),
    )
    this.alerts.hold('worker.died', died, () => !areWorkersReady())
    const problems = reloadProblems()
      .slice(0, PROBLEMS_MAX)
      .map((problem) => problem.slice(0, PROBLEM_CHARS_MAX))
    const rejected: readonly Occurrence[] =
      problems.length === 0 ? [] : [{ type: 'reload.rejected', fields: { problems } }]
    this.alerts.hold('reload.rejected', rejected)
  }

  /** Every node knows; one of them reports it. */
  private lookAtFleet(): void {
    const mixed = this.watched.mixedFleet()
    const found = mixed === undefined ? [] : [mixedAlert(mixed)]
    this.alerts.endMissing(
      'fleet.mixed',
      found.map(({ occurrence }) => occurrence),
    )
    // What was queued once is known by its id.
    const id = JSON.stringify(found[0]?.parts ?? null)
    if (id === this.mixed) return
    if (found.every((each) => this.alerts.reportOnce(each))) this.mixed = id
  }

  private async read(): Promise<void> {
    try {
      await this.alerts.agree()
      await this.takeCrossings()
      await this.readKeys()
      await this.readSpend()
    } catch (error) {
      // If the ledger cannot be read, the events `ledger.down` and `ledger.degraded` say why.
      if (!(error instanceof LedgerProblem)) this.alerts.broken(error)
    }
  }

  private async takeCrossings(): Promise<void> {
    const shares = this.config.alerts?.spend ?? []
    const startMs = performance.now()
    if (startMs < this.crossingsDueMs) return
    const config = await withStoredOrganizations(this.config)
    await withLedger(
      () => this.ledger.reader(),
      config,
      async (reader) => {
        const found = await reader.read(config.organizations.map(({ id }) => id))
        const spends = await spendsOfCrossings(config, found)
        let count = 0
        // Most records of lost reservations reach no threshold, and are taken as well, as those that are not of money.
        const queued = found.filter(({ isRefusal, counter }, i) => {
          const spend = spends[i]
          if (count >= QUEUED_A_LOOK) return false
          if (spend === undefined) return true
          // Whether the limit itself refuses depends on what it has now, which `readSpend` reads next.
          if (isRefusal && counter === undefined) this.spendDueMs = Number.NEGATIVE_INFINITY
          if (isRefusal && counter !== undefined) this.countersDueMs = Math.min(this.countersDueMs, this.countersRestMs)
          const reached = isRefusal ? [] : reachedThresholds(spend, shares, Date.now())
          count += reached.length
          return reached.every((each) => this.alerts.reportOnce(each))
        })
        await reader.take(queued)
      },
    )
    this.crossingsDueMs = performance.now() + pauseAfterReading(performance.now() - startMs)
  }

  /** The keys of the configuration are looked at, too, while the store cannot be read. */
  private async readKeys(): Promise<void> {
    const startMs = performance.now()
    if (startMs < this.keysDueMs) return
    try {
      this.stored = await storedKeysOf(this.config)
    } finally {
      const endMs = performance.now()
      this.keysDueMs = endMs + Math.max(KEYS_MS, pauseAfterReading(endMs - startMs))
      const keys = [...configuredExpiringKeys(this.config), ...this.stored.expiring]
      for (const found of expiringKeys(keys, Date.now())) this.alerts.reportOnce(found)
    }
  }

  private async readSpend(): Promise<void> {
    const startMs = performance.now()
    const shares = this.config.alerts?.spend ?? []
    const areCountersDue = startMs >= this.countersDueMs
    if (startMs < this.spendDueMs && !areCountersDue) return
    if (startMs >= this.spendDueMs) {
      this.usages = await limitUsagesOf(this.config, this.stored.limited)
      const endMs = performance.now()
      this.spendDueMs = endMs + Math.max(SPEND_MS, pauseAfterReading(endMs - startMs))
    }
    if (areCountersDue) await this.readCounters()
    const nowMs = Date.now()
    // Every node knows what refuses, so that another one reports its end if the one that reported it is gone.
    const full = [...this.usages.filter(({ isRefusing }) => isRefusing), ...this.counters]
    const refusing = spendOf(full).map((spend) => refusingLimit(spend, nowMs))
    this.reportNew([...spendOf(this.usages).flatMap((spend) => reachedThresholds(spend, shares, nowMs)), ...refusing])
    this.alerts.endMissing(
      'spend.refusing',
      refusing.map(({ occurrence }) => occurrence),
    )
  }

  /** The thresholds of counters are known by their crossings. */
  private async readCounters(): Promise<void> {
    const startMs = performance.now()
    this.counters = await counterUsagesOf(this.config, { isRefusing: true })
    const endMs = performance.now()
    this.countersRestMs = endMs + pauseAfterReading(endMs - startMs)
    this.countersDueMs = Math.max(endMs + SPEND_MS, this.countersRestMs)
  }

  private reportNew(found: readonly ReportedOnce[]): void {
    const reported = new Set<string>()
    for (const each of found) {
      const name = JSON.stringify(each.parts)
      if (this.reported.has(name) || this.alerts.reportOnce(each)) reported.add(name)
    }
    this.reported = reported
  }
}

function mixedAlert({ sinceMs, places }: MixedFleet): ReportedOnce {
  const since = new Date(sinceMs).toISOString()
  return {
    parts: ['fleet.mixed', since],
    organization: '',
    forgetMs: Date.now() + MIXED_KEPT_MS,
    occurrence: { type: 'fleet.mixed', fields: { since, differences: places.slice(0, PROBLEMS_MAX) } },
  }
}

/** Those that are about money. */
function spendOf(usages: readonly (LimitUsage | CounterLimitUsage)[]): readonly LimitSpend[] {
  return usages.flatMap((usage) => {
    const { organization, key, limit, amount, used, renewsAtMs: endMs } = usage
    if (limit.unit !== 'micro_usd') return []
    const budget = 'name' in usage ? { name: usage.name, value: usage.value === '' ? null : usage.value } : undefined
    return [{ organization, key, budget, window: limit.window, limitMicroUsd: amount, spentMicroUsd: used, endMs }]
  })
}
