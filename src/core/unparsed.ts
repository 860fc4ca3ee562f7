/**
 * The messages and tools of a large request that were checked but not parsed: where in its bytes is what somebody may
 * need. A provider of the same form gets the bytes as they came; canonical messages are made only if somebody asks for
 * them.
 */

import type { JsonValue } from './json.ts'

/** Whose API has messages and tools of this form. */
type WireForm = 'chat' | 'messages'

/** The kinds of entries. */
export const SYSTEM = 0
export const USER = 1
export const ASSISTANT = 2
export const TOOL = 3
export const TEXT = 4
/** The id of the call that a message answers. */
export const RESULT_ID = 5
/** A call: its id, its name and its arguments follow each other. */
export const CALL_ID = 6
export const NAME = 7
/** JSON text, written as a string. */
export const ARGUMENTS = 8

/** Added to the kind of a message whose bytes have the same value as the canonical message in this form. */
export const EXACT = 16
export const KINDS = 15

/** Of an entry: its kind, its first byte, the byte after its last. */
export const ENTRY_INTS = 3

/**
 * Entries in the order of the messages. A message is an entry, and the entries up to the next message are its content;
 * theirs are the insides of strings.
 */
export class UnparsedMessages {
  constructor(
    /** Three numbers each: kind, first byte, byte after the last. */
    readonly entries: Int32Array,
    readonly form: WireForm,
    /** Whether the model has answered before. */
    readonly hasAnswer: boolean,
  ) {}

  /** Calls `visit` for each entry, in order. */
  each(visit: (kind: number, from: number, to: number) => void): void {
    const { entries } = this
    for (let at = 0; at < entries.length; at += ENTRY_INTS)
      visit((entries[at] ?? 0) & KINDS, entries[at + 1] ?? 0, entries[at + 2] ?? 0)
  }

  /**
   * The messages in a provider's body of this form. Exact ones that follow each other are one value, which `copy` makes
   * of their bytes; `write` makes the others, by their index.
   */
  written(copy: (from: number, to: number) => JsonValue, write: (index: number) => readonly JsonValue[]): JsonValue[] {
    const { entries } = this
    const written: JsonValue[] = []
    let [index, first, last] = [0, -1, -1]
    const flush = () => {
      if (first !== -1) written.push(copy(first, last))
      first = -1
    }
    for (let at = 0; at < entries.length; at += ENTRY_INTS) {
      const kind = entries[at] ?? 0
      if ((kind & KINDS) > TOOL) continue
      if ((kind & EXACT) !== 0) {
        if (first === -1) first = entries[at + 1] ?? 0
        last = entries[at + 2] ?? 0
      } else {
        flush()
        written.push(...write(index))
      }
      index++
    }
    flush()
    return written
  }
}

/** The tools of a request: all of them are functions whose names every provider accepts. */
export interface UnparsedTools {
  readonly form: WireForm
  /** The list of all tools, with its brackets. */
  readonly from: number
  readonly to: number
  readonly count: number
}

/** What of one request was not parsed. */
export interface Unparsed {
  /** Absent if they were parsed. */
  readonly messages?: UnparsedMessages | undefined
  /** Absent if they were parsed, or there are none. */
  readonly tools?: UnparsedTools | undefined
}

/** Gathers the entries of one request after the other. */
export class EntryWriter {
  private entries = new Int32Array(4096)
  private length = 0

  begin(): void {
    this.length = 0
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

  /** Replaces an entry. */
  set(entry: number, kind: number, from: number, to: number): void {
    this.entries[entry] = kind
    this.entries[entry + 1] = from
    this.entries[entry + 2] = to
  }

  /** A copy of the entries. */
  take(): Int32Array {
    return this.entries.slice(0, this.length)
  }
}
