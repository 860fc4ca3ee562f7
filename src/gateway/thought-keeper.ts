/** Gathers the thoughts of one answer as it passes, and hands them on once the answer is complete. */

import { createHash, type Hash } from 'node:crypto'
import type { StreamEvent } from '../core/event.ts'
import {
  BEFORE_TEXT,
  beforeCall,
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
  /** A digest of its text without the white space around it, which callers trim. */
  readonly textDigest: string
}

export class ThoughtKeeper {
  private readonly thoughts: Thought[] = []
  private readonly callIds: string[] = []
  /** Of the text; made when the first thought comes, because most answers have none. */
  private text: Hash | undefined
  private hasText = false
  private blanks = ''
  /** Text came before the first thought. */
  private missesText = false
  private chars = 0

  /** `form`: in Gemini's, thoughts come after the text that they belong to. */
  constructor(
    form: ThoughtForm,
    private readonly keep: (kept: KeptThoughts) => void,
  ) {
    if (form === 'gemini') this.text = createHash('sha256')
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
    this.thoughts.push({ place: this.placeOf(on), json })
  }

  private placeOf(on: 'text' | 'call' | 'answer' | undefined): number {
    const calls = this.callIds.length
    if (on === 'text') return WITH_TEXT
    if (on === 'answer') return WITH_ANSWER
    if (on === 'call') return withCall(calls - 1)
    return this.hasText || calls > 0 ? beforeCall(calls) : BEFORE_TEXT
  }

  private addText(text: string): void {
    const hasText = this.hasText || text.trim() !== ''
    if (this.text === undefined) this.missesText ||= hasText
    else if (hasText) this.hash(this.text, this.hasText ? text : text.trimStart())
    this.hasText = hasText
  }

  /** Holds white space back until something follows it. */
  private hash(hash: Hash, text: string): void {
    const solid = text.trimEnd()
    if (solid !== '') hash.update(this.blanks + solid)
    const blanks = text.slice(solid.length)
    this.blanks = solid === '' ? this.blanks + blanks : blanks
  }

  private end(): void {
    const { thoughts, callIds, chars, text } = this
    if (text === undefined || thoughts.length === 0 || chars > THOUGHT_CHARS_MAX) return
    if (callIds.length === 0 && this.missesText) return
    this.keep({ thoughts, callIds, textDigest: text.digest('base64url') })
  }
}

/** The digest of a text as the keeper makes it. */
export function textDigest(text: string): string {
  return createHash('sha256').update(text.trim()).digest('base64url')
}
