/** Logs that a model is down, because none of its targets can answer, and that it is up again: one line each. */

import { downModels } from '../../admin/down-models.ts'
import type { Config } from '../../config/config.ts'
import type { TargetRef } from '../../core/model-config.ts'
import { hasAnswered, type TargetState } from '../../gateway/target-states.ts'
import type { Logger } from '../../logging/log.ts'
import { logEvent } from '../../logging/log-events.ts'

export class ModelWatch {
  /** The models that were logged as down, and since when. */
  private readonly down = new Map<string, string>()

  constructor(
    private readonly logger: Logger,
    private readonly config: () => Config | undefined,
    private readonly stateOf: (target: TargetRef) => TargetState,
  ) {}

  /** Call when the state of a target may have changed, and after a reload. */
  look(): void {
    const { logger, stateOf } = this
    const current = this.config()
    if (current === undefined) return
    for (const { model, message, sinceMs } of downModels(current, stateOf, Date.now())) {
      if (this.down.has(model)) continue
      const since = new Date(sinceMs).toISOString()
      this.down.set(model, since)
      logEvent(logger, 'model.down', { model, problem: message, since })
    }
    for (const [model, since] of this.down) {
      const targets = current.models.find(({ name }) => name === model)?.targets
      // After a reload it is not known yet whether a target answers. A model that was dropped is neither up nor down.
      if (targets?.every((target) => !hasAnswered(stateOf(target))) === true) continue
      this.down.delete(model)
      if (targets !== undefined) logEvent(logger, 'model.up', { model, since })
    }
  }
}
