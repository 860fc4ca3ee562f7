/**
 * One chat request in the canonical form: a dialect converts a caller's body into it, and a provider adapter builds the
 * provider's body from it.
 */

import type { ToolCall } from './completion.ts'
import type { JsonObject, JsonValue } from './json.ts'
import type { LongTexts } from './long-texts.ts'
import type { Unparsed } from './unparsed.ts'

/**
 * A cache breakpoint after the part, tool or system text that carries it. Without `ttl`, the provider's default
 * applies.
 */
export interface CacheMark {
  readonly ttl?: '5m' | '1h' | undefined
  /** The caller's field (`input[0].content[1].cache_control`), if a mark that the model cannot honour is an error. */
  readonly path?: string | undefined
}

export interface TextPart {
  readonly type: 'text'
  readonly text: string
  readonly cache?: CacheMark | undefined
}

export interface ImagePart {
  readonly type: 'image'
  /** Inline bytes, or a URL that the provider fetches. weir never fetches it. */
  readonly source:
    | { readonly type: 'base64'; readonly mediaType: string; readonly data: string }
    | { readonly type: 'url'; readonly url: string }
  readonly detail?: 'auto' | 'low' | 'high' | undefined
  readonly cache?: CacheMark | undefined
}

/**
 * A Chat Completions part that only providers of that API understand (`input_audio`, `file` with data); other adapters
 * reject it.
 */
interface NativePart {
  readonly type: 'native'
  readonly json: JsonObject
}

export type UserPart = TextPart | ImagePart | NativePart

export type Message =
  | { readonly role: 'system'; readonly parts: readonly TextPart[] }
  | { readonly role: 'user'; readonly parts: readonly UserPart[] }
  | {
      readonly role: 'assistant'
      readonly parts: readonly TextPart[]
      readonly refusal?: string | undefined
      readonly toolCalls: readonly (ToolCall & { readonly cache?: CacheMark | undefined })[]
    }
  | {
      readonly role: 'tool'
      readonly callId: string
      readonly parts: readonly TextPart[]
      readonly isError?: boolean | undefined
      readonly cache?: CacheMark | undefined
    }

export interface Tool {
  readonly name: string
  readonly description?: string | undefined
  /** A JSON Schema of type object. */
  readonly parameters: JsonObject
  readonly strict?: boolean | undefined
  readonly cache?: CacheMark | undefined
}

export type ToolChoice =
  | { readonly mode: 'auto' | 'none' | 'required' }
  | { readonly mode: 'tool'; readonly name: string }
  | { readonly mode: 'allowed'; readonly names: readonly string[]; readonly required: boolean }

/**
 * Parameters of the generation. Each is absent unless the caller set it; an adapter passes on those that its API has.
 */
interface Sampling {
  readonly temperature?: number | undefined
  readonly topP?: number | undefined
  readonly frequencyPenalty?: number | undefined
  readonly presencePenalty?: number | undefined
  readonly seed?: number | undefined
  readonly logitBias?: JsonObject | undefined
  readonly logprobs?: boolean | undefined
  readonly topLogprobs?: number | undefined
  readonly reasoningEffort?: string | undefined
  readonly verbosity?: string | undefined
  readonly responseFormat?: JsonObject | undefined
}

/** What the caller states about itself and the service it wants. An adapter passes on those fields that its API has. */
export interface Hints {
  readonly user?: string | undefined
  readonly safetyIdentifier?: string | undefined
  readonly serviceTier?: string | undefined
  readonly promptCacheKey?: string | undefined
  readonly promptCacheRetention?: string | undefined
  readonly promptCacheOptions?: JsonValue | undefined
  /** True if the caller asked for padding of random length in each event of the provider's stream. */
  readonly padStream?: boolean | undefined
}

/** Shared by all requests that have none: an empty list takes 80 bytes, and small requests have three. */
export const NO_TOOLS: readonly Tool[] = []
export const NO_TEXTS: readonly string[] = []
export const NO_HINTS: Hints = {}

export interface ChatRequest {
  /** The name of the model as the caller wrote it. */
  readonly model: string
  readonly stream: boolean
  readonly messages: readonly Message[]
  readonly tools: readonly Tool[]
  /** Absent if there are no tools, or for the provider's default. */
  readonly toolChoice?: ToolChoice | undefined
  readonly parallelToolCalls?: boolean | undefined
  /** The caller's limit on the tokens of the answer, if any. */
  readonly maxOutputTokens?: number | undefined
  /**
   * True if the dialect has a default for that limit (Responses, Messages): then the model's `default_output_tokens`
   * applies.
   */
  readonly limitsOutput: boolean
  readonly stop: readonly string[]
  readonly sampling: Sampling
  readonly hints: Hints
  /** A cache mark on the whole request: the provider caches up to the last block. */
  readonly cache?: CacheMark | undefined
  /** True if a cache mark that the model cannot honour is an error (Responses); otherwise it is dropped. */
  readonly cacheStrict: boolean
  /**
   * Absent if every text is as the model reads it. Otherwise marks may stand for long ones in the texts of messages,
   * descriptions of tools and the JSON of calls, and nowhere else.
   */
  readonly longTexts?: LongTexts | undefined
  /** What of the messages and tools was not parsed. Absent from a copy whose messages or tools were changed. */
  readonly unparsed?: Unparsed | undefined
}

/** A copy with changes. What was not parsed stays so: a spread would convert it. */
export function changed(
  request: ChatRequest,
  changes: Partial<Omit<ChatRequest, 'messages' | 'tools' | 'unparsed'>>,
): ChatRequest {
  if (request.unparsed === undefined) return { ...request, ...changes }
  const copy: ChatRequest = Object.create(Object.prototype, Object.getOwnPropertyDescriptors(request))
  return Object.assign(copy, changes)
}

/** Whether the request offers tools. */
export function offersTools(request: ChatRequest): boolean {
  return request.unparsed?.tools !== undefined || request.tools.length > 0
}
