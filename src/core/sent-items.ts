/**
 * What a provider was sent of a conversation, for the turn that continues it: the beginning of its next body is the
 * same, so it is not written again.
 */

import type { SharedBytes } from './shared-bytes.ts'

/** The first entries of a conversation, as they were written for one form of body. */
interface Written {
  readonly form: string
  /** Up to this entry, at which a message begins or the conversation ends. */
  readonly end: number
  readonly bytes: SharedBytes
}

/** One for each turn. */
export class SentItems {
  private last: Written | undefined
  /** Of the turn that is continued, until this one was written. */
  private earlier: SentItems | undefined

  constructor(
    /** The first entry that is no instruction of this turn alone: places are counted from it. */
    readonly first: number,
    /** Where its own last message ends; undefined if turns that continue it may add to that. */
    private readonly end: number | undefined,
    earlier: SentItems | undefined,
  ) {
    this.earlier = earlier
  }

  get memoryBytes(): number {
    return this.last?.bytes.size ?? 0
  }

  /** What was written in this form, by this turn or the one before. */
  written(form: string): Written | undefined {
    return this.last?.form === form ? this.last : this.earlier?.written(form)
  }

  /** Where what all turns share ends that continue the same one; 0 if that is nowhere. */
  get sharedEnd(): number {
    return this.earlier?.end ?? 0
  }

  /** What all of them share was written. */
  share(written: Written): void {
    if (this.earlier !== undefined) this.earlier.last = written
  }

  /** Of several forms that a turn and its fallbacks are written in, the last is kept. */
  keep(written: Written): void {
    if (this.end !== written.end) return
    this.last = written
    this.earlier = undefined
  }
}
