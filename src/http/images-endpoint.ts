/** `POST /v1/images/generations` and `/v1/images/edits`: JSON, or a form for edits. */

import type { Key } from '../catalog/catalog.ts'
import type { ImageKind, ImageRequest, MadeImages } from '../core/image-request.ts'
import type { ImageUrls } from '../dialects/image-url.ts'
import { imagesBody, imagesEvents } from '../dialects/images/answer.ts'
import { acceptImageForm, acceptImages } from '../dialects/images/request.ts'
import { Flow } from '../gateway/flow.ts'
import { ImageWork } from '../gateway/image-work.ts'
import { boundaryOf, isForm, parseForm } from '../wire/multipart.ts'
import type { RequestContext } from './edge.ts'
import { formRejected, receive } from './receive.ts'

export function handleImages(context: RequestContext, kind: ImageKind): void {
  receive(context, kind, run)
}

function run(context: RequestContext, key: Key, bytes: Uint8Array, kind: ImageKind): void {
  const { request, parts, log, running } = context
  const image = accept(kind, request.headers.get('content-type'), bytes, parts.imageUrls)
  log.requestedModel = image.model
  context.isEventText = image.stream
  const bodyOf = image.stream ? (made: MadeImages) => imagesEvents(kind, made) : imagesBody
  new Flow(parts.gateway, key, new ImageWork(image, bodyOf, log), running, log, context).run()
}

/** Only edits may come as a form: SDKs send their files so. All else is read as JSON, whatever its content type. */
function accept(kind: ImageKind, contentType: string | null, bytes: Uint8Array, imageUrls: ImageUrls): ImageRequest {
  if (contentType === null || !isForm(contentType)) return acceptImages(kind, bytes, imageUrls)
  if (kind === 'edits') return acceptImageForm(parseForm(bytes, boundaryOf(contentType)), imageUrls)
  throw formRejected()
}
