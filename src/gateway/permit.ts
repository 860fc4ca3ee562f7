/** Permission of the circuit breaker for one call to a target, and how the call ended. */

import type { ProviderError, ProviderErrorKind } from '../core/provider-error.ts'
import type { TargetHealth } from './target-health.ts'

/** A caller's mistake is no sign of the target's health. */
const CALLERS_MISTAKES: ReadonlySet<ProviderErrorKind> = new Set(['rejected', 'too_large'])

/** What a permit reports to the breaker. */
export interface Reports {
  succeeded(health: TargetHealth): void
  failed(health: TargetHealth, error: ProviderError, isCurrent: boolean): boolean
  exhausted(health: TargetHealth, ms: number): void
  cameWhole(health: TargetHealth, streamed: boolean): void
  brokeOff(health: TargetHealth, beganMs: number, error: ProviderError): void
  probeReleased(health: TargetHealth): void
}

/** Its holder reports how the call ended, or releases the permit. */
export class Permit {
  private isOpen = true
  private hasAnswered = false
  private readonly generation: number
  private readonly cuts: number

  constructor(
    private readonly breaker: Reports,
    private readonly health: TargetHealth,
    private readonly isProbe: boolean,
    private readonly beganMs: number,
  ) {
    this.generation = health.generation
    this.cuts = health.cuts
  }

  /**
   * The target answers. A stream may still fail afterwards: if those before did, this shows nothing yet. If its rate
   * limit has nothing left for `exhaustedMs`, it rests, so that the next request does not have to be refused first.
   */
  succeeded(exhaustedMs = 0): void {
    this.hasAnswered = true
    if (this.health.breaksOff) return
    this.isOpen = false
    if (!this.isCurrent) return
    if (exhaustedMs === 0) this.breaker.succeeded(this.health)
    else this.breaker.exhausted(this.health, exhaustedMs)
  }

  /** After `succeeded`: the answer came whole. */
  completed(streamed: boolean): void {
    const { breaksOff } = this.health
    this.breaker.cameWhole(this.health, streamed)
    this.health.cutsInARow = 0
    if (breaksOff) this.succeeded()
  }

  /**
   * The target failed; a caller's mistake, and an answer that only this request cannot use, just end a probe. True if a
   * rest begins with this failure.
   */
  failed(error: ProviderError): boolean {
    if (CALLERS_MISTAKES.has(error.kind) || error.detail.unusable === true) {
      this.release()
      return false
    }
    this.isOpen = false
    const { isCurrent, health } = this
    if (this.isProbe && isCurrent) health.probing = false
    if (this.hasAnswered && this.cuts === health.cuts) {
      health.cuts++
      health.cutsInARow++
      this.breaker.brokeOff(health, this.beganMs, error)
    }
    return this.breaker.failed(health, error, isCurrent)
  }

  /**
   * The call shows nothing about the target: its caller left, or the time of the request was up. No effect after
   * `failed`, nor after a `succeeded` that counted.
   */
  release(): void {
    if (!this.isOpen) return
    this.isOpen = false
    if (!this.isProbe || !this.isCurrent || !this.health.probing) return
    this.health.probing = false
    this.breaker.probeReleased(this.health)
  }

  /** The target has not begun a rest since this call began. */
  private get isCurrent(): boolean {
    return this.health.generation === this.generation
  }
}
