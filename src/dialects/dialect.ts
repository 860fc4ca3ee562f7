/**
 * The interface of a dialect: a caller's body becomes a canonical request, and the canonical answer becomes the
 * caller's bytes.
 */

import type { ChatRequest } from '../core/chat-request.ts'
import type { Compatibility } from '../core/compatibility.ts'
import type { Completion, PlainAnswer } from '../core/completion.ts'
import type { ContentEvent, FinishReason, OwnEvent, OwnStop, ThoughtEvent } from '../core/event.ts'
import type { Later } from '../core/later.ts'
import type { Usage } from '../core/token-usage.ts'
import type { RequestBody, UnparsedMembers } from '../wire/request-body.ts'
import type { TextKind } from '../wire/template.ts'
import type { TextForm } from '../wire/text-copier.ts'

export type DialectName = 'chat' | 'responses' | 'messages'

/** What an answer states about itself. Known once a candidate has answered. */
export interface Served {
  /** The public name of the model that answered. */
  readonly model: string
  /** Unix seconds. */
  readonly createdAt: number
  /** The provider got what only its own API takes. */
  readonly takesOwn?: boolean | undefined
}

/** Who sends the request. */
export interface Caller {
  readonly organization: string
  /** What its key may send and get beyond the specification. Absent: nothing. */
  readonly compatibility?: Compatibility
  /** Of the request. Absent for a turn on a socket. */
  readonly headers?: CallerHeaders | undefined
}

/** The headers of a request, by their names in lower case. */
export type CallerHeaders = Pick<Headers, 'get'>

export interface Dialect {
  readonly name: DialectName
  /** The members of its bodies that are left in the document, where `read` finds them. */
  readonly unparsed: UnparsedMembers
  /**
   * Checks and converts a body. Throws `CallerError` with the path of the invalid field. A result comes later only
   * if stored items must be fetched.
   */
  read(body: RequestBody, caller: Caller): Exchange | Later<Exchange>
}

/**
 * One request in its dialect, with the dialect's own state: whether it is a compaction, whether usage was asked for.
 */
export interface Exchange {
  readonly request: ChatRequest
  /** True if the answer is a summary that replaces the conversation. */
  readonly isCompaction: boolean
  /** Names of fields that have no effect, for the log line. */
  readonly ignored: readonly string[]
  /** The body of a whole answer: JSON, as text or in UTF-8. */
  answer(completion: Completion, served: Served): string | Uint8Array
  /**
   * The same as `answer` for an answer of nothing but text. Absent if such an answer is not written as it is, as in a
   * compaction.
   */
  plain?(answer: PlainAnswer & { readonly usage: Usage }, served: Served): string | Uint8Array
  /** A new encoder for one streamed answer. `meter` counts the usage of that answer. */
  encoder(served: Served, meter: StreamMeter): StreamEncoder
}

/** The usage of a stream that is under way. */
export interface StreamMeter {
  /** What the provider has reported so far; our own count stands in for figures that it has not reported. */
  readonly soFar: Usage
}

/**
 * Canonical events → the caller's stream. Each call returns whole SSE events, or '' if the caller sees nothing of it.
 * `start` comes first and `end` last. A stream that is cut gets no `end`.
 */
export interface StreamEncoder {
  /** The provider has begun to answer. */
  start(): string
  encode(event: ContentEvent): string
  /** A thought, of which the caller may see nothing. Absent if it never sees any. */
  encodeThought?(event: ThoughtEvent): string
  /**
   * What the provider sent in the form of its own API. `isLate`: after the finish. Absent if callers of this dialect
   * get none of it.
   */
  own?(event: OwnEvent, isLate: boolean): string
  /** The answer is whole: closes open items and writes the final events. `usage` is the usage of the whole answer. */
  end(reason: FinishReason, usage: Usage, own?: OwnStop): string
  /**
   * What `encode` returns for several text events, from texts as the insides of JSON strings (`jsonInside` in
   * `wire/sse.ts`), which are copied rather than parsed and escaped again. `encode({ type: 'text', text })` equals
   * `encodeTexts([jsonInside(text)], jsonInside(text))`. `insides` has at least one text; `joined` is all of them in
   * one string.
   */
  encodeTexts(insides: readonly string[], joined: string): string
  /**
   * How `encodeTexts` writes the next texts, none of which is empty; undefined if something else comes before them.
   * Absent if texts are not passed on one by one.
   */
  textForm?(): TextForm | undefined
  /** As `encodeTexts`, for thoughts: what `encodeThought` returns for several reasoning events that begin no part. */
  encodeThoughts?(insides: readonly string[], joined: string): string
  /** As `textForm`, for thoughts; undefined also if the caller sees none of them. */
  thoughtForm?(): TextForm | undefined
  /** So many texts were written in one of these forms. Throws as `encodeTexts` does. */
  textsCopied?(count: number, joined: string, kind: TextKind): void
  /** A whole SSE event or comment, sent while the provider is silent. */
  readonly keepAlive: string
}

/** The encoder of a turn on a socket, whose connection goes on after it. */
export interface TurnEncoder extends StreamEncoder {
  readonly responseId: string
  /** That the turn goes on: an event for callers that count messages. */
  inProgress(): string
  /** The last event of a turn that broke off, with its number: of the events before, not all were sent. */
  failed(number: number, code: string, message: string): string
}
