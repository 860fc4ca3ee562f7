/**
 * The events of one answer, in the canonical form between providers and dialects: every provider's bytes are decoded to
 * these events, and every dialect's bytes are encoded from them. A whole answer has the same events and is folded into
 * a `Completion`.
 */

import type { JsonObject, JsonValue } from './json.ts'
import type { Usage } from './token-usage.ts'

/** Why the model stopped. Each decoder maps its provider's words to these in one `switch`. */
export type FinishReason = 'stop' | 'length' | 'tool-call' | 'content-filter'

/**
 * How Anthropic words a stop that the canonical reason does not express, for callers of Messages. `sequence`: the stop
 * sequence that the model wrote.
 */
export interface OwnStop {
  readonly reason: string
  readonly sequence: string | null
}

/**
 * Something of the provider's own API that the canonical form has no event for: callers of the same API get it, others
 * do not. `block`: a content block begins. `delta` belongs to the open block, and `stop` ends one that `block` began.
 * `text`: the text that follows is a block of its own, with these members. `message` and `ending` hold members of the
 * message and of how it ends, and `event` is an event with a name.
 *
 * Of Responses, blocks are items, which may be open side by side: `index` is the one of an item, a `delta` has the name
 * of its event, and `stop` has the whole item. A `delta` without an index holds an annotation of the text.
 */
export interface OwnEvent {
  readonly type: 'own'
  readonly part: 'block' | 'delta' | 'stop' | 'text' | 'message' | 'ending' | 'event'
  readonly value: JsonObject
  readonly name?: string | undefined
  readonly index?: number | undefined
}

/**
 * Order law: `start (text | refusal | reasoning | thought | tool-start tool-delta+)* finish usage? end`. `usage` may
 * also come earlier and more than once; each figure replaces the one before it. `gateway/event-check.ts` asserts this
 * law on everything that a decoder emits. `own` events come between any others, those of blocks before the finish.
 *
 * - `index` numbers the tool calls of an answer from 0 in the order of their starts. Deltas of several calls may
 *   interleave.
 * - `tool-start` comes once for each call, with the whole name and an id that is legal for callers. The deltas of a
 *   call, joined, are the JSON of its arguments; a call without arguments has the one delta `{}`. They are an object
 *   unless the reason of the finish is `length` or `content-filter`: then the model may have been stopped within them.
 * - `end` comes only after the provider's own final marker. Without it the answer is incomplete, and the caller's
 *   stream must be cut.
 */
export type StreamEvent =
  /** `serviceTier`: of APIs that name it from the first chunk on; of others `usage` has it. */
  | { readonly type: 'start'; readonly serviceTier?: string | undefined }
  | { readonly type: 'text'; readonly text: string; readonly logprobs?: JsonValue | undefined }
  | { readonly type: 'refusal'; readonly text: string }
  /**
   * The model's reasoning: counted and charged as output, and sent only to callers that may see thoughts. `isNewPart`:
   * a further part of a summary begins.
   */
  | { readonly type: 'reasoning'; readonly text: string; readonly isNewPart?: true | undefined }
  | ThoughtEnd
  | OwnEvent
  | {
      readonly type: 'tool-start'
      readonly index: number
      readonly callId: string
      readonly name: string
      /** Members of the call that only the provider's own API has. */
      readonly own?: JsonObject | undefined
    }
  | {
      readonly type: 'tool-delta'
      readonly index: number
      readonly json: string
      /** Set by the gateway's check, not by decoders: this delta completes the JSON object, and no more follow. */
      readonly isLast?: true | undefined
    }
  | { readonly type: 'finish'; readonly reason: FinishReason; readonly own?: OwnStop | undefined }
  | { readonly type: 'usage'; readonly usage: Usage }
  | { readonly type: 'end' }

/**
 * What the provider wants back with the conversation (`core/thoughts.ts`): JSON in its own form. It stands before what
 * follows it, and ends the reasoning before it; or it belongs to the text before it, the call that follows it or the
 * whole answer.
 */
export interface ThoughtEnd {
  readonly type: 'thought'
  readonly json: string
  readonly on?: 'text' | 'call' | 'answer' | undefined
  /** The provider shows nothing of it. */
  readonly isRedacted?: true | undefined
  /** Set by the gateway, not by decoders: what a caller who may see thoughts gets of it, to send it back. */
  readonly seal?: string | undefined
}

/** The events that a caller who may see thoughts sees something of, besides content. */
export type ThoughtEvent = Extract<StreamEvent, { type: 'reasoning' | 'thought' }>

/** The events that a caller sees something of. */
export type ContentEvent = Extract<StreamEvent, { type: 'text' | 'refusal' | 'tool-start' | 'tool-delta' }>
