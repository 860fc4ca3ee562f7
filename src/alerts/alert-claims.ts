/**
 * Chooses, for an alert that one of several nodes reports, the node that does. A claim without an answer is repeated
 * with the same token for a day: the ledger is down.
 */

import type { AlertClock } from './alert-delivery.ts'
import type { AlertQueue, Claim, UnclaimedAlert } from './alert-queue.ts'

/** Claims that are made at the same time. */
const AT_ONCE = 4
/** The pause after a claim that got no answer. */
const PAUSE_MS = 5000
const KEPT_MS = 86_400_000

interface ClaimOptions {
  readonly queue: Pick<AlertQueue, 'unclaimed' | 'claimLater' | 'unclaim'>
  readonly clock: AlertClock
  /** Whether this node delivers an alert that one of all nodes must. Rejects if the ledger does not answer. */
  readonly claim: (id: string, claim: Claim, forMs: number) => Promise<boolean>
  /** This node delivers the alert. */
  readonly won: (id: string) => void
  readonly failed: (alert: { readonly id: string; readonly type: string; readonly reason: string }) => void
  /** The queue cannot be read or written. */
  readonly broken: (error: unknown) => void
}

export class AlertClaims {
  private running: Promise<void> | undefined
  private cancel: () => void = () => {}
  private isClosing = false

  constructor(private readonly options: ClaimOptions) {}

  /** Claims what is due. Call after an alert was added. */
  wake(): void {
    if (this.isClosing || this.running !== undefined) return
    this.cancel()
    const done = (pauseMs: number | undefined) => {
      this.running = undefined
      if (pauseMs !== undefined) this.cancel = this.options.clock.after(pauseMs, () => this.wake())
    }
    this.running = this.run().then(done, (error) => {
      this.options.broken(error)
      done(PAUSE_MS)
    })
  }

  async close(): Promise<void> {
    this.isClosing = true
    this.cancel()
    await this.running
  }

  /** Resolves to the pause before the next claim; undefined if there is none. */
  private async run(): Promise<number | undefined> {
    const { queue, clock } = this.options
    for (;;) {
      const [first, ...others] = queue.unclaimed(AT_ONCE)
      if (first === undefined || this.isClosing) return undefined
      const nowMs = clock.nowMs()
      if (first.dueMs > nowMs) return Math.min(first.dueMs - nowMs, PAUSE_MS)
      await Promise.all([first, ...others.filter(({ dueMs }) => dueMs <= nowMs)].map((alert) => this.claim(alert)))
    }
  }

  private async claim({ id, type, organization, token, createdMs, untilMs }: UnclaimedAlert): Promise<void> {
    const { queue, clock, won, failed } = this.options
    let isOurs: boolean
    try {
      isOurs = await this.options.claim(id, { organization, token }, Math.max(1, untilMs - clock.nowMs()))
    } catch {
      // The log has the event `ledger.down`.
      if (clock.nowMs() < createdMs + KEPT_MS) return queue.claimLater(id, clock.nowMs() + PAUSE_MS)
      queue.unclaim(id)
      return failed({ id, type, reason: 'the ledger did not answer for a day' })
    }
    if (isOurs) won(id)
    else queue.unclaim(id)
  }
}
