/** The alerts of one gateway: the queue, its delivery to the webhook of the configuration, and their log lines. */

import { randomUUID } from 'node:crypto'
import type { AlertsConfig } from '../core/alerts-config.ts'
import { messageOf } from '../core/error-message.ts'
import type { Logger } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'
import { alertOf, derivedId, type Occurrence, type ReportedOnce } from './alert.ts'
import { AlertDelivery, type Clock, type DeliveryOptions, SYSTEM_CLOCK } from './alert-delivery.ts'
import { AlertQueue, type QueuedAlert, type WonClaim } from './alert-queue.ts'
import { type Attempt, Webhook } from './webhook.ts'

/** A queue that cannot be used is logged at most this often. */
const BROKEN_MS = 60_000
/** How long the end waits for attempts. What is not delivered by then stays in the queue for the next start. */
const CLOSE_MS = 2000

interface AlertsOptions {
  readonly dataDir: string
  readonly config: AlertsConfig
  /** The name of this machine. */
  readonly node: string
  readonly logger: Logger
  /** Chooses the node that delivers an alert; absent if there is one node. */
  readonly claim?: DeliveryOptions['claim'] | undefined
  readonly clock?: Clock
}

export class Alerts {
  private webhook: Webhook
  private readonly clock: Clock
  /** Opened at the first use that succeeds. */
  private opened: { readonly queue: AlertQueue; readonly delivery: AlertDelivery } | undefined
  private brokenMs = Number.NEGATIVE_INFINITY
  private isClosed = false

  constructor(private readonly options: AlertsOptions) {
    this.clock = options.clock ?? SYSTEM_CLOCK
    this.webhook = new Webhook(options.config)
    this.guarded(() => this.parts().delivery.wake())
  }

  /** Where alerts go from the next attempt on, those that wait included. */
  use(config: AlertsConfig): void {
    if (!Bun.deepEquals(config, this.webhook.config)) this.webhook = new Webhook(config)
  }

  /** Since when every attempt failed, and why; undefined if the last one succeeded. */
  get failure(): { readonly sinceMs: number; readonly reason: string } | undefined {
    return this.opened?.delivery.failure
  }

  report(occurrence: Occurrence): void {
    this.guarded(() => {
      const { queue, delivery } = this.parts()
      const nowMs = this.clock.nowMs()
      this.dropped(queue.add(alertOf(occurrence, { node: this.options.node, nowMs }), nowMs))
      delivery.wake()
    })
  }

  /** Reports what this node has not reported before. False if the queue cannot be written: report it again later. */
  reportOnce({ parts, organization, forgetMs, occurrence }: ReportedOnce): boolean {
    return this.guarded(() => {
      const { queue, delivery } = this.parts()
      const nowMs = this.clock.nowMs()
      const alert = alertOf(occurrence, { node: this.options.node, nowMs, id: derivedId(parts) })
      const claim = this.options.claim && { organization, token: randomUUID() }
      const dropped = queue.addOnce(alert, nowMs, { claim, forgetMs })
      if (dropped === undefined) return
      this.dropped(dropped)
      delivery.wake()
    })
  }

  /** The claims that this node has won, some at a time. Throws if the queue cannot be read. */
  claims(): Iterable<readonly WonClaim[]> {
    return this.isClosed ? [] : this.parts().queue.claims(this.clock.nowMs())
  }

  /** Drops what need not be remembered any more. */
  forget(): void {
    this.guarded(() => this.parts().queue.forget(this.clock.nowMs()))
  }

  /** Posts one alert of the type `test` now, without the queue. */
  async test(): Promise<Attempt> {
    return await postTest(this.webhook, this.options.node)
  }

  /** Lets attempts end, for at most 2 s. The queue stays for the next start. */
  async close(): Promise<void> {
    this.isClosed = true
    if (this.opened === undefined) return
    const { queue, delivery } = this.opened
    const limit = setTimeout(() => this.webhook.abort(), CLOSE_MS)
    await delivery.close()
    clearTimeout(limit)
    queue.close()
  }

  private parts(): { readonly queue: AlertQueue; readonly delivery: AlertDelivery } {
    this.opened ??= this.open()
    return this.opened
  }

  /** Throws `LedgerFileError`. */
  private open(): { readonly queue: AlertQueue; readonly delivery: AlertDelivery } {
    const { dataDir, logger, claim = async () => true } = this.options
    const queue = AlertQueue.open(dataDir)
    const delivery = new AlertDelivery({
      queue,
      post: (body) => this.webhook.post(body),
      claim,
      sent: ({ id, type, attempts }) => logEvent(logger, 'alert.sent', { alert: id, type, attempts }),
      failed: ({ id, ...fields }) => logEvent(logger, 'alert.failed', { alert: id, ...fields }),
      broken: (error) => this.broken(error),
      clock: this.clock,
    })
    return { queue, delivery }
  }

  private dropped(alerts: readonly QueuedAlert[]): void {
    for (const { id, type, tries } of alerts) {
      const fields = { alert: id, type, attempts: tries, reason: 'the queue is full' }
      logEvent(this.options.logger, 'alert.failed', fields)
    }
  }

  /** False if the action threw: on a full or damaged disk, which must not end the gateway. And after the end. */
  private guarded(action: () => void): boolean {
    if (this.isClosed) return false
    try {
      action()
      return true
    } catch (error) {
      this.broken(error)
      return false
    }
  }

  /** Logs an error that keeps alerts from being reported, at most once a minute. */
  broken(error: unknown): void {
    const nowMs = performance.now()
    if (nowMs - this.brokenMs < BROKEN_MS) return
    this.brokenMs = nowMs
    const reason = messageOf(error)
    logEvent(this.options.logger, 'alert.failed', { reason: `alerts cannot be kept or looked for: ${reason}` })
  }
}

/** Posts one alert of the type `test`. Never rejects. */
export async function postTest(webhook: Webhook, node: string): Promise<Attempt> {
  return await webhook.post(JSON.stringify(alertOf({ type: 'test', fields: {} }, { node, nowMs: Date.now() })))
}
