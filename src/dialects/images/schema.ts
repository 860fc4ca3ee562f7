/** The schema of the image endpoints, and the fields that they accept. */

import { type Static, Type } from '@sinclair/typebox'
import { compile, nullable } from '../body-schema.ts'

/** The fields that decide the price. The provider checks all others. */
export const ImagesBody = Type.Object({
  model: Type.String({ minLength: 1 }),
  prompt: Type.String(),
  n: nullable(Type.Integer({ minimum: 1, maximum: 10 })),
  size: nullable(Type.String()),
  quality: nullable(Type.String()),
  stream: nullable(Type.Boolean()),
  images: nullable(Type.Array(Type.Unknown(), { maxItems: 1024 })),
})

export type ImagesBody = Static<typeof ImagesBody>

/** The typed body. Throws `CallerError` with the path of the invalid field. */
export const checkImagesBody = compile(ImagesBody)

/** The fields of generations; others are ignored. Edits pass all fields on, because providers differ in them. */
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

/** Not sent on: the provider is always asked for a whole answer. */
export const STREAM_FIELDS: ReadonlySet<string> = new Set(['stream', 'partial_images'])
