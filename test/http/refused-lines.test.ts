/** The log lines of refused requests: who sent what, and why it was refused; never a key or content. */

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { MAIN } from '../process/weir.ts'
import { KEY } from '../support/gateway.ts'
import { lastingGateway, lastingUpstream } from '../support/served.ts'
import { SocketClient } from '../support/socket-client.ts'
import { speaks, textAnswer } from '../support/speech.ts'

const SLOW = 'slow-key-0123456789abcdef'
const POOR = 'poor-key-0123456789abcdef'
const EXPIRED = 'expired-key-0123456789abcdef'
const DISABLED = 'disabled-key-0123456789abcdef'
const STRAINED = 'strained-key-0123456789abcdef'

const provider = await lastingUpstream()
provider.otherwise(speaks('openai', () => textAnswer('Hello')))
const gateway = await lastingGateway({
  providers: { up: provider.url },
  models: { m: { targets: [{ provider: 'up', model: 'up' }], price: { input: 1000, output: 1000 } } },
  config: {
    organizations: [
      {
        id: 'test',
        keys: [
          { id: 'one', key: KEY },
          { id: 'slow', key: SLOW, limits: { requests_per_minute: 1 } },
          { id: 'poor', key: POOR, limits: { spend: { day: 0.000001 } } },
          { id: 'old', key: EXPIRED, expires_at: '2020-01-01' },
          { id: 'off', key: DISABLED, disabled: true },
        ],
      },
      { id: 'busy', limits: { tokens_per_minute: 1 }, keys: [{ id: 'strained', key: STRAINED }] },
    ],
  },
})

const MESSAGES = [{ role: 'user', content: 'canary-content' }]

/** Sends a request, and returns its log line. */
async function lineOf(key: string | undefined, body: JsonObject, path = '/v1/chat/completions'): Promise<JsonObject> {
  const answer = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
    body: JSON.stringify(body),
  })
  await answer.text()
  return gateway.request(answer.headers.get('x-request-id'))
}

const chat = (key: string | undefined) => lineOf(key, { model: 'm', messages: MESSAGES })
const SENDER = { method: 'POST', path: '/v1/chat/completions', remote: '127.0.0.1', outcome: 'refused' }

test('a wrong field is named as param', async () => {
  const line = await lineOf(KEY, { model: 'm', messages: MESSAGES, temperature: 'hot' })
  expect(line).toMatchObject({ ...SENDER, status: 400, error: 'invalid_value', param: 'temperature', key: 'one' })
  expect(line).not.toContainAnyKeys(['limit', 'limit_of', 'key_state'])
})

test('a limit is named with its key or organisation', async () => {
  expect(await chat(SLOW)).not.toContainAnyKeys(['method', 'path'])
  expect(await chat(SLOW)).toMatchObject({
    ...{ ...SENDER, status: 429, error: 'rate_limit_exceeded', key: 'slow' },
    ...{ limit: 'requests_per_minute', limit_of: 'key:slow' },
  })
  expect(await chat(POOR)).toMatchObject({
    ...{ ...SENDER, status: 429, error: 'insufficient_quota', key: 'poor' },
    ...{ limit: 'spend.day', limit_of: 'key:poor' },
  })
  expect(await chat(STRAINED)).toMatchObject({ limit: 'tokens_per_minute', limit_of: 'organization:busy' })
})

test('turns of a socket have the same lines', async () => {
  const turnOf = async (client: SocketClient) => {
    const [frame] = await client.turn({ type: 'response.create', model: 'm', input: 'canary-content' })
    return gateway.request(Object(frame?.['headers'])['x-request-id'])
  }
  const sender = { ...SENDER, method: 'GET', path: '/v1/responses', transport: 'websocket' }
  await using poor = await SocketClient.open(gateway.port, POOR)
  expect(await turnOf(poor)).toMatchObject({
    ...{ ...sender, status: 429, error: 'insufficient_quota', key: 'poor' },
    ...{ limit: 'spend.day', limit_of: 'key:poor' },
  })
  await using strained = await SocketClient.open(gateway.port, STRAINED)
  expect(await turnOf(strained)).toMatchObject({ ...sender, status: 429, limit: 'tokens_per_minute' })
})

test('no key, and an unknown one, leave the line without a key', async () => {
  const [none, unknown] = [await chat(undefined), await chat('unknown-key-0123456789abcdef')]
  for (const line of [none, unknown]) {
    expect(line).toMatchObject({ ...SENDER, status: 401, error: 'invalid_api_key' })
    expect(line).not.toContainAnyKeys(['key', 'key_state', 'organization'])
  }
})

test('a key that is expired, disabled or revoked is named with its state', async () => {
  expect(await chat(EXPIRED)).toMatchObject({ ...SENDER, status: 401, key: 'old', key_state: 'expired' })
  expect(await chat(DISABLED)).toMatchObject({ ...SENDER, status: 401, key: 'off', key_state: 'disabled' })
  const weir = async (...args: readonly string[]) => {
    const child = Bun.spawn([process.execPath, MAIN, ...args, '--config', gateway.configFile], {
      cwd: gateway.folder,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    return (await child.stdout.text()).trim()
  }
  const token = await weir('keys', 'create', '--org', 'test', '--id', 'made')
  expect(await chat(token)).toMatchObject({ status: 200, key: 'made' })
  await weir('keys', 'revoke', '--id', 'made')
  expect(await chat(token)).toMatchObject({ ...SENDER, status: 401, key: 'made', key_state: 'revoked' })
})

test('a path is without its query, and short', async () => {
  const line = await lineOf(KEY, {}, `/v1/${'x'.repeat(200)}?key=canary-query`)
  expect(line).toMatchObject({ method: 'POST', status: 404, path: `/v1/${'x'.repeat(96)}`, remote: '127.0.0.1' })
})

test('no line has a key, or what was sent', () => {
  expect(gateway.output).not.toContain('canary')
  for (const key of [KEY, SLOW, POOR, EXPIRED, DISABLED, STRAINED]) expect(gateway.output).not.toContain(key)
})
