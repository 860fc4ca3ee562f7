/**
 * The messages and tools of a request, as entries over the bytes of the request: what each of them is, and where its
 * text is. A dialect's reader makes them of a caller's body, and a provider's writer makes a body of them, so that a
 * text of any length passes without being decoded, parsed or copied twice.
 */

import { Arena } from './arena.ts'
import * as Kind from './entry-kinds.ts'
import { type CacheMark, indexOfMark, MARKED, markIndexOf, markOf } from './entry-marks.ts'
import type { SentItems } from './sent-items.ts'

/** In whose API messages and tools have the form in which they came. */
export type WireForm = 'chat' | 'messages' | 'responses'

/** The bits of a kind itself. */
export const KINDS = 31

/** Added to the kind of a message whose bytes have the value that the message has in its own form. */
export const EXACT = 32
/** Added to the kind of a message that came within the same message as the one before it. */
export const CONTINUED = 64
/** Added to the kind of a result that reports an error. */
export const FAILED = 128
/** Added to the kind of a document that the answer is to quote. */
export const CITED = 128
/** Added to the kind of an `OWN_BLOCK` without which a request must not be answered. */
export const NEEDED = 128
/** Added to the kind of a tool's schema whose `type` is certainly "object". */
export const OF_OBJECT = 128
/** Below the index of an image's detail in `DETAILS`. */
const DETAIL_SHIFT = 8
export const DETAILED: number = 1 << DETAIL_SHIFT
export type ImageDetail = 'auto' | 'low' | 'high' | 'original'

export const DETAILS: readonly (ImageDetail | undefined)[] = [undefined, 'auto', 'low', 'high', 'original']

const MEDIA_KINDS: ReadonlySet<number> = new Set([
  ...[Kind.IMAGE, Kind.IMAGE_URL, Kind.DOCUMENT, Kind.DOCUMENT_TEXT, Kind.DOCUMENT_URL, Kind.DOCUMENT_PARTS],
])

/** The same, each as a bit. */
const MEDIA_BITS = [...MEDIA_KINDS].reduce((bits, kind) => bits | (1 << kind), 0)

/** Whether an image or a document begins with an entry of this kind. */
export function isMedia(kind: number): boolean {
  return MEDIA_KINDS.has(kind)
}

const COMPANIONS: ReadonlySet<number> = new Set([Kind.MEDIA_TYPE, Kind.FILE_NAME, Kind.CONTEXT])

/** An entry is its kind with what was added to it, its first byte and the byte after its last. */
export const ENTRY_INTS = 3

/** Where a block is that has members which its entries lack. `marks`: the indexes of the marks within it, added up. */
export interface BlockSpan {
  readonly from: number
  readonly to: number
  readonly marks: number
}

/** By the first byte of the entry of each block. */
export type BlockSpans = ReadonlyMap<number, BlockSpan>

/** Entries over an arena. An entry is named by its index among the numbers; `next` leads from one to the next. */
export abstract class Entries {
  constructor(
    readonly arena: Arena,
    /** Three numbers each. */
    protected readonly numbers: Int32Array,
    /** The kinds that occur, each as a bit. */
    private readonly seen: number,
    /**
     * The field of each mark that an error may name (`input[0].content[1].cache_control`), by the first byte of
     * the text that carries it.
     */
    protected readonly markPaths: ReadonlyMap<number, string> | undefined,
    protected readonly blocks: BlockSpans | undefined,
  ) {}

  /** The end of the last entry. */
  get end(): number {
    return this.numbers.length
  }

  get isEmpty(): boolean {
    return this.numbers.length === 0
  }

  next(entry: number): number {
    return entry + ENTRY_INTS
  }

  /** Whether any entry is of this kind. */
  has(kind: number): boolean {
    return (this.seen & (1 << kind)) !== 0
  }

  /** Whether any entry is an image or a document. */
  get hasMedia(): boolean {
    return (this.seen & MEDIA_BITS) !== 0
  }

  kindAt(entry: number): number {
    return (this.numbers[entry] ?? 0) & KINDS
  }

  /** The kind with all that was added to it. */
  bitsAt(entry: number): number {
    return this.numbers[entry] ?? 0
  }

  fromAt(entry: number): number {
    return this.numbers[entry + 1] ?? 0
  }

  toAt(entry: number): number {
    return this.numbers[entry + 2] ?? 0
  }

  markIndexAt(entry: number): number {
    return markIndexOf(this.bitsAt(entry))
  }

  /** The cache mark of an entry, with its field. */
  markAt(entry: number): CacheMark | undefined {
    const mark = markOf(this.bitsAt(entry))
    const path = mark && this.markPaths?.get(this.fromAt(entry))
    return path === undefined ? mark : { ...mark, path }
  }

  /** The text of an entry. */
  textAt(entry: number): string {
    return this.arena.stringAt(this.fromAt(entry), this.toAt(entry))
  }

