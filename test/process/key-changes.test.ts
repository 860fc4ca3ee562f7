/**
 * Keys with limits, changed, rotated and revoked while weir runs: by command and by the admin API, with two workers of
 * the embedded ledger, and with two nodes on one Redis.
 */

import { expect, test } from 'bun:test'
import { readFile, writeFile } from 'node:fs/promises'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import { type Gateway, KEY } from '../support/gateway.ts'
import { api, OTHER, Stage } from './key-stage.ts'
import { until } from './weir.ts'

/** A key as `weir keys list --json` has it. */
async function listed(stage: Stage, id: string): Promise<JsonObject> {
  const { keys } = (await api(stage.first, 'GET', '/api/keys?org=acme')).body
  const found = isArray(keys) ? keys.filter(isObject).find((key) => key['id'] === id) : undefined
  if (found === undefined) throw new Error(`${id} is not listed.`)
  return found
}

function keyEvents(node: Gateway): readonly unknown[] {
  const events = node.lines.filter(({ event }) => typeof event === 'string' && /^key\.\w+ed$/.test(event))
  return events.map(({ event, source, target }) => `${event} ${source} ${target}`)
}

test.each(['embedded', 'redis'])('%s: limits, update, rotation and audit', async (kind) => {
  await using stage = await Stage.start(kind)
  const { first } = stage
  const refused = await first.run('keys', 'create', '--org', 'acme', '--id', 'bot', '--spend-day', '1')
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('may use model "free", which has no price'),
  })
  const old = await stage.run(
    'keys',
    'create',
    '--org',
    'acme',
    '--id',
    'bot',
    '--models',
    'm',
    '--spend-day',
    '0.5',
    '--tags',
    'team=payments',
  )
  // An answer costs 12 cents: the budget is used up after a few, on all workers and nodes. On a busy machine it may be
  // held meanwhile for a request that is cancelled.
  const spentToday = async () => Number((await listed(stage, 'bot'))['spend_today_micro_usd'])
  await until(async () => (await stage.statuses(old)).join() === '429' && (await spentToday()) >= 360_000)
  const request = await first.line(({ msg, key }) => msg === 'request' && key === 'bot')
  expect(request['tags']).toEqual({ team: 'payments' })
  const before = await listed(stage, 'bot')
  expect(before['limits']).toEqual({ spend: { day: 0.5 } })
  expect(Number(before['spend_today_micro_usd'])).toBeLessThanOrEqual(500_000)
  expect(Date.parse(String(before['last_used_at']))).toBeGreaterThan(Date.parse(String(before['created_at'])))

  await stage.run('keys', 'update', '--id', 'bot', '--spend-day', '', '--requests-per-minute', '100000')
  await stage.allAnswer(old, 200)
  expect((await listed(stage, 'bot'))['limits']).toEqual({ requests_per_minute: 100_000 })

  const second = await stage.run('keys', 'rotate', '--id', 'bot', '--grace', '1h')
  await stage.allAnswer(second, 200)
  await stage.allAnswer(old, 200)
  // Of two rotations within a grace, only the later old secret is accepted.
  const third = (await api(first, 'POST', '/api/keys/bot/rotate', { grace: '1h' })).body['secret']
  await stage.allAnswer(String(third), 200)
  await stage.allAnswer(old, 401)
  await stage.allAnswer(second, 200)
  const short = (await api(first, 'POST', '/api/keys/bot/rotate', { grace: '3s' })).body
  expect(Date.parse(String(short['last_used_at']))).toBeGreaterThan(Date.parse(String(short['created_at'])))
  expect(Number(short['spend_today_micro_usd'])).toBeGreaterThan(360_000)
  expect(Date.parse(String(short['grace_until']))).toBeGreaterThan(Date.now() - 3000)
  await until(async () => (await stage.statuses(String(third))).join() === '401')
  await first.line(({ key, key_state }) => key === 'bot' && key_state === 'rotated')
  await stage.allAnswer(String(short['secret']), 200)
  // One id and one budget through all of it.
  expect(Number((await listed(stage, 'bot'))['spend_today_micro_usd'])).toBeGreaterThan(1_000_000)

  expect(await api(first, 'DELETE', '/api/keys/bot')).toMatchObject({ status: 200, body: { state: 'revoked' } })
  await stage.allAnswer(String(short['secret']), 401)
  expect(await api(first, 'PATCH', '/api/keys/bot', {})).toMatchObject({ status: 409 })
  expect(await api(first, 'POST', '/api/keys', { organization: 'acme', id: 'bot' })).toMatchObject({ status: 409 })
  expect(await api(first, 'PATCH', '/api/keys/nobody', {})).toMatchObject({ status: 404 })
  expect(
    await api(first, 'POST', '/api/keys', { organization: 'acme', id: 'x', limits: { spend: { day: 'x' } } }),
  ).toEqual({
    status: 422,
    body: { error: { code: 'invalid', message: 'limits.spend.day: must be a number' } },
  })

  const actions = [...['created cli', 'updated cli', 'rotated cli', 'rotated api', 'rotated api', 'revoked api']].map(
    (action) => action.split(' '),
  )
  const rows = (await stage.run('audit', '--admin', '--json')).split('\n').map((line) => JSON.parse(line))
  expect(rows.map(({ action, source, target }) => [action, source, target])).toEqual(
    actions.map(([verb, source]) => [`key.${verb}`, source, 'bot']),
  )
  const actors = { cli: `uid:${process.getuid?.()}`, api: 'token:admin (127.0.0.1)' }
  for (const { source, actor } of rows) expect(actor).toStartWith(actors[source as keyof typeof actors])
  expect(JSON.stringify(rows)).not.toContain(String(short['secret']).slice(13))
  for (const node of stage.nodes) {
    await node.line(({ event }) => event === 'key.revoked')
    expect(keyEvents(node)).toEqual(actions.map(([verb, source]) => `key.${verb} ${source} bot`))
  }
})

