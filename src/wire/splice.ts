/**
 * The splice: copies the text of a provider's frame, of the answer or of a thought, into the caller's event without
 * parsing the one or serialising the other.
 *
 * Nearly every frame of a stream equals the one before it, except for its text and a few values that mean nothing or
 * are counters. Decoded frames teach a template. A later frame that matches it holds a text and, if the template has
 * counters, a usage, and nothing else. The splice is only an optimisation: property tests prove that the caller's bytes
 * and the usage are the same without it.
 */

import type { StreamEvent } from '../core/event.ts'
import type { Usage } from '../core/token-usage.ts'
import { decodedText } from './byte-text.ts'
import type { Shortcut } from './frames.ts'
import type { Shapes, Use } from './shapes.ts'
import type { Template, TextKind } from './template.ts'
import { textFrame } from './template-learning.ts'
import { type TextCopier, textCopier } from './text-copier.ts'

/** Takes what was copied. */
export interface SpliceSink {
  /** Texts of successive frames as the insides of JSON strings, in Unicode. `joined` is all of them in one string. */
  texts(insides: readonly string[], joined: string, kind: TextKind): void
  /** As `texts`, for the texts that were offered to the copier. Returns how many it copied. */
  copyTexts(copier: TextCopier, kind: TextKind): number
  /** The usage that the last of these frames reports. */
  usage(usage: Usage): void
  /** At most so many texts may come at once: the one after them may be where the answer is cut for its length. */
  readonly room: number
}

/** Frames in a row whose shape cannot be learned, after which every frame of the stream is decoded. */
const MISSES_MAX = 2
/** The same for texts that were decoded although their shape is known, because they need it. */
const DECODED_MAX = 16

/** A look-up of the shape takes as long as decoding four frames: an answer of a few texts is decoded. */
const TEXTS_BEFORE_LEARNING = 8
/** Look-ups of which none led to a copy. The second one may show which holes vary; each further one waits as long. */
const IDLE_LOOKUPS_MAX = 2
/** Unless so many frames of the same length have come already: then the look-up pays at once. */
const FRAMES_TO_LEARN_AT_ONCE = 32

/** So often a stream goes over from thoughts to text, or back, and is looked at as if it began. */
const FRESH_STARTS_MAX = 16

/** A longer frame is not learned: each open stream holds one. */
const LEARNED_CHARS_MAX = 16 * 1024

/** One for each stream. `learn` follows each frame that was not taken. */
export class Splice implements Shortcut {
  private used: Use | undefined
  /** The template of `used`, if the frame before was decoded to one text. */
  private template: Template | undefined
  /** The frame that was offered last and not taken, as byte text; '' if there is none. */
  private offered = ''
  private offeredEvent = ''
  /** The characters that have come from the beginning of that frame on. */
  private received = 0
  private hasGivenUp = false
  private misses = 0
  private decoded = 0
  /** Look-ups since the last copy. */
  private lookups = 0
  /** What the last text that was looked at is of. */
  private kind: TextKind | undefined
  private freshStarts = 0

  constructor(
    private readonly shapes: Shapes,
    private readonly sink: SpliceSink,
    /** So many texts of the stream are decoded without learning from them. */
    private unlearned: number = TEXTS_BEFORE_LEARNING,
  ) {}

  run(text: string, start: number, isPlain: boolean, bytes?: Uint8Array, begin = 0, end = 0): number {
    const { template } = this
    this.received = (bytes === undefined ? text.length : end - begin) - start
    if (template === undefined || start === text.length) return start
    // Where an answer is cut for its length depends on single texts, and that text is decoded: see `take`.
    if (this.received > template.charsMin * this.sink.room) return start
    const from = bytes === undefined ? start : this.copyBytes(template, text, start, bytes, isPlain, begin, end)
    if (from >= text.length) return from
    const insides: string[] = []
    let at = isPlain ? template.textsIn(text, from, insides) : from
    while (at < text.length) {
      const end = template.frameEnd(text, at, isPlain)
      if (end === -1) break
      insides.push(template.inside)
      at = end
    }
    if (insides.length > 0) this.copy(template, text, insides, isPlain)
    return at
  }

