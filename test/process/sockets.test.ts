/** Sockets of the running program: what reloads, keys that end, and signals do to them. */

import { expect, test } from 'bun:test'
import { readFile, writeFile } from 'node:fs/promises'
import type { JsonObject } from '../../src/core/json.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import * as does from '../support/scenarios.ts'
import { SocketClient } from '../support/socket-client.ts'
import { Upstream } from '../support/upstream.ts'

const TOKEN = 'admin-token-0123456789'
const POOR = 'poor-key-0123456789'
const [role = '', hello = ''] = does.chatFrames(['Hello'])
const turn = (more: JsonObject = {}): JsonObject => ({ type: 'response.create', model: 'm', input: 'hi', ...more })

/** A socket with a turn that its provider does not end. */
async function busy(gateway: Gateway, key: string): Promise<SocketClient> {
  const client = await SocketClient.open(gateway.port, key)
  client.send(turn({ model: 'stalls' }))
  await client.frameOf('response.output_text.delta')
  return client
}

async function endsRefused(client: SocketClient): Promise<void> {
  expect(await client.frameOf('response.failed')).toMatchObject({ response: { error: { code: 'server_error' } } })
  expect(await client.next()).toMatchObject({ type: 'error', status: 401, error: { code: 'invalid_api_key' } })
  expect(await client.closed).toBe(1008)
}

/** 300 turns at once, on 20 sockets. */
async function crowd(gateway: Gateway): Promise<readonly JsonObject[]> {
  const lanes = Array.from({ length: 15 }, (_, index) => `lane-${index}`)
  const ends = Array.from({ length: 20 }, async () => {
    await using client = await SocketClient.open(gateway.port, POOR)
    for (const stream_id of lanes) client.send(turn({ model: 'ten', max_output_tokens: 10, stream_id }))
    const last: JsonObject[] = []
    while (last.length < lanes.length) {
      const frame = await client.next()
      if (frame['type'] === 'response.completed' || frame['type'] === 'error') last.push(frame)
    }
    return last
  })
  return (await Promise.all(ends)).flat()
}

test.each(['embedded', 'Redis'])('ledger %s: of 300 turns at once a budget for 100 admits 100', async (kind) => {
  await using redis = await RedisServer.start()
  const ten = does.answersText(...Array.from({ length: 10 }, () => 'x'))
  await using upstream = await Upstream.start({ ten })
  const organization = { id: 'poor', limits: { spend: { total: 0.001 } }, keys: [{ id: 'poor', key: POOR }] }
  await using gateway = await Gateway.start({
    providers: { up: upstream.url },
    // A turn of ten tokens holds ten millionths of a dollar, and costs as much.
    models: { ten: { targets: [{ provider: 'up', model: 'ten' }], price: { input: 0, output: 1 } } },
    config: { workers: 2, organizations: [organization], ...(kind === 'Redis' && { ledger: { redis: redis.url } }) },
  })
  const last = await crowd(gateway)
  expect(last.filter(({ type }) => type === 'response.completed')).toHaveLength(100)
  const refused = last.filter(({ type }) => type === 'error')
  expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 429))
  expect(upstream.calls).toHaveLength(100)
})

test('a reload keeps sockets, a key that ends closes its own, and a drain lets turns end or cuts them', async () => {
  await using upstream = await Upstream.start({ m: does.answersText('Hello'), stalls: does.stalls([role, hello]) })
  const admin = { host: '127.0.0.1', port: 0, token: TOKEN }
  await using gateway = await Gateway.start({
    providers: { up: upstream.url },
    models: { m: ['up/m'], stalls: ['up/stalls'] },
    config: {
      ...{ admin, workers: 2, drain_seconds: 1 },
      organizations: [
        {
          id: 'test',
          keys: [
            { id: 'test-key', key: KEY },
            { id: 'gone', key: 'gone-key-0123456789' },
          ],
        },
      ],
    },
  })
  const request = (method: string, path: string, body?: JsonObject) =>
    fetch(`${gateway.adminUrl}/api/keys${path}`, {
      ...{ method, headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' } },
      ...(body && { body: JSON.stringify(body) }),
    })
  const create = async (id: string, more: JsonObject = {}): Promise<string> => {
    const answer = await request('POST', '', { organization: 'test', id, ...more })
    return Object(await answer.json()).secret
  }

  await using kept = await busy(gateway, KEY)
  await using gone = await busy(gateway, 'gone-key-0123456789')
  const text = await readFile(gateway.configFile, 'utf8')
  await writeFile(gateway.configFile, text.replace(/,\s*\{\s*"id": "gone",[^}]*\}/, ''))
  gateway.signal('SIGHUP')
  await endsRefused(gone)
  expect((await kept.turn(turn({ stream_id: 'b' }))).at(-1)?.['type']).toBe('response.completed')

  await using revoked = await busy(gateway, await create('revoked'))
  await using rotated = await busy(gateway, await create('rotated'))
  const expired = await create('expired')
  await using expiring = await busy(gateway, expired)
  await request('DELETE', '/revoked')
  await request('POST', '/rotated/rotate', {})
  await request('PATCH', '/expired', { expires_at: new Date(Date.now() + 1000).toISOString() })
  await Promise.all([revoked, rotated, expiring].map(endsRefused))

  await using idle = await SocketClient.open(gateway.port, KEY)
  kept.send(turn())
  gateway.signal('SIGTERM')
  expect(await idle.closed).toBe(1012)
  expect(await kept.frameOf('error')).toMatchObject({ status: 503, error: { code: 'shutting_down' } })
  expect(await kept.frameOf('response.failed')).toMatchObject({ response: { error: { code: 'server_error' } } })
  expect(await kept.closed).toBe(1012)
  await gateway.exit
  const turns = gateway.lines.filter(({ msg, requested_model: model }) => msg === 'request' && model === 'stalls')
  expect(turns.map(({ outcome }) => outcome)).toEqual(['refused', 'refused', 'refused', 'refused', 'drained'])
  expect(turns.every(({ cost_micro_usd: cost }) => Number(cost) > 0)).toBe(true)
  const calls = await Promise.all(upstream.calls.filter(({ model }) => model === 'stalls').map(({ ended }) => ended))
  expect(calls.map(({ by }) => by)).toEqual(calls.map(() => 'gateway'))
})
