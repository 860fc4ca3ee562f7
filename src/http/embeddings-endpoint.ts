/** `POST /v1/embeddings`. */

import type { Key } from '../catalog/catalog.ts'
import { embeddingsBody } from '../dialects/embeddings/answer.ts'
import { acceptEmbeddings } from '../dialects/embeddings/request.ts'
import { EmbeddingWork } from '../gateway/embedding-work.ts'
import { Flow } from '../gateway/flow.ts'
import { isForm } from '../wire/multipart.ts'
import type { RequestContext } from './edge.ts'
import { formRejected, receive } from './receive.ts'

export function handleEmbeddings(context: RequestContext): void {
  receive(context, undefined, run)
}

function run(context: RequestContext, key: Key, bytes: Uint8Array): void {
  const { request, parts, log, running } = context
  if (isForm(request.headers.get('content-type'))) throw formRejected()
  const embedding = acceptEmbeddings(bytes)
  log.requestedModel = embedding.model
  new Flow(parts.gateway, key, new EmbeddingWork(embedding, embeddingsBody, log), running, log, context).run()
}
