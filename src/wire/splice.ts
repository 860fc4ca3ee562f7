/**
 * The splice: copies the text of a provider's frame into the caller's event without parsing the one or serialising the
 * other.
 *
 * Nearly every frame of a stream equals the one before it, except for its text. After a frame was decoded and gave one
 * text event, the characters before and after that text are kept as a template. A later frame that matches the template
 * holds a text and nothing else. The splice is only an optimisation: a property test proves that the caller's bytes are
 * the same without it.
 */

import { jsonInside } from './sse.ts'

/**
 * Characters that may not be copied as they are. Most words have none: this takes 18 ns a word, the pattern below 40.
 */
const SPECIAL = /["\\\u0000-\u001f\u0085\u2028\u2029\ud800-\udfff]/

/**
 * The inside of a JSON string that equals itself after parsing and serialising: no quote, no control character, none of
 * the line breaks that `jsonLine` escapes, and no escapes other than those that `JSON.stringify` writes.
 */
const VERBATIM = /^(?:[^"\\\u0000-\u001f\u0085\u2028\u2029\ud800-\udfff]|[\ud800-\udbff][\udc00-\udfff]|\\["\\bfnrt])+$/

/** A longer text with special characters is decoded, because the pattern's backtracking grows with the length. */
const VERBATIM_CHARS_MAX = 4096

/** How much text is searched first. Each next stretch is twice as long. */
const STRETCH_CHARS = 4096

/** Stands in for the text when a template is tested; no frame of a provider contains it. */
const PROBE = 'weir\u00b7probe'

/**
 * The text that a new decoder finds in a frame, if it finds one text and nothing else. Proves that the template's gap
 * is the text.
 */
type Prove = (event: string, data: string) => string | undefined

/**
 * One for each stream. `learn` after a frame gave one text event, `run` and `match` on what follows, `forget` after any
 * other frame.
 */
export class Splice {
  private before = ''
  private after = ''
  private event = ''
  /** `before` and `after` with the SSE lines around them, as nearly every server writes them. */
  private lead = ''
  private tail = ''
  /** The characters between two texts: the end of one frame and the beginning of the next. */
  private seam = ''
  private hasTemplate = false

  constructor(private readonly prove: Prove) {}

  /**
   * Consumes whole frames that match the template, without cutting the text into lines: the characters between two
   * texts are always the same, so one native `split` finds all texts. `from` is the start of a frame. Returns the start
   * of the first frame that must be decoded.
   */
  run(text: string, from: number, sink: (insides: readonly string[]) => void): number {
    if (!this.hasTemplate) return from
    let at = from
    // Stretch by stretch: if only some frames match, splitting all of the remaining text for each of them would take
    // quadratic time.
    for (let chars = STRETCH_CHARS; text.startsWith(this.lead, at); chars *= 2) {
      const start = at + this.lead.length
      const stretch = text.slice(start, start + chars)
      const pieces = stretch.split(this.seam)
      const last = pieces.pop() ?? ''
      const end = last.indexOf(this.tail)
      if (end !== -1) pieces.push(last.slice(0, end))
      const insides = verbatimOnly(pieces)
      if (insides.length > 0) sink(insides)
      const around = insides.length * (this.lead.length + this.tail.length)
      at = insides.reduce((sum, inside) => sum + inside.length, at + around)
      const isCut = insides.length === pieces.length && start + chars < text.length
      if (!isCut) break
    }
    return at
  }

  /** The frame's text as the inside of a JSON string; undefined if the frame must be decoded. */
  match(event: string, data: string): string | undefined {
    if (!this.hasTemplate || event !== this.event) return undefined
    const end = data.length - this.after.length
    if (end <= this.before.length || !data.startsWith(this.before) || !data.endsWith(this.after)) return undefined
    const inside = data.slice(this.before.length, end)
    return isVerbatim(inside) ? inside : undefined
  }

  /**
   * Makes the template from a frame that was decoded to this one text, unless the text's place in the frame is
   * ambiguous.
   */
  learn(event: string, data: string, text: string): void {
    const inside = JSON.stringify(text)
    const at = data.indexOf(inside)
    if (at === -1 || data.indexOf(inside, at + 1) !== -1) return
    const before = data.slice(0, at + 1)
    const after = data.slice(at + inside.length - 1)
    if (this.prove(event, before + jsonInside(PROBE) + after) !== PROBE) return
    this.before = before
    this.after = after
    this.event = event
    this.lead = event === '' ? `data: ${before}` : `event: ${event}\ndata: ${before}`
    this.tail = `${after}\n\n`
    this.seam = this.tail + this.lead
    this.hasTemplate = true
  }

  /** Drops the template. A frame of another kind may change what the next matching frame means. */
  forget(): void {
    this.hasTemplate = false
  }
}

/**
 * The pieces up to the first that must be decoded. Usually there is none, and one test of all pieces together shows it.
 */
function verbatimOnly(pieces: readonly string[]): readonly string[] {
  if (!pieces.includes('') && !SPECIAL.test(pieces.join(''))) return pieces
  const other = pieces.findIndex((piece) => piece === '' || !isVerbatim(piece))
  return other === -1 ? pieces : pieces.slice(0, other)
}

function isVerbatim(inside: string): boolean {
  return !SPECIAL.test(inside) || (inside.length <= VERBATIM_CHARS_MAX && VERBATIM.test(inside))
}
