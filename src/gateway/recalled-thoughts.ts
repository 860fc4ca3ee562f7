/**
 * The thoughts of a request's history: found by the answers that the caller sends back, and placed among the entries of
 * its conversation, for the issuer of each alone.
 */

import { createHash } from 'node:crypto'
import {
  ASSISTANT,
  CALL_ID,
  CONTEXT,
  type Conversation,
  DOCUMENT,
  DOCUMENT_TEXT,
  DOCUMENT_URL,
  IMAGE,
  IMAGE_URL,
  REFUSAL,
  RESULT_ID,
  TEXT,
  USER,
} from '../core/conversation.ts'
import { isArray, numberOf, parseObject, stringOf } from '../core/json.ts'
import {
  BEFORE_TEXT,
  callOf,
  type Issuer,
  type TargetThoughts,
  type Thought,
  type ThoughtStore,
  WITH_ANSWER,
  WITH_TEXT,
} from '../core/thoughts.ts'
import { type KeptThoughts, textDigest } from './thought-keeper.ts'

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
interface SentAnswer {
  /** Its first message. */
  readonly message: number
  readonly texts: readonly number[]
  readonly calls: readonly number[]
  readonly key: string
}

/** What is kept of an answer. */
interface ThoughtRecord {
  readonly issuer: string
  readonly form: string
  readonly callIds: readonly string[]
  readonly thoughts: readonly Thought[]
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
    for (; record !== undefined && calls.length < record.callIds.length; end++) {
      const { calls: more = NO_CALLS } = found[end]?.answer ?? {}
      if (more.length === 0 || !more.every((call, index) => isNext(call, calls.length + index))) break
      calls.push(...more)
    }
    const isWhole = end > at + 1 && calls.length === record?.callIds.length
    joined.push(isWhole ? { answer: { ...answer, calls }, record } : first)
    at = isWhole ? end : at + 1
  }
  return joined
}

const NO_CALLS: readonly number[] = []

