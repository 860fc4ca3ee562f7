/** `GET /v1/models`: the models that the caller's key may use. */

import { modelList } from '../catalog/model-list.ts'
import type { RequestContext } from './edge.ts'
import { jsonHeaders } from './headers.ts'

export function handleModels(context: RequestContext): void {
  const list = modelList(context.parts.catalog, context.authenticate(), context.parts.patterns)
  context.log.status = 200
  context.complete(new Response(JSON.stringify(list), { headers: jsonHeaders(context.log.requestId) }))
}
