/** The alerts of one gateway: what has begun and ended, the queues, their delivery to the hooks, and the log lines. */

import { randomUUID } from 'node:crypto'
import type { AlertsConfig, HookConfig } from '../core/alerts-config.ts'
import { MINUTE_MS } from '../core/durations.ts'
import { messageOf } from '../core/error-message.ts'
import type { JsonObject } from '../core/json.ts'
import { matches } from '../core/permission.ts'
import type { Logger } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'
import {
  ALERT_TYPES,
  type Alert,
  type AlertType,
  alertKind,
  alertOf,
  derivedId,
  type Occurrence,
  type ReportedOnce,
  resolvedOf,
  topicOf,
} from './alert.ts'
import { AlertClaims } from './alert-claims.ts'
import { type AlertClock, AlertDelivery, SYSTEM_CLOCK } from './alert-delivery.ts'
import { AlertQueue, type Claim, type QueuedAlert, type WonClaim } from './alert-queue.ts'
import { type PostResult, Webhook } from './webhook.ts'

/** A queue that cannot be used is logged at most this often. */
const BROKEN_MS = 60_000
/** How long the end waits for attempts. What is not delivered by then stays in the queue for the next start. */
const CLOSE_MS = 2000
/** Prometheus repeats alerts to Alertmanager as often. */
const REMIND_MS = MINUTE_MS
/** Alerts in one reminder. */
const REMINDED_MAX = 1000

interface AlertsOptions {
  readonly dataDir: string
  readonly config: AlertsConfig
  /** `node_name`. */
  readonly node: string
  readonly logger: Logger
  /** What is reported once, by one of several nodes; absent if there is one node. */
  readonly nodes?: SharedAlerts | undefined
  readonly clock?: AlertClock
}

/** What the nodes of an installation agree on by their ledger. Both reject if it does not answer. */
export interface SharedAlerts {
  /** Chooses the node that delivers an alert. */
  claim(id: string, claim: Claim, forMs: number): Promise<boolean>
  /** The id of the installation: that of the node, if no other was first. */
  installation(own: string): Promise<string>
}

/** How long a hook has not taken anything, and why. */
export interface HookFailure {
  /** Its `label`. */
  readonly hook: string
  /** Unix milliseconds. */
  readonly sinceMs: number
  readonly reason: string
}

/** What came of a test of a hook. */
export type TestedHook = { readonly hook: string } & PostResult

/** For the log. */
interface FailedAlert {
  readonly id: string
  readonly type: string
  readonly hook?: string
  readonly attempts: number
  readonly reason: string
}

/** A hook of the configuration, and the delivery of its queue. */
interface Hook {
  webhook: Webhook
  readonly delivery: AlertDelivery
}

interface Opened {
  readonly queue: AlertQueue
  readonly claims: AlertClaims | undefined
  /** By their key. */
  readonly hooks: Map<string, Hook>
}

export class Alerts {
  private config: AlertsConfig
  private readonly clock: AlertClock
  /** Opened at the first use that succeeds. */
  private opened: Opened | undefined
  private brokenMs = Number.NEGATIVE_INFINITY
  private remindedMs = performance.now()
  private isClosed = false
  /** Undefined as long as the other nodes may have another one. */
  private installation: string | undefined
  private agreeing: Promise<void> | undefined
  /**
   * What has begun and could not be kept, by its topic: on a full disk, the alert about it is posted all the same, once
   * and from memory. When there is space again, it is queued with the same id.
   */
  private readonly unqueued = new Map<string, Alert>()

  constructor(private readonly options: AlertsOptions) {
    this.config = options.config
    this.clock = options.clock ?? SYSTEM_CLOCK
    this.guarded(() => this.parts())
  }

  /** Where alerts go from the next attempt on, those that wait included. */
  use(config: AlertsConfig): void {
    this.config = config
    this.guarded(() => this.useHooks(this.parts()))
  }

  /** The hooks of which the last attempt failed. */
  get failures(): readonly HookFailure[] {
    return [...(this.opened?.hooks.values() ?? [])].flatMap(({ webhook, delivery }) =>
      delivery.failure === undefined ? [] : [{ hook: webhook.config.label, ...delivery.failure }],
    )
  }

  /** Reports what happened. What can end is active from now on, and not reported again before it has ended. */
  report(occurrence: Occurrence): void {
    const nowMs = this.clock.nowMs()
    const { ends } = ALERT_TYPES[occurrence.type]
    const topic = ends ? topicOfOccurrence(occurrence) : undefined
    const posted = topic === undefined ? undefined : this.unqueued.get(topic)
    const alert = posted ?? alertOf(occurrence, { node: this.options.node, nowMs })
    const isQueued = this.guarded(() => {
      const { queue } = this.parts()
      this.added(ends ? queue.begin(alert, nowMs) : queue.add(alert, nowMs))
    })
    if (topic === undefined) return
    if (isQueued) this.unqueued.delete(topic)
    else if (posted === undefined && !this.isClosed) {
      this.unqueued.set(topic, alert)
      this.postUnqueued(alert.type, JSON.stringify(alert))
    }
  }

