/**
 * Bytes of server-sent events → frames, as the WHATWG standard parses them: LF, CR and CRLF, comments, a byte order
 * mark, several data lines. The frames do not depend on how the bytes are cut into chunks.
 */

import { ProviderError } from '../core/provider-error.ts'
import { byteText, decodedText, isPlain } from './byte-text.ts'
import { StringShortener } from './string-shortener.ts'

/** Receives the name of an event ('' if it has none) and its data. */
export type FrameSink = (event: string, data: string) => void

/** Takes frames, as byte text (`byte-text.ts`), before they are decoded. */
export interface Shortcut {
  /**
   * May consume whole frames of `text` from `from`, where a frame begins. Returns where the first frame begins that it
   * did not consume. `isPlain`: the text is ASCII. If the read is long, `bytes` from `begin`, where `text` begins, to
   * `end` go on after the text; then frames beyond it may be consumed, too.
   */
  run(text: string, from: number, isPlain: boolean, bytes?: Uint8Array, begin?: number, end?: number): number
  /** May consume one frame. Returns false if the frame goes to the sink. */
  take(event: string, data: string, isPlain: boolean): boolean
}

/**
 * The most characters of one event: 1 MiB of payload and room for the JSON around it. weir holds at most one event of a
 * stream, so a longer one is an error of the provider.
 */
export const FRAME_CHARS_MAX = 1024 * 1024 + 64 * 1024
/** UTF-8 takes at most three bytes for each UTF-16 unit. */
const BYTES_A_CHAR_MAX = 3
/** Where a line is shortened, however it is cut into chunks. */
const SHORTENED_FROM_BYTES = BYTES_A_CHAR_MAX * FRAME_CHARS_MAX
/** The most characters of an event that is shortened. */
const SHORTENED_CHARS_MAX = 4 * FRAME_CHARS_MAX
/** The most characters of an event that may hold a document or an image. */
const DOCUMENT_CHARS_MAX = 16 * 1024 * 1024

const CHARS_MAX = {
  'are errors': FRAME_CHARS_MAX,
  repeat: SHORTENED_CHARS_MAX,
  'hold documents': DOCUMENT_CHARS_MAX,
} as const

/** A read of this size may hold many events. Its first part, of the same size, is enough to learn from. */
const LONG_READ_BYTES = 2048

const BYTE_ORDER_MARK = '\xef\xbb\xbf'

/**
 * Converts each chunk to byte text in one native call and cuts it at line ends, whose bytes are part of no other
 * character; frames are slices of that text, not copies. A line that has not ended is kept in pieces, so that an event
 * in many small chunks is not scanned again with each of them.
 */
export class SseFramer {
  /** The line that has not ended yet. */
  private readonly held = new LinePieces()
  /** The last character was a CR: an LF that follows belongs to it. */
  private afterReturn = false
  private hasBegun = false
  /** True if the chunk, and what is held of those before it, is ASCII. */
  private isPlain = true
  private event = ''
  private data: string | undefined
  /** The data lines of the event after its first, each with the line end before it. */
  private moreData: LinePieces | undefined
  /** Of the line that has not ended, if it is longer than an event may be. */
  private shortener: StringShortener | undefined
  /** The most characters of one event. */
  private readonly charsMax: number

  constructor(
    private readonly shortcut?: Shortcut,
    /** `repeat`: longer events repeat what came before, so that their strings are shortened. */
    private readonly longOnes: 'are errors' | 'repeat' | 'hold documents' = 'are errors',
  ) {
    this.charsMax = CHARS_MAX[longOnes]
  }

  push(chunk: Uint8Array, sink: FrameSink, from = 0, to: number = chunk.byteLength): void {
    if (from === to) return
    // Of the whole chunk: a part that is ASCII beside bytes that are not is only read the longer way.
    this.isPlain = isPlain(chunk) && (this.isPlain || this.isBetween)
    if (this.shortcut === undefined || to - from < LONG_READ_BYTES) this.cut(byteText(chunk, from, to), sink)
    else this.cutLong(chunk, from, to, sink)
  }

  /**
   * Converts the beginning of the bytes first, because the shortcut may take the rest as bytes. Each further part is
   * twice as long, as most of what is not taken in the beginning never is.
   */
  private cutLong(chunk: Uint8Array, from: number, to: number, sink: FrameSink): void {
    let size = LONG_READ_BYTES
    for (let at = from; at < to; size *= 2) {
      at += this.cut(byteText(chunk, at, Math.min(at + size, to)), sink, chunk, at, to)
    }
  }

  /**
   * The clean end of the bytes. The standard drops an event that no blank line ends, but some servers leave it out
   * after their last event, so it counts here. Half an event does no harm, because its data does not parse.
   */
  close(sink: FrameSink): void {
    if (this.held.length > 0) this.line(this.held.take(), sink)
    this.dispatch(sink)
  }