test.each(['embedded', 'redis'])('%s: a key of the configuration is revoked until that drops it', async (kind) => {
  await using stage = await Stage.start(kind)
  expect([await stage.statuses(KEY), await stage.statuses(OTHER)]).toEqual([[200], [200]])
  expect(await stage.run('keys', 'revoke', '--id', 'k0')).toBe('key "k0" is revoked')
  await stage.allAnswer(KEY, 401)
  await stage.allAnswer(OTHER, 200)
  const { keys } = JSON.parse(await stage.run('keys', 'list', '--json'))
  expect(keys[0]).toMatchObject({ id: 'k0', state: 'revoked', source: 'configuration' })
  const { first } = stage
  // They read the store for a second at most, which a busy machine may need to connect.
  await until(async () => {
    const { code, stderr } = await first.run('check')
    expect(code).toBe(0)
    return stderr.includes('key "k0" is revoked by command since')
  })
  await until(async () => {
    const reload = await first.run('reload')
    expect(reload).toMatchObject({ code: 0, stdout: 'nothing changed\n' })
    return reload.stderr.includes('warning: organizations[0].keys[0]: key "k0" is revoked by command')
  })
  await first.line(({ event, key }) => event === 'key.revocation_in_force' && key === 'k0')
  await stage.allAnswer(KEY, 401)

  // Each node gets a configuration without the key; the revocation goes with the last one, and the key may come back.
  for (const node of stage.nodes) {
    await configure(node, (keys) => keys.slice(1))
    expect((await node.run('reload')).stdout).toBe('- key k0\n')
  }
  // The list takes its keys from the file. It is asked once no node has the key: one that still had it would restore a
  // revocation that another node removed.
  for (const node of stage.nodes) await configure(node, (keys) => [{ id: 'k0', key: KEY }, ...keys])
  await until(async () => {
    const { keys } = JSON.parse(await stage.run('keys', 'list', '--json'))
    return keys[0].state === 'active'
  })
  expect(await stage.run('audit', '--admin', '--json')).toContain('"removed"')
  for (const node of stage.nodes) expect(await node.run('reload')).toMatchObject({ code: 0, stdout: '+ key k0\n' })
  await until(async () => (await stage.statuses(KEY)).join() === '200')
})

async function configure(node: Gateway, change: (keys: readonly JsonObject[]) => readonly JsonObject[]): Promise<void> {
  const config = JSON.parse(await readFile(node.configFile, 'utf8'))
  const [organization] = config.organizations
  const keys = isArray(organization.keys) ? organization.keys.filter(isObject) : []
  const organizations = [{ ...organization, keys: change(keys) }]
  await writeFile(node.configFile, JSON.stringify({ ...config, organizations }))
}
