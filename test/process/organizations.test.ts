/** Organisations that commands and the admin API create, with two workers, and with two nodes on one Redis. */

import { expect, test } from 'bun:test'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import type { Gateway } from '../support/gateway.ts'
import { api, Stage } from './key-stage.ts'
import { until } from './weir.ts'

test.each(['embedded', 'redis'])('%s: created, limited, changed, disabled and enabled', async (kind) => {
  await using stage = await Stage.start(kind)
  const { first } = stage
  const words = (text: string) => text.split(' ')
  expect(await first.run(...words('keys create --org newco --id bot'))).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('no organisation "newco"; make one with weir organizations create'),
  })
  // A spend limit needs a price, as in the configuration.
  expect(await first.run(...words('organizations create --id newco --spend-day 1'))).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('organisation "newco" may use model "free", which has no price'),
  })
  expect(await stage.run(...words('organizations create --id newco --models m --spend-day 0.5'))).toBe(
    'organisation "newco" is created',
  )
  const made = await first.run(...words('keys create --org newco --id bot'))
  expect(made.stderr).toContain('key "bot" of organisation "newco" may use 1 of 2 models')
  const key = made.stdout.trim()
  await until(async () => (await stage.statuses(key)).join() === '429')
  await first.line(({ msg, organization }) => msg === 'request' && organization === 'newco')

  // Everything that reports on organisations knows it.
  const budgets = (await api(first, 'GET', '/api/budgets?organization=newco')).body['rows']
  expect(budgets).toEqual([expect.objectContaining({ key: null, limit: 'spend.day', amount: 500_000 })])
  expect(await stage.run(...words('usage --org newco'))).toContain('$0.')
  const explained = await stage.run(...words('explain --key bot --model m'))
  expect(explained).toContain('organisation "newco"')
  expect(await stage.run(...words('explain --key bot --model free'))).toContain('organisation "newco"')
  await until(async () =>
    (await metrics(first)).includes('weir_spend_limit_usd{organization="newco",window="day"} 0.5'),
  )

  await stage.run(...words('organizations update --id newco --spend-day 1000 --requests-per-minute 100000'))
  await stage.allAnswer(key, 200)
  expect(await stage.run(...words('organizations disable --id newco'))).toBe('organisation "newco" is disabled')
  await stage.allAnswer(key, 401)
  await first.line(({ msg, key_state: state }) => msg === 'request' && state === 'disabled')
  expect(await listed(first, 'newco')).toMatchObject({ source: 'store', state: 'disabled', models: ['m'] })
  expect(JSON.parse(await stage.run(...words('keys list --org newco --json')))).toMatchObject({
    keys: [{ id: 'bot', state: 'disabled' }],
  })
  expect(await stage.run(...words('explain --key bot --model m'))).toContain('disabled')
  await stage.run(...words('organizations update --id newco --enable'))
  await stage.allAnswer(key, 200)

  const audit = (await stage.run(...words('audit --admin --json'))).split('\n').map((line) => JSON.parse(line))
  const changes = audit.filter(({ action }) => action.startsWith('organization.'))
  expect(changes.map(({ action, target }) => `${action} ${target}`)).toEqual([
    'organization.created newco',
    'organization.updated newco',
    'organization.disabled newco',
    'organization.updated newco',
  ])
  for (const { action } of changes) await first.line(({ event }) => event === action)
})

