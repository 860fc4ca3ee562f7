/**
 * Keys whose callers send fields that only native mode gives an effect, as the workers of this node report them: one
 * log line a day and key, and what the status shows.
 */

import { DAY_MS } from '../../core/durations.ts'
import type { FieldHint } from '../../gateway/field-hints.ts'

/** With more keys, the oldest go first. */
const KEYS_MAX = 4096

interface KeptHint extends FieldHint {
  readonly atMs: number
}

export class HintKeeper {
  /** By organisation and key, the oldest first. */
  private readonly hints = new Map<string, KeptHint>()

  constructor(
    private readonly log: (hint: FieldHint) => void,
    private readonly nowMs: () => number = Date.now,
  ) {}

  /** A worker's callers sent such fields. */
  note(hint: FieldHint): void {
    const name = `${hint.organization}/${hint.key}`
    const atMs = this.nowMs()
    if (atMs - (this.hints.get(name)?.atMs ?? Number.NEGATIVE_INFINITY) < DAY_MS) return
    this.hints.delete(name)
    const [oldest] = this.hints.size >= KEYS_MAX ? this.hints.keys() : []
    if (oldest !== undefined) this.hints.delete(oldest)
    this.hints.set(name, { ...hint, atMs })
    this.log(hint)
  }

  /** Those of the last day, the newest first. */
  recent(): readonly KeptHint[] {
    const nowMs = this.nowMs()
    return [...this.hints.values()].filter(({ atMs }) => nowMs - atMs < DAY_MS).reverse()
  }
}