/** The answers of a conversation whose thoughts may be kept. */
function sentAnswers(conversation: Conversation): readonly SentAnswer[] {
  if (!conversation.has(ASSISTANT)) return []
  const found: { message: number; texts: number[]; calls: number[]; before: number }[] = []
  let open: (typeof found)[number] | undefined
  let before = -1
  let end = 0
  for (let message = 0; message < conversation.end; message = end) {
    end = conversation.endOfMessage(message)
    if (conversation.kindAt(message) !== ASSISTANT) {
      before = message
      open = undefined
      continue
    }
    if (open === undefined) {
      open = { message, texts: [], calls: [], before }
      found.push(open)
    }
    for (let entry = conversation.next(message); entry < end; entry = conversation.next(entry)) {
      const kind = conversation.kindAt(entry)
      if (kind === TEXT || kind === REFUSAL) open.texts.push(entry)
      if (kind === CALL_ID) open.calls.push(entry)
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
  readonly anchor: string
  readonly around: string
  readonly ordinal: number
}

/** Where the answer to this conversation will stand. */
export function nextStanding(conversation: Conversation): Standing {
  let ordinal = 0
  let last = -1
  let wasAnswer = false
  for (let message = 0; message < conversation.end; message = conversation.endOfMessage(message)) {
    const isAnswer = conversation.kindAt(message) === ASSISTANT
    if (isAnswer && !wasAnswer) ordinal++
    if (!isAnswer) last = message
    wasAnswer = isAnswer
  }
  return { anchor: anchorOf(conversation), around: aroundOf(conversation, last), ordinal }
}

/** The key of an answer, and what is kept under it. */
export function recordOf(
  issuer: Issuer,
  standing: Standing,
  { thoughts, callIds, textDigest: text }: KeptThoughts,
): { readonly key: string; readonly text: string } {
  const [callId] = callIds
  const key = callId === undefined ? textKey(standing, text) : callKey(callId, () => standing)
  const places = thoughts.map(({ place, json }) => [place, json])
  return { key, text: JSON.stringify({ issuer: issuer.id, form: issuer.form, callIds, thoughts: places }) }
}

/** Ids of real APIs have 20 random characters and more; those of some servers are names and numbers that come again. */
const RANDOM_ID = /[A-Za-z0-9]{16,}/

function callKey(callId: string, standing: () => Standing): string {
  if (!RANDOM_ID.test(callId)) return `call:${textKey(standing(), callId)}`
  return `call:${createHash('sha256').update(callId).digest('base64url')}`
}

function textKey({ anchor, around, ordinal }: Standing, text: string): string {
  const hash = createHash('sha256').update(JSON.stringify([anchor, around, ordinal, text]))
  return `text:${hash.digest('base64url')}`
}

/** The beginning of a conversation: all up to the end of the first message of the user. */
function anchorOf(conversation: Conversation): string {
  let hash = 0n
  for (let message = 0; message < conversation.end; message = conversation.endOfMessage(message)) {
    hash = addMessage(conversation, message, hash)
    if (conversation.kindAt(message) === USER) break
  }
  return hash.toString(36)
}

function aroundOf(conversation: Conversation, message: number): string {
  return message < 0 ? '' : addMessage(conversation, message, 0n).toString(36)
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
  ...[TEXT, RESULT_ID, IMAGE, IMAGE_URL, DOCUMENT, DOCUMENT_TEXT, DOCUMENT_URL, CONTEXT],
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
  ): Promise<RecalledThoughts> | RecalledThoughts | undefined {
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
    return found instanceof Promise ? found.then(made) : made(found)
  }

  /** Whose thoughts the last answer has; undefined if it has none. */
  get lastIssuer(): string | undefined {
    return this.answers.at(-1)?.record?.issuer
  }

  /** What this issuer gets back. */
  for(issuer: Issuer): Recalled {
    let own = this.own.get(issuer.id)
    if (own === undefined) {
      own = this.found(issuer)
      this.own.set(issuer.id, own)
    }
    return own
  }

  private found(issuer: Issuer): Recalled {
    const before = new Map<number, string[]>()
    const beside = new Map<number, string>()
    const counts = { found: 0, missing: 0, otherIssuer: 0 }
    let chars = 0
    for (const { answer, record } of this.answers) {
      if (record === undefined) counts.missing++
      else if (record.issuer !== issuer.id || record.form !== issuer.form) counts.otherIssuer++
      else if (this.place(answer, record, before, beside)) {
        counts.found++
        for (const { json } of record.thoughts) chars += json.length
      } else counts.missing++
    }
    const isEmpty = before.size === 0 && beside.size === 0
    const thoughts = {
      form: issuer.form,
      tokens: Math.ceil(chars / CHARS_A_TOKEN),
      before: (entry: number) => before.get(entry) ?? NONE,
      with: (entry: number) => beside.get(entry),
    }
    return { thoughts: isEmpty ? undefined : thoughts, counts }
  }

  /** False, and nothing is given back, if the caller has left out or changed calls. */
  private place(
    { message, texts, calls }: SentAnswer,
    { callIds, thoughts }: ThoughtRecord,
    before: Map<number, string[]>,
    beside: Map<number, string>,
  ): boolean {
    const { conversation } = this
    const entries = new Map(calls.map((call) => [conversation.textAt(call), call]))
    const placed = callIds.map((id) => entries.get(id))
    if (entries.size !== callIds.length || placed.includes(undefined)) return false
    const text = texts.find((entry) => conversation.textAt(entry).trim() !== '')
    const first = text ?? calls[0]
    for (const { place, json } of thoughts) {
      const call = callOf(place)
      const entry = call === undefined ? undefined : placed[call.index]
      if (place === BEFORE_TEXT || call?.isBefore === true) {
        const at = place === BEFORE_TEXT ? first : entry
        if (at !== undefined) before.set(at, [...(before.get(at) ?? NONE), json])
      } else {
        const at = place === WITH_ANSWER ? answering(message, calls, conversation) : place === WITH_TEXT ? text : entry
        if (at !== undefined) beside.set(at, json)
      }
    }
    return true
  }
}

const NONE: readonly string[] = []
/** Encrypted thoughts have about four. */
const CHARS_A_TOKEN = 4

/** The message of an answer that has its calls, or else the first. */
function answering(first: number, [call]: readonly number[], conversation: Conversation): number {
  if (call === undefined) return first
  let message = first
  for (let next = first; next < call; next = conversation.endOfMessage(next)) message = next
  return message
}

/** Undefined for what is not a record: it was read from a store. */
function parseRecord(text: string | undefined): ThoughtRecord | undefined {
  const value = text === undefined ? undefined : parseObject(text)
  if (value === undefined) return undefined
  const { callIds, thoughts } = value
  const [issuer, form] = [stringOf(value['issuer']), stringOf(value['form'])]
  if (issuer === undefined || form === undefined || !isArray(callIds) || !isArray(thoughts)) return undefined
  return {
    ...{ issuer, form },
    callIds: callIds.filter((id) => typeof id === 'string'),
    thoughts: thoughts.flatMap((one) => {
      const [place, json] = isArray(one) ? [numberOf(one[0]), stringOf(one[1])] : []
      return place === undefined || json === undefined ? [] : [{ place, json }]
    }),
  }
}