  /**
   * Returns how much was taken: the text, or more if the shortcut took more of the bytes. Both line ends are searched
   * natively, and each only once it was passed: a text may have only one of them.
   */
  private cut(text: string, sink: FrameSink, bytes?: Uint8Array, begin?: number, to?: number): number {
    let from = this.afterReturn && text.charCodeAt(0) === 10 ? 1 : 0
    this.afterReturn = false
    if (this.shortcut !== undefined && this.isBetween)
      from = this.shortcut.run(text, from, this.isPlain, bytes, begin, to)
    // An event that comes alone is nearly always taken.
    if (from >= text.length) return from
    let feed = text.indexOf('\n', from)
    let carriage = text.indexOf('\r', from)
    for (;;) {
      if (feed !== -1 && feed < from) feed = text.indexOf('\n', from)
      if (carriage !== -1 && carriage < from) carriage = text.indexOf('\r', from)
      const isReturn = carriage !== -1 && (feed === -1 || carriage < feed)
      const end = isReturn ? carriage : feed
      if (end === -1) break
      const line = text.slice(from, end)
      this.line(this.whole(line), sink)
      from = isReturn && feed === end + 1 ? end + 2 : end + 1
      this.afterReturn = isReturn && from === text.length && feed !== end + 1
      if (this.shortcut !== undefined && this.isBetween)
        from = this.shortcut.run(text, from, this.isPlain, bytes, begin, to)
    }
    if (from < text.length) this.keep(from === 0 ? text : text.slice(from))
    return Math.max(from, text.length)
  }

  /** True if no frame has begun. */
  private get isBetween(): boolean {
    return this.held.length === 0 && this.data === undefined && this.event === ''
  }

  private keep(piece: string): void {
    this.hold(piece)
    if (this.held.length + this.dataLength > this.bytesMax) throw this.tooLong()
  }

  private hold(piece: string): void {
    const room = SHORTENED_FROM_BYTES - this.held.length
    if (this.shortener !== undefined) return this.held.add(this.shortener.take(piece))
    if (this.longOnes !== 'repeat' || piece.length <= room) return this.held.add(piece)
    const before = this.held.take() + piece.slice(0, room)
    this.shortener = new StringShortener(before)
    this.held.add(before)
    this.held.add(this.shortener.take(piece.slice(room)))
  }

  /** The line that has not ended, with its end. */
  private whole(end: string): string {
    if (this.held.length === 0 && end.length <= SHORTENED_FROM_BYTES) return end
    this.hold(end)
    this.shortener = undefined
    return this.held.take()
  }

  private get dataLength(): number {
    return (this.data?.length ?? 0) + (this.moreData?.length ?? 0)
  }

  private get bytesMax(): number {
    return this.isPlain ? this.charsMax : BYTES_A_CHAR_MAX * this.charsMax
  }

  private line(whole: string, sink: FrameSink): void {
    const line = this.hasBegun || !whole.startsWith(BYTE_ORDER_MARK) ? whole : whole.slice(BYTE_ORDER_MARK.length)
    this.hasBegun = true
    if (line === '') return this.dispatch(sink)
    if (line.startsWith('data:')) {
      this.addData(line.slice(line.charCodeAt(5) === 32 ? 6 : 5))
    } else if (line.startsWith('event:')) {
      this.event = line.slice(line.charCodeAt(6) === 32 ? 7 : 6)
    } else if (line === 'data') {
      this.addData('')
    }
    // Comments, `id`, `retry` and unknown fields hold nothing that an answer needs.
  }

  private addData(line: string): void {
    if (this.data === undefined) this.data = line
    else {
      this.moreData ??= new LinePieces()
      this.moreData.add(`\n${line}`)
    }
    if (this.dataLength > this.bytesMax) throw this.tooLong()
  }

  private dispatch(sink: FrameSink): void {
    const { event, isPlain } = this
    const data = this.moreData === undefined ? this.data : `${this.data}${this.moreData.take()}`
    this.event = ''
    this.data = undefined
    this.moreData = undefined
    if (data === undefined) return
    if (data.length <= FRAME_CHARS_MAX && this.shortcut?.take(event, data, isPlain) === true) return
    if (isPlain) return sink(event, data)
    const decoded = decodedText(data)
    if (decoded.length > this.charsMax) throw this.tooLong()
    sink(decodedText(event), decoded)
  }

  private tooLong(): ProviderError {
    return new ProviderError('broken', `an event of the stream is longer than ${this.charsMax} characters`)
  }
}

/** How many pieces are kept apart. */
const PIECES_MAX = 64

/**
 * Text that arrives in pieces. Some pieces at a time are joined to a copy, because each is an object and keeps the read
 * that it was cut from: a line of 1 MiB in pieces of two bytes took 40 MiB.
 */
class LinePieces {
  private joined: string[] = []
  private pieces: string[] = []
  length = 0

  add(piece: string): void {
    this.length += piece.length
    this.pieces.push(piece)
    if (this.pieces.length === PIECES_MAX) this.join()
  }

  /** All of it; it is empty afterwards. */
  take(): string {
    this.join()
    const text = this.joined.length === 1 ? (this.joined[0] ?? '') : this.joined.join('')
    this.joined = []
    this.length = 0
    return text
  }

  private join(): void {
    this.joined.push(this.pieces.join(''))
    this.pieces = []
  }
}
