/**
 * The thoughts of a request's history: found by the answers that the caller sends back, for the issuer of each
 * alone.
 */

import type { Conversation } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import { isArray, type JsonValue, numberOf, parseObject, stringOf } from '../core/json.ts'
import { type Later, laterOf } from '../core/later.ts'
import { type Issuer, ownOf, type TargetThoughts, type ThoughtStore } from '../core/thoughts.ts'
import { type PlacedThoughts, RestoredAnswers, type SentAnswer, type ThoughtRecord } from './restored-answers.ts'
import { digestOf, type KeptThoughts, textDigest } from './thought-keeper.ts'

/**
 * The least of the last answers that are looked up, because models make use of recent thoughts; at most twice as many
 * are. The limit moves on by this number at once: each move changes the beginning of the request, which the provider
 * then has no longer in its prompt cache.
 */
const ANSWERS_MIN = 64
/** Bytes of each text around an answer that its key depends on. */
const AROUND_BYTES = 65_536

/** How many answers of a history had thoughts for the target, none, or those of another issuer. */
export interface RecallCounts {
  found: number
  missing: number
  otherIssuer: number
}

/** What an issuer gets back, and what was found for it. */
interface Recalled {
  /** By the entries of the conversation; undefined for nothing. */
  readonly thoughts: TargetThoughts | undefined
  readonly counts: RecallCounts
}

/** Messages of the assistant that follow each other: one answer. */
interface KeyedAnswer extends SentAnswer {
  readonly key: string
}

interface FoundAnswer {
  readonly answer: SentAnswer
  readonly record: ThoughtRecord | undefined
}

/**
 * With those answers as one that a caller sends back in pieces: a call, its result, the next call. What was kept of it
 * has all of its calls.
 */
function rejoined(found: readonly FoundAnswer[], conversation: Conversation): readonly FoundAnswer[] {
  const joined: FoundAnswer[] = []
  for (let at = 0; at < found.length; ) {
    const first = found[at]
    if (first === undefined) break
    const { answer, record } = first
    const calls = [...answer.calls]
    const isNext = (call: number, place: number) => conversation.textAt(call) === record?.callIds[place]
    let end = at + 1
    let last = answer
    for (; record !== undefined && calls.length < record.callIds.length; end++) {
      const next = found[end]?.answer
      if (next === undefined || next.calls.length === 0 || next.texts.length > 0) break
      if (!next.calls.every((call, index) => isNext(call, calls.length + index))) break
      if (!areResults(conversation, last.end, next.message)) break
      calls.push(...next.calls)
      last = next
    }
    const isWhole = end > at + 1 && calls.length === record?.callIds.length
    joined.push(isWhole ? { answer: { ...answer, calls, end: last.end }, record } : first)
    at = isWhole ? end : at + 1
  }
  return joined
}

/** Whether nothing but results of calls is between two messages. */
function areResults(conversation: Conversation, from: number, to: number): boolean {
  for (let message = from; message < to; message = conversation.endOfMessage(message))
    if (conversation.kindAt(message) !== Kind.TOOL) return false
  return true
}

/** The answers of a conversation whose thoughts may be kept. */
function sentAnswers(conversation: Conversation): readonly KeyedAnswer[] {
  if (!conversation.has(Kind.ASSISTANT)) return []
  const found: { message: number; end: number; texts: number[]; calls: number[]; before: number }[] = []
  let open: (typeof found)[number] | undefined
  let before = -1
  let end = 0
  for (let message = 0; message < conversation.end; message = end) {
    end = conversation.endOfMessage(message)
    if (conversation.kindAt(message) !== Kind.ASSISTANT) {
      before = message
      open = undefined
      continue
    }
    if (open === undefined) {
      open = { message, end, texts: [], calls: [], before }
      found.push(open)
    }
    open.end = end
    for (let entry = conversation.next(message); entry < end; entry = conversation.next(entry)) {
      const kind = conversation.kindAt(entry)
      if (kind === Kind.TEXT || kind === Kind.REFUSAL) open.texts.push(entry)
      if (kind === Kind.CALL_ID) open.calls.push(entry)
    }
  }
  const anchor = anchorOf(conversation)
  return found
    .map((answer, ordinal) => ({ ...answer, ordinal }))
    .slice(Math.max(0, Math.floor(found.length / ANSWERS_MIN) - 1) * ANSWERS_MIN)
    .map(({ before, ordinal, ...answer }) => {
      const standing = () => ({ anchor, around: aroundOf(conversation, before), ordinal })
      const [call] = answer.calls
      if (call !== undefined) return { ...answer, key: callKey(conversation.textAt(call), standing) }
      const text = answer.texts.map((entry) => conversation.textAt(entry)).join('')
      return { ...answer, key: textKey(standing(), textDigest(text)) }
    })
}

