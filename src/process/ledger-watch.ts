/**
 * Tells the log when the ledger begins to complain, and when it is well again. Requests that go on meanwhile do not say so: without this
 * a full disk, or an outage under `ledger_unreachable: allow`, would pass unseen.
 */

import type { LedgerHealth } from '../ledger/ledger.ts'
import type { Logger } from './log.ts'

/** How often it looks. */
const LOOK_MS = 1000
/** Other words for a trouble that goes on: "connecting" and "reconnecting" take turns in an outage. */
const REWORDED_MS = 60_000

export class LedgerWatch {
  private told: string | undefined
  private toldMs = Number.NEGATIVE_INFINITY
  private timer: Timer | undefined

  constructor(
    private readonly ledger: { health(): LedgerHealth },
    private readonly logger: Pick<Logger, 'warn' | 'error' | 'info'>,
    private readonly worker: number,
  ) {}

  start(): void {
    this.timer = setInterval(() => this.look(performance.now()), LOOK_MS).unref()
  }

  /** To be called before the ledger is closed. */
  stop(): void {
    clearInterval(this.timer)
  }

  look(nowMs: number): void {
    const { ready, complaint, pending } = this.ledger.health()
    const problem = complaint ?? (ready ? undefined : 'The ledger does not answer.')
    if (problem === this.told) return
    const isReworded = problem !== undefined && this.told !== undefined
    if (isReworded && nowMs - this.toldMs < REWORDED_MS) return
    this.told = problem
    this.toldMs = nowMs
    const { worker } = this
    if (problem === undefined) this.logger.info({ worker, pending }, 'ledger is well again')
    else this.logger[ready ? 'warn' : 'error']({ worker, problem, pending }, 'ledger complains')
  }
}
