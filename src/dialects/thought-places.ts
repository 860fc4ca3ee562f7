/** Where the thoughts belong that a caller sends back with its history: before the text or call that follows them. */

import { NOTHING_FOLLOWS, type SentThought } from '../core/conversation.ts'

const NONE: readonly SentThought[] = []

/** One for each conversation. */
export class ThoughtPlaces {
  private waiting: readonly SentThought[] = NONE
  private places: Map<number, readonly SentThought[]> | undefined
  /** The first byte of the last text or call of the answer. */
  private last: number | undefined
  /** The first bytes of the calls of the answer that thoughts stand before, and no text has followed yet. */
  private calls: number[] = []

  /** An answer begins. */
  begin(): void {
    this.end()
    this.last = undefined
    this.calls = []
  }

  /** Results of calls: texts from here on come after the calls. */
  results(): void {
    this.calls = []
  }

  /** Thoughts that nothing follows belong to what is before them, or nowhere. */
  private end(): void {
    if (this.waiting === NONE) return
    this.addAt(NOTHING_FOLLOWS, [...(this.places?.get(NOTHING_FOLLOWS) ?? NONE), ...this.waiting])
  }

  add(thought: SentThought): void {
    this.waiting = [...this.waiting, { ...thought, after: this.last }]
  }

  /** A text, or another block that is no call, follows at this byte. */
  place(from: number): void {
    this.last = from
    for (const call of this.calls) {
      const thoughts = this.places?.get(call) ?? NONE
      this.places?.set(
        call,
        thoughts.map((thought) => ({ ...thought, nextText: from })),
      )
    }
    this.calls = []
    if (this.waiting !== NONE) this.addAt(from, this.waiting)
  }

  /** The id of a call follows. */
  placeCall(from: number): void {
    this.last = from
    if (this.waiting === NONE) return
    this.calls.push(from)
    this.addAt(from, this.waiting)
  }

  private addAt(from: number, thoughts: readonly SentThought[]): void {
    this.places ??= new Map()
    this.places.set(from, thoughts)
    this.waiting = NONE
  }

  /** Whether there is any thought. */
  get isUsed(): boolean {
    return this.places !== undefined || this.waiting !== NONE
  }

  /** By the first byte of what follows; undefined if there are none. */
  get whole(): ReadonlyMap<number, readonly SentThought[]> | undefined {
    this.end()
    return this.places
  }
}
