/**
 * The learned text path: copies the text of a provider's frame into the caller's event without parsing the one or serialising the other.
 *
 * Nearly every frame of a stream is the one before it with another word in it. Once a frame was decoded the slow way and gave one
 * piece of text, the characters before and behind that text are learnt; a next frame that has the same around it is that text and
 * nothing else. An optimisation that can be switched off: the bytes are the same with it and without it, which a law proves.
 * Measured over 64 events of 180 bytes in a chunk: see `scripts/bench`.
 */

import { jsonInside } from './sse.ts'

/** Characters that need a second look. Most words have none: 18 ns a word, where the pattern below takes 40. */
const SPECIAL = /["\\\u0000-\u001f\u0085\u2028\u2029\ud800-\udfff]/

/**
 * What may stand inside a JSON string so that copying it equals parsing and serialising it again: no quote, no control character, none of
 * the line breaks that `jsonLine` escapes, and of the escapes only those that `JSON.stringify` writes itself.
 */
const VERBATIM = /^(?:[^"\\\u0000-\u001f\u0085\u2028\u2029\ud800-\udfff]|[\ud800-\udbff][\udc00-\udfff]|\\["\\bfnrt])+$/

/** A longer text with special characters is decoded: the pattern's backtracking must not grow with what a provider sends. */
const VERBATIM_CHARS_MAX = 4096

/** How much of a text is looked at first; each next stretch is twice as long. */
const STRETCH_CHARS = 4096

/** Stands for the text when a learnt frame is put to the proof; no frame of a provider holds it. */
const PROBE = 'weir\u00b7probe'

/** Tells what text a frame gives to a decoder that has seen nothing else: the proof that the span found is the text that counts. */
type Prove = (event: string, data: string) => string | undefined

/** One a stream. `learn` after a frame gave one text event, `run` and `match` for what comes next, `forget` after any other frame. */
export class Splice {
  private before = ''
  private behind = ''
  private event = ''
  /** `before` and `behind` with the lines of SSE around them, as nearly every server writes them. */
  private lead = ''
  private tail = ''
  /** Between two texts: the end of one frame and the beginning of the next. */
  private seam = ''
  private learnt = false

  constructor(private readonly prove: Prove) {}

  /**
   * Takes whole frames that are alike from the text of a stream, without cutting lines first: what stands between one text and the
   * next is the same every time, so one native `split` finds them all. `from` is where a frame begins; returns where the first one
   * begins that must be cut and decoded.
   */
  run(text: string, from: number, sink: (insides: readonly string[]) => void): number {
    if (!this.learnt) return from
    let at = from
    // A stretch at a time: where frames are alike only now and then, each of them would cost a look at all that is left.
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

  /** The inside of the JSON string of the frame's text, or undefined where the frame must be decoded. */
  match(event: string, data: string): string | undefined {
    if (!this.learnt || event !== this.event) return undefined
    const end = data.length - this.behind.length
    if (end <= this.before.length || !data.startsWith(this.before) || !data.endsWith(this.behind)) return undefined
    const inside = data.slice(this.before.length, end)
    return isVerbatim(inside) ? inside : undefined
  }

  /** Learns from a frame that was decoded to this one text. Refuses where the text's place in the frame is not beyond doubt. */
  learn(event: string, data: string, text: string): void {
    const inside = JSON.stringify(text)
    const at = data.indexOf(inside)
    if (at === -1 || data.indexOf(inside, at + 1) !== -1) return
    const before = data.slice(0, at + 1)
    const behind = data.slice(at + inside.length - 1)
    if (this.prove(event, before + jsonInside(PROBE) + behind) !== PROBE) return
    this.before = before
    this.behind = behind
    this.event = event
    this.lead = event === '' ? `data: ${before}` : `event: ${event}\ndata: ${before}`
    this.tail = `${behind}\n\n`
    this.seam = this.tail + this.lead
    this.learnt = true
  }

  /** What is learnt holds only between frames that are alike: a frame of another kind may change what a like one means. */
  forget(): void {
    this.learnt = false
  }
}

/** The pieces up to the first that must be decoded. Usually none must, and one look at all of them says so. */
function verbatimOnly(pieces: readonly string[]): readonly string[] {
  if (!pieces.includes('') && !SPECIAL.test(pieces.join(''))) return pieces
  const other = pieces.findIndex((piece) => piece === '' || !isVerbatim(piece))
  return other === -1 ? pieces : pieces.slice(0, other)
}

function isVerbatim(inside: string): boolean {
  return !SPECIAL.test(inside) || (inside.length <= VERBATIM_CHARS_MAX && VERBATIM.test(inside))
}
