/**
 * The paths below `/api/keys`: as `weir keys` does, they list and change API keys. A change is in force on every
 * gateway when its answer is sent. The secret of a key is in the answers of the two POSTs alone.
 */

import type { KeyAdministration } from '../assembly/key-administration.ts'
import type { Config } from '../config/config.ts'
import { keyJson } from '../keys/key-list.ts'
import { KeyProblem } from '../keys/key-problem.ts'
import { AdminError, json } from './json-answers.ts'
import { queryOf, wholeNumber } from './query-parameters.ts'
import { bodyOf } from './request-reading.ts'
import { newRoutes } from './route-group.ts'

/** Keys in one answer, which is then about 4 MB. `weir keys list` prints all. */
const KEYS_MAX = 10_000

/** `config`: the configuration in force. `actorOf`: who sent a request. */
export function keysRoutes(config: () => Config, actorOf: (request: Request) => string) {
  const changed = (request: Request, call: (keys: KeyAdministration) => Promise<Response>) => {
    queryOf(request.url, [])
    return answerOf(config(), actorOf(request), call)
  }
  return newRoutes()
    .get('/api/keys', ({ request }) => {
      const query = queryOf(request.url, ['org', 'limit'])
      const limit = wholeNumber(query, 'limit', 1, KEYS_MAX) ?? KEYS_MAX
      return answerOf(config(), actorOf(request), async (keys) => {
        const listed = await keys.list(query['org'], limit + 1)
        return json(200, { keys: listed.slice(0, limit).map(keyJson), more: listed.length > limit })
      })
    })
    .post('/api/keys', ({ request }) =>
      changed(request, async (keys) => {
        const { record, secret } = await keys.changes.create(await bodyOf(request))
        return json(201, { ...(await keys.changedJson(record)), secret })
      }),
    )
    .patch('/api/keys/:id', ({ request, params }) =>
      changed(request, async (keys) => {
        const record = await keys.changes.update(params.id, await bodyOf(request))
        return json(200, await keys.changedJson(record))
      }),
    )
    .post('/api/keys/:id/rotate', ({ request, params }) =>
      changed(request, async (keys) => {
        const body = await bodyOf(request)
        const other = Object.keys(body).find((name) => name !== 'grace')
        if (other !== undefined) throw new KeyProblem('invalid', `${other}: unknown key; known here: grace`)
        const { record, secret } = await keys.changes.rotate(params.id, body['grace'])
        return json(200, { ...(await keys.changedJson(record)), secret })
      }),
    )
    .delete('/api/keys/:id', ({ request, params }) =>
      changed(request, async ({ changes }) => {
        const { outcome, isConfigured } = await changes.revoke(params.id)
        const source = isConfigured ? 'configuration' : 'store'
        return json(200, { id: params.id, source, state: 'revoked', outcome })
      }),
    )
}

const STATUSES = {
  unknown: [404, 'not_found'],
  exists: [409, 'already_exists'],
  conflict: [409, 'conflict'],
  invalid: [422, 'invalid'],
  unconfirmed: [503, 'unconfirmed'],
} as const satisfies Readonly<Record<KeyProblem['kind'], readonly [number, string]>>

/** Loads the code on first use. Throws `AdminError`; a bug of weir is thrown on. */
export async function answerOf(
  config: Config,
  actor: string,
  call: (keys: KeyAdministration) => Promise<Response>,
): Promise<Response> {
  const { KeyAdministration } = await import('../assembly/key-administration.ts')
  try {
    return await call(new KeyAdministration(config, { source: 'api', actor }))
  } catch (error) {
    if (error instanceof KeyProblem) {
      const [status, code] = STATUSES[error.kind]
      throw new AdminError(status, code, error.message)
    }
    const isBug = !(error instanceof Error) || error instanceof TypeError || error instanceof RangeError
    if (isBug || error instanceof AdminError) throw error
    throw new AdminError(503, 'ledger_unavailable', `The key store cannot be read or changed: ${error.message}`)
  }
}
