/**
 * Which worker finds out whether a target is well again: one at a time on this machine. The supervisor grants it, the workers ask; neither
 * asks a provider anything here.
 */

import { type TargetRef, targetKey } from '../core/model-config.ts'
import type { Breaker, Rest } from '../gateway/breaker.ts'

/** The supervisor heard of a rest a little later than the worker that began it, and so sees it end later. */
const LATE_MS = 50
/** A request does not wait longer than this for leave: without an answer its worker finds out by itself. */
const ANSWER_MS_MAX = 500

/** The supervisor's half. */
export class Probes {
  /** The worker that finds out, by target; until it tells what it found, or is gone. */
  private readonly holders = new Map<string, number>()

  /** `health` is what all workers have told, through here. */
  constructor(private readonly health: Pick<Breaker, 'restOf' | 'hear'>) {}

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

  /** A worker has told something of a target. */
  hear(rest: Rest): void {
    this.health.hear(rest)
    if (!rest.probing) this.holders.delete(targetKey(rest))
  }

  gone(worker: number): void {
    for (const [key, holder] of this.holders) if (holder === worker) this.holders.delete(key)
  }
}

/** The half of a worker: its questions that are not answered yet. */
export class Claims {
  private next = 0
  private readonly waiting = new Map<number, (granted: boolean) => void>()

  constructor(private readonly send: (id: number, target: TargetRef) => void) {}

  readonly ask = (target: TargetRef): Promise<boolean> => {
    const id = this.next++
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const limit = setTimeout(() => this.answer(id, true), ANSWER_MS_MAX)
    this.waiting.set(id, (granted) => {
      clearTimeout(limit)
      resolve(granted)
    })
    this.send(id, target)
    return promise
  }

  answer(id: number, granted: boolean): void {
    this.waiting.get(id)?.(granted)
    this.waiting.delete(id)
  }
}
