/**
 * Delivers the alerts of one hook: posts them, and tries again with growing pauses for a day. Alerts do not wait for
 * each other, save for those about the same thing, and that a few are sent at the same time.
 */

import { parseObject, stringOf } from '../core/json.ts'
import type { HookQueue, QueuedAlert } from './alert-queue.ts'
import type { PostResult } from './webhook.ts'

/** A hook that hangs holds each of these for 10 s. */
const AT_ONCE = 4
const PAUSE_MS_MIN = 1000
const PAUSE_MS_MAX = 3_600_000
/** An alert that was not delivered so long after it was added is given up. */
const KEPT_MS = 86_400_000
/** The pause after the queue could not be read or written, such as on a full disk: nothing is sent again and again. */
const BROKEN_PAUSE_MS = 60_000

/** The clock and the timer, which tests replace. */
export interface AlertClock {
  nowMs(): number
  /** Calls back after so long; returns what cancels it. */
  after(ms: number, callback: () => void): () => void
}

export const SYSTEM_CLOCK: AlertClock = {
  nowMs: Date.now,
  after(ms, callback) {
    const timer = setTimeout(callback, ms)
    timer.unref()
    return () => clearTimeout(timer)
  },
}

interface Delivered {
  readonly id: string
  readonly type: string
  /** Of one that ends. */
  readonly status: string | undefined
  readonly attempts: number
}

export interface DeliveryOptions {
  readonly queue: HookQueue
  /** Takes the JSON of an alert. Never rejects. */
  readonly post: (body: string) => Promise<PostResult>
  readonly sent: (alert: Delivered) => void
  readonly failed: (alert: Omit<Delivered, 'status'> & { readonly reason: string }) => void
  /** The queue cannot be read or written. */
  readonly broken: (error: unknown) => void
  readonly clock?: AlertClock
}

export class AlertDelivery {
  private readonly clock: AlertClock
  /** The alerts that are being delivered, by their place in the queue. */
  private readonly running = new Map<number, Promise<void>>()
  private cancel: () => void = () => {}
  private isClosing = false
  private failing: { readonly sinceMs: number; readonly reason: string } | undefined

  constructor(private readonly options: DeliveryOptions) {
    this.clock = options.clock ?? SYSTEM_CLOCK
    const sinceMs = options.queue.failingSince()
    if (sinceMs !== undefined) this.failing = { sinceMs, reason: 'it failed before the restart' }
  }

  /** Since when every attempt failed, and why the last one did; undefined if the last one succeeded. */
  get failure(): { readonly sinceMs: number; readonly reason: string } | undefined {
    return this.failing
  }

  /** Delivers what is due. Call after an alert was added. */
  wake(): void {
    this.cancel()
    if (this.isClosing) return
    try {
      this.startDue()
    } catch (error) {
      this.options.broken(error)
      this.cancel = this.clock.after(BROKEN_PAUSE_MS, () => this.wake())
    }
  }

  /** Begins nothing more, and resolves when what runs has ended. */
  async close(): Promise<void> {
    this.isClosing = true
    this.cancel()
    await Promise.all(this.running.values())
  }

  private startDue(): void {
    const free = AT_ONCE - this.running.size
    // The end of one that runs looks again.
    if (free <= 0) return
    const nowMs = this.clock.nowMs()
    const next = this.options.queue.next(free + 1, new Set(this.running.keys()))
    for (const alert of next.slice(0, free)) {
      if (alert.dueMs <= nowMs) this.start(alert)
    }
    const waiting = next.find(({ dueMs }) => dueMs > nowMs)
    // A pause is at most an hour; a longer one means that the clock was set back.
    if (waiting !== undefined)
      this.cancel = this.clock.after(Math.min(waiting.dueMs - nowMs, PAUSE_MS_MAX), () => this.wake())
  }

  private start(alert: QueuedAlert): void {
    const done = () => {
      this.running.delete(alert.seq)
      this.wake()
    }
    const run = async () => {
      try {
        await this.deliver(alert)
        done()
      } catch (error) {
        this.options.broken(error)
        this.clock.after(BROKEN_PAUSE_MS, done)
      }
    }
    this.running.set(alert.seq, run())
  }

  private async deliver(alert: QueuedAlert): Promise<void> {
    const { seq, id, type, body } = alert
    const status = stringOf(parseObject(body)?.['status'])
    const attempt = await this.options.post(body)
    const attempts = alert.tries + 1
    if (attempt.ok) {
      this.failing = undefined
      this.options.queue.remove(seq)
      return this.options.sent({ id, type, status, attempts })
    }
    this.failing = { sinceMs: this.failing?.sinceMs ?? this.clock.nowMs(), reason: attempt.reason }
    this.retry(alert, attempts, Math.min(PAUSE_MS_MIN * 2 ** alert.tries, PAUSE_MS_MAX), attempt.reason)
  }

  /** The last attempt is made at the end of the day. */
  private retry({ seq, id, type, createdMs }: QueuedAlert, attempts: number, pauseMs: number, reason: string): void {
    const nowMs = this.clock.nowMs()
    const endMs = createdMs + KEPT_MS
    if (nowMs < endMs) return this.options.queue.retry(seq, Math.min(nowMs + pauseMs, endMs), attempts)
    this.options.queue.remove(seq)
    this.options.failed({ id, type, attempts, reason })
  }
}
