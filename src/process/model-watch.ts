/** Logs that a model is down, because none of its targets can answer, and that it is up again: one line each. */

import { type DownModel, downModels } from '../admin/down-models.ts'
import type { Config } from '../config/config.ts'
import type { TargetRef } from '../core/model-config.ts'
import type { TargetState } from '../gateway/target-states.ts'
import type { Logger } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'

interface ModelWatchOptions {
  readonly logger: Logger
  readonly config: () => Config | undefined
  readonly stateOf: (target: TargetRef) => TargetState
}

export class ModelWatch {
  private down: ReadonlyMap<string, DownModel> = new Map()

  constructor(private readonly options: ModelWatchOptions) {}

  /** Call when the state of a target may have changed, and after a reload. */
  look(): void {
    const { config, logger, stateOf } = this.options
    const current = config()
    if (current === undefined) return
    const before = this.down
    this.down = new Map(downModels(current, stateOf, Date.now()).map((each) => [each.model, each]))
    for (const { model, message, sinceMs } of this.down.values()) {
      if (before.has(model)) continue
      logEvent(logger, 'model.down', { model, problem: message, since: new Date(sinceMs).toISOString() })
    }
    for (const { model, sinceMs } of before.values()) {
      // A model that a reload has dropped is neither.
      if (this.down.has(model) || !current.models.some(({ name }) => name === model)) continue
      logEvent(logger, 'model.up', { model, since: new Date(sinceMs).toISOString() })
    }
  }
}