  /**
   * Everything of a type that holds now: what is new is reported, and what is missing has ended, unless `isUnknown`, as
   * after a restart. Returns how many have ended.
   */
  hold(
    type: AlertType,
    found: readonly Occurrence[],
    isUnknown: (fields: JsonObject) => boolean = () => false,
  ): number {
    this.guarded(() => {
      const active = this.parts().queue.active(type)
      for (const each of found) if (!active.has(topicOfOccurrence(each))) this.report(each)
    })
    // The file could not be opened at all.
    if (this.opened === undefined && !this.isClosed) for (const each of found) this.report(each)
    this.endUnqueued(type, found)
    return this.endMissing(type, found, isUnknown)
  }

  /** What is active of a type and missing has ended, unless `isUnknown`. Returns how many have ended. */
  endMissing(
    type: AlertType,
    found: readonly Occurrence[],
    isUnknown: (fields: JsonObject) => boolean = () => false,
  ): number {
    let count = 0
    this.guarded(() => {
      const { queue } = this.parts()
      const topics = new Set(found.map(topicOfOccurrence))
      for (const [topic, fields] of queue.active(type)) {
        if (topics.has(topic) || isUnknown(fields)) continue
        this.added(queue.end(topic, this.clock.nowMs(), randomUUID()))
        count++
      }
    })
    return count
  }

  /**
   * Reports what this node has not reported before. False if the queue cannot be written, or the ledger was not asked
   * yet which installation this is: report it again later.
   */
  reportOnce({ parts, organization, forgetMs, occurrence }: ReportedOnce): boolean {
    const isQueued = this.guarded(() => {
      const { queue } = this.parts()
      void this.agree()
      const { installation } = this
      if (installation === undefined) return
      const nowMs = this.clock.nowMs()
      const id = derivedId(parts, installation)
      const alert = alertOf(occurrence, { node: this.options.node, nowMs, id, installation })
      const claim = this.options.nodes && { organization, token: randomUUID() }
      const { ends } = ALERT_TYPES[occurrence.type]
      this.added(queue.addOnce(alert, nowMs, { claim, forgetMs, ends, formerId: derivedId(parts) }))
    })
    return isQueued && this.installation !== undefined
  }

  /** Learns from the ledger which installation this is, unless it is known. Never rejects: a later call retries. */
  agree(): Promise<void> {
    if (this.installation === undefined && this.agreeing === undefined) {
      this.guarded(() => {
        this.agreeing = this.askInstallation(this.parts().queue).finally(() => {
          this.agreeing = undefined
        })
      })
    }
    return this.agreeing ?? Promise.resolve()
  }

  private async askInstallation(queue: AlertQueue): Promise<void> {
    const own = queue.installation
    const { nodes } = this.options
    if (nodes === undefined) {
      this.installation = own
      return
    }
    try {
      const found = await nodes.installation(own)
      this.guarded(() => {
        if (found !== own) queue.installation = found
        this.installation = found
      })
    } catch {
      // The log has the event `ledger.down`.
    }
  }

  /** The claims that this node has won, some at a time. Throws if the queue cannot be read. */
  claims(): Iterable<readonly WonClaim[]> {
    return this.isClosed ? [] : this.parts().queue.claims(this.clock.nowMs())
  }

  /** Drops what need not be remembered any more. */
  forget(): void {
    this.guarded(() => this.parts().queue.forget(this.clock.nowMs()))
  }

  /** Call every second: an Alertmanager is reminded of what has not ended. */
  remind(): void {
    if (performance.now() - this.remindedMs < REMIND_MS) return
    this.remindedMs = performance.now()
    this.guarded(() => {
      const { queue, hooks } = this.parts()
      for (const { webhook } of hooks.values()) {
        if (webhook.config.format !== 'alertmanager') continue
        const types = endingTypes.filter((type) => gets(webhook.config, type))
        const active = types.flatMap((type) => [...queue.active(type).values()])
        if (active.length > 0) webhook.remind(active.slice(0, REMINDED_MAX))
      }
    })
  }

  /** Posts one alert of the type `test` to each hook now, without the queue. */
  async test(): Promise<readonly TestedHook[]> {
    return await postTests(this.config, this.options.node)
  }

  /** Lets attempts end, for at most 2 s. The queue stays for the next start. */
  async close(): Promise<void> {
    this.isClosed = true
    if (this.opened === undefined) return
    const { queue, claims, hooks } = this.opened
    const limit = setTimeout(() => {
      for (const { webhook } of hooks.values()) webhook.abort()
    }, CLOSE_MS)
    // The ledger may hang, and its answers are not needed any more.
    void claims?.close()
    await Promise.all([...hooks.values()].map(({ delivery }) => delivery.close()))
    clearTimeout(limit)
    queue.close()
  }

