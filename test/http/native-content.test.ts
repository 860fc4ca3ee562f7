/** `compatibility.content`: documents and images of requests at a running gateway. */

import { expect, test } from 'bun:test'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import { json } from '../support/scenarios.ts'
import { served } from '../support/served.ts'
import { SocketClient } from '../support/socket-client.ts'
import { speaks, textAnswer } from '../support/speech.ts'

const STRICT = 'specification-key-0123456789'
const { upstream, gateway } = await served((url) => ({
  providers: {
    up: url,
    claude: { dialect: 'anthropic', base_url: url, api_key: 'secret-of-claude' },
  },
  models: {
    m: ['up/m'],
    claude: ['claude/claude-sonnet-4-5'],
    old: ['claude/claude-3-haiku'],
    named: { targets: [{ provider: 'claude', model: 'claude-3-haiku' }], supports: ['documents'] },
    mixed: { targets: [{ provider: 'claude', model: 'claude-3-haiku' }], fallbacks: ['old', 'claude'] },
    address: { targets: [{ provider: 'up', model: 'm' }], fallbacks: ['claude'] },
  },
  config: {
    auto: { candidates: ['old', 'claude'] },
    organizations: [
      {
        id: 'test',
        auto: 'available',
        compatibility: { content: 'pass' },
        keys: [
          { id: 'content', key: KEY },
          { id: 'strict', key: STRICT, compatibility: { mode: 'specification' } },
        ],
      },
    ],
  },
}))

const PDF = Buffer.from('%PDF-1.4 /Type /Pages /Count 9').toString('base64')
const BASE64 = { type: 'base64', media_type: 'application/pdf', data: PDF }
const document = (source: JsonObject = BASE64) => ({ type: 'document', source })
const messagesBody = (model: string, ...content: readonly JsonObject[]) => ({
  model,
  max_tokens: 10,
  messages: [{ role: 'user', content }],
})

async function asked(path: string, body: JsonObject, key = KEY) {
  const before = upstream.calls.length
  const { status, text, header } = await ask(gateway.port, requestBytes(path, { key, body }))
  const sent = upstream.calls.slice(before).map((call) => Buffer.from(call.body).toString())
  const answer: unknown = text.startsWith('{') ? JSON.parse(text) : {}
  return {
    status,
    text,
    servedBy: header('x-gateway-served-model'),
    sent,
    error: isObject(answer) && isObject(answer['error']) ? answer['error'] : {},
  }
}

test.each(['/v1/messages', '/anthropic/v1/messages'])('a PDF on %s reaches Claude as it came', async (path) => {
  upstream.otherwise(speaks('anthropic', () => textAnswer('Read.')))
  const { status, sent } = await asked(path, messagesBody('claude', document()))
  expect([status, sent.length]).toEqual([200, 1])
  expect(JSON.parse(sent[0] ?? '')).toMatchObject({ messages: [{ role: 'user', content: [document()] }] })
  const refused = await asked(path, messagesBody('claude', document()), STRICT)
  expect([refused.status, refused.error['message']]).toEqual([400, 'Unsupported Anthropic content block'])
})

test('a target that takes no documents is passed over, unless its entry has the ability', async () => {
  upstream.otherwise(speaks('anthropic', () => textAnswer('Read.')))
  for (const model of ['mixed', 'auto']) {
    const { status, sent, servedBy } = await asked('/v1/messages', messagesBody(model, document()))
    expect([status, sent.length, servedBy]).toEqual([200, 1, 'claude'])
    expect(sent[0]).toContain('"model":"claude-sonnet-4-5"')
  }
  const alone = await asked('/v1/messages', messagesBody('old', document()))
  expect([alone.status, alone.sent.length]).toEqual([400, 0])
  expect(alone.error['message']).toContain('takes no documents')
  const responses = { model: 'old', input: [{ role: 'user', content: [{ type: 'input_file', file_data: PDF }] }] }
  expect((await asked('/v1/responses', responses)).error['code']).toBe('unsupported_documents')
  const plain = document({ type: 'text', media_type: 'text/plain', data: 'Lorem.' })
  expect((await asked('/v1/messages', messagesBody('old', plain))).status).toBe(200)
  expect((await asked('/v1/messages', messagesBody('named', document()))).status).toBe(200)
})

test('an address goes to the target that takes it', async () => {
  upstream.otherwise(speaks('anthropic', () => textAnswer('Read.')))
  const at = document({ type: 'url', url: 'https://example.com/a.pdf' })
  const { status, sent, servedBy } = await asked('/v1/messages', messagesBody('address', at))
  expect([status, sent.length, servedBy]).toEqual([200, 1, 'claude'])
  const alone = await asked('/v1/messages', messagesBody('m', at))
  expect([alone.status, alone.sent.length]).toEqual([400, 0])
  expect(alone.error['message']).toContain('not by address')
})

test('count_tokens sends documents to the counter, and estimates them by their pages', async () => {
  upstream.otherwise(json(200, '{"input_tokens":4321}'))
  const counted = await asked('/v1/messages/count_tokens', messagesBody('claude', document()))
  expect([counted.status, counted.text]).toEqual([200, '{"input_tokens":4321}'])
  expect(counted.sent[0]).toContain(PDF)
  const { text } = await asked('/v1/messages/count_tokens', messagesBody('m', document()))
  const { input_tokens: tokens } = JSON.parse(text)
  expect(tokens).toBeGreaterThan(9 * 2900)
  expect(tokens).toBeLessThan(9 * 3100)
})

const IMAGE = 'data:image/png;base64,iVBORw0KGgo='
const PARTS = [
  { type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` },
  { type: 'input_image', image_url: IMAGE },
]

test('a turn on a socket continues one with documents', async () => {
  upstream.otherwise(speaks('anthropic', () => textAnswer('Read.')))
  await using client = await SocketClient.open(gateway.port, KEY)
  const before = upstream.calls.length
  const turn = (more: JsonObject) => ({ type: 'response.create', model: 'claude', ...more })
  const { response } = (await client.turn(turn({ input: [{ role: 'user', content: PARTS }] }))).at(-1) ?? {}
  const id = isObject(response) ? response['id'] : undefined
  const last = (await client.turn(turn({ input: 'And?', previous_response_id: id ?? null }))).at(-1)
  expect(last?.['type']).toBe('response.completed')
  const [first, second] = upstream.calls.slice(before).map((call) => Buffer.from(call.body).toString())
  for (const body of [first, second]) {
    expect(body).toContain(`"data":"${PDF}"`)
    expect(body).toContain('"data":"iVBORw0KGgo="')
  }
  expect(second).toContain('And?')
})

test('a compaction reads documents, streamed or not', async () => {
  upstream.otherwise(speaks('anthropic', () => textAnswer('Summary.')))
  for (const stream of [true, false]) {
    const input = [{ role: 'user', content: PARTS }, { type: 'compaction_trigger' }]
    const { status, sent, text } = await asked('/v1/responses', { model: 'claude', stream, input })
    expect([status, sent.length]).toEqual([200, 1])
    expect(sent[0]).toContain(PDF)
    expect(text).toContain('compaction')
  }
})

test('explain and the status show the switch', async () => {
  const shown = async (path: string) => await (await fetch(`${gateway.adminUrl}${path}`)).json()
  const explained = await shown('/api/explain?key=content&model=m')
  expect(explained).toMatchObject({ compatibility: { content: 'pass', status: 'completed' } })
  expect(await shown('/api/status')).toMatchObject({ compatibility: { content: 'off' } })
})
