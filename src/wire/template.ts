/**
 * A template of a provider's frames: the characters that all of them share, and holes for what differs. All of it is
 * byte text (`byte-text.ts`).
 */

import type { Usage } from '../core/token-usage.ts'
import { COUNTER_DIGITS_MAX, COUNTER_HOLE, NUMBER_HOLE, STRING_HOLE } from './copy-kernel.ts'
import { FRAME_CHARS_MAX } from './frames.ts'
import type { FrameForm, TextCopier } from './text-copier.ts'

/** The model's text, a string or a number that the decoder does not read, and a number that it adds to the usage. */
export type Hole = 'text' | 'string' | 'number' | 'counter'

/** What the text of a frame is of. */
export type TextKind = 'text' | 'reasoning'

/** How a figure of the usage follows from the numbers of a frame: the sum of some of them, and a constant. */
export interface Figure {
  readonly name: Exclude<keyof Usage, 'serviceTier'>
  readonly constant: number
  /** Indexes among the counters. */
  readonly addends: readonly number[]
}

/** Characters that may not be copied as they are from a text of ASCII characters. */
const SPECIAL = /["\\\x00-\x1f]/
/** The same for any bytes: `jsonLine` escapes U+0085, U+2028 and U+2029, which are these sequences. */
const SPECIAL_BYTES = /["\\\x00-\x1f]|\xc2\x85|\xe2\x80[\xa8\xa9]/

/**
 * The inside of a JSON string that equals itself after parsing and serialising, or becomes U+FFFD both times: no quote,
 * no control character, none of the line breaks that `jsonLine` escapes, and no escapes other than those that
 * `JSON.stringify` writes.
 */
const VERBATIM = /^(?:[^"\\\x00-\x1f\xc2\xe2]|\xc2(?!\x85)|\xe2(?!\x80[\xa8\xa9])|\\["\\bfnrt])+$/

const SPACE = 0x20
const QUOTE = 0x22
const BACKSLASH = 0x5c
/** Characters that are looked at one by one, which takes less than a search and a pattern. */
const LOOKED_AT_MAX = 128

/** A longer text with special characters is decoded, because the pattern's backtracking grows with the length. */
const VERBATIM_CHARS_MAX = 4096

/** Copying fewer frames one by one costs no more. */
const COPIED_FRAMES_MIN = 6

const NO_FIGURES: readonly Figure[] = []

export class Template {
  /** What the last match found in the text hole: the inside of a JSON string. */
  inside = ''
  /** The first characters of a frame as it stands in a stream, its `event` line included, and its last. */
  private lead: string | undefined
  private tail = ''
  /** Both, between the texts of two frames. */
  private seam = ''
  /** For the kernel; made when it is first needed. */
  private form: FrameForm | undefined
  /** Where the counters of the last frame that matched begin and end. */
  private counters: number[] = []
  /** The same for the frame that is being matched. */
  private found: number[] = []
  /** Where all holes of the frame begin and end, if `covers` matches it. */
  private readonly spans: number[] = []
  /** Its only hole is the text. */
  private readonly isLone: boolean
  /** No frame is shorter. */
  readonly charsMin: number

  constructor(
    readonly event: string,
    /** One more than there are holes. */
    private readonly fixed: readonly string[],
    private readonly holes: readonly Hole[],
    /** How the usage follows from the counters. */
    private readonly figures: readonly Figure[] = NO_FIGURES,
    readonly kind: TextKind = 'text',
  ) {
    let chars = 0
    for (const piece of fixed) chars += piece.length
    this.charsMin = chars
    this.isLone = holes.length === 1 && holes[0] === 'text'
  }

  /** True if frames report a usage that differs from frame to frame. */
  get countsTokens(): boolean {
    return this.figures.length > 0
  }

  /** The usage that the last matched frame, which is in `text`, reports. */
  usageIn(text: string): Usage {
    const { counters } = this
    return this.usageOf((at) => Number(text.slice(counters[2 * at], counters[2 * at + 1])))
  }

  /** The usage that the last copied frame reports. */
  usageCopied(copier: TextCopier): Usage {
    // The copier does not count the text.
    const counters = this.holes.flatMap((hole, at) => (hole === 'counter' ? [at - 1] : []))
    return this.usageOf((at) => copier.numberIn(counters[at] ?? 0))
  }

  private usageOf(counter: (at: number) => number): Usage {
    const values: { -readonly [name in Figure['name']]?: number } = {}
    for (const { name, constant, addends } of this.figures) {
      let sum = constant
      for (const at of addends) sum += counter(at)
      values[name] = sum
    }
    return values
  }

  /** True if all of the data is a frame of this form. `isPlain` as in `match`. */
  matches(data: string, isPlain: boolean | undefined): boolean {
    const { fixed } = this
    return this.match(data, 0, fixed[0] ?? '', fixed[fixed.length - 1] ?? '', isPlain) === data.length
  }

  /** True if the data is of this form, even if its text must be decoded. */
  covers(data: string): boolean {
    return this.matches(data, undefined)
  }

  /**
   * The same template for one stream: holes that are not in `varying` are filled with what stands in them in `data`,
   * which `covers` has just accepted.
   */
  filledFrom(data: string, varying: ReadonlySet<number>): Template {
    const { fixed, holes, spans } = this
    const filled: string[] = []
    const left: Hole[] = []
    let piece = fixed[0] ?? ''
    for (const [at, hole] of holes.entries()) {
      if (isLeft(hole, at, varying)) {
        filled.push(piece)
        left.push(hole)
        piece = fixed[at + 1] ?? ''
      } else piece += data.slice(spans[2 * at], spans[2 * at + 1]) + (fixed[at + 1] ?? '')
    }
    return new Template(this.event, [...filled, piece], left, this.figures, this.kind)
  }

  /** True if `filledFrom` makes the same of two frames with these contents of the holes. */
  isFilledAlike(one: readonly string[], other: readonly string[], varying: ReadonlySet<number>): boolean {
    return this.holes.every((hole, at) => isLeft(hole, at, varying) || one[at] === other[at])
  }

  /** What stands in each hole of `data`, which `covers` has just accepted. */
  contentsOf(data: string): string[] {
    return this.holes.map((_, at) => data.slice(this.spans[2 * at], this.spans[2 * at + 1]))
  }

  /**
   * Offers the frames from `from` on to the copier. The bytes from `begin` to `end` begin with those of `text`, and may
   * go on after it. False if they are few, or not of a form that it copies.
   */
  offer(
    copier: TextCopier,
    text: string,
    from: number,
    bytes: Uint8Array,
    isPlain: boolean,
    begin = 0,
    end: number = bytes.byteLength,
  ): boolean {
    if (this.holes[0] !== 'text') return false
    const lead = this.lead ?? this.leadIn(text, from)
    if (end - begin - from < COPIED_FRAMES_MIN * this.seam.length || !text.startsWith(lead, from)) return false
    this.form ??= this.frameForm()
    copier.offer(this.form, bytes, begin + from + lead.length, end, isPlain)
    return true
  }

  private frameForm(): FrameForm {
    const { fixed, holes, seam, tail } = this
    const [, ...others] = holes
    const kinds = { string: STRING_HOLE, text: STRING_HOLE, number: NUMBER_HOLE, counter: COUNTER_HOLE } as const
    return {
      pieces: [...fixed.slice(1, -1), seam],
      holes: others.map((hole) => kinds[hole]),
      tailLength: tail.length,
    }
  }

  /** The end of the frame that begins at `from` in a stream, its blank line included; -1 if it has another form. */
  frameEnd(text: string, from: number, isPlain: boolean): number {
    const lead = this.lead ?? this.leadIn(text, from)
    if (this.isLone && isPlain) return this.loneEnd(text, from, lead, this.tail)
    return this.match(text, from, lead, this.tail, isPlain)
  }

  /**
   * `match` for a template with no hole but the text, if the text is short and has no special characters. It reads no
   * list: with hundreds of streams, what an event reads is no longer in the processor's cache.
   */
  private loneEnd(text: string, from: number, lead: string, tail: string): number {
    if (!text.startsWith(lead, from)) return -1
    const start = from + lead.length
    let end = start
    let code = text.charCodeAt(end)
    while (code >= SPACE && code !== QUOTE && code !== BACKSLASH && end - start < LOOKED_AT_MAX)
      code = text.charCodeAt(++end)
    if (code !== QUOTE || end === start) return this.match(text, from, lead, tail, true)
    if (!text.startsWith(tail, end)) return -1
    this.inside = text.slice(start, end)
    return end + tail.length
  }

  /**
   * Adds the texts of the ASCII frames from `from` on to `insides`, as long as another frame follows each. Returns
   * where the first frame begins that was not taken. The end of a frame and the beginning of the next one are compared
   * at once: a stream of 64 frames is decoded in 12 µs instead of 14. A template with a hole before its text takes
   * none.
   */
  textsIn(text: string, from: number, insides: string[]): number {
    if (this.holes[0] !== 'text') return from
    const lead = this.lead ?? this.leadIn(text, from)
    const { seam } = this
    if (text.length - from < 2 * seam.length || !text.startsWith(lead, from)) return from
    const first = from + lead.length
    return (this.isLone ? this.loneTexts(text, first, insides) : this.texts(text, first, insides)) - lead.length
  }

  /** `textsIn` for a template without further holes, from the first text on. */
  private loneTexts(text: string, from: number, insides: string[]): number {
    const { seam } = this
    let at = from
    for (let end = text.indexOf('"', at); end !== -1 && text.startsWith(seam, end); end = text.indexOf('"', at)) {
      const inside = text.slice(at, end)
      if (!isVerbatim(inside, true) || seam.length + inside.length > FRAME_CHARS_MAX) break
      insides.push(inside)
      at = end + seam.length
    }
    return at
  }

  /** `textsIn` for a template with further holes, from the first text on. */
  private texts(text: string, from: number, insides: string[]): number {
    const { seam } = this
    let at = from
    for (let end = this.match(text, at, '', seam, true); end !== -1; end = this.match(text, at, '', seam, true)) {
      insides.push(this.inside)
      at = end
    }
    return at
  }

  /** The lines around the data as nearly all servers write them, with the line end of this one. */
  private leadIn(text: string, from: number): string {
    const { event, fixed } = this
    const feed = text.indexOf('\n', from)
    const lineEnd = text.charCodeAt(feed - 1) === 13 ? '\r\n' : '\n'
    this.tail = `${fixed[fixed.length - 1]}${lineEnd}${lineEnd}`
    this.lead = `${event === '' ? '' : `event: ${event}${lineEnd}`}data: ${fixed[0]}`
    this.seam = this.tail + this.lead
    this.form = undefined
    return this.lead
  }

  /**
   * The end of the frame at `from`, or -1. `first` and `last` stand for the first and the last of the fixed pieces. If
   * `isPlain` is undefined, the text may be anything.
   */
  private match(text: string, from: number, first: string, last: string, isPlain: boolean | undefined): number {
    if (first !== '' && !text.startsWith(first, from)) return -1
    const { holes, fixed, found } = this
    let at = from + first.length
    let counter = 0
    for (let hole = 0; hole < holes.length; hole++) {
      const next = hole === holes.length - 1 ? last : (fixed[hole + 1] ?? '')
      const kind = holes[hole]
      const end = kind === 'text' || kind === 'string' ? stringEnd(text, at, next) : numberEnd(text, at, next, kind)
      if (end === -1) return -1
      if (isPlain === undefined) {
        this.spans[2 * hole] = at
        this.spans[2 * hole + 1] = end
      }
      if (kind === 'counter') {
        found[counter++] = at
        found[counter++] = end
      } else if (kind !== 'number') {
        const inside = text.slice(at, end)
        const isRight = kind === 'string' ? !SPECIAL.test(inside) : isPlain === undefined || isVerbatim(inside, isPlain)
        if (!isRight) return -1
        if (kind === 'text') this.inside = inside
      }
      at = end + next.length
    }
    if (at - from > FRAME_CHARS_MAX) return -1
    this.found = this.counters
    this.counters = found
    return at
  }
}

/** True for a hole that stays one in the template of a stream. */
function isLeft(hole: Hole, at: number, varying: ReadonlySet<number>): boolean {
  return hole === 'text' || hole === 'counter' || varying.has(at)
}

/** Where the string that continues at `from` ends, if `next`, which begins with its quote, follows it; else -1. */
function stringEnd(text: string, from: number, next: string): number {
  let end = text.indexOf('"', from)
  while (end !== -1 && !text.startsWith(next, end)) {
    // An escaped quote is part of the string.
    if (text.charCodeAt(end - 1) !== 0x5c || end - from > VERBATIM_CHARS_MAX) return -1
    end = text.indexOf('"', end + 1)
  }
  return end
}

/** Where the JSON number at `from` ends, if `next` follows it; else -1. Numbers with an exponent do not count. */
function numberEnd(text: string, from: number, next: string, kind: Hole | undefined): number {
  let end = digitsEnd(text, from)
  const digits = end - from
  if (digits === 0 || (digits > 1 && text.charCodeAt(from) === 0x30)) return -1
  if (kind === 'counter' && digits > COUNTER_DIGITS_MAX) return -1
  if (kind === 'number' && text.charCodeAt(end) === 0x2e) {
    const fraction = end + 1
    end = digitsEnd(text, fraction)
    if (end === fraction) return -1
  }
  return text.startsWith(next, end) ? end : -1
}

function digitsEnd(text: string, from: number): number {
  let at = from
  for (let code = text.charCodeAt(at); code >= 0x30 && code <= 0x39; code = text.charCodeAt(++at));
  return at
}

function isVerbatim(inside: string, isPlain: boolean): boolean {
  if (!(isPlain ? SPECIAL : SPECIAL_BYTES).test(inside)) return inside !== ''
  return inside.length <= VERBATIM_CHARS_MAX && VERBATIM.test(inside)
}
