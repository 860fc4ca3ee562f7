/** `POST /v1/images/generations` and `/v1/images/edits` (inference-api.md 4.6): JSON, or a form for edits. */

import type { Server } from 'bun'
import type { ImageKind, ImageRequest } from '../core/image-request.ts'
import type { ImageUrls } from '../dialects/image-url.ts'
import { imagesBody, imagesEvents } from '../dialects/images/answer.ts'
import { acceptImageForm, acceptImages } from '../dialects/images/request.ts'
import { makeImages } from '../gateway/images.ts'
import { boundaryOf, isForm, parseForm } from '../wire/multipart.ts'
import type { Handled, Visit } from './edge.ts'
import { answerHeaders, STREAM_HEADERS } from './headers.ts'
import { formRefused, receiveBytes } from './inference-endpoint.ts'

export async function handleImages(visit: Visit, kind: ImageKind, server: Server<undefined>): Promise<Handled> {
  const { request, parts, trace, flight } = visit
  const { key, bytes } = await receiveBytes(visit, server)
  const image = accept(kind, request.headers.get('content-type'), bytes, parts.imageUrls)
  trace.requestedModel = image.model
  const answer = await makeImages(parts.gateway, { key, image, flight, trace })
  const made = { text: answer.text, body: answer.body, model: answer.servedModel }
  const headers = answerHeaders(trace, answer)
  if (!image.stream) {
    headers['content-type'] = 'application/json'
    return { response: new Response(imagesBody(made), { headers }), ends: 'now' }
  }
  trace.streamed = true
  const events = imagesEvents(kind, made)
  return { response: new Response(events, { headers: Object.assign(headers, STREAM_HEADERS) }), ends: 'now' }
}

/** A form is for edits, whose files SDKs send so; everything else is read as JSON, whatever its type says (decisions.md 1). */
function accept(kind: ImageKind, contentType: string | null, bytes: Uint8Array, imageUrls: ImageUrls): ImageRequest {
  if (contentType === null || !isForm(contentType)) return acceptImages(kind, bytes, imageUrls)
  if (kind === 'edits') return acceptImageForm(parseForm(bytes, boundaryOf(contentType)), imageUrls)
  throw formRefused()
}
