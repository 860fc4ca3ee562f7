/** Which targets are worth an alert: those that reject our credential, and those that fail for a minute. */

import { type TargetRef, targetKey } from '../core/model-config.ts'
import type { Occurrence } from './alert.ts'

/** A target that does not recover for so long is reported. */
const OPEN_MS = 60_000
/** A credential that is still rejected is reported again after so long. */
const CREDENTIAL_MS = 3_600_000

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
  isReported: boolean
  credentialMs: number
}

export class TargetWatch {
  private readonly failing = new Map<string, Failing>()

  /** Takes what a worker reports of a target; returns what is to be reported at once. */
  hear({ provider, model, rests, reason }: TargetRest, nowMs: number): readonly Occurrence[] {
    const key = targetKey({ provider, model })
    if (rests === 0) {
      this.failing.delete(key)
      return []
    }
    const target = { provider, model }
    const known = this.failing.get(key)
    const failing = known ?? { target, sinceMs: nowMs, reason, isReported: false, credentialMs: -Infinity }
    failing.reason = reason
    this.failing.set(key, failing)
    if (reason !== 'credential' || nowMs - failing.credentialMs < CREDENTIAL_MS) return []
    failing.credentialMs = nowMs
    return [{ type: 'provider.credential_rejected', fields: target }]
  }

  /** What is to be reported after a time. Drops the targets for which `isFailing` is false, as after a reload. */
  look(nowMs: number, isFailing: (target: TargetRef) => boolean): readonly Occurrence[] {
    const found: Occurrence[] = []
    for (const [key, each] of this.failing) {
      const { target, sinceMs, reason } = each
      if (!isFailing(target)) this.failing.delete(key)
      else if (!each.isReported && nowMs - sinceMs >= OPEN_MS) {
        each.isReported = true
        const since = new Date(sinceMs).toISOString()
        found.push({ type: 'target.open', fields: { ...target, reason, since } })
      }
    }
    return found
  }
}
