/** The rows of the admin API that list and change keys, organisations, and raises of budgets. */

import { stringOf } from '../core/json.ts'
import { KeyProblem } from '../core/key-problem.ts'
import { raiseJson } from '../keys/budget-record.ts'
import { keyJson } from '../keys/key-list.ts'
import { organizationJson } from '../keys/organization-changes.ts'
import { KeyAdministration } from '../reports/key-administration.ts'
import { ORG, parameter } from '../reports/parameters.ts'
import type { Call, Operation } from './operation.ts'

/** Keys in one answer, which is then about 4 MB. `weir keys list` prints all. */
const KEYS_MAX = 10_000

const KEY_BODY = {
  models: 'Patterns of public names',
  limits: 'As in the configuration; money in dollars',
  expires_at: 'A date, an RFC 3339 time or a duration such as 90d',
  tags: 'Values that hold where a request names none, by name',
  fixed_tags: 'Values that hold whatever a request names, by name',
  priority: '`interactive` or `batch`: who goes first where requests wait for providers',
  max_wait_ms: 'How long its requests wait at most, in milliseconds',
}
const ORGANIZATION_BODY = {
  models: KEY_BODY.models,
  limits: KEY_BODY.limits,
  weight: 'Its share where requests wait for providers; by default 1',
  disabled: '`true`: its keys are rejected',
}

const COUNTER_BODY = {
  organization: 'Its organisation',
  name: 'The budget',
  value: 'The value whose counter is meant; without it, all of the budget',
  reason: 'Why, for the admin audit',
}

export const keyOperations: readonly Operation[] = [
  {
    method: 'GET',
    path: '/api/keys',
    summary: 'The keys and their states',
    parameters: [ORG, parameter('limit N', 'the first N keys by id', { range: [1, KEYS_MAX] })],
    answers: { 200: 'Keys' },
    run: withKeys(async (keys, { query }) => {
      const limit = Number(query['limit'] ?? KEYS_MAX)
      const listed = await keys.list(stringOf(query['org']), limit + 1)
      return { keys: listed.slice(0, limit).map(keyJson), more: listed.length > limit }
    }),
  },
  {
    method: 'POST',
    path: '/api/keys',
    summary: 'Create a key; the answer has its secret',
    body: { organization: 'Its organisation', id: 'Its name, unique', ...KEY_BODY },
    answers: { 201: 'KeyWithSecret' },
    errors: [409, 422],
    run: withKeys(async (keys, { body }) => {
      const { record, secret } = await keys.changes.create(body)
      return { ...(await keys.changedJson(record)), secret }
    }),
  },
  {
    method: 'PATCH',
    path: '/api/keys/:id',
    summary: 'Change a key: what is absent stays, null removes',
    body: KEY_BODY,
    answers: { 200: 'ChangedKey' },
    errors: [404, 409, 422],
    run: withKeys(async (keys, { id, body }) => keys.changedJson(await keys.changes.update(id, body))),
  },
  {
    method: 'POST',
    path: '/api/keys/:id/rotate',
    summary: 'Give a key a new secret',
    body: { grace: 'How long the old secret is accepted, such as 24h; not at all unless given' },
    answers: { 200: 'KeyWithSecret' },
    errors: [404, 409, 422],
    run: withKeys(async (keys, { id, body }) => {
      const other = Object.keys(body).find((name) => name !== 'grace')
      if (other !== undefined) throw new KeyProblem('invalid', `${other}: unknown key; known here: grace`)
      const { record, secret } = await keys.changes.rotate(id, body['grace'])
      return { ...(await keys.changedJson(record)), secret }
    }),
  },
  {
    method: 'DELETE',
    path: '/api/keys/:id',
    summary: 'Revoke a key',
    answers: { 200: 'RevokedKey' },
    errors: [404, 409],
    run: withKeys(async (keys, { id }) => {
      const { outcome, isConfigured } = await keys.changes.revoke(id)
      return { id, source: isConfigured ? 'configuration' : 'store', state: 'revoked', outcome }
    }),
  },
  {
    method: 'GET',
    path: '/api/organizations',
    summary: 'The organisations of the configuration and of the key store',
    answers: { 200: 'Organizations' },
    run: withKeys(async (keys) => ({ organizations: (await keys.organizations()).map(organizationJson) })),
  },
  {
    method: 'POST',
    path: '/api/organizations',
    summary: 'Create an organisation',
    body: { id: 'Its name, unique', ...ORGANIZATION_BODY },
    answers: { 201: 'ChangedOrganization' },
    errors: [409, 422],
    run: withKeys(async (keys, { body }) => keys.changedOrganizationJson(await keys.organizationChanges.create(body))),
  },
  {
    method: 'PATCH',
    path: '/api/organizations/:id',
    summary: 'Change an organisation: what is absent stays, null removes',
    body: ORGANIZATION_BODY,
    answers: { 200: 'ChangedOrganization' },
    errors: [404, 409, 422],
    run: withKeys(async (keys, { id, body }) =>
      keys.changedOrganizationJson(await keys.organizationChanges.update(id, body)),
    ),
  },
  {
    method: 'POST',
    path: '/api/budgets/raises',
    summary: 'Raise a budget, or one of its counters, until a time: the limits are new ones, no additions',
    body: {
      ...COUNTER_BODY,
      limits: 'The new limits; those that are not named stay',
      until: 'A date, an RFC 3339 time or a duration such as 12h',
    },
    answers: { 201: 'BudgetRaise' },
    errors: [404, 409, 422],
    run: withKeys(async (keys, { body }) => {
      const { organization, raise } = await keys.budgetChanges.raise(body)
      return raiseJson(organization, raise)
    }),
  },
  {
    method: 'DELETE',
    path: '/api/budgets/raises/:id',
    summary: 'End a raise',
    answers: { 200: 'EndedRaise' },
    errors: [404],
    run: withKeys(async (keys, { id }) => {
      await keys.budgetChanges.end(id)
      return { id, state: 'ended' }
    }),
  },
  {
    method: 'POST',
    path: '/api/budgets/reset',
    summary: 'Let a counter begin anew: what it has spent in its present windows counts no more',
    body: COUNTER_BODY,
    answers: { 200: 'BudgetReset' },
    errors: [404, 409, 422],
    run: withKeys(async (keys, { body }) => {
      const { organization, name, value, reason } = await keys.budgetChanges.reset(body)
      return { organization, name, value: value === '' ? null : value, reason }
    }),
  },
]

/** Runs with the keys of the configuration in force, as who asks. */
function withKeys(run: (keys: KeyAdministration, call: Call) => Promise<object>): Operation['run'] {
  return (call, { supervision }) => run(new KeyAdministration(supervision.state().config, call.by), call)
}
