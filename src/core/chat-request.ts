/** One request in the canonical form: what every dialect accepts into and every provider builds its own body from. */

import type { ToolCall } from './completion.ts'
import type { JsonObject, JsonValue } from './json.ts'

/** A cache breakpoint after the part, tool or system text that carries it. Without `ttl` the provider's default holds. */
export interface CacheMark {
  readonly ttl?: '5m' | '1h' | undefined
  /** Where the caller wrote it (`input[0].content[1].cache_control`), where a mark that cannot be honoured is an error. */
  readonly path?: string | undefined
}

export interface TextPart {
  readonly type: 'text'
  readonly text: string
  readonly cache?: CacheMark | undefined
}

export interface ImagePart {
  readonly type: 'image'
  /** Inline bytes, or an address that only the provider may fetch: this program never does. */
  readonly source:
    | { readonly type: 'base64'; readonly mediaType: string; readonly data: string }
    | { readonly type: 'url'; readonly url: string }
  readonly detail?: 'auto' | 'low' | 'high' | undefined
  readonly cache?: CacheMark | undefined
}

/** A Chat Completions part that only providers of that family understand (`input_audio`, `file` with its data); others refuse it. */
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

/** Parameters that shape the answer. Each is absent unless the caller gave it; a provider takes those that its API knows. */
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

/** What the caller says about itself and about the service it wants; carried to providers that know the field. */
export interface Hints {
  readonly user?: string | undefined
  readonly safetyIdentifier?: string | undefined
  readonly serviceTier?: string | undefined
  readonly promptCacheKey?: string | undefined
  readonly promptCacheRetention?: string | undefined
  readonly promptCacheOptions?: JsonValue | undefined
}

export interface ChatRequest {
  /** The model's name as the caller wrote it. */
  readonly model: string
  readonly stream: boolean
  readonly messages: readonly Message[]
  readonly tools: readonly Tool[]
  /** Absent where there are no tools, or where the provider's default is meant. */
  readonly toolChoice?: ToolChoice | undefined
  readonly parallelToolCalls?: boolean | undefined
  /** The most tokens that the answer may have; absent where the caller named no limit. */
  readonly maxOutputTokens?: number | undefined
  /** True where the dialect has a default for that limit (Responses, Messages): then the model's `default_output_tokens` holds. */
  readonly limitsOutput: boolean
  readonly stop: readonly string[]
  readonly sampling: Sampling
  readonly hints: Hints
  /** A cache mark on the request as a whole: automatic caching of its last block. */
  readonly cache?: CacheMark | undefined
  /** True where a cache mark that the model cannot honour is an error rather than dropped (Responses; decisions.md, Caching). */
  readonly cacheStrict: boolean
}
