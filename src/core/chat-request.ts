/**
 * One chat request in the canonical form: a dialect converts a caller's body into it, and a provider adapter builds the
 * provider's body from it.
 */

import type { Conversation } from './conversation.ts'
import type { CacheMark } from './entry-marks.ts'
import type { JsonObject, JsonValue } from './json.ts'
import type { OwnFields } from './own-fields.ts'
import type { Reasoning } from './reasoning.ts'
import type { EntryThoughts } from './thoughts.ts'
import type { ToolList } from './tool-list.ts'

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
  readonly seed?: number | bigint | undefined
  readonly logitBias?: JsonObject | undefined
  readonly logprobs?: boolean | undefined
  readonly topLogprobs?: number | undefined
  /** As the caller wrote it, if its thoughts do not pass. */
  readonly reasoningEffort?: string | undefined
  readonly verbosity?: string | undefined
  readonly responseFormat?: JsonObject | undefined
  /** Set if a model that ignores `responseFormat` must not answer. */
  readonly requiresFormat?: boolean | undefined
  /** Set if `responseFormat` goes to every provider: by the specification, some do not get it. */
  readonly passesFormat?: boolean | undefined
  /** Set for a model that follows a schema by the configuration, whatever its name shows. */
  readonly followsFormat?: boolean | undefined
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

/** Shared by all requests that have none: an empty list takes 80 bytes. */
export const NO_TEXTS: readonly string[] = []
export const NO_HINTS: Hints = {}

export interface ChatRequest {
  /** The name of the model as the caller wrote it. */
  readonly model: string
  readonly stream: boolean
  readonly conversation: Conversation
  readonly tools: ToolList
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
  /** Absent if the caller's thoughts do not pass. */
  readonly reasoning?: Reasoning | undefined
  /** What the target has issued of its thoughts, for its history; absent if there is nothing. */
  readonly thoughts?: EntryThoughts | undefined
  /** What only providers of the caller's own API take; absent if the operator does not let it pass. */
  readonly own?: OwnFields | undefined
}
