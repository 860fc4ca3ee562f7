/** Logs that a worker lacks file descriptors, at most once a minute for each event. */

import type { Logger } from '../../logging/log.ts'
import { logEvent } from '../../logging/log-events.ts'
import type { DescriptorShortage } from '../../transport/descriptor-shortage.ts'

const QUIET_MS = 60_000

export class DescriptorLog {
  private lowMs = Number.NEGATIVE_INFINITY
  /** When they were last nearly used up, if the log has no line about the end of that yet. */
  private crowdedMs: number | undefined
  private exhaustedMs = Number.NEGATIVE_INFINITY

  constructor(
    private readonly logger: Logger,
    private readonly worker: number,
    private readonly limit: number | undefined,
  ) {}

  /** New requests are rejected while so many descriptors are open. */
  low(open: number, nowMs: number = performance.now()): void {
    this.crowdedMs = nowMs
    if (nowMs - this.lowMs < QUIET_MS) return
    this.lowMs = nowMs
    logEvent(this.logger, 'descriptors.low', { worker: this.worker, open, limit: this.limit })
  }

  /** New requests are accepted. Logged after a quiet minute, because idle connections are closed and others follow. */
  enough(open: number, nowMs: number = performance.now()): void {
    if (this.crowdedMs === undefined || nowMs - this.crowdedMs < QUIET_MS) return
    this.crowdedMs = undefined
    logEvent(this.logger, 'descriptors.recovered', { worker: this.worker, open, limit: this.limit })
  }

  /** A connection to a provider could not be opened. */
  exhausted(code: DescriptorShortage, nowMs: number = performance.now()): void {
    if (nowMs - this.exhaustedMs < QUIET_MS) return
    this.exhaustedMs = nowMs
    logEvent(this.logger, 'descriptors.exhausted', { worker: this.worker, code, limit: this.limit })
  }
}