test.each(['embedded', 'redis'])('%s: by the admin API, and beside those of the configuration', async (kind) => {
  await using stage = await Stage.start(kind)
  const { first } = stage
  const created = await api(first, 'POST', '/api/organizations', { id: 'later', models: ['m', 'x*'] })
  expect(created).toMatchObject({ status: 201, body: { id: 'later', state: 'active', source: 'store' } })
  expect(created.body['warnings']).toEqual([expect.stringContaining('"x*" matches no model')])
  for (const [method, path, body, status] of [
    ['POST', '/api/organizations', { id: 'later' }, 409],
    ['POST', '/api/organizations', { id: 'acme' }, 409],
    ['POST', '/api/organizations', { id: 'a b' }, 422],
    ['POST', '/api/organizations', { id: 'x', keys: [] }, 422],
    ['POST', '/api/organizations', { id: 'x', limits: { spend: { strict: true } } }, 422],
    ['PATCH', '/api/organizations/acme', { disabled: true }, 409],
    ['PATCH', '/api/organizations/none', { disabled: true }, 404],
    ['PATCH', '/api/organizations/later', { id: 'other' }, 422],
    ['PATCH', '/api/keys/organization:later', { models: null }, 404],
    ['DELETE', '/api/keys/organization:later', undefined, 404],
  ] as const)
    expect([path, body, (await api(first, method, path, body)).status]).toEqual([path, body, status])
  const changed = await api(first, 'PATCH', '/api/organizations/later', {
    models: null,
    limits: { requests_per_minute: 1 },
  })
  expect(changed.body).toMatchObject({ models: null, limits: { requests_per_minute: 1 } })
  const { body } = await api(first, 'POST', '/api/keys', { organization: 'later', id: 'bot' })
  const secret = String(body['secret'])
  expect(await stage.statuses(secret)).toContain(429)

  // The file gets the same id: its organisation holds, and gives way again when the file drops it.
  for (const node of stage.nodes) await configure(node, (all) => [...all, { id: 'later', models: ['m'], keys: [] }])
  await until(async () => (await stage.statuses(secret)).join() === '200')
  const { organizations } = (await api(first, 'GET', '/api/organizations')).body
  expect(
    isArray(organizations) && organizations.filter(isObject).map(({ id, source, state }) => [id, source, state]),
  ).toEqual([
    ['acme', 'configuration', 'active'],
    ['later', 'configuration', 'active'],
    ['later', 'store', 'overridden'],
  ])
  for (const node of stage.nodes) await configure(node, (all) => all.slice(0, 1))
  expect((await stage.statuses(secret)).includes(429)).toBe(true)
})

test('a backup has it, and so has a gateway that starts', async () => {
  await using stage = await Stage.start('embedded')
  const { first } = stage
  await stage.run('organizations', 'create', '--id', 'kept', '--json')
  const secret = await stage.run('keys', 'create', '--org', 'kept', '--id', 'bot')
  const copy = join(first.folder, 'copy')
  await stage.run('backup', copy)
  const config = JSON.parse(await readFile(first.configFile, 'utf8'))
  await writeFile(join(first.folder, 'copy.json'), JSON.stringify({ ...config, data_dir: copy }))
  const { stdout } = await first.run('organizations', 'list', '--json', '--config', join(first.folder, 'copy.json'))
  expect(JSON.parse(stdout).organizations).toContainEqual(expect.objectContaining({ id: 'kept', source: 'store' }))
  await stage.allAnswer(secret, 200)
})

async function listed(node: Gateway, id: string): Promise<JsonObject | undefined> {
  const { organizations } = (await api(node, 'GET', '/api/organizations')).body
  return isArray(organizations) ? organizations.filter(isObject).find((one) => one['id'] === id) : undefined
}

async function metrics(node: Gateway): Promise<string> {
  const headers = { authorization: 'Bearer admin-token-0123456789' }
  return await (await fetch(`${node.adminUrl}/metrics`, { headers })).text()
}

async function configure(node: Gateway, change: (all: readonly JsonObject[]) => readonly JsonObject[]): Promise<void> {
  const config = JSON.parse(await readFile(node.configFile, 'utf8'))
  const all = isArray(config.organizations) ? config.organizations.filter(isObject) : []
  await writeFile(node.configFile, JSON.stringify({ ...config, organizations: change(all) }))
  expect(await node.run('reload')).toMatchObject({ code: 0 })
}
