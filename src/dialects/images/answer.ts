/** A provider's answer with images → the caller's body, or the caller's stream. */

import type { ImageKind, MadeImages } from '../../core/image-request.ts'
import { isArray, isObject } from '../../core/json.ts'
import { namedEvent } from '../../wire/sse.ts'

/** The provider's body. If it names the model, the public name takes its place. */
export function imagesBody({ text, body, model }: MadeImages): string {
  return body['model'] === undefined ? text : JSON.stringify({ ...body, model })
}

/** Fields of the body that each event repeats. */
const SHARED = ['background', 'output_format', 'quality', 'size'] as const

/**
 * The stream without partial images: one `completed` event for each image, sent when all are made. The last one has the
 * usage of all.
 */
export function imagesEvents(kind: ImageKind, { body }: MadeImages): string {
  const type = kind === 'edits' ? 'image_edit.completed' : 'image_generation.completed'
  const images = isArray(body['data']) ? body['data'].filter(isObject) : []
  const shared = Object.fromEntries(SHARED.flatMap((name) => (body[name] === undefined ? [] : [[name, body[name]]])))
  return images
    .map((image, index) => {
      const usage = index === images.length - 1 && body['usage'] !== undefined ? { usage: body['usage'] } : {}
      return namedEvent(type, { type, ...image, created_at: body['created'] ?? 0, ...shared, ...usage })
    })
    .join('')
}
