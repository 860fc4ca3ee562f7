/** A provider's answer with images → what the caller reads: the body as it is, or the last events of a stream. */

import type { ImageKind } from '../../core/image-request.ts'
import { isArray, isObject, type JsonObject } from '../../core/json.ts'
import { namedEvent } from '../../wire/sse.ts'

/** A whole answer, and the text that it was parsed from. */
interface MadeImages {
  readonly text: string
  readonly body: JsonObject
  /** The public name of the model that made them. */
  readonly model: string
}

/** The body in the provider's format. Few servers name the model in it; where one does, the name is the public one. */
export function imagesBody({ text, body, model }: MadeImages): string {
  return body['model'] === undefined ? text : JSON.stringify({ ...body, model })
}

/** How the fields of the body are named in events. */
const SHARED = ['background', 'output_format', 'quality', 'size'] as const

/**
 * The stream of `stream: true` as it is without partial images: one completed event an image, once it is made. The usage of
 * them all stands in the last.
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
