/** The depth and the number of values of JSON text, found without parsing it. Takes whole texts and pieces. */

import { BACKSLASH, isEscaped, QUOTE } from '../core/json-bytes.ts'

/** More levels than any request needs. `JSON.stringify` and recursive functions overflow the stack at some 10,000. */
export const DEPTH_MAX = 128
/**
 * Counted as commas and colons outside strings: one for each element, two for each member. Parsing 10 MiB of
 * `{"a":{}}`, 2.3 million of them, blocks the event loop and with it every stream for 110 ms; the most that this limit
 * allows takes 35 ms, twice that if one of them is a number that keeps its text (`core/exact-json.ts`), and 250 ms if
 * all are. An agent's longest history has some 100,000.
 */
export const VALUES_MAX = 250_000

/** `deep`: nested more than `DEPTH_MAX` levels. `full`: too many values. */
export type ShapeProblem = 'deep' | 'full'

/** Counts brackets, commas and colons outside strings, whether the text is valid JSON or not. */
export class JsonShape {
  private depth = 0
  private inString = false
  /** The last character was a backslash that escapes the next one. */
  private escaped = false
  private deepest = 0
  private counted = 0

  constructor(private readonly valuesMax: number = VALUES_MAX) {}

  /** Commas and colons so far. */
  get values(): number {
    return this.counted
  }

  get problem(): ShapeProblem | undefined {
    if (this.deepest > DEPTH_MAX) return 'deep'
    return this.counted > this.valuesMax ? 'full' : undefined
  }

  /**
   * Scans the next piece. Returns the index after the first bracket in it that closes the outermost level, or -1. Once
   * a limit is exceeded, nothing more is scanned.
   */
  add(piece: string): number {
    let close = -1
    let at = this.inString ? this.string(piece, 0) : 0
    for (; at < piece.length && this.deepest <= DEPTH_MAX && this.counted <= this.valuesMax; at++) {
      switch (piece.charCodeAt(at)) {
        case QUOTE:
          this.inString = true
          at = this.string(piece, at + 1) - 1
          break
        case 0x5b:
        case 0x7b:
          this.deepest = Math.max(this.deepest, ++this.depth)
          break
        case 0x5d:
        case 0x7d:
          if (--this.depth === 0 && close === -1) close = at + 1
          break
        case 0x2c:
        case 0x3a:
          this.counted++
          break
      }
    }
    return close
  }

  /**
   * The index after the string that continues at `from`, or the end of the piece. One native search finds the end of
   * nearly every string.
   */
  private string(piece: string, from: number): number {
    const start = this.escaped && from < piece.length ? from + 1 : from
    const quote = piece.indexOf('"', start)
    const end = quote === -1 ? piece.length : quote
    this.escaped = end > start ? isEscaped(piece, end, start) : this.escaped && start === from
    if (quote === -1) return piece.length
    if (this.escaped) return this.stringOfEscapes(piece, quote)
    this.inString = false
    return quote + 1
  }

  /** The same, character by character: a native search for each of many escaped quotes takes 20 times as long. */
  private stringOfEscapes(piece: string, from: number): number {
    for (let at = from; at < piece.length; at++) {
      if (this.escaped) {
        this.escaped = false
        continue
      }
      const unit = piece.charCodeAt(at)
      if (unit === BACKSLASH) this.escaped = true
      if (unit !== QUOTE) continue
      this.inString = false
      return at + 1
    }
    return piece.length
  }
}

export function shapeProblem(text: string, valuesMax: number = VALUES_MAX): ShapeProblem | undefined {
  // So short a text has fewer values, and so few brackets cannot nest deeper. Native searches for them take a third of
  // the time of the scan, for the bodies of nearly all small requests and answers.
  if (text.length <= valuesMax && hasFewBrackets(text)) return undefined
  const shape = new JsonShape(valuesMax)
  shape.add(text)
  return shape.problem
}

/** True if the text has at most `DEPTH_MAX` opening brackets, within strings or not. */
function hasFewBrackets(text: string): boolean {
  let brackets = 0
  for (let at = text.indexOf('{'); at !== -1; at = text.indexOf('{', at + 1)) if (++brackets > DEPTH_MAX) return false
  for (let at = text.indexOf('['); at !== -1; at = text.indexOf('[', at + 1)) if (++brackets > DEPTH_MAX) return false
  return true
}
