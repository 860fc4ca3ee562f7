/**
 * Reservations that must not exist in Redis: their call got no reply, and their request was rejected or served without
 * them. Each is cancelled until Redis acknowledges it; when the process ends before that, or soon after, the node's log
 * settles it without a charge.
 */

import { isPermanent } from '../../../redis/redis-errors.ts'
import { type Account, type Hold, noCharge, turnOf } from '../../ledger.ts'
import type { Link } from '../protocol/link.ts'
import type { Settlement } from '../protocol/settlement.ts'

/**
 * After a reconnection, cancellations that were acknowledged up to 60 s before the connection broke are sent again:
 * Redis may lose the last second of its append-only file, and the last seconds in a failover.
 */
const TAIL_MS = 60_000
/** Beyond it the oldest is dropped: its lease runs out, and its floor is charged. */
const PENDING_MAX = 10_000

interface Cancelled {
  readonly account: Account
  /** A reservation of a later one stays. */
  readonly turn: number
  /** When it was given up, which was soon after it was asked for. */
  readonly sinceMs: number
}

export class Cancellations {
  /** To be sent, by the reservation's id. */
  private readonly pending = new Map<string, Cancelled>()
  /** Acknowledged in the last 60 s, oldest first. */
  private readonly acknowledged = new Map<string, Cancelled & { readonly ms: number }>()

  constructor(
    private readonly link: Pick<Link, 'store' | 'breaker'>,
    private readonly now: () => number,
  ) {}

  add(account: Account, hold: Hold): void {
    if (this.pending.size >= PENDING_MAX) {
      const [oldest] = this.pending.keys()
      if (oldest !== undefined) this.pending.delete(oldest)
    }
    this.pending.set(hold.id, { account, turn: turnOf(hold), sinceMs: this.now() })
  }

  /** A later turn of the reservation was granted. */
  drop(id: string): void {
    this.pending.delete(id)
    this.acknowledged.delete(id)
  }

  /** Sends those that are pending, until Redis does not reply; the rest is sent the next time. */
  async send(): Promise<void> {
    this.forgetOld()
    for (const [id, one] of this.pending) {
      try {
        await this.link.store.cancel(one.account, id, one.turn)
        this.link.breaker.succeeded()
        // It may have been dropped, or be one of a later turn by now.
        if (this.pending.get(id) !== one) continue
        this.pending.delete(id)
        this.acknowledged.set(id, { ...one, ms: this.now() })
      } catch (error) {
        if (isPermanent(error)) {
          // No reservation can exist under keys that hold other data; the next cancellations must not wait for it.
          this.pending.delete(id)
          continue
        }
        this.link.breaker.failed()
        return
      }
    }
  }

  /** The server may have lost its last writes before `lostMs`. */
  repeatSince(lostMs: number): void {
    for (const [id, { ms, ...one }] of this.acknowledged) {
      if (ms < lostMs - TAIL_MS) continue
      this.acknowledged.delete(id)
      this.pending.set(id, one)
    }
  }

  /** What Redis has not acknowledged, or may still lose, as settlements without a charge. */
  asSettlements(): readonly Settlement[] {
    this.forgetOld()
    const charge = noCharge('refused')
    return [...this.pending, ...this.acknowledged].map(([id, { account, sinceMs }]) => {
      return { id, account, admittedMs: sinceMs, charge, heldMicroUsd: 0 }
    })
  }

  private forgetOld(): void {
    const old = this.now() - TAIL_MS
    for (const [id, { ms }] of this.acknowledged) {
      if (ms >= old) return
      this.acknowledged.delete(id)
    }
  }
}
