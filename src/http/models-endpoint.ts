/** `GET /v1/models`: the models that the caller's key may use. */

import { modelList } from '../catalog/model-list.ts'
import type { Handled, RequestContext } from './edge.ts'
import { jsonHeaders } from './headers.ts'

export async function handleModels(context: RequestContext): Promise<Handled> {
  const list = modelList(context.parts.catalog, context.authenticate())
  context.log.status = 200
  return context.complete(new Response(JSON.stringify(list), { headers: jsonHeaders(context.log.requestId) }))
}
