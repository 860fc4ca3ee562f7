/**
 * Bytes of server-sent events → frames, as the WHATWG standard parses them: LF, CR and CRLF, comments, a byte order
 * mark, several data lines. The frames do not depend on how the bytes are cut into chunks.
 */

import { ProviderError } from '../core/provider-error.ts'

/** Receives the name of an event ('' if it has none) and its data. */
export type FrameSink = (event: string, data: string) => void

/**
 * May consume whole frames of `text` from `from`, where a frame begins. Returns where the first frame begins that it
 * did not consume.
 */
export type Shortcut = (text: string, from: number) => number

/**
 * The most characters of one event: 1 MiB of payload and room for the JSON around it. weir holds at most one event of a
 * stream, so a longer one is an error of the provider.
 */
export const FRAME_CHARS_MAX = 1024 * 1024 + 64 * 1024

/**
 * Decodes each chunk to text in one native call and cuts it at line ends; frames are slices of that text, not copies. A
 * line that has not ended is kept in pieces, so that an event in many small chunks is not scanned again with each of
 * them.
 */
export class SseFramer {
  private readonly utf8 = new TextDecoder('utf-8')
  /** Pieces of the line that has not ended yet. */
  private pieces: string[] = []
  private held = 0
  /** The last character was a CR: an LF that follows belongs to it. */
  private afterReturn = false
  private event = ''
  private data: string | undefined

  constructor(private readonly shortcut?: Shortcut) {}

  push(chunk: Uint8Array, sink: FrameSink): void {
    this.text(this.utf8.decode(chunk, { stream: true }), sink)
  }

  /**
   * The clean end of the bytes. The standard drops an event that no blank line ends, but some servers leave it out
   * after their last event, so it counts here. Half an event does no harm, because its data does not parse.
   */
  close(sink: FrameSink): void {
    this.text(this.utf8.decode(), sink)
    if (this.pieces.length > 0) this.line(this.takePieces(''), sink)
    this.dispatch(sink)
  }

  private text(text: string, sink: FrameSink): void {
    if (text === '') return
    if (this.afterReturn || text.includes('\r')) this.cutAtAnyLineEnd(text, sink)
    else this.cutAtLineFeeds(text, sink)
  }

  /** The usual case: one `indexOf` for each line. */
  private cutAtLineFeeds(text: string, sink: FrameSink): void {
    let from = 0
    for (;;) {
      if (this.shortcut !== undefined && this.isBetween) from = this.shortcut(text, from)
      const end = text.indexOf('\n', from)
      if (end === -1) break
      const line = text.slice(from, end)
      this.line(this.pieces.length === 0 ? line : this.takePieces(line), sink)
      from = end + 1
    }
    if (from < text.length) this.keep(from === 0 ? text : text.slice(from))
  }

  /** True if no frame has begun. */
  private get isBetween(): boolean {
    return this.data === undefined && this.event === '' && this.pieces.length === 0
  }

  private cutAtAnyLineEnd(text: string, sink: FrameSink): void {
    let from = 0
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at)
      const skip = this.afterReturn && unit === 10
      this.afterReturn = unit === 13
      if (unit !== 10 && unit !== 13) continue
      if (!skip) this.line(this.takePieces(text.slice(from, at)), sink)
      from = at + 1
    }
    if (from < text.length) this.keep(text.slice(from))
  }

  private keep(piece: string): void {
    this.held += piece.length
    if (this.held + (this.data?.length ?? 0) > FRAME_CHARS_MAX) throw tooLong()
    this.pieces.push(piece)
  }

  private takePieces(last: string): string {
    if (this.pieces.length === 0) return last
    this.pieces.push(last)
    const line = this.pieces.join('')
    this.pieces = []
    this.held = 0
    return line
  }

  private line(line: string, sink: FrameSink): void {
    if (line === '') return this.dispatch(sink)
    if (line.startsWith('data:')) {
      const value = line.slice(line.charCodeAt(5) === 32 ? 6 : 5)
      this.data = this.data === undefined ? value : `${this.data}\n${value}`
      if (this.data.length > FRAME_CHARS_MAX) throw tooLong()
    } else if (line.startsWith('event:')) {
      this.event = line.slice(line.charCodeAt(6) === 32 ? 7 : 6)
    } else if (line === 'data') {
      this.data = this.data === undefined ? '' : `${this.data}\n`
    }
    // Comments, `id`, `retry` and unknown fields hold nothing that an answer needs.
  }

  private dispatch(sink: FrameSink): void {
    const { event, data } = this
    this.event = ''
    this.data = undefined
    if (data !== undefined) sink(event, data)
  }
}

function tooLong(): ProviderError {
  return new ProviderError('broken', `an event of the stream is longer than ${FRAME_CHARS_MAX} characters`)
}