  /** Logs an error that keeps alerts from being reported, at most once a minute. */
  broken(error: unknown): void {
    const nowMs = performance.now()
    if (this.isClosed || nowMs - this.brokenMs < BROKEN_MS) return
    this.brokenMs = nowMs
    const reason = messageOf(error)
    const instead = 'alerts cannot be kept, so each is posted once, from memory, or looked for again later'
    logEvent(this.options.logger, 'alert.queue_failed', { reason: `${instead}: ${reason}` })
  }

  private parts(): Opened {
    this.opened ??= this.open()
    return this.opened
  }

  /** Throws `LedgerFileError`. */
  private open(): Opened {
    const { dataDir, nodes } = this.options
    const hooksOf = (type: string) => this.config.hooks.filter((hook) => gets(hook, type)).map(({ key }) => key)
    const queue = AlertQueue.open(dataDir, hooksOf)
    const claims =
      nodes &&
      new AlertClaims({
        ...{ queue, clock: this.clock, claim: (id, claim, forMs) => nodes.claim(id, claim, forMs) },
        won: (id) => this.added(queue.claimed(id, this.clock.nowMs())),
        failed: (alert) => this.failed({ ...alert, attempts: 0 }),
        broken: (error) => this.broken(error),
      })
    const opened = { queue, claims, hooks: new Map<string, Hook>() }
    this.useHooks(opened)
    claims?.wake()
    return opened
  }

  private useHooks({ queue, hooks }: Opened): void {
    this.dropped(queue.useHooks(this.config.hooks.map(({ key }) => key)), 'its hook is not configured any more')
    for (const [key, { delivery }] of hooks) {
      if (this.config.hooks.some((hook) => hook.key === key)) continue
      hooks.delete(key)
      void delivery.close()
    }
    for (const config of this.config.hooks) {
      const hook = hooks.get(config.key)
      if (hook === undefined) hooks.set(config.key, this.newHook(queue, config))
      else if (!Bun.deepEquals(config, hook.webhook.config)) hook.webhook = new Webhook(config)
    }
    for (const { delivery } of hooks.values()) delivery.wake()
  }

  private newHook(queue: AlertQueue, config: HookConfig): Hook {
    const { logger } = this.options
    const label = () => hook.webhook.config.label
    const hook: Hook = {
      webhook: new Webhook(config),
      delivery: new AlertDelivery({
        queue: queue.of(config.key),
        post: (body) => hook.webhook.post(body),
        sent: ({ id, type, status, attempts }) =>
          logEvent(logger, 'alert.sent', { alert: id, type, status, hook: label(), attempts }),
        failed: (alert) => this.failed({ ...alert, hook: label() }),
        broken: (error) => this.broken(error),
        clock: this.clock,
      }),
    }
    return hook
  }

  /** The end of what could not be kept, if it has not been since. */
  private endUnqueued(type: AlertType, found: readonly Occurrence[]): void {
    const held = new Set(found.map(topicOfOccurrence))
    for (const [topic, alert] of this.unqueued) {
      if (alert.type !== type || held.has(topic)) continue
      this.unqueued.delete(topic)
      this.postUnqueued(type, JSON.stringify(resolvedOf({ ...alert }, this.clock.nowMs())))
    }
  }

  private postUnqueued(type: AlertType, text: string): void {
    for (const hook of this.config.hooks) if (gets(hook, type)) void new Webhook(hook).post(text)
  }

  /** Alerts were added to the queues, and those that are given were dropped for them. */
  private added(dropped: readonly QueuedAlert[] | undefined): void {
    if (dropped === undefined) return
    this.dropped(dropped, 'the queue is full')
    this.opened?.claims?.wake()
    for (const { delivery } of this.opened?.hooks.values() ?? []) delivery.wake()
  }

  private dropped(alerts: readonly QueuedAlert[], reason: string): void {
    for (const { id, type, tries } of alerts) this.failed({ id, type, attempts: tries, reason })
  }

  private failed({ id, ...fields }: FailedAlert): void {
    logEvent(this.options.logger, 'alert.failed', { alert: id, ...fields })
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
}

const endingTypes = (Object.keys(ALERT_TYPES) as AlertType[]).filter((type) => ALERT_TYPES[type].ends)

/** As of the alert that is made of it. */
function topicOfOccurrence(occurrence: Occurrence): string {
  return topicOf(alertOf(occurrence, { node: '', nowMs: 0 }))
}

/** Whether a hook gets alerts of a type. */
function gets({ format, events }: HookConfig, type: string): boolean {
  if (alertKind(type)?.weirOnly === true && format !== 'weir') return false
  return events.some((glob) => matches(glob, type))
}

/** Posts one alert of the type `test` to each hook, whatever its events. Never rejects. */
export async function postTests({ hooks }: AlertsConfig, node: string): Promise<readonly TestedHook[]> {
  const text = JSON.stringify(alertOf({ type: 'test', fields: {} }, { node, nowMs: Date.now() }))
  return await Promise.all(hooks.map(async (hook) => ({ hook: hook.label, ...(await new Webhook(hook).post(text)) })))
}
