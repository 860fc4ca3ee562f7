/** The alerts of the supervisor. Their code is loaded at the first configuration that has `alerts`. */

import type { Config } from '../config/config.ts'
import type { TargetRef } from '../core/model-config.ts'
import type { Rest } from '../gateway/breaker.ts'
import type { Logger } from '../logging/log.ts'
import type { AlertWatch } from './alert-watch.ts'

interface SupervisorAlertsOptions {
  readonly logger: Logger
  readonly isLedgerUp: () => boolean
  /** Every target that has failed and not recovered. */
  readonly rests: () => readonly Rest[]
  readonly restOf: (target: TargetRef) => Rest | undefined
}

/** The reply to `weir alerts test`; empty if the configuration has no `alerts`. */
interface TestReply {
  readonly delivered?: boolean
  /** Why it was not delivered. */
  readonly reason?: string
}

export class SupervisorAlerts {
  private watch: AlertWatch | undefined

  constructor(private readonly options: SupervisorAlertsOptions) {}

  get failure(): { readonly sinceMs: number; readonly reason: string } | undefined {
    return this.watch?.failure
  }

  /** At the start and after each reload. */
  async use(config: Config): Promise<void> {
    if (this.watch !== undefined) return this.watch.use(config)
    if (config.alerts === undefined) return
    const { AlertWatch } = await import('./alert-watch.ts')
    const { logger, isLedgerUp, rests, restOf } = this.options
    const isFailing = (target: TargetRef) => restOf(target) !== undefined
    this.watch = new AlertWatch({ config, logger, isLedgerUp, isFailing })
    for (const rest of rests()) this.watch.hearRest(rest)
  }

  /** Takes what a worker reports of a target. */
  hearRest(rest: Rest): void {
    this.watch?.hearRest(rest)
  }

  /** A worker reported the ledger up or down. */
  hearLedger(): void {
    this.watch?.hearLedger()
  }

  async test(): Promise<TestReply> {
    const attempt = await this.watch?.test()
    if (attempt === undefined) return {}
    return attempt.ok ? { delivered: true } : { delivered: false, reason: attempt.reason }
  }

  /** Call after the workers have ended. */
  async close(): Promise<void> {
    await this.watch?.close()
  }
}