/** Where an answer stands: in which conversation, after what, and after how many others. */
interface Standing {
  readonly anchor: bigint
  readonly around: bigint | undefined
  readonly ordinal: number
}

/** Where the answer to this conversation will stand. */
export function nextStanding(conversation: Conversation): Standing {
  let ordinal = 0
  let last = -1
  let wasAnswer = false
  for (let message = 0; message < conversation.end; message = conversation.endOfMessage(message)) {
    const isAnswer = conversation.kindAt(message) === Kind.ASSISTANT
    if (isAnswer && !wasAnswer) ordinal++
    if (!isAnswer) last = message
    wasAnswer = isAnswer
  }
  const anchor = anchorOf(conversation)
  // A question alone is both.
  const isAlone = last === 0 && conversation.kindAt(0) === Kind.USER
  return { anchor, around: isAlone ? anchor : aroundOf(conversation, last), ordinal }
}

/** The key of an answer, and what is kept under it. */
export function recordOf(
  issuer: Issuer,
  standing: Standing,
  { thoughts, callIds, textDigest: digest, textLength: length, ownBlocks }: KeptThoughts,
): { readonly key: string; readonly text: string } {
  const [callId] = callIds
  const key = callId === undefined ? textKey(standing, digest) : callKey(callId, () => standing)
  const places = thoughts.map(({ place, json, left }) => (left === undefined ? [place, json] : [place, json, left]))
  const isDivided = thoughts.some(({ left }) => left !== undefined)
  const isAmongOwn = thoughts.some(({ place }) => ownOf(place) !== undefined)
  const record = {
    ...{ issuer: issuer.id, form: issuer.form, callIds, thoughts: places },
    ...(isAmongOwn && { ownBlocks }),
  }
  return { key, text: JSON.stringify(isDivided ? { ...record, text: [digest, length] } : record) }
}

/** Ids of real APIs have 20 random characters and more; those of some servers are names and numbers that come again. */
const RANDOM_ID = /[A-Za-z0-9]{16,}/

function callKey(callId: string, standing: () => Standing): string {
  if (!RANDOM_ID.test(callId)) return `call:${textKey(standing(), callId)}`
  return `call:${digestOf(callId)}`
}

function textKey({ anchor, around, ordinal }: Standing, text: string): string {
  const place = [anchor.toString(36), around === undefined ? '' : around.toString(36), ordinal]
  return `text:${digestOf(JSON.stringify([...place, text]))}`
}

/** The beginning of a conversation: all up to the end of the first message of the user. */
function anchorOf(conversation: Conversation): bigint {
  let hash = 0n
  for (let message = 0; message < conversation.end; message = conversation.endOfMessage(message)) {
    hash = addMessage(conversation, message, hash)
    if (conversation.kindAt(message) === Kind.USER) break
  }
  return hash
}

/** Undefined for no message. */
function aroundOf(conversation: Conversation, message: number): bigint | undefined {
  return message < 0 ? undefined : addMessage(conversation, message, 0n)
}

/**
 * Hashes a message: the lengths and beginnings of its texts, images and documents, and the call that it answers. It
 * only distinguishes turns of one organisation, so a fast hash will do: sha256 takes 20 times as long.
 */
function addMessage(conversation: Conversation, message: number, before: bigint): bigint {
  const { arena } = conversation
  let hash = before
  const end = conversation.endOfMessage(message)
  for (let entry = conversation.next(message); entry < end; entry = conversation.next(entry)) {
    if (!HASHED.has(conversation.kindAt(entry))) continue
    const from = conversation.fromAt(entry)
    const length = conversation.toAt(entry) - from
    const to = from + Math.min(length, AROUND_BYTES)
    const bytes = arena.bufferAt(from).subarray(arena.indexAt(from), arena.indexAt(from, to))
    hash = BigInt(Bun.hash.wyhash(bytes, hash ^ BigInt(length)))
  }
  return hash
}

