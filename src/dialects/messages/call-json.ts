/** The JSON of one tool call while it streams: tells when its object is whole, without parsing it. */

import { ProviderError } from '../../core/provider-error.ts'

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPENING_BRACE = 0x7b
const CLOSING_BRACE = 0x7d

const WHITESPACE = /^[ \t\n\r]*$/

/** Where the scan stands. `other`: it does not begin as an object, so that its end cannot be told. */
type Place = 'before' | 'inside' | 'string' | 'escape' | 'behind' | 'other'

/** Brackets of arrays are not counted: within an object whose braces balance outside of strings they cannot matter to where it ends. */
export class CallJson {
  private place: Place = 'before'
  private depth = 0

  /** True once the object has its closing brace. False for ever where the text begins as no object. */
  get whole(): boolean {
    return this.place === 'behind'
  }

  /** Scans the next piece and returns what of it counts. Whitespace behind the object does not; anything else there is a `ProviderError`. */
  add(piece: string): string {
    if (this.place === 'other') return piece
    let at = 0
    for (; at < piece.length && this.place !== 'behind' && this.place !== 'other'; at++) {
      this.place = this.next(piece.charCodeAt(at))
    }
    if (this.place !== 'behind') return piece
    if (!WHITESPACE.test(piece.slice(at))) throw new ProviderError('broken', 'a tool call goes on behind its arguments')
    return piece.slice(0, at)
  }

  private next(unit: number): Place {
    switch (this.place) {
      case 'before':
        return this.begin(unit)
      case 'inside':
        return this.step(unit)
      case 'string':
        return unit === QUOTE ? 'inside' : unit === BACKSLASH ? 'escape' : 'string'
      case 'escape':
        return 'string'
      default:
        return this.place
    }
  }

  private begin(unit: number): Place {
    if (unit === OPENING_BRACE) return this.step(unit)
    return WHITESPACE.test(String.fromCharCode(unit)) ? 'before' : 'other'
  }

  private step(unit: number): Place {
    if (unit === QUOTE) return 'string'
    if (unit === OPENING_BRACE) this.depth++
    if (unit === CLOSING_BRACE) this.depth--
    return this.depth === 0 ? 'behind' : 'inside'
  }
}
