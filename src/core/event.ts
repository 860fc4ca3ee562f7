/** One thing that a model said: the canonical stream that every provider is decoded to and every dialect is encoded from. */

import type { JsonValue } from './json.ts'
import type { Usage } from './token-usage.ts'

/** Why the model stopped. Providers' words are mapped to these in one `switch` each. */
export type FinishReason = 'stop' | 'length' | 'tool-call' | 'content-filter'

/**
 * Order law: start (text | refusal | reasoning | tool-start tool-delta*)* finish usage? end. `usage` may come earlier and repeatedly; the last wins.
 *
 * - `index` of tool events counts the calls of this answer from 0 in order of appearance, without holes. Deltas of several calls may interleave.
 * - `tool-start` comes once a call, with its whole name and an id that is legal for callers. The deltas of a call concatenate to
 *   its JSON; a call without arguments has the one delta `{}`.
 * - `end` is emitted only after the provider's own final marker. Without it the answer is not whole, and nothing that ends the caller's
 *   stream may be written.
 */
export type StreamEvent =
  | { readonly type: 'start' }
  | { readonly type: 'text'; readonly text: string; readonly logprobs?: JsonValue | undefined }
  | { readonly type: 'refusal'; readonly text: string }
  /** What the model thinks: no caller sees it, and it is charged like what it says. */
  | { readonly type: 'reasoning'; readonly text: string }
  | { readonly type: 'tool-start'; readonly index: number; readonly callId: string; readonly name: string }
  | {
      readonly type: 'tool-delta'
      readonly index: number
      readonly json: string
      /** Set by the gateway, not by decoders: with this delta the arguments are a whole JSON object, and no more come. */
      readonly isLast?: true | undefined
    }
  | { readonly type: 'finish'; readonly reason: FinishReason }
  | { readonly type: 'usage'; readonly usage: Usage }
  | { readonly type: 'end' }

/** The events that a caller sees something of. */
export type ContentEvent = Extract<StreamEvent, { type: 'text' | 'refusal' | 'tool-start' | 'tool-delta' }>
