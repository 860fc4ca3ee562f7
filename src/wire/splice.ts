/**
 * The splice: copies the text of a provider's frame into the caller's event without parsing the one or serialising the
 * other.
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
import type { Template } from './template.ts'
import { isProven, type Prove, type TextFrame, templateOf, templateOfBoth, textFrame } from './template-learning.ts'

/** Takes what was copied. */
export interface SpliceSink {
  /** Texts of successive frames as the insides of JSON strings, in Unicode. `joined` is all of them in one string. */
  texts(insides: readonly string[], joined: string): void
  /** The usage that the last of these frames reports. */
  usage(usage: Usage): void
}

/** Frames in a row that no template can be learned from, after which every frame of the stream is decoded. */
const MISSES_MAX = 2
/** Texts in a row that were decoded although there was a template, with the same result. */
const DECODED_MAX = 16
/** A proof decodes up to two frames, so after the first few it must be worth it. */
const PROOFS_FREE = 4
const FRAMES_A_PROOF = 16

/** A longer frame is not learned: each open stream holds one. */
const LEARNED_CHARS_MAX = 16 * 1024

/** One for each stream. `learn` follows each frame that was not taken. */
export class Splice implements Shortcut {
  private template: Template | undefined
  private isProven = false
  /** The frame before was decoded to one text and is of the template's form. */
  private isActive = false
  /** The decoded frame that the template was made from. */
  private frame: TextFrame | undefined
  /** The frame that was offered last and not taken, as byte text; '' if there is none. */
  private offered = ''
  private offeredEvent = ''
  private hasGivenUp = false
  private misses = 0
  private decoded = 0
  private proofs = 0
  private copied = 0

  constructor(
    private readonly prove: Prove,
    private readonly sink: SpliceSink,
  ) {}

  run(text: string, from: number, isPlain: boolean): number {
    const { template } = this
    if (!this.isActive || template === undefined || from === text.length) return from
    let end = template.frameEnd(text, from, isPlain)
    if (end === -1 || !this.mayCopy(template)) return from
    const insides: string[] = []
    let at = from
    for (; end !== -1; end = template.frameEnd(text, at, isPlain)) {
      insides.push(template.inside)
      at = end
    }
    this.copy(template, text, insides, isPlain)
    return at
  }

  take(event: string, data: string, isPlain: boolean): boolean {
    const { template } = this
    if (this.isActive && template?.event === event && template.matches(data, isPlain) && this.mayCopy(template)) {
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
    this.isActive = false
    if (this.hasGivenUp) return
    const { offered } = this
    this.offered = ''
    // A name that is not ASCII differs from its bytes.
    if (offered === '' || offered.length > LEARNED_CHARS_MAX || event !== this.offeredEvent) return
    const frame = textFrame(event, offered, events)
    if (frame === undefined) return
    if (++this.decoded > DECODED_MAX) return this.giveUp()
    this.isActive = true
    if (this.template?.event !== event || !this.template.covers(offered)) this.makeTemplate(frame)
  }

  /** From two frames if there are two, because they show what differs. */
  private makeTemplate(frame: TextFrame): void {
    const { frame: before } = this
    this.frame = frame
    this.isProven = false
    if (before?.event !== frame.event) {
      this.template = templateOf(frame)
      return
    }
    this.proofs++
    this.template = templateOfBoth(before, frame, this.prove)
    if (this.template !== undefined) {
      this.isProven = true
      this.misses = 0
      return
    }
    this.template = templateOf(frame)
    this.miss()
  }

  /** Proves a template when its first frame arrives: many streams have no second text. */
  private mayCopy(template: Template): boolean {
    if (this.isProven) return true
    this.proofs++
    this.isProven = this.frame !== undefined && isProven(template, this.frame, this.prove)
    if (!this.isProven) {
      this.isActive = false
      this.miss()
    }
    return this.isProven
  }

  private miss(): void {
    if (++this.misses === MISSES_MAX || this.proofs > PROOFS_FREE + this.copied / FRAMES_A_PROOF) this.giveUp()
  }

  /** Every frame from here on is decoded. */
  private giveUp(): void {
    this.hasGivenUp = true
    this.isActive = false
    this.template = undefined
    this.frame = undefined
  }

  private copy(template: Template, text: string, insides: readonly string[], isPlain: boolean): void {
    this.copied += insides.length
    this.decoded = 0
    const [only] = insides
    if (isPlain) {
      this.sink.texts(insides, only !== undefined && insides.length === 1 ? only : insides.join(''))
    } else {
      // One decoding for all: no inside holds a line feed.
      const texts = decodedText(insides.join('\n')).split('\n')
      this.sink.texts(texts, texts.join(''))
    }
    if (template.countsTokens) this.sink.usage(template.usageIn(text))
  }
}
