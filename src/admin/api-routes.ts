/** The paths below `/api`: what each takes, and what it answers. */

import type { AdminData } from './admin-data.ts'
import type { EventHub } from './event-hub.ts'
import { COMMON_HEADERS, json } from './json-answers.ts'
import { isSet, queryOf } from './query-parameters.ts'
import { newRoutes } from './route-group.ts'
import type { Supervision } from './supervision.ts'

interface ApiParts {
  readonly data: AdminData
  readonly events: EventHub
  readonly supervision: Pick<Supervision, 'reload'>
  /** Who sent a request. */
  readonly actorOf: (request: Request) => string
}

export function apiRoutes({ data, events, supervision, actorOf }: ApiParts) {
  return newRoutes()
    .get('/api/status', async ({ request }) => {
      const query = queryOf(request.url, ['history'])
      return json(200, await data.status(isSet(query, 'history')))
    })
    .get('/api/targets', ({ request }) => {
      queryOf(request.url, [])
      return json(200, data.targets())
    })
    .get('/api/budgets', async ({ request }) => {
      return json(200, await data.budgets(queryOf(request.url, ['organization', 'key', 'search'])))
    })
    .get('/api/events', ({ request }) => {
      queryOf(request.url, [])
      return events.open(request, actorOf(request))
    })
    .get('/api/openapi.json', async () => {
      const { adminDocument } = await import('../reference/reference-files.ts')
      return new Response(await adminDocument(), { headers: { 'content-type': 'application/json', ...COMMON_HEADERS } })
    })
    .post('/api/reload', async ({ request }) => {
      queryOf(request.url, [])
      const { problems, changes } = await supervision.reload(actorOf(request))
      return problems.length > 0 ? json(422, { problems }) : json(200, { changes })
    })
}
