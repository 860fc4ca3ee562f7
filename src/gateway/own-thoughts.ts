/**
 * The thoughts that a caller sends back itself. They go to their issuer alone, in the place of what weir has kept of
 * the same answers.
 */

import type { ChatRequest } from '../core/chat-request.ts'
import type { Conversation, SentThought } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import type { ProviderError } from '../core/provider-error.ts'
import { type Issuer, isSignature, type TargetThoughts } from '../core/thoughts.ts'
import type { RecalledThoughts } from './recalled-thoughts.ts'
import { type PlacedThoughts, RestoredAnswers } from './restored-answers.ts'
import type { OpenedThought, ThoughtSeals } from './shown-thoughts.ts'

/** The last so many are opened: as many calls as a conversation may have. */
const OPENED_MAX = 4096
const NONE: readonly string[] = []

interface OwnThought extends OpenedThought {
  readonly answer: number
  /** The message and the entry that it belongs to. */
  readonly message: number
  readonly entry: number
  readonly isBeforeCall: boolean
}

export class OwnThoughts {
  private constructor(private readonly thoughts: readonly OwnThought[]) {}

  /** Undefined if the caller sends none that weir has sealed for its organisation. */
  static open(conversation: Conversation, seals: ThoughtSeals): OwnThoughts | undefined {
    const { sentThoughts } = conversation
    if (sentThoughts === undefined) return undefined
    let skipped = Math.max(0, [...sentThoughts.values()].reduce((sum, { length }) => sum + length, 0) - OPENED_MAX)
    /** Those of texts, by the first byte of each. */
    const ofTexts = new Map<number, OpenedThought>()
    const opened = ({ seal, text, after }: SentThought): readonly OpenedThought[] => {
      if (skipped-- > 0) return []
      if (seal === undefined)
        return [{ issuer: '', form: 'chat', json: JSON.stringify({ reasoning_content: text }), isOfText: false }]
      const found = seals.open(seal, text)
      if (found?.isOfText !== true) return found === undefined ? [] : [found]
      if (after !== undefined) ofTexts.set(after, found)
      return []
    }
    /** By the first byte of the text or call that each comes before. */
    const places = new Map<number, OpenedThought[]>()
    for (const [from, thoughts] of sentThoughts)
      for (const thought of thoughts)
        for (const one of opened(thought)) {
          // The thoughts of an answer keep their order although its calls come last.
          const { nextText } = thought
          const at = nextText === undefined || isSignature(one.form) ? from : nextText
          places.getOrInsert(at, []).push(one)
        }
    const found: OwnThought[] = []
    let answer = -1
    let waiting: readonly OpenedThought[] = []
    for (let message = 0; message < conversation.end; message = conversation.endOfMessage(message)) {
      if (conversation.kindAt(message) !== Kind.ASSISTANT) {
        answer = -1
        waiting = []
        continue
      }
      if (answer === -1) answer = message
      const end = conversation.endOfMessage(message)
      for (let entry = conversation.next(message); entry < end; entry = conversation.next(entry)) {
        const kind = conversation.kindAt(entry)
        if (kind !== Kind.TEXT && kind !== Kind.REFUSAL && kind !== Kind.CALL_ID && kind !== Kind.OWN_BLOCK) continue
        waiting = [...waiting, ...(places.get(conversation.fromAt(entry)) ?? [])]
        // A blank text is not sent.
        if (
          waiting.length === 0 ||
          ((kind === Kind.TEXT || kind === Kind.REFUSAL) && conversation.textAt(entry).trim() === '')
        )
          continue
        for (const thought of waiting)
          found.push({ ...thought, answer, message, entry, isBeforeCall: kind === Kind.CALL_ID })
        waiting = []
      }
    }
    if (ofTexts.size > 0) addOfTexts(conversation, ofTexts, found)
    return found.length === 0 ? undefined : new OwnThoughts(found)
  }

  /** Those of this issuer; undefined if there are none. */
  for({ id, form }: Issuer): PlacedThoughts | undefined {
    const own = this.thoughts.filter(
      (one) =>
        one.form === form &&
        (one.issuer === id || one.issuer === '') &&
        // A signature is a member of its call, or its text.
        (!isSignature(form) || one.isBeforeCall || one.isOfText),
    )
    if (own.length === 0) return undefined
    // Who sends back that of a text alone may lack those of the calls.
    const covered = new Set(own.flatMap(({ answer, isOfText }) => (isOfText ? [] : [answer])))
    const before = new Map<number, string[]>()
    const beside = new Map<number, string>()
    let chars = 0
    for (const { message, entry, json } of own) {
      chars += json.length
      if (form === 'chat') beside.set(message, json)
      else if (isSignature(form)) beside.set(entry, json)
      else before.set(entry, [...(before.get(entry) ?? NONE), json])
    }
    return { before, beside, chars, covers: (message) => covered.has(message) }
  }
}

/** Finds the texts that thoughts belong to. */
function addOfTexts(
  conversation: Conversation,
  ofTexts: ReadonlyMap<number, OpenedThought>,
  found: OwnThought[],
): void {
  let answer = -1
  let message = -1
  for (let entry = 0; entry < conversation.end; entry = conversation.next(entry)) {
    const kind = conversation.kindAt(entry)
    if (kind <= Kind.TOOL) {
      message = entry
      answer = kind !== Kind.ASSISTANT ? -1 : answer === -1 ? entry : answer
    }
    const thought = kind === Kind.TEXT && answer !== -1 ? ofTexts.get(conversation.fromAt(entry)) : undefined
    if (thought !== undefined) found.push({ ...thought, answer, message, entry, isBeforeCall: false })
  }
}

/** What an issuer gets back, of what was kept and of what the caller has sent back itself. */
export function thoughtsFor(
  issuer: Issuer,
  conversation: Conversation,
  recalled: RecalledThoughts | undefined,
  own: OwnThoughts | undefined,
): TargetThoughts | undefined {
  const placed = own?.for(issuer)
  if (recalled !== undefined) return recalled.for(issuer, placed).thoughts
  if (placed === undefined) return undefined
  const restored = new RestoredAnswers(conversation, issuer.form)
  restored.add(placed)
  return restored.thoughts()
}

/** The request with what its target gets back. */
export function withThoughts(request: ChatRequest, thoughts: TargetThoughts | undefined): ChatRequest {
  return thoughts === undefined
    ? request
    : { ...request, thoughts, conversation: thoughts.restored(request.conversation) }
}

/** Words of errors about thoughts. A request is sent once more, at most, for an error about something else. */
const ABOUT_THOUGHTS = /thinking|thought|reasoning|signature|encrypted/i

/** "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final …" */
const MISSING_THOUGHTS = /expected .?(?:redacted_)?thinking|must start with a thinking block/i

export function missesThoughts({ kind, message }: ProviderError): boolean {
  return kind === 'rejected' && MISSING_THOUGHTS.test(message)
}

export function rejectsThoughts({ kind, message }: ProviderError): boolean {
  return kind === 'rejected' && ABOUT_THOUGHTS.test(message)
}
