/** The bodies of the image endpoints: what is checked of them, and the fields that are accepted (wire.md A5). */

import { type Static, Type } from '@sinclair/typebox'
import { compile, nullable } from '../body-schema.ts'

/** What decides the price is checked here; the rest is the provider's to judge (inference-api.md 4.6). */
const ImagesBody = Type.Object({
  model: Type.String({ minLength: 1 }),
  prompt: Type.String(),
  n: nullable(Type.Integer({ minimum: 1, maximum: 10 })),
  size: nullable(Type.String()),
  quality: nullable(Type.String()),
  stream: nullable(Type.Boolean()),
  images: nullable(Type.Array(Type.Unknown(), { maxItems: 1024 })),
})

export type ImagesBody = Static<typeof ImagesBody>

/** The body under its type. Throws `CallerError` with the field at fault. */
export const checkImagesBody = compile(ImagesBody)

/** What generations accept; other fields are skipped without an error. Edits accept what the provider accepts (4.6). */
export const GENERATION_FIELDS: ReadonlySet<string> = new Set([
  'model',
  'prompt',
  'n',
  'size',
  'quality',
  'background',
  'output_format',
  'output_compression',
  'moderation',
  'response_format',
  'style',
  'user',
])

/** Ours to serve: the provider is asked for a whole answer. */
export const STREAM_FIELDS: ReadonlySet<string> = new Set(['stream', 'partial_images'])
