/** The alerts of the supervisor. Their code is loaded at the first configuration that has `alerts`. */

import type { HookFailure, TestedHook } from '../alerts/alerts.ts'
import type { Config } from '../config/config.ts'
import type { Logger } from '../logging/log.ts'
import type { AlertWatch, Watched } from './alert-watch.ts'

interface SupervisorAlertsOptions {
  readonly logger: Logger
  readonly watched: Watched
}

/** The reply to `weir alerts test`; empty if the configuration has no `alerts`. */
interface TestReply {
  /** By every hook. */
  readonly delivered?: boolean
  /** Why it was not delivered, by the first that failed: commands of versions with one webhook read no more. */
  readonly reason?: string
  readonly hooks?: readonly TestedHook[]
}

export class SupervisorAlerts {
  private watch: AlertWatch | undefined

  constructor(private readonly options: SupervisorAlertsOptions) {}

  get failures(): readonly HookFailure[] {
    return this.watch?.failures ?? []
  }

  /** At the start and after each reload. */
  async use(config: Config): Promise<void> {
    if (this.watch !== undefined) return this.watch.use(config)
    if (config.alerts === undefined) return
    const { AlertWatch } = await import('./alert-watch.ts')
    const { logger, watched } = this.options
    this.watch = new AlertWatch({ config, logger, watched })
  }

  async test(): Promise<TestReply> {
    const hooks = await this.watch?.test()
    if (hooks === undefined) return {}
    const failed = hooks.find((hook) => !hook.ok)
    return { delivered: failed === undefined, ...(failed?.ok === false ? { reason: failed.reason } : {}), hooks }
  }

  /** Call after the workers have ended. */
  async close(): Promise<void> {
    await this.watch?.close()
  }
}
