/** Gathers the thoughts of one answer as it passes, and hands them on once the answer is complete. */

import { createHash, type Hash } from 'node:crypto'
import type { StreamEvent } from '../core/event.ts'
import {
  BEFORE_TEXT,
  beforeCall,
  beforeOwn,
  callOf,
  isSignature,
  ownOf,
  type Thought,
  type ThoughtForm,
  WITH_ANSWER,
  WITH_TEXT,
  withCall,
} from '../core/thoughts.ts'

/** Thoughts of a larger answer are not kept. */
const THOUGHT_CHARS_MAX = 1024 * 1024

/** What is kept of an answer. */
export interface KeptThoughts {
  readonly thoughts: readonly Thought[]
  /** The ids of its calls, in order. */
  readonly callIds: readonly string[]
  /**
   * A digest of its text without the white space around it, which callers trim; only of what follows the first thought
   * if text comes before it.
   */
  readonly textDigest: string
  /** The length of the text that the digest is of. */
  readonly textLength: number
  /** The number of its blocks of the provider's own API. */
  readonly ownBlocks: number
}

/** A thought, and how much of the text that is hashed stood before it. */
interface GatheredThought extends Thought {
  readonly at: number
}

export class ThoughtKeeper {
  private readonly thoughts: GatheredThought[] = []
  private readonly callIds: string[] = []
  /** Of the text; made when the first thought comes, because most answers have none. */
  private text: Hash | undefined
  private hasText = false
  /** How much of the text is hashed, in UTF-16 units. */
  private hashed = 0
  private blanks = ''
  /** Text came before the first thought. */
  private missesText = false
  /** A text, or a block of the provider's own API. */
  private hasTextAfterCalls = false
  private ownBlocks = 0
  /** The first of the thoughts that nothing has followed yet. */
  private unfollowed = 0
  private chars = 0

  /**
   * `thinks`: whether the target is known to think, so that its text is hashed from the beginning. `place`: what still
   * refers to the request.
   */
  constructor(
    private readonly form: ThoughtForm,
    private readonly keep: (kept: KeptThoughts) => void,
    thinks = false,
    private readonly place?: { leaveRequest(): void },
  ) {
    if (thinks || isSignature(form)) this.text = createHash('sha256')
  }

  /** The answer goes on, and its request is dropped. */
  leaveRequest(): void {
    this.place?.leaveRequest()
  }

  /** The event as the caller gets it; undefined for one that only the keeper reads. */
  event(event: StreamEvent): StreamEvent | undefined {
    switch (event.type) {
      case 'thought':
        this.text ??= createHash('sha256')
        this.add(event)
        return undefined
      case 'reasoning':
        this.text ??= createHash('sha256')
        return event
      case 'text':
      case 'refusal':
        this.addText(event.text)
        return event
      case 'tool-start':
        this.callIds.push(event.callId)
        this.unfollowed = this.thoughts.length
        return event
      case 'own':
        if (event.part === 'block') this.addOwnBlock()
        return event
      case 'end':
        this.end()
        return event
      default:
        return event
    }
  }

  /** Texts that were copied, as the inside of a JSON string. */
  inside(inside: string): void {
    if (this.text === undefined) return this.addText(inside)
    this.addText(inside.includes('\\') ? JSON.parse(`"${inside}"`) : inside)
  }

  private add({ json, on }: Extract<StreamEvent, { type: 'thought' }>): void {
    this.chars += json.length
    if (this.chars > THOUGHT_CHARS_MAX) return
    this.thoughts.push({ place: this.placeOf(on), json, at: this.hashed + this.blanks.length })
  }

  private placeOf(on: 'text' | 'call' | 'answer' | undefined): number {
    const calls = this.callIds.length
    if (on === 'text') return WITH_TEXT
    if (on === 'answer') return WITH_ANSWER
    if (on === 'call') return withCall(calls)
    return this.hasText || calls > 0 ? beforeCall(calls) : BEFORE_TEXT
  }

  /** The thoughts right before it stand there, and not before the next text or call. */
  private addOwnBlock(): void {
    const { thoughts } = this
    for (; this.unfollowed < thoughts.length; this.unfollowed++) {
      const thought = thoughts[this.unfollowed]
      if (thought === undefined || (thought.place !== BEFORE_TEXT && callOf(thought.place)?.isBefore !== true)) continue
      thoughts[this.unfollowed] = { ...thought, place: beforeOwn(this.ownBlocks) }
    }
    this.hasTextAfterCalls ||= this.callIds.length > 0
    this.ownBlocks++
  }

  private addText(text: string): void {
    // It would change nothing.
    if (this.text === undefined && this.missesText && (this.hasTextAfterCalls || this.callIds.length === 0)) return
    const isSolid = text.trim() !== ''
    if (isSolid) this.unfollowed = this.thoughts.length
    const hasText = this.hasText || isSolid
    this.hasTextAfterCalls ||= isSolid && this.callIds.length > 0
    if (this.text === undefined) this.missesText ||= hasText
    else if (hasText) this.hash(this.text, this.hasText ? text : text.trimStart())
    this.hasText = hasText
  }

  /** Holds white space back until something follows it. */
  private hash(hash: Hash, text: string): void {
    const solid = text.trimEnd()
    if (solid !== '') {
      hash.update(this.blanks + solid)
      this.hashed += this.blanks.length + solid.length
    }
    const blanks = text.slice(solid.length)
    this.blanks = solid === '' ? this.blanks + blanks : blanks
  }

  private end(): void {
    const { callIds, chars, text, hashed } = this
    if (text === undefined || this.thoughts.length === 0 || chars > THOUGHT_CHARS_MAX) return
    if (callIds.length === 0 && this.missesText) return
    const thoughts = this.thoughts.flatMap((thought) => this.placed(thought))
    // A conversation has calls after the texts of their answer, so the order of these cannot be restored.
    const isOutOfOrder = this.hasTextAfterCalls && this.form !== 'chat' && thoughts.some(isAmong)
    if (thoughts.length === 0 || isOutOfOrder) return
    const { ownBlocks } = this
    this.keep({ thoughts, callIds, textDigest: text.digest('base64url'), textLength: hashed, ownBlocks })
  }

  /** Nothing for a thought that nothing follows: no API takes an answer that ends with one. */
  private placed({ place, json, at }: GatheredThought): readonly Thought[] {
    const left = this.hashed - Math.min(at, this.hashed)
    const hasTextBefore = at > 0 || this.missesText
    if (place === WITH_TEXT) {
      if (!hasTextBefore) return [{ place, json }]
      if (left > 0) return [{ place, json, left }]
      // A signature belongs to the text before it, any other thought to the text after it.
      return isSignature(this.form) ? [{ place, json }] : []
    }
    const call = callOf(place)
    if (call?.isBefore !== true) return [{ place, json }]
    if (left > 0) return [{ place, json, left }]
    return call.index < this.callIds.length ? [{ place, json }] : []
  }
}

/** Whether a thought may stand after a text, a call or another block of its answer. */
function isAmong({ place, left }: Thought): boolean {
  return (
    left !== undefined ||
    ownOf(place) !== undefined ||
    (place !== BEFORE_TEXT && place !== beforeCall(0) && callOf(place)?.isBefore === true)
  )
}

/** The digest of a text as the keeper makes it. */
export function textDigest(text: string): string {
  return digestOf(text.trim())
}

/** SHA-256 in base64url; of a text whose white space counts. */
export function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
