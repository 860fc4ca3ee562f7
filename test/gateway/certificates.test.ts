/**
 * Providers with TLS whose CA is known: their certificates decide whether a request is sent at all.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import { join } from 'node:path'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { chatBody } from '../support/scenarios.ts'
import { portOf } from '../support/upstream.ts'

const FOLDER = join(import.meta.dir, '../fixtures/tls')
const NAMES = ['good', 'expired', 'wrong-name'] as const

const servers = new Map<string, Server>()
/** Requests that arrived, by the certificate. */
const asked = new Map<string, number>()
let gateway: Gateway

beforeAll(async () => {
  const key = readFileSync(join(FOLDER, 'leaf.key'))
  for (const name of NAMES) {
    const server = createServer({ key, cert: readFileSync(join(FOLDER, `${name}.crt`)) }, (_, response) => {
      asked.set(name, (asked.get(name) ?? 0) + 1)
      response.setHeader('content-type', 'application/json').end(chatBody('Hello'))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    servers.set(name, server)
  }
  const at = (server: Server) => `https://127.0.0.1:${portOf(server)}/v1`
  gateway = await Gateway.start({
    providers: Object.fromEntries([...servers].map(([name, server]) => [name, at(server)])),
    models: {
      ...Object.fromEntries(NAMES.map((name) => [name, [`${name}/m`]])),
      ...Object.fromEntries(NAMES.map((name) => [`${name}-followed`, [`${name}/n`, 'good/n']])),
    },
    env: { NODE_EXTRA_CA_CERTS: join(FOLDER, 'authority.crt') },
  })
})

afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  for (const server of servers.values()) server.close()
})

async function send(model: string) {
  const body = { model, messages: [{ role: 'user', content: 'hi' }] }
  return await ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body }))
}

test('a provider with a valid certificate is asked', async () => {
  expect([(await send('good')).status, asked.get('good')]).toEqual([200, 1])
})

test.each(['expired', 'wrong-name'])(
  '%s: nothing is sent or retried, and the next candidate is called',
  async (name) => {
    const alone = await send(name)
    expect([alone.status, alone.json()]).toMatchObject([502, { error: { code: 'upstream_failed' } }])
    expect(alone.text).not.toMatch(/127\.0\.0\.1|other\.test|certificate/i)
    expect(asked.get(name)).toBeUndefined()
    const line = await gateway.request(alone.header('x-request-id'))
    // One attempt, and no more.
    expect(line).toMatchObject({ attempts: [{ provider: name, error: 'unreachable' }], outcome: 'refused' })
    expect(line).not.toHaveProperty('cost_micro_usd')
    const followed = await send(`${name}-followed`)
    expect([followed.status, followed.header('x-gateway-fallback-count')]).toEqual([200, '1'])
  },
)
