/** What a dialect is: how a caller's body becomes a canonical request, and how canonical events become the caller's bytes. */

import type { ChatRequest } from '../core/chat-request.ts'
import type { Completion } from '../core/completion.ts'
import type { ContentEvent, FinishReason } from '../core/event.ts'
import type { JsonObject } from '../core/json.ts'
import type { Usage } from '../core/token-usage.ts'

export type DialectName = 'chat' | 'responses' | 'messages'

/** Which answer this is: known once a candidate has answered. */
export interface Served {
  /** The public name of the model that answered, from the configuration. */
  readonly model: string
  /** Unix seconds. */
  readonly createdAt: number
}

/** On whose behalf a body is accepted. */
export interface Caller {
  readonly organization: string
}

export interface Dialect {
  readonly name: DialectName
  /** Checks and converts a body. Throws `CallerError` with the field at fault. A promise only where something must be looked up. */
  accept(body: JsonObject, caller: Caller): Exchange | Promise<Exchange>
}

/** One request in its dialect. Holds the dialect's private state (a pending compaction, whether usage was asked for). */
export interface Exchange {
  readonly request: ChatRequest
  /** The answer is a summary that takes the place of the conversation. */
  readonly isCompaction: boolean
  /** Names of fields that were accepted and have no effect, for the log. */
  readonly ignored: readonly string[]
  /** The body of a whole answer. */
  answer(completion: Completion, served: Served): JsonObject
  /** A new encoder for one streamed answer. `meter` counts the usage of that answer. */
  encoder(served: Served, meter: StreamMeter): StreamEncoder
}

/** The usage of a stream that is under way. */
export interface StreamMeter {
  /** What the provider has reported so far; our own count stands in for figures that it has not reported. */
  readonly soFar: Usage
}

/**
 * Canonical events → the caller's stream. Each call returns whole SSE events, or '' if the caller sees nothing of it. `start` comes first
 * and `end` last; a stream that is cut gets no `end`.
 */
export interface StreamEncoder {
  /** The provider has begun to answer. */
  start(): string
  encode(event: ContentEvent): string
  /** The answer is whole: closes what is open and writes the final events. `usage` is that of the whole answer. */
  end(reason: FinishReason, usage: Usage): string
  /**
   * What `encode` gives for one text event after the other, from the texts as the insides of JSON strings (`wire/sse.ts`, `jsonInside`):
   * they are copied, not parsed and escaped again. `encode({ type: 'text', text })` equals `encodeTexts([jsonInside(text)])`. At least one.
   */
  encodeTexts(insides: readonly string[]): string
  /** What is sent while the provider is silent. */
  readonly keepAlive: string
}
