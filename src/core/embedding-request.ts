/** A request for embeddings in the canonical form, and what an answer reports. */

import type { BytePieces } from './byte-pieces.ts'
import type { JsonObject } from './json.ts'

export interface EmbeddingRequest {
  /** The name of the model as the caller wrote it. */
  readonly model: string
  /** Whom the caller sends it for. */
  readonly user?: string | undefined
  /** Texts, or texts that the caller has cut into tokens. */
  readonly inputs: readonly (string | readonly number[])[]
  /** The JSON body with the provider's name of the model, in pieces that are views of the caller's bytes. */
  body(model: string): BytePieces
}

/** A provider's whole answer, as JSON and as the text that it was parsed from. */
export interface MadeEmbeddings {
  readonly text: string
  readonly body: JsonObject
  /** The public name of the model that made them. */
  readonly model: string
  /** Our count of the input tokens, if the provider reported none that is plausible. */
  readonly countedTokens: number | undefined
}
