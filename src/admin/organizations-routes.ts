/** The paths below `/api/organizations`: as `weir organizations` does, they list and change organisations. */

import type { Config } from '../config/config.ts'
import { organizationJson } from '../keys/organization-changes.ts'
import { json } from './json-answers.ts'
import { answerOf } from './keys-routes.ts'
import { queryOf } from './query-parameters.ts'
import { bodyOf } from './request-reading.ts'
import { newRoutes } from './route-group.ts'

/** `config`: the configuration in force. `actorOf`: who sent a request. */
export function organizationsRoutes(config: () => Config, actorOf: (request: Request) => string) {
  return newRoutes()
    .get('/api/organizations', ({ request }) => {
      queryOf(request.url, [])
      return answerOf(config(), actorOf(request), async (keys) =>
        json(200, { organizations: (await keys.organizations()).map(organizationJson) }),
      )
    })
    .post('/api/organizations', ({ request }) => {
      queryOf(request.url, [])
      return answerOf(config(), actorOf(request), async (keys) => {
        const record = await keys.organizationChanges.create(await bodyOf(request))
        return json(201, keys.changedOrganizationJson(record))
      })
    })
    .patch('/api/organizations/:id', ({ request, params }) => {
      queryOf(request.url, [])
      return answerOf(config(), actorOf(request), async (keys) => {
        const record = await keys.organizationChanges.update(params.id, await bodyOf(request))
        return json(200, keys.changedOrganizationJson(record))
      })
    })
}