  /** The whole block of this entry, if it has members that the entries lack. */
  blockAt(entry: number): BlockSpan | undefined {
    return this.blocks?.get(this.fromAt(entry))
  }

  /** Whether any entry has a cache mark. */
  get isMarked(): boolean {
    return (this.seen & SEEN_MARK) !== 0
  }

  /** Calls `visit` for each cache mark, in order. */
  forEachMark(visit: (mark: CacheMark) => void): void {
    if (!this.isMarked) return
    for (let entry = 0; entry < this.end; entry += ENTRY_INTS) {
      const mark = this.markAt(entry)
      if (mark !== undefined) visit(mark)
    }
  }
}

/** A thought that a caller sends back: what it got as its words, and as its seal if it got one. */
export interface SentThought {
  readonly text: string
  readonly seal: string | undefined
  /** The first byte of the text or the call before it in its answer. Absent: it is the first of all. */
  readonly after?: number | undefined
  /** If it stands before a call: the first byte of the next text, which a conversation has before the call. */
  readonly nextText?: number | undefined
}

/** In place of a first byte: nothing follows these thoughts in their answers. */
export const NOTHING_FOLLOWS = -1

/** In the bits of the kinds that occur: an entry has a mark. */
const SEEN_MARK = 1 << 31

/** What replaces a cache mark; undefined removes it. `entry` is the one that carries it. */
export type MarkChange = (mark: CacheMark, entry: number) => CacheMark | undefined

/** The numbers with changed marks; the same if none changes. `changed` gets the entry of each that does. */
export function remarked(numbers: Int32Array, change: MarkChange, changed: (copy: Int32Array, entry: number) => void) {
  let copy: Int32Array | undefined
  for (let entry = 0; entry < numbers.length; entry += ENTRY_INTS) {
    const bits = numbers[entry] ?? 0
    const mark = markOf(bits)
    if (mark === undefined) continue
    const index = indexOfMark(change(mark, entry))
    if (index === markIndexOf(bits)) continue
    copy ??= numbers.slice()
    copy[entry] = (bits % MARKED) + index * MARKED
    changed(copy, entry)
  }
  return copy ?? numbers
}

/** The kinds of these numbers, each as a bit. */
export function seenIn(numbers: Int32Array): number {
  let seen = 0
  for (let entry = 0; entry < numbers.length; entry += ENTRY_INTS) {
    const bits = numbers[entry] ?? 0
    seen |= 1 << (bits & KINDS)
    if (bits >= MARKED) seen |= SEEN_MARK
  }
  return seen
}

/** Entries of a conversation that follow each other. */
export interface EntryRun {
  readonly from: number
  readonly to: number
  /** It begins with a message that was moved, or whose content differs. */
  readonly isMoved?: boolean
  /** Of a single text: the bytes of a part of it. The mark of the text stays on its last part. */
  readonly part?: { readonly span: readonly [number, number]; readonly isLast: boolean } | undefined
}

/** The messages of a request. */
export class Conversation extends Entries {
  constructor(
    arena: Arena,
    numbers: Int32Array,
    readonly form: WireForm,
    markPaths?: ReadonlyMap<number, string>,
    /** The thoughts that the caller sends back, by the first byte of the text or the call that each comes before. */
    readonly sentThoughts?: ReadonlyMap<number, readonly SentThought[]>,
    blocks?: BlockSpans,
    /** What providers were sent of it, if other turns may continue it. */
    readonly sent?: SentItems,
    /** What the caller calls its answers, as the insides of JSON strings, by the first byte of the text of each. */
    readonly phases?: ReadonlyMap<number, string>,
  ) {
    super(arena, numbers, seenIn(numbers), markPaths, blocks)
  }

  /** The end of the content of the message that begins here: the next message, or `end`. */
  endOfMessage(message: number): number {
    const { numbers } = this
    let end = message + ENTRY_INTS
    while (end < numbers.length && ((numbers[end] ?? 0) & KINDS) > Kind.TOOL) end += ENTRY_INTS
    return end
  }

  isExact(message: number): boolean {
    return (this.bitsAt(message) & EXACT) !== 0
  }

  isContinued(message: number): boolean {
    return (this.bitsAt(message) & CONTINUED) !== 0
  }

  /** Of a `RESULT_ID`. */
  isFailed(entry: number): boolean {
    return (this.bitsAt(entry) & FAILED) !== 0
  }

  /** Of a document. */
  isCited(entry: number): boolean {
    return (this.bitsAt(entry) & CITED) !== 0
  }

  /** The entry after a text, an image or a document, and after all that belongs to it. */
  endOfPart(entry: number): number {
    const { numbers } = this
    const isWhole = this.kindAt(entry) !== Kind.DOCUMENT_PARTS
    let end = entry + ENTRY_INTS
    if (isWhole) while (end < numbers.length && COMPANIONS.has((numbers[end] ?? 0) & KINDS)) end += ENTRY_INTS
    else {
      while (end < numbers.length && ((numbers[end] ?? 0) & KINDS) !== Kind.DOCUMENT_END) end += ENTRY_INTS
      end += ENTRY_INTS
    }
    return end
  }

