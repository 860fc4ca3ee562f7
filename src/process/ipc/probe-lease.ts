/**
 * Which worker probes a target whose rest is over: one at a time on this machine, so that a recovering provider gets
 * one request and not one from each worker. The supervisor grants leases, the workers claim them; no provider is
 * called here.
 */

import { type TargetRef, targetKey } from '../../core/model-config.ts'
import type { Breaker, Rest } from '../../gateway/breaker.ts'

/**
 * The supervisor learns of a rest a little after the worker that began it, so it sees the rest end later than that
 * worker.
 */
const LATE_MS = 50
export class ProbeLeases {
  /** The worker that probes, by target; until it reports a result, or is gone. */
  private readonly holders = new Map<string, number>()

  /** `health` has what all workers reported. */
  constructor(private readonly health: Pick<Breaker, 'restOf' | 'receive'>) {}

  grant(worker: number, target: TargetRef): boolean {
    const rest = this.health.restOf(target)
    if (rest === undefined) return true
    const key = targetKey(target)
    const holder = this.holders.get(key)
    if (holder !== undefined) return holder === worker
    if (rest.restMs > LATE_MS) return false
    this.holders.set(key, worker)
    return true
  }

  /** Another node probes the target: this worker's lease ends. */
  refuse(worker: number, target: TargetRef): void {
    if (this.holders.get(targetKey(target)) === worker) this.holders.delete(targetKey(target))
  }

  /** Takes what a worker reports of a target. Anything but the start of a probe ends the lease. */
  hear(rest: Rest): void {
    this.health.receive(rest)
    if (!rest.probing) this.holders.delete(targetKey(rest))
  }

  /** Ends the leases of a worker that is gone. */
  gone(worker: number): void {
    for (const [key, holder] of this.holders) if (holder === worker) this.holders.delete(key)
  }
}
