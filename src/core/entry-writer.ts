/** Writes the entries of a conversation, or of a list of tools, one after the other. */

import type { Arena } from './arena.ts'
import { ENTRY_INTS, KINDS } from './conversation.ts'
import { MARKED } from './entry-marks.ts'

/** So few numbers are copied one by one: a native copy of them takes twice as long. */
const SHORT_INTS_MAX = 48

/** A document of which a value has a first byte and a byte after its last. */
interface Values {
  fromOf(value: number): number
  toOf(value: number): number
}

/** Gathers the entries of one request after the other. */
export class EntryWriter {
  private entries = new Int32Array(4096)
  private length = 0

  begin(): void {
    this.length = 0
  }

  get isEmpty(): boolean {
    return this.length === 0
  }

  /** The index of the next entry. */
  get next(): number {
    return this.length
  }

  /** Returns the index of the entry. */
  add(kind: number, from: number, to: number): number {
    const { length } = this
    if (length + ENTRY_INTS > this.entries.length) {
      const larger = new Int32Array(2 * this.entries.length)
      larger.set(this.entries)
      this.entries = larger
    }
    this.entries[length] = kind
    this.entries[length + 1] = from
    this.entries[length + 2] = to
    this.length = length + ENTRY_INTS
    return length
  }

  /** Adds a value of a document. */
  addValue(kind: number, document: Values, value: number): number {
    return this.add(kind, document.fromOf(value), document.toOf(value))
  }

  /** Adds a text that is not in the body. */
  addText(kind: number, arena: Arena, text: string): number {
    return this.add(kind, arena.addText(text), arena.end)
  }

  kindAt(entry: number): number {
    return (this.entries[entry] ?? 0) & KINDS
  }

  fromAt(entry: number): number {
    return this.entries[entry + 1] ?? 0
  }

  toAt(entry: number): number {
    return this.entries[entry + 2] ?? 0
  }

  /** Adds the entries of another writer from one to before another. */
  copy(other: EntryWriter, from: number, to: number): void {
    for (let at = from; at < to; at += ENTRY_INTS)
      this.add(other.entries[at] ?? 0, other.entries[at + 1] ?? 0, other.entries[at + 2] ?? 0)
  }

  isMarkedAt(entry: number): boolean {
    return (this.entries[entry] ?? 0) >= MARKED
  }

  /** The mark of an entry, by its index in `MARKS`. */
  markAt(entry: number): number {
    return Math.floor((this.entries[entry] ?? 0) / MARKED)
  }

  /** Replaces an entry. */
  set(entry: number, kind: number, from: number, to: number): void {
    this.entries[entry] = kind
    this.entries[entry + 1] = from
    this.entries[entry + 2] = to
  }

  /** Replaces the mark of an entry, by its index in `MARKS`. */
  mark(entry: number, index: number): void {
    this.entries[entry] = ((this.entries[entry] ?? 0) % MARKED) + index * MARKED
  }

  /** Drops this entry and all after it. */
  truncate(entry: number): void {
    this.length = entry
  }

  /** Adds the entries of another writer, and empties that. */
  addAll(other: EntryWriter): void {
    this.copy(other, 0, other.length)
    other.begin()
  }

  /** Adds entries that were copied, whose bytes have been moved by `shift`. */
  addShifted(copied: Int32Array, shift: number): void {
    for (let at = 0; at < copied.length; at += ENTRY_INTS)
      this.add(copied[at] ?? 0, (copied[at + 1] ?? 0) + shift, (copied[at + 2] ?? 0) + shift)
  }

  /** A copy of the entries. */
  take(): Int32Array {
    const { entries, length } = this
    if (length > SHORT_INTS_MAX) return entries.slice(0, length)
    const taken = new Int32Array(length)
    for (let at = 0; at < length; at++) taken[at] = entries[at] ?? 0
    return taken
  }
}
