/**
 * Logs when the ledger, or the store of the API keys, begins to fail and when it has recovered. Request lines do not
 * show it: without this, a full disk, or an outage under `ledger_unreachable: allow`, would go unnoticed. Also logs
 * budgets that are passed because Redis had lost data.
 */

import type { InferenceService } from '../../assembly/inference-service.ts'
import type { OpenedLedger } from '../../assembly/open-ledger.ts'
import { slowTicker, type Ticking } from '../../core/ticker.ts'
import type { LedgerHealth } from '../../ledger/ledger.ts'
import type { PassedBudget } from '../../ledger/redis/recovery/passed-budgets.ts'
import type { Logger } from '../../logging/log.ts'
import { logEvent } from '../../logging/log-events.ts'

/** A problem whose text changes is logged again at most this often: causes may alternate during an outage. */
const REWORDED_MS = 60_000

/** What SQLite, the system and weir itself call it: `database or disk is full`, `ENOSPC: no space left on device`. */
const DISK_FULL = /disk is full|no space (?:is )?left/i

/**
 * When a connection is lost, no more than that is known; some milliseconds later the system's code of why the next one
 * fails, or why Redis rejects it (a password, a replica). A more detailed problem is logged at once.
 */
function detailOf(problem: string): number {
  if (!problem.startsWith('Redis is not reached')) return 2
  return problem.includes('(') ? 1 : 0
}

/** Whether a problem of the ledger is that its disk is full. */
export function isDiskFull(problem: string | undefined): boolean {
  return problem !== undefined && DISK_FULL.test(problem)
}

export class LedgerWatch implements Ticking {
  place = -1
  /** The problem that was logged last. */
  private problem: string | undefined
  private problemMs = Number.NEGATIVE_INFINITY
  private wasUp: boolean | undefined

  constructor(
    private readonly ledger: { health(): LedgerHealth },
    private readonly logger: Logger,
    private readonly worker: number,
    /** Called with the first state and with each change, and why it is not well. */
    private readonly changed: (up: boolean, problem: string | undefined) => void,
  ) {}

  start(): void {
    this.tick(performance.now())
    slowTicker.add(this)
  }

  /** Call before the ledger is closed. */
  stop(): void {
    slowTicker.remove(this)
  }

  tick(nowMs: number): void {
    const health = this.ledger.health()
    const { up, complaint, pending } = health
    const problem = complaint ?? (up ? undefined : 'The ledger does not answer.')
    const isOver = this.problem !== undefined && (problem === undefined || (up && this.wasUp === false))
    const isNew = problem !== undefined && (this.problem === undefined || up !== this.wasUp)
    const isCause = this.problem !== undefined && problem !== undefined && detailOf(problem) > detailOf(this.problem)
    const isReworded = problem !== this.problem && (isCause || nowMs - this.problemMs >= REWORDED_MS)
    if (up !== this.wasUp || isOver || isNew || isReworded) this.changed(up, problem)
    this.wasUp = up
    if (isOver) logEvent(this.logger, 'ledger.up', { worker: this.worker, pending })
    if (problem !== undefined && (isNew || isReworded)) this.report(health, problem)
    if (!isOver && !isNew && !isReworded) return
    this.problem = problem
    this.problemMs = nowMs
  }

  private report({ ready, up, pending }: LedgerHealth, problem: string): void {
    const fields = { worker: this.worker, problem, pending }
    const mild = isDiskFull(problem) ? 'ledger.disk_full' : 'ledger.degraded'
    logEvent(this.logger, up ? mild : 'ledger.down', fields, ready ? 'warn' : 'error')
  }
}

/** Logs how far budgets are passed once this process has given back to Redis what it had lost. */
export class PassedBudgetWatch implements Ticking {
  place = -1
  private isLooking = false

  constructor(
    private readonly reportPassed: NonNullable<OpenedLedger['reportPassed']>,
    private readonly service: Pick<InferenceService, 'accounts'>,
    private readonly logger: Logger,
  ) {}

  tick(): void {
    const accountOf = this.isLooking ? undefined : this.service.accounts()
    if (accountOf === undefined) return
    this.isLooking = true
    this.reportPassed(accountOf, (passed) => this.log(passed))
      // Redis does not answer, which is reported elsewhere: a later tick looks again.
      .catch(() => {})
      .finally(() => {
        this.isLooking = false
      })
  }

  private log({ organization, key, limit, ...amounts }: PassedBudget): void {
    const { limitMicroUsd, spentMicroUsd, givenBackMicroUsd } = amounts
    logEvent(this.logger, 'ledger.budget_passed', {
      organization,
      key,
      limit,
      limit_micro_usd: limitMicroUsd,
      spent_micro_usd: spentMicroUsd,
      passed_micro_usd: spentMicroUsd - limitMicroUsd,
      given_back_micro_usd: givenBackMicroUsd,
    })
  }
}

/** In the process that owns an embedded ledger. */
export function logClockStep(logger: Logger, stepMs: number): void {
  logEvent(logger, 'ledger.clock_stepped', { seconds: Math.round(stepMs / 1000) })
}
