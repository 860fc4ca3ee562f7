/**
 * The messages and tools of a large request that were checked but not parsed: where in its bytes is what somebody may
 * need. A provider of the same form gets the bytes as they came; canonical messages are made only if somebody asks for
 * them.
 */

import type { JsonValue } from './json.ts'
import type { Ttl } from './model-config.ts'

/** Whose API has messages and tools of this form. */
type WireForm = 'chat' | 'messages' | 'responses'

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
/** In place of arguments: a JSON object. Of a tool: the schema of its parameters. */
export const INPUT = 9
/** `true` or `false`: whether the arguments of a tool always match the schema. */
export const STRICT = 10
export const KINDS = 15

/** Added to the kind of a message whose bytes have the same value as the canonical message in this form. */
export const EXACT = 16
/** Added to the kind of a message that came within the same message as the one before it. */
export const CONTINUED = 32
/** Added to the kind of a result that reports an error. */
export const FAILED = 64
/** Bits below the index of a cache mark. */
const MARK_SHIFT = 7
/** Added, times the index of its mark in `MARKS`, to the kind of a text, a result or a call with a cache mark. */
export const MARKED: number = 1 << MARK_SHIFT

/** A cache mark, which is the same for all texts with that TTL. */
export interface UnparsedMark {
  readonly ttl?: Ttl | undefined
}

export const MARKS: readonly (UnparsedMark | undefined)[] = [undefined, {}, { ttl: '5m' }, { ttl: '1h' }]
const NO_MARKS: readonly UnparsedMark[] = []

/** The cache mark of an entry with this kind. */
export function markOf(kind: number): UnparsedMark | undefined {
  return MARKS[markIndexOf(kind)]
}

/** Its index in `MARKS`. */
export function markIndexOf(kind: number): number {
  return kind >> MARK_SHIFT
}

/** The index of an equal mark in `MARKS`. */
function indexOf(mark: UnparsedMark | undefined): number {
  if (mark === undefined) return 0
  return mark.ttl === undefined ? 1 : mark.ttl === '5m' ? 2 : 3
}

/** The cache marks of these entries, in their order. */
export function marksOf(entries: Int32Array): readonly UnparsedMark[] {
  const marks: UnparsedMark[] = []
  for (let at = 0; at < entries.length; at += ENTRY_INTS) {
    const mark = markOf(entries[at] ?? 0)
    if (mark !== undefined) marks.push(mark)
  }
  return marks
}

/** An entry is its kind, its first byte and the byte after its last. */
export const ENTRY_INTS = 3

/** The entries of the message that begins at `at` end before this one. */
export function endOfMessage(entries: Int32Array, at: number): number {
  let end = at + ENTRY_INTS
  while (end < entries.length && ((entries[end] ?? 0) & KINDS) > TOOL) end += ENTRY_INTS
  return end
}

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
    /** The cache marks in the order of the entries. */
    readonly marks: readonly UnparsedMark[] = NO_MARKS,
    /**
     * Whether each turn can be converted by itself: no message of the assistant may be empty, and no call has the id
     * of another, or one that must be changed.
     */
    readonly hasOwnTurns: boolean = false,
  ) {}

  /** These messages after those of `first`. */
  after(first: UnparsedMessages): UnparsedMessages {
    const entries = new Int32Array(first.entries.length + this.entries.length)
    entries.set(first.entries)
    entries.set(this.entries, first.entries.length)
    const marks = first.marks.length === 0 ? this.marks : [...first.marks, ...this.marks]
    return new UnparsedMessages(entries, this.form, this.hasAnswer, marks, this.hasOwnTurns)
  }

  /** The same messages with other cache marks, or none in place of some. A message whose mark changes is not exact. */
  remarked(change: (mark: UnparsedMark) => UnparsedMark | undefined): UnparsedMessages {
    const entries = this.entries.slice()
    let message = 0
    for (let at = 0; at < entries.length; at += ENTRY_INTS) {
      const kind = entries[at] ?? 0
      if ((kind & KINDS) <= TOOL && (kind & CONTINUED) === 0) message = at
      const mark = markOf(kind)
      if (mark === undefined) continue
      const index = indexOf(change(mark))
      if (MARKS[index] === mark) continue
      entries[at] = (kind % MARKED) + index * MARKED
      entries[message] = (entries[message] ?? 0) & ~EXACT
    }
    return new UnparsedMessages(entries, this.form, this.hasAnswer, marksOf(entries), this.hasOwnTurns)
  }

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
  /** Whether any of them has the member `strict`. */
  readonly hasStrict: boolean
  /** Whether each schema is that of an object, as Anthropic requires. */
  readonly areObjects: boolean
  /** The cache marks in order. */
  readonly marks: readonly UnparsedMark[]
  /**
   * Of each tool: its name, with its cache mark, its description as a text if it has one, its schema, and `STRICT` if
   * it has that.
   */
  readonly entries: Int32Array
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

  kindAt(entry: number): number {
    return (this.entries[entry] ?? 0) & KINDS
  }

  /** Replaces an entry. */
  set(entry: number, kind: number, from: number, to: number): void {
    this.entries[entry] = kind
    this.entries[entry + 1] = from
    this.entries[entry + 2] = to
  }

  /** Adds the entries of another writer, and empties that. */
  addAll(other: EntryWriter): void {
    for (let at = 0; at < other.length; at += ENTRY_INTS)
      this.add(other.entries[at] ?? 0, other.entries[at + 1] ?? 0, other.entries[at + 2] ?? 0)
    other.begin()
  }

  /** A copy of the entries. */
  take(): Int32Array {
    return this.entries.slice(0, this.length)
  }
}
