/** The paths below `/api`: what each takes, and what it answers. */

import { Elysia } from 'elysia'
import type { AdminData, Supervision } from './admin-data.ts'
import type { EventHub } from './event-hub.ts'
import { AdminError, json } from './json-answers.ts'
import { isSet, queryOf, wholeNumber } from './query-parameters.ts'

interface ApiParts {
  readonly data: AdminData
  readonly events: EventHub
  readonly supervision: Pick<Supervision, 'recent' | 'reload'>
}

/** As many as the workers keep. */
const RECENT_MAX = 200

export function apiRoutes({ data, events, supervision }: ApiParts) {
  return new Elysia({ strictPath: true, systemRouter: false, handler: { standardHostname: false } })
    .get('/api/status', async ({ request }) => {
      const query = queryOf(request.url, ['history'])
      return json(200, await data.status(isSet(query, 'history')))
    })
    .get('/api/targets', ({ request }) => {
      queryOf(request.url, [])
      return json(200, data.targets())
    })
    .get('/api/budgets', async ({ request }) => {
      const { organization, key } = queryOf(request.url, ['organization', 'key'])
      return json(200, await readable(data.budgets({ organization, key })))
    })
    .get('/api/requests', async ({ request }) => {
      const query = queryOf(request.url, ['recent'])
      const count = wholeNumber(query, 'recent', 1, RECENT_MAX) ?? RECENT_MAX
      return json(200, { rows: (await supervision.recent(count)).map((line): unknown => JSON.parse(line)) })
    })
    .get('/api/events', ({ request }) => {
      queryOf(request.url, [])
      return events.open(request)
    })
    .post('/api/reload', async ({ request }) => {
      queryOf(request.url, [])
      const { problems, changes } = await supervision.reload()
      return problems.length > 0 ? json(422, { problems }) : json(200, { changes })
    })
}

/** Throws `AdminError` 503 if the ledger cannot be read. A bug of weir is thrown on. */
async function readable<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (error) {
    if (!(error instanceof Error) || error instanceof TypeError || error instanceof RangeError) throw error
    throw new AdminError(503, 'ledger_unavailable', `The ledger cannot be read: ${error.message}`)
  }
}
