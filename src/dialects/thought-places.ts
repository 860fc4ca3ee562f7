/** Where the thoughts belong that a caller sends back with its history: before the text or call that follows them. */

import type { SentThought } from '../core/conversation.ts'

const NONE: readonly SentThought[] = []

/** One for each conversation. */
export class ThoughtPlaces {
  private waiting: readonly SentThought[] = NONE
  private places: Map<number, readonly SentThought[]> | undefined

  /** An answer begins. Thoughts that nothing has followed are left out. */
  begin(): void {
    this.waiting = NONE
  }

  add(thought: SentThought): void {
    this.waiting = [...this.waiting, thought]
  }

  /** A text or the id of a call follows, at this byte. */
  place(from: number): void {
    if (this.waiting === NONE) return
    this.places ??= new Map()
    this.places.set(from, this.waiting)
    this.waiting = NONE
  }

  /** Whether there is any thought. */
  get isUsed(): boolean {
    return this.places !== undefined || this.waiting !== NONE
  }

  /** By the first byte of what follows; undefined if there are none. */
  get whole(): ReadonlyMap<number, readonly SentThought[]> | undefined {
    return this.places
  }
}
