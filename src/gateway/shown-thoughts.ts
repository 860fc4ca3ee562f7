/**
 * The thoughts of one answer as its caller gets them: with seals, which bind what only the issuer can read to the words
 * that the caller has seen, so that it can send both back.
 */

import type { StreamEvent, ThoughtEnd } from '../core/event.ts'
import { GatheredText } from '../core/gathered-text.ts'
import { isArray, parseObject, stringOf } from '../core/json.ts'
import { PART_SEAM, type Reasoning } from '../core/reasoning.ts'
import { type Issuer, isSignature, type ThoughtSealer } from '../core/thoughts.ts'
import { digestOf } from './thought-keeper.ts'

/** What a seal holds: who issued it, and what that issuer wants back. */
export interface OpenedThought {
  readonly issuer: string
  readonly form: string
  readonly json: string
  /** It belongs to the text before it, and to nothing that follows. */
  readonly isOfText: boolean
}

/** After the form in the seal of a thought that belongs to a text. */
const OF_TEXT = ' text'

/** Seals the thoughts of an organisation's answers, and opens what its callers send back. */
export class ThoughtSeals {
  constructor(
    private readonly sealer: ThoughtSealer,
    private readonly organization: string,
  ) {}

  /** `words`: those that the caller gets; `json`: what the issuer wants back; '' for nothing. */
  seal(issuer: Issuer | undefined, words: string, json: string, isOfText = false): string {
    const isEmpty = issuer === undefined || json === ''
    const what = isEmpty ? [] : [issuer.id, issuer.form + (isOfText ? OF_TEXT : ''), ...contentOf(json, words)]
    const text = JSON.stringify([markOf(words), ...what])
    return this.sealer.seal('reasoning', this.organization, text).toString('base64')
  }

  /** Undefined if somebody else has sealed it, for another text, or there is nothing to give back. */
  open(seal: string, words: string): OpenedThought | undefined {
    const text = this.sealer.open('reasoning', this.organization, Buffer.from(seal, 'base64'))
    const sealed: unknown = text === undefined ? undefined : JSON.parse(text)
    if (!isArray(sealed) || sealed[0] !== markOf(words)) return undefined
    const [, issuer, named, written, signature] = sealed.map(stringOf)
    const json = signature === undefined ? written : thinkingJson(words, signature)
    if (issuer === undefined || named === undefined || json === undefined) return undefined
    const isOfText = named.endsWith(OF_TEXT)
    return { issuer, form: isOfText ? named.slice(0, -OF_TEXT.length) : named, json, isOfText }
  }
}

function markOf(words: string): string {
  return digestOf(words).slice(0, DIGEST_CHARS)
}

const DIGEST_CHARS = 22

/** The JSON, or, in place of a block of thinking with just these words, its signature: seals go to and fro. */
function contentOf(json: string, words: string): readonly (string | null)[] {
  const signature = stringOf(parseObject(json)?.['signature'])
  return signature !== undefined && thinkingJson(words, signature) === json ? [null, signature] : [json]
}

function thinkingJson(thinking: string, signature: string): string {
  return JSON.stringify({ type: 'thinking', thinking, signature })
}

/** Longer thoughts are shown and cannot be sent back. */
const WORDS_CHARS_MAX = 1024 * 1024

/** One for each answer to a caller that may see thoughts. */
export class ShownThoughts {
  private words = new GatheredText()
  /** Words were shown, and what belongs to them has not come. */
  private isOpen = false

  constructor(
    private readonly shows: Reasoning['shows'],
    private readonly issuer: Issuer | undefined,
    private readonly seals: ThoughtSeals,
  ) {}

  /** Passes on what the caller may see: the end of a thought before what follows it. */
  event(event: StreamEvent, sink: { event(event: StreamEvent): void }): void {
    switch (event.type) {
      case 'reasoning':
        this.add(event.isNewPart === true ? `${PART_SEAM}${event.text}` : event.text)
        return sink.event(event)
      case 'thought':
        // A signature of a call stands before the call, as any other thought, that of a text after the text.
        if (event.on === undefined || event.on === 'call' || (event.on === 'text' && isSignature(this.issuer?.form)))
          sink.event(this.sealed(event))
        return
      case 'text':
      case 'refusal':
      case 'tool-start':
      case 'finish':
        if (this.isOpen) sink.event(this.sealed({ type: 'thought', json: this.plainThought() }))
    }
    sink.event(event)
  }

  /** Words of a thought: of its event, or of events that were copied. */
  add(words: string): void {
    if (!this.shows.texts) return
    this.isOpen = true
    if (this.words.length < WORDS_CHARS_MAX) this.words.add(words)
  }

  /** Of servers that want their words back and sign nothing. */
  private plainThought(): string {
    return this.issuer?.form === 'chat' ? JSON.stringify({ reasoning_content: this.words.toString() }) : ''
  }

  private sealed(end: ThoughtEnd): ThoughtEnd {
    const words = this.words.toString()
    const json = words.length < WORDS_CHARS_MAX ? end.json : ''
    this.words = new GatheredText()
    this.isOpen = false
    return {
      type: 'thought',
      json: end.json,
      isRedacted: end.isRedacted,
      seal: this.shows.seals ? this.seals.seal(this.issuer, words, json, end.on === 'text') : '',
    }
  }
}
