/**
 * What a provider was sent of a conversation, for the turn that continues it: the beginning of its next body is the
 * same, so it is not written again.
 */

import type { SharedBytes } from './shared-bytes.ts'

/** An id with what a map of ids takes for it. */
const BYTES_AN_ID = 128

/** Ids that grow at their end, of which several conversations that go on from one share the beginning. */
export class SharedIds {
  private constructor(
    /** The place of each id among all of them. It is also another conversation's, which may have added to it. */
    private readonly places: Map<string, number>,
    readonly size: number,
  ) {}

  static of(ids: Iterable<string>): SharedIds {
    return new SharedIds(new Map(), 0).with(ids)
  }

  get memoryBytes(): number {
    return BYTES_AN_ID * this.size
  }

  has(id: string): boolean {
    return (this.places.get(id) ?? this.size) < this.size
  }

  /** The first of them. */
  first(size: number): SharedIds {
    return new SharedIds(this.places, size)
  }

  /** These and others, of which none is the same as another. */
  with(ids: Iterable<string>): SharedIds {
    const { size } = this
    const isLast = this.places.size === size
    const places = isLast ? this.places : new Map([...this.places].filter(([, place]) => place < size))
    for (const id of ids) places.set(id, places.size)
    return new SharedIds(places, places.size)
  }
}

/** The first entries of a conversation, as they were written for one form of body. */
interface Written {
  readonly form: string
  /** Up to this entry, at which a message begins or the conversation ends. */
  readonly end: number
  readonly bytes: SharedBytes
  /** Those of its calls, if the form has needed that they are legal and unique. */
  readonly ids?: SharedIds | undefined
}

/** One for each turn. */
export class SentItems {
  private last: Written | undefined
  /** That of the turn that is continued, until this one has ended. */
  private earlier: SentItems | undefined

  constructor(
    /** The first entry that is no instruction of this turn alone: places are counted from it. */
    readonly first: number,
    /** Where its own last entry ends. Turns that continue it may add to its last message. */
    private readonly end: number,
    earlier: SentItems | undefined,
  ) {
    this.earlier = earlier
  }

  get memoryBytes(): number {
    return this.last === undefined ? 0 : this.last.bytes.size + (this.last.ids?.memoryBytes ?? 0)
  }

  /** What was written in this form, by this turn or the one before. */
  written(form: string): Written | undefined {
    const { last, earlier } = this
    return last?.form === form ? last : earlier?.last?.form === form ? earlier.last : undefined
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
    if (this.end === written.end) this.last = written
  }

  /** Turns that continue it write everything again. */
  drop(): void {
    this.last = undefined
  }

  /** The turn has ended. Of a form that it was not written in, the turn after it may need what was written before. */
  settle(): this {
    this.last ??= this.earlier?.last
    this.earlier = undefined
    return this
  }
}
