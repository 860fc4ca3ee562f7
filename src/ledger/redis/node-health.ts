/** What a node with Redis reports of its ledger: whether it takes requests, and what is wrong. */

import { messageOf } from '../../core/error-message.ts'
import type { LedgerHealth } from '../ledger.ts'
import { PENDING_MAX } from './outbox/outbox.ts'
import type { Link } from './protocol/link.ts'
import type { NodeLog } from './protocol/node-log.ts'

/** Whether requests are rejected or served without a reservation while Redis cannot be reached. */
export type WhenUnreachable = 'refuse' | 'allow'

export class NodeHealth {
  /** Why the last work in the background failed; undefined if it succeeded. */
  workProblem: string | undefined
  /** Redis replies but rejected a write, such as a reservation of this organisation. */
  private standstill: { readonly organization: string; readonly why: string } | undefined
  private check: Promise<string | undefined> | undefined

  constructor(
    private readonly link: Link,
    private readonly outbox: NodeLog,
    private readonly unreachable: WhenUnreachable,
  ) {}

  get(): LedgerHealth {
    const { pending, unreadable } = this.pendingCount()
    const isFull = this.outbox.uncommitted > PENDING_MAX
    const isWriting = this.link.isReady && this.standstill === undefined
    return {
      ready: !isFull && (this.unreachable === 'allow' || isWriting),
      up: !isFull && isWriting,
      complaint: this.outbox.complaint ?? this.linkComplaint ?? this.workProblem ?? unreadable,
      pending: pending + this.outbox.uncommitted,
    }
  }

  /** After a call of Redis. */
  async ask(): Promise<LedgerHealth> {
    // Concurrent callers share one check.
    this.check ??= this.link.trouble().finally(() => {
      this.check = undefined
    })
    const trouble = await this.check
    const health = this.get()
    if (trouble === undefined) return health
    const complaint = health.complaint ?? trouble
    return { ...health, ready: health.ready && this.unreachable === 'allow', up: false, complaint }
  }

  /** Redis replied and rejected a write. */
  writeRejected(organization: string, why: string): void {
    this.standstill = { organization, why }
  }

  /** Whether Redis still rejects what it rejected. */
  async checkStandstill(): Promise<void> {
    const { standstill } = this
    if (standstill === undefined) return
    const { organization } = standstill
    const why = await this.link.standstill(organization).catch(() => standstill.why)
    if (this.standstill === standstill) this.standstill = why === undefined ? undefined : { organization, why }
  }

  /**
   * If Redis rejects settlements, too, the breaker opens although Redis replies: then the rejected write is the cause
   * to report.
   */
  private get linkComplaint(): string | undefined {
    const why = this.standstill?.why
    return this.link.isConnected ? (why ?? this.link.complaint) : (this.link.complaint ?? why)
  }

  /** A file that cannot be read at the moment is reported instead of thrown: it must not end the process. */
  private pendingCount(): { readonly pending: number; readonly unreadable?: string } {
    try {
      return { pending: this.outbox.pendingCount() }
    } catch (error) {
      return { pending: 0, unreadable: messageOf(error) }
    }
  }
}