const HASHED: ReadonlySet<number> = new Set([
  Kind.TEXT,
  Kind.RESULT_ID,
  Kind.IMAGE,
  Kind.IMAGE_URL,
  Kind.DOCUMENT,
  Kind.DOCUMENT_TEXT,
  Kind.DOCUMENT_URL,
  Kind.CONTEXT,
])

/** The answers of one request's history, and what was kept of them. */
export class RecalledThoughts {
  private readonly own = new Map<string, Recalled>()

  private constructor(
    private readonly conversation: Conversation,
    private readonly answers: readonly FoundAnswer[],
  ) {}

  /** Undefined if the history has no answers. Never rejects. */
  static find(
    store: ThoughtStore,
    organization: string,
    conversation: Conversation,
  ): Later<RecalledThoughts> | RecalledThoughts | undefined {
    const answers = sentAnswers(conversation)
    if (answers.length === 0) return undefined
    const made = (texts: readonly (string | undefined)[]) => {
      const found = answers.map((answer, index) => ({ answer, record: parseRecord(texts[index]) }))
      return new RecalledThoughts(conversation, rejoined(found, conversation))
    }
    const found = store.get(
      organization,
      answers.map(({ key }) => key),
    )
    return found instanceof Promise ? laterOf(found).map(made) : made(found)
  }

  /** Nothing was kept of any answer. */
  get isEmpty(): boolean {
    return this.answers.every(({ record }) => record === undefined)
  }

  /** Whose thoughts the last answer has; undefined if it has none. */
  get lastIssuer(): string | undefined {
    return this.answers.at(-1)?.record?.issuer
  }

  /** What this issuer gets back; `own`: what the caller has sent back itself. */
  for(issuer: Issuer, own?: PlacedThoughts): Recalled {
    return this.own.getOrInsertComputed(`${issuer.form}/${issuer.id}`, () => this.found(issuer, own))
  }

  private found({ id, form }: Issuer, own: PlacedThoughts | undefined): Recalled {
    const restored = new RestoredAnswers(this.conversation, form)
    const counts = { found: 0, missing: 0, otherIssuer: 0 }
    for (const { answer, record } of this.answers) {
      // Servers that sign nothing get what they sent, and not what the caller has made of it.
      const isOwn = form !== 'chat' && own?.covers(answer.message) === true
      if (record === undefined) counts.missing++
      else if (record.issuer !== id || record.form !== form) counts.otherIssuer++
      else if (isOwn) {
        restored.placeBesideText(answer, record)
        counts.found++
      } else if (restored.place(answer, record)) counts.found++
      else counts.missing++
    }
    if (own !== undefined) restored.add(own)
    return { thoughts: restored.thoughts(), counts }
  }
}

/** Undefined for what is not a record: it was read from a store. */
function parseRecord(text: string | undefined): ThoughtRecord | undefined {
  const value = text === undefined ? undefined : parseObject(text)
  if (value === undefined) return undefined
  const { callIds, thoughts, text: kept } = value
  const [issuer, form] = [stringOf(value['issuer']), stringOf(value['form'])]
  if (issuer === undefined || form === undefined || !isArray(callIds) || !isArray(thoughts)) return undefined
  return {
    ...{ issuer, form },
    callIds: callIds.filter((id) => typeof id === 'string'),
    thoughts: thoughts.flatMap((one) => {
      const [place, json, left] = isArray(one) ? [numberOf(one[0]), stringOf(one[1]), numberOf(one[2])] : []
      return place === undefined || json === undefined ? [] : [{ place, json, left }]
    }),
    text: textOf(kept),
    ownBlocks: numberOf(value['ownBlocks']),
  }
}

function textOf(kept: JsonValue | undefined): ThoughtRecord['text'] {
  const [digest, length] = isArray(kept) ? [stringOf(kept[0]), numberOf(kept[1])] : []
  return digest === undefined || length === undefined ? undefined : { digest, length }
}
