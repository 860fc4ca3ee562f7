/** `GET /v1/models` (inference-api.md 2.1). */

import { modelList } from '../catalog/model-list.ts'
import { admit, type Handled, type Visit } from './edge.ts'
import { idHeaders } from './headers.ts'

export function handleModels(visit: Visit): Handled {
  const list = modelList(visit.parts.catalog, admit(visit))
  visit.trace.status = 200
  const headers = { 'content-type': 'application/json', ...idHeaders(visit.trace.requestId) }
  return { response: new Response(JSON.stringify(list), { headers }), ends: 'now' }
}
