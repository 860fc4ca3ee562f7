/**
 * Watches, in the supervisor, for what is worth an alert: spend, targets, the ledger, keys that expire. No request
 * waits for it: the ledger records that spend has reached a threshold, and this takes the records. It reads what is
 * spent of each limit as well, but rarely: after a limit or a share was changed, or beside a gateway of an earlier
 * version, spend may be past a threshold of which the ledger has no record.
 */

import { hostname } from 'node:os'
import type { ReportedOnce } from '../alerts/alert.ts'
import { Alerts } from '../alerts/alerts.ts'
import { expiringKeys } from '../alerts/key-expiry.ts'
import { type LimitSpend, reachedThresholds } from '../alerts/spend-thresholds.ts'
import { TargetWatch } from '../alerts/target-watch.ts'
import type { Attempt } from '../alerts/webhook.ts'
import { alertLedger } from '../assembly/alert-ledger.ts'
import type { Config } from '../config/config.ts'
import type { TargetRef } from '../core/model-config.ts'
import type { Rest } from '../gateway/breaker.ts'
import type { Logger } from '../logging/log.ts'
import { LedgerProblem, withLedger } from '../reports/ledger-part.ts'
import { type LimitUsage, limitUsagesOf } from '../reports/limit-usage.ts'
import { pauseAfterReading } from '../reports/reading-pause.ts'
import { configuredExpiringKeys, type StoredKeys, storedKeysOf } from '../reports/stored-keys.ts'
import { spendsOfCrossings } from './crossing-limits.ts'

const LOOK_MS = 1000
const KEYS_MS = 30_000
const SPEND_MS = 30_000
const FORGET_MS = 3_600_000
/** Alerts about spend that are queued at once, in 28 ms of CPU time. */
const QUEUED_A_LOOK = 600
/** How long the end waits for what the last requests have spent. */
const LAST_READ_MS = 1000

const NO_KEYS: StoredKeys = { limited: [], expiring: [] }

interface AlertWatchOptions {
  /** With `alerts`. */
  readonly config: Config
  readonly logger: Logger
  readonly isLedgerUp: () => boolean
  /** Whether a target of the configuration has failed, and not recovered. */
  readonly isFailing: (target: TargetRef) => boolean
}

export class AlertWatch {
  private config: Config
  private readonly alerts: Alerts
  private readonly ledger: ReturnType<typeof alertLedger>
  private readonly targets = new TargetWatch()
  private readonly timer: ReturnType<typeof setInterval>
  private wasLedgerUp = true
  private stored = NO_KEYS
  private keysDueMs = Number.NEGATIVE_INFINITY
  private spendDueMs = Number.NEGATIVE_INFINITY
  private crossingsDueMs = Number.NEGATIVE_INFINITY
  private forgetDueMs = FORGET_MS
  private reading: Promise<void> | undefined
  /** What the last reading found, so that the queue is asked for news alone. */
  private reported: ReadonlySet<string> = new Set()

  constructor(private readonly options: AlertWatchOptions) {
    const { config, logger } = options
    if (config.alerts === undefined) throw new Error('The configuration has no alerts.')
    this.config = config
    this.ledger = alertLedger(config, () => this.alerts.claims())
    const { ledger } = this
    const claim = config.ledger.kind === 'redis' ? ledger.claim.bind(ledger) : undefined
    this.alerts = new Alerts({ dataDir: config.dataDir, config: config.alerts, node: hostname(), logger, claim })
    this.timer = setInterval(() => this.look(), LOOK_MS)
    this.timer.unref()
    this.hearLedger()
    this.look()
  }

  /** After a reload. Without `alerts` nothing new is reported, and what waits is still delivered. */
  use(config: Config): void {
    this.config = config
    // Shares that were added, and limits that were lowered, may be reached already.
    this.reported = new Set()
    this.keysDueMs = Number.NEGATIVE_INFINITY
    this.spendDueMs = Number.NEGATIVE_INFINITY
    if (config.alerts !== undefined) this.alerts.use(config.alerts)
  }

  get failure(): { readonly sinceMs: number; readonly reason: string } | undefined {
    return this.alerts.failure
  }

  hearRest(rest: Rest): void {
    const found = this.targets.hear(rest, Date.now())
    if (this.isOn) for (const occurrence of found) this.alerts.report(occurrence)
  }

  /** Call when a worker reports the ledger up or down. */
  hearLedger(): void {
    const isUp = this.options.isLedgerUp()
    if (isUp === this.wasLedgerUp) return
    this.wasLedgerUp = isUp
    if (this.isOn) this.alerts.report({ type: isUp ? 'ledger.up' : 'ledger.down', fields: {} })
  }

  /** Undefined if the configuration has no `alerts`. */
  async test(): Promise<Attempt | undefined> {
    return this.isOn ? await this.alerts.test() : undefined
  }

  /** Call after the workers have ended: reads what their last requests spent, and lets attempts end. */
  async close(): Promise<void> {
    clearInterval(this.timer)
    const lastRead = async () => {
      await this.reading
      this.spendDueMs = Number.NEGATIVE_INFINITY
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
    for (const occurrence of this.targets.look(Date.now(), this.options.isFailing)) this.alerts.report(occurrence)
    if (performance.now() >= this.forgetDueMs) {
      this.forgetDueMs = performance.now() + FORGET_MS
      this.alerts.forget()
    }
    this.reading ??= this.read().finally(() => {
      this.reading = undefined
    })
  }

  private async read(): Promise<void> {
    try {
      await this.takeCrossings()
      await this.readKeys()
      await this.readSpend()
    } catch (error) {
      // If the ledger cannot be read, the events `ledger.down` and `ledger.degraded` say why.
      if (!(error instanceof LedgerProblem)) this.alerts.broken(error)
    }
  }

  private async takeCrossings(): Promise<void> {
    const { config } = this
    const shares = config.alerts?.spend ?? []
    const startMs = performance.now()
    if (shares.length === 0 || startMs < this.crossingsDueMs) return
    await withLedger(
      () => this.ledger.reader(),
      config,
      async (reader) => {
        const found = await reader.read(config.organizations.map(({ id }) => id))
        const spends = await spendsOfCrossings(config, found)
        let count = 0
        // Most records of lost reservations reach no threshold, and are taken as well.
        const queued = found.filter((_, i) => {
          const spend = spends[i]
          if (spend === undefined || count >= QUEUED_A_LOOK) return false
          const reached = reachedThresholds(spend, shares, Date.now())
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
    if (shares.length === 0 || startMs < this.spendDueMs) return
    const usages = await limitUsagesOf(this.config, this.stored.limited)
    const endMs = performance.now()
    this.spendDueMs = endMs + Math.max(SPEND_MS, pauseAfterReading(endMs - startMs))
    this.reportNew(spendOf(usages).flatMap((spend) => reachedThresholds(spend, shares, Date.now())))
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

/** Those that are about money. */
function spendOf(usages: readonly LimitUsage[]): readonly LimitSpend[] {
  return usages.flatMap(({ organization, key, limit, amount, used, renewsAtMs: endMs }) => {
    if (limit.kind !== 'budget') return []
    return [{ organization, key, window: limit.window, limitMicroUsd: amount, spentMicroUsd: used, endMs }]
  })
}
