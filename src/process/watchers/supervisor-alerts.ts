/** The alerts of the supervisor. Their code is loaded at the first configuration that has `alerts`. */

import type { HookFailure, TestedHook } from '../../alerts/alerts.ts'
import type { Config } from '../../config/config.ts'
import type { Logger } from '../../logging/log.ts'
import type { AlertWatch, Watched } from './alert-watch.ts'

export class SupervisorAlerts {
  private watch: AlertWatch | undefined

  constructor(
    private readonly logger: Logger,
    private readonly watched: Watched,
  ) {}

  get failures(): readonly HookFailure[] {
    return this.watch?.failures ?? []
  }

  /** At the start and after each reload. */
  async use(config: Config): Promise<void> {
    if (this.watch !== undefined) return this.watch.use(config)
    if (config.alerts === undefined) return
    const { AlertWatch } = await import('./alert-watch.ts')
    this.watch = new AlertWatch(config, this.logger, this.watched)
  }

  /** What came of a test of each hook; undefined without any. */
  async test(): Promise<readonly TestedHook[] | undefined> {
    return await this.watch?.test()
  }

  /** Call after the workers have ended. */
  async close(): Promise<void> {
    await this.watch?.close()
  }
}