  /** The entry of this kind among those that belong to an image or document; -1 if there is none. */
  companionOf(entry: number, kind: number): number {
    for (let at = entry + ENTRY_INTS; at < this.numbers.length; at += ENTRY_INTS) {
      const found = this.kindAt(at)
      if (found === kind) return at
      if (!COMPANIONS.has(found)) break
    }
    return -1
  }

  /** Of an image: the index of its detail in `DETAILS`. */
  detailIndexAt(entry: number): number {
    return (this.bitsAt(entry) >> DETAIL_SHIFT) & 7
  }

  /** Of an image. */
  detailAt(entry: number): ImageDetail | undefined {
    return DETAILS[this.detailIndexAt(entry)]
  }

  /** The same messages with a mark on this entry, by its index in `MARKS`. */
  withMark(entry: number, index: number): Conversation {
    const numbers = this.numbers.slice()
    numbers[entry] = ((numbers[entry] ?? 0) % MARKED) + index * MARKED
    exactCleared()(numbers, entry)
    return this.with(numbers)
  }

  /** The same messages with other cache marks. A message whose mark changes is not exact. */
  remarked(change: MarkChange): Conversation {
    if (!this.isMarked) return this
    const numbers = remarked(this.numbers, change, exactCleared())
    return numbers === this.numbers ? this : this.with(numbers)
  }

  /**
   * The same without blocks that only the caller's own API has; entries keep their places. Undefined if one of them is
   * needed.
   */
  withoutOwnBlocks(): Conversation | undefined {
    if (!this.has(Kind.OWN_BLOCK)) return this
    const numbers = this.numbers.slice()
    for (let entry = 0; entry < numbers.length; entry += ENTRY_INTS) {
      const bits = numbers[entry] ?? 0
      if ((bits & KINDS) !== Kind.OWN_BLOCK) continue
      if ((bits & NEEDED) !== 0) return undefined
      numbers[entry] = Kind.TEXT
      numbers[entry + 1] = 0
      numbers[entry + 2] = 0
    }
    return this.with(numbers)
  }

  /** The same with its entries in another order, and texts divided. */
  rearranged(runs: readonly EntryRun[]): Conversation {
    const numbers: number[] = []
    for (const { from, to, isMoved, part } of runs) {
      const at = numbers.length
      for (let index = from; index < to; index++) numbers.push(this.numbers[index] ?? 0)
      if (isMoved === true) numbers[at] = (numbers[at] ?? 0) & ~(EXACT | CONTINUED)
      if (part === undefined) continue
      if (!part.isLast) numbers[at] = (numbers[at] ?? 0) % MARKED
      numbers[at + 1] = part.span[0]
      numbers[at + 2] = part.span[1]
    }
    return this.with(Int32Array.from(numbers))
  }

  /**
   * The same without blocks that only the caller's own API has, and without messages of nothing else. `places`: where
   * each entry was.
   */
  withoutOwnMessages(): { readonly kept: Conversation; readonly places: readonly number[] } {
    const places: number[] = []
    for (let message = 0; message < this.end; ) {
      const end = this.endOfMessage(message)
      const before = places.length
      places.push(message)
      for (let entry = this.next(message); entry < end; entry = this.next(entry))
        if (this.kindAt(entry) !== Kind.OWN_BLOCK) places.push(entry)
      if (places.length === before + 1 && end > this.next(message)) places.length = before
      message = end
    }
    const numbers = new Int32Array(places.length * ENTRY_INTS)
    for (const [index, place] of places.entries())
      numbers.set(this.numbers.subarray(place, place + ENTRY_INTS), index * ENTRY_INTS)
    return { kept: this.with(numbers), places }
  }

  private with(numbers: Int32Array): Conversation {
    const { arena, form, markPaths, sentThoughts, blocks, phases } = this
    return new Conversation(arena, numbers, form, markPaths, sentThoughts, blocks, undefined, phases)
  }
}

/** Notes that the message of an entry is not exact any more. Takes entries in order, so that each is passed once. */
function exactCleared(): (numbers: Int32Array, entry: number) => void {
  let next = 0
  let message = 0
  return (numbers, entry) => {
    for (; next <= entry; next += ENTRY_INTS) {
      const bits = numbers[next] ?? 0
      if ((bits & KINDS) <= Kind.TOOL && (bits & CONTINUED) === 0) message = next
    }
    numbers[message] = (numbers[message] ?? 0) & ~EXACT
  }
}

export const NO_MESSAGES: Conversation = new Conversation(new Arena(new Uint8Array(0)), new Int32Array(0), 'chat')
