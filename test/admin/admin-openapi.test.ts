/** `docs/openapi-admin.json` is current, valid, and has every path of the admin API with its parameters. */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { adminOpenApi, OPERATIONS } from '../../tools/openapi/admin-document.ts'
import { adminPort } from '../support/admin.ts'

const TOKEN = 'admin-token-0123456789'
const headers = { authorization: `Bearer ${TOKEN}` }

test('it is current: bun scripts/write-admin-openapi.ts', () => {
  const committed = readFileSync(join(import.meta.dir, '../../docs/openapi-admin.json'), 'utf8')
  expect(committed === `${JSON.stringify(adminOpenApi(), null, 2)}\n`).toBe(true)
})

test('it is valid OpenAPI 3.1', async () => {
  const validator = new Validator()
  const result = await validator.validate(JSON.parse(JSON.stringify(adminOpenApi())))
  expect([validator.version, result.errors ?? []]).toEqual(['3.1', []])
})

test('the port serves it', async () => {
  const answer = await adminPort({ token: TOKEN }).ask('/api/openapi.json', { headers })
  expect([answer.status, await answer.json()]).toEqual([200, JSON.parse(JSON.stringify(adminOpenApi()))])
})

test('it has every path and method below /api', () => {
  const served = adminPort().paths.filter((path) => path.includes(' /api/') && !path.endsWith('/api/openapi.json'))
  const described = OPERATIONS.map(({ method, path }) => `${method.toUpperCase()} ${path.replace('{id}', ':id')}`)
  expect(described.sort()).toEqual([...served].sort())
})

test.each(
  OPERATIONS.filter(({ method }) => method === 'get').map(({ path, parameters = [] }) => [path, parameters] as const),
)('the parameters of GET %s are those that it takes', async (path, parameters) => {
  const { ask } = adminPort({ token: TOKEN })
  const unknown = await (await ask(`${path}?zzzzzzzzzz=1`, { headers })).text()
  const known = /known are ([a-z, -]+)/.exec(unknown)?.[1]?.split(', ') ?? []
  expect(parameters.map(({ name }) => name).sort()).toEqual([...known].sort())
})
