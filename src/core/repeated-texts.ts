/**
 * What was made of long spans of requests that come again and again: the instructions and tools of an agent are the
 * same in each turn, and in all of its sessions.
 */

import type { Arena } from './arena.ts'

/** Agents of a few versions at once. */
const TEXTS_MAX = 16
/** A longer span is made again each time: with its text it takes three times as much. */
const BYTES_MAX = 64 * 1024

interface Known {
  readonly kind: number
  readonly bytes: Buffer
  readonly text: string
}

export class RepeatedTexts {
  private readonly known: Known[] = []
  /** The one that is replaced next. */
  private next = 0

  /** The text of a span that was made before of the same bytes, or is now. `kind`: how it is made. */
  of(kind: number, arena: Arena, from: number, to: number, make: () => string): string {
    const buffer = arena.bufferAt(from)
    const [start, end] = [arena.indexAt(from), arena.indexAt(from, to)]
    const length = end - start
    if (length > BYTES_MAX) return make()
    for (const one of this.known)
      if (one.kind === kind && one.bytes.length === length && one.bytes.compare(buffer, start, end) === 0)
        return one.text
    const text = make()
    const bytes = Buffer.allocUnsafeSlow(length)
    Buffer.prototype.copy.call(buffer, bytes, 0, start, end)
    this.known[this.next] = { kind, bytes, text }
    this.next = (this.next + 1) % TEXTS_MAX
    return text
  }
}
