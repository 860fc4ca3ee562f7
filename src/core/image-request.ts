/** A request for images in the canonical form, from JSON or a form, and the figures of an answer. */

import type { BytePieces } from './byte-pieces.ts'
import type { JsonObject } from './json.ts'
import type { Usage } from './token-usage.ts'

/** The image endpoint: images from a prompt, or from a prompt and other images. */
export type ImageKind = 'generations' | 'edits'

/** The body for a provider, in pieces. Input images are views of the caller's bytes, not copies. */
export interface ImageBody {
  readonly contentType: string
  readonly content: BytePieces
}

export interface ImageRequest {
  readonly kind: ImageKind
  /** The name of the model as the caller wrote it. */
  readonly model: string
  /** Whom the caller sends it for. */
  readonly user?: string | undefined
  readonly prompt: string
  /** How many images are requested: 1 to 10. */
  readonly images: number
  /** How many input images the request has. */
  readonly inputs: number
  readonly size: string | undefined
  readonly quality: string | undefined
  /** True if the caller asked for a stream. The provider is always asked for a whole answer. */
  readonly stream: boolean
  /** The body with the provider's name of the model in place of the caller's. */
  body(model: string): ImageBody
}

/** The figures of a provider's answer; a figure that it did not report is absent. */
export interface ImageFigures {
  readonly images: number | undefined
  readonly usage: Usage
  readonly quality?: string | undefined
  readonly size?: string | undefined
}

/** A provider's whole answer, as JSON and as the text that it was parsed from. */
export interface MadeImages {
  readonly text: string
  readonly body: JsonObject
  /** The public name of the model that made them. */
  readonly model: string
}
