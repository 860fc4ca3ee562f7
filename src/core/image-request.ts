/** A request for images, whichever way it came, and what an answer to one says of itself. */

import type { Usage } from './token-usage.ts'

/** Which of the two image endpoints: pictures from words, or from pictures and words. */
export type ImageKind = 'generations' | 'edits'

/** What is sent to a provider: pieces, of which the pictures are views of the caller's own bytes. */
export interface ImageBody {
  readonly contentType: string
  readonly content: readonly Uint8Array[]
}

export interface ImageRequest {
  readonly kind: ImageKind
  /** `model` as the caller wrote it. */
  readonly model: string
  readonly prompt: string
  /** How many images are ordered: 1 to 10. */
  readonly images: number
  /** How many pictures came with it. */
  readonly inputs: number
  readonly size: string | undefined
  readonly quality: string | undefined
  /** The caller reads events. The provider is never asked for them. */
  readonly stream: boolean
  /** The body under a provider's own name of the model. */
  body(model: string): ImageBody
}

/** What a provider's answer says; a figure that it lacks is absent. */
export interface ImageFigures {
  readonly images: number | undefined
  readonly usage: Usage
}
