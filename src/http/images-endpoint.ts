/** `POST /v1/images/generations` and `/v1/images/edits`: JSON, or a form for edits. */

import type { Server } from 'bun'
import type { ImageKind, ImageRequest, MadeImages } from '../core/image-request.ts'
import type { ImageUrls } from '../dialects/image-url.ts'
import { imagesBody, imagesEvents } from '../dialects/images/answer.ts'
import { acceptImageForm, acceptImages } from '../dialects/images/request.ts'
import { Flow } from '../gateway/flow.ts'
import { ImageWork } from '../gateway/image-work.ts'
import { Pump } from '../gateway/pump.ts'
import { boundaryOf, isForm, parseForm } from '../wire/multipart.ts'
import type { Handled, RequestContext } from './edge.ts'
import { answerHeaders, STREAM_HEADERS } from './headers.ts'
import { formRejected, receiveBytes } from './receive.ts'

export async function handleImages(
  context: RequestContext,
  kind: ImageKind,
  server: Server<undefined>,
): Promise<Handled> {
  const { request, parts, log, running } = context
  const { key, bytes } = await receiveBytes(context, server)
  const image = accept(kind, request.headers.get('content-type'), bytes, parts.imageUrls)
  log.requestedModel = image.model
  const bodyOf = image.stream ? (made: MadeImages) => imagesEvents(kind, made) : imagesBody
  const answer = await new Flow(parts.gateway, key, new ImageWork(image, bodyOf, log), running, log).run()
  const { content } = answer
  if (content instanceof Pump) throw new Error('a provider of images has streamed')
  const headers = answerHeaders(log.requestId, running.limitHeaders, answer)
  if (!image.stream) {
    headers['content-type'] = 'application/json'
    return context.complete(new Response(content, { headers }))
  }
  log.streamed = true
  return context.complete(new Response(content, { headers: Object.assign(headers, STREAM_HEADERS) }))
}

/** Only edits may come as a form: SDKs send their files so. All else is read as JSON, whatever its content type. */
function accept(kind: ImageKind, contentType: string | null, bytes: Uint8Array, imageUrls: ImageUrls): ImageRequest {
  if (contentType === null || !isForm(contentType)) return acceptImages(kind, bytes, imageUrls)
  if (kind === 'edits') return acceptImageForm(parseForm(bytes, boundaryOf(contentType)), imageUrls)
  throw formRejected()
}
