/** `docs/openapi-admin.json` is current, valid, and has every path of the admin API with its parameters. */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { OPERATIONS } from '../../src/admin/operations.ts'
import { commandEntry } from '../../src/cli/command-table.ts'
import { adminOpenApi } from '../../tools/openapi/admin-document.ts'
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

test('it has every path and method below /api, and nothing that only commands of the machine may ask', () => {
  const served = adminPort().paths.filter((path) => path.includes(' /api/') && !path.endsWith('/api/openapi.json'))
  const { paths } = adminOpenApi()
  const described = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replace('{id}', ':id')}`),
  )
  expect(described.sort()).toEqual([...served].sort())
})

const reads = OPERATIONS.filter(({ method, isLocal }) => method === 'GET' && isLocal !== true).map(
  ({ path, parameters = [] }) => [path, parameters] as const,
)

test.each(reads)('the parameters of GET %s are those that it takes, and no others', async (path, parameters) => {
  const { ask } = adminPort({ token: TOKEN })
  const unknown = await (await ask(`${path}?zzzzzzzzzz=1`, { headers })).text()
  const known = /known are ([a-z, -]+)/.exec(unknown)?.[1]?.split(', ') ?? []
  expect(parameters.map(({ name }) => name).sort()).toEqual([...known].sort())
})

test('every operation about an organisation takes org, and organization as the same', async () => {
  const { ask } = adminPort({ token: TOKEN })
  const codeOf = async (path: string) => /"code":"(\w+)"/.exec(await (await ask(path, { headers })).text())?.[1]
  const about = reads.filter(([, parameters]) => parameters.some(({ name }) => /^org/.test(name)))
  expect(about.map(([path]) => path)).toEqual(['/api/budgets', '/api/requests', '/api/usage', '/api/keys'])
  for (const [path] of about) {
    for (const name of ['org', 'organization']) {
      expect([path, name, await codeOf(`${path}?${name}=acme`)]).not.toEqual([path, name, 'invalid_parameter'])
      expect([path, name, await codeOf(`${path}?${name}=`)]).toEqual([path, name, 'invalid_parameter'])
    }
    expect(await (await ask(`${path}?org=a&organization=b`, { headers })).text()).toContain('org comes twice')
  }
})

test.each([
  ['usage', '/api/usage'],
  ['audit', '/api/requests'],
  ['explain', '/api/explain'],
  ['keys list', '/api/keys'],
])('weir %s and GET %s have the same parameters', (command, path) => {
  const ofOutput = ['admin', 'follow', 'json', 'csv', 'wide', 'config', 'recent', 'limit']
  const names = (all: readonly { readonly name: string }[]) =>
    all.map(({ name }) => name).filter((name) => !ofOutput.includes(name))
  const parameters = reads.find(([each]) => each === path)?.[1] ?? []
  expect(names(commandEntry(command).flags)).toEqual(names(parameters))
})
