/** Shortens the long strings of JSON text that arrives in pieces, so that text of any length takes bounded memory. */

import { isEscaped } from '../core/json-bytes.ts'

/** Longer strings lose their rest: statuses, counts and tiers are shorter, repeated texts are not. */
const STRING_CHARS_MAX = 1024
/** In place of the rest. JSON allows it in no string, so that text with a shortened string does not parse. */
const CUT = '\0'

export class StringShortener {
  private inString = false
  /** The length of the string so far. */
  private length = 0
  /** The last character escapes the first one of the next piece. */
  private isEscaping = false

  /** `before`: the beginning of the text, which stays as it is. */
  constructor(before: string) {
    this.run(before, undefined)
    // A string that is too long already is cut at the next character.
    this.length = Math.min(this.length, STRING_CHARS_MAX)
  }

  /** What is left of the next piece. */
  take(piece: string): string {
    const kept: string[] = []
    this.run(piece, kept)
    return kept.join('')
  }

  private run(text: string, kept: string[] | undefined): void {
    for (let at = 0; at < text.length; ) {
      const quote = this.inString ? this.stringEnd(text, at) : text.indexOf('"', at)
      const end = quote === -1 ? text.length : quote
      if (this.inString) this.inside(text, at, end, kept)
      else kept?.push(text.slice(at, end))
      at = end
      if (quote === -1) return
      kept?.push('"')
      this.inString = !this.inString
      this.length = 0
      at++
    }
  }

  /** The quote that ends the string which goes on at this index; -1 if it is not in the text. */
  private stringEnd(text: string, at: number): number {
    const from = this.isEscaping ? at + 1 : at
    let quote = text.indexOf('"', from)
    while (quote !== -1 && isEscaped(text, quote, from)) quote = text.indexOf('"', quote + 1)
    this.isEscaping = quote === -1 && isEscaped(text, text.length, from)
    return quote
  }

  private inside(text: string, from: number, end: number, kept: string[] | undefined): void {
    const room = STRING_CHARS_MAX - this.length
    this.length += end - from
    if (end - from <= room) kept?.push(text.slice(from, end))
    else if (room >= 0) kept?.push(text.slice(from, from + room), CUT)
  }
}