  /** Lets the copier take what it can. Returns where the first frame begins that it did not take. */
  private copyBytes(
    template: Template,
    text: string,
    from: number,
    bytes: Uint8Array,
    isPlain: boolean,
    begin: number,
    end: number,
  ): number {
    const copier = textCopier()
    if (copier === undefined || !template.offer(copier, text, from, bytes, isPlain, begin, end)) return from
    const count = this.sink.copyTexts(copier, template.kind)
    if (count === 0) return from
    const next = copier.next - begin
    this.copied(count)
    if (template.countsTokens) this.sink.usage(template.usageCopied(copier))
    return next
  }

  private copied(count: number): void {
    this.shapes.count(count)
    this.decoded = 0
    this.lookups = 0
  }

  take(event: string, data: string, isPlain: boolean): boolean {
    const { template } = this
    if (template?.event === event && this.sink.room > 0 && template.matches(data, isPlain)) {
      this.copy(template, data, [template.inside], isPlain)
      return true
    }
    this.offered = data
    this.offeredEvent = event
    return false
  }

  /**
   * The frame that was not taken was decoded to these events. A frame with anything but one text may change what the
   * next frame means, so only frames right after another text are copied.
   */
  learn(event: string, events: readonly StreamEvent[]): void {
    this.template = undefined
    if (this.hasGivenUp && this.freshStarts >= FRESH_STARTS_MAX) return
    const { offered } = this
    this.offered = ''
    if (this.unlearned > 0 && this.received < FRAMES_TO_LEARN_AT_ONCE * offered.length) {
      for (const { type } of events) if (type === 'text' || type === 'reasoning') this.unlearned--
      return
    }
    // A name that is not ASCII differs from its bytes.
    if (offered === '' || offered.length > LEARNED_CHARS_MAX || event !== this.offeredEvent) return
    const frame = textFrame(event, offered, events)
    if (frame === undefined) return
    if (frame.kind !== this.kind) this.beginKind(frame.kind)
    if (this.hasGivenUp) return
    // Words that a server sends twice are read twice, so that no other frame would be of their shape.
    if (frame.kind === 'reasoning' && isTwiceIn(offered, frame.inside)) return
    if (++this.decoded > DECODED_MAX) return this.giveUp()
    if (this.used?.template.event !== event || !this.used.template.covers(offered)) {
      // A text with escapes that are not ours is found by no template, and the next may have none.
      if (!offered.includes(frame.inside)) return
      const used = this.shapes.use(frame, this.used)
      if (used === undefined) return this.miss()
      if (++this.lookups >= IDLE_LOOKUPS_MAX) this.unlearned = TEXTS_BEFORE_LEARNING
      this.used = used
      this.misses = 0
    }
    this.template = this.used.template
  }

  /** Servers write thoughts and text unlike: if one cannot be learned, the other may be. */
  private beginKind(kind: TextKind): void {
    const isFirst = this.kind === undefined
    this.kind = kind
    if (isFirst || this.freshStarts >= FRESH_STARTS_MAX) return
    this.freshStarts++
    this.hasGivenUp = false
    this.misses = 0
    this.decoded = 0
    this.lookups = 0
  }

  private miss(): void {
    if (++this.misses === MISSES_MAX) this.giveUp()
  }

  /** Every frame from here on is decoded. */
  private giveUp(): void {
    this.hasGivenUp = true
    this.template = undefined
    this.used = undefined
  }

  private copy(template: Template, text: string, insides: readonly string[], isPlain: boolean): void {
    this.copied(insides.length)
    const [only] = insides
    if (isPlain) {
      this.sink.texts(insides, only !== undefined && insides.length === 1 ? only : insides.join(''), template.kind)
    } else {
      // One decoding for all: no inside holds a line feed.
      const texts = decodedText(insides.join('\n')).split('\n')
      this.sink.texts(texts, texts.join(''), template.kind)
    }
    if (template.countsTokens) this.sink.usage(template.usageIn(text))
  }
}

function isTwiceIn(frame: string, inside: string): boolean {
  const text = `"${inside}"`
  return frame.indexOf(text) !== frame.lastIndexOf(text)
}
