/** Which targets are worth an alert: those that reject our credential, and those that fail for a minute. */

import { type TargetRef, targetKey } from '../core/model-config.ts'
import type { Occurrence } from './alert.ts'

/** A target that does not recover for so long is reported. */
const OPEN_MS = 60_000

/** What a worker reports of a target. */
interface TargetRest extends TargetRef {
  /** 0: it is healthy again. */
  readonly rests: number
  readonly reason: string
}

interface Failing {
  readonly target: TargetRef
  readonly sinceMs: number
  reason: string
  /** It rejected our credential, and has not answered since. */
  isRejected: boolean
}

export class TargetWatch {
  private readonly failing = new Map<string, Failing>()

  /** Takes what a worker reports of a target. */
  hear({ provider, model, rests, reason }: TargetRest, nowMs: number): void {
    const target = { provider, model }
    const key = targetKey(target)
    if (rests === 0) return void this.failing.delete(key)
    const failing = this.failing.get(key) ?? { target, sinceMs: nowMs, reason, isRejected: false }
    failing.reason = reason
    failing.isRejected ||= reason === 'credential'
    this.failing.set(key, failing)
  }

  /** Drops the targets for which `isFailing` is false, as after a reload. */
  keep(isFailing: (target: TargetRef) => boolean): void {
    for (const [key, { target }] of this.failing) if (!isFailing(target)) this.failing.delete(key)
  }

  /** The targets that reject our credential. */
  rejected(): readonly Occurrence[] {
    return [...this.failing.values()].flatMap(({ target, isRejected }) =>
      isRejected ? [{ type: 'provider.credential_rejected', fields: target }] : [],
    )
  }

  /** The targets that have failed for a minute. */
  open(nowMs: number): readonly Occurrence[] {
    return [...this.failing.values()].flatMap(({ target, sinceMs, reason }) => {
      if (nowMs - sinceMs < OPEN_MS) return []
      return [{ type: 'target.open', fields: { ...target, reason, since: new Date(sinceMs).toISOString() } }]
    })
  }
}
