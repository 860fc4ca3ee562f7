/**
 * Compaction against the real program: a conversation is sealed into one item and continues from it on any model, but
 * only within its organisation.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { checkResponsesStream } from '../laws/responses-grammar.ts'
import { checkCompletedResponse } from '../laws/responses-schema.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import { thrownBy } from '../support/thrown.ts'
import { Upstream } from '../support/upstream.ts'

const SUMMARY = 'The user lives in Oslo 👩‍👩‍👧; the file is "a\\b.txt".'
const OTHER_KEY = 'other-key-0123456789abcdef'
const OLD = Buffer.alloc(32, 1).toString('base64')
const NEW = Buffer.alloc(32, 2).toString('base64')
const organizations = [
  {
    id: 'test',
    keys: [
      { id: 'one', key: KEY },
      { id: 'two', key: 'second-key-0123456789abcdef' },
    ],
  },
  { id: 'other', keys: [{ id: 'other', key: OTHER_KEY }] },
]

let chat: Upstream
let claude: Upstream
/** One seals with OLD; one seals with NEW and still opens OLD; one knows neither; one made its own key. */
let old: Gateway
let rotated: Gateway
let strange: Gateway
let own: Gateway

const start = (compaction?: { readonly keys: readonly string[] }) =>
  Gateway.start({
    validated: true,
    providers: {
      chat: chat.url,
      claude: { dialect: 'anthropic', base_url: `http://127.0.0.1:${claude.port}`, api_key: 'provider-key' },
    },
    models: { small: ['chat/small'], large: ['claude/large'] },
    config: { organizations, ...(compaction && { compaction }) },
  })

beforeAll(async () => {
  chat = await Upstream.start()
  claude = await Upstream.start()
  chat.otherwise(speaks('openai', () => textAnswer(SUMMARY)))
  claude.otherwise(speaks('anthropic', () => textAnswer('I know.')))
  ;[old, rotated, strange, own] = await Promise.all([
    start({ keys: [OLD] }),
    start({ keys: [NEW, OLD] }),
    start({ keys: [Buffer.alloc(32, 3).toString('base64')] }),
    start(),
  ])
})

afterAll(async () => {
  for (const each of [old, rotated, strange, own, chat, claude]) await each[Symbol.asyncDispose]()
})

type Item = OpenAI.Responses.ResponseInputItem
const connect = (gateway: Gateway, apiKey = KEY) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 })

const HISTORY: Item[] = [
  { role: 'user', content: 'I live in Oslo.' },
  { type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{"city":"Oslo"}' },
  { type: 'function_call_output', call_id: 'call_1', output: '7 degrees' },
]
const tools: OpenAI.Responses.FunctionTool[] = [
  { type: 'function', name: 'get_weather', parameters: { type: 'object', properties: {} }, strict: false },
]

/** The item into which a gateway seals the history, by each way. */
async function compacted(gateway: Gateway, way: 'whole' | 'streamed' | 'compact'): Promise<Item> {
  const client = connect(gateway)
  const body = { model: 'small', input: [...HISTORY, { type: 'compaction_trigger' as const }], tools }
  const response =
    way === 'whole'
      ? await client.responses.create(body)
      : way === 'streamed'
        ? await client.responses.stream({ ...body, stream: true }).finalResponse()
        : await client.responses.compact({ model: 'small', input: HISTORY })
  expect<string>(response.object).toBe(way === 'compact' ? 'response.compaction' : 'response')
  const items = response.output
  const [item] = items
  if (items.length !== 1 || item?.type !== 'compaction') throw new Error(`not one item: ${JSON.stringify(items)}`)
  return item
}

const goOn = (gateway: Gateway, item: Item, model: string, apiKey?: string) =>
  connect(gateway, apiKey).responses.create({
    model,
    instructions: 'You are terse.',
    input: [{ role: 'user', content: 'And where do I live?' }, item],
  })

describe.each(['whole', 'streamed', 'compact'] as const)('%s', (way) => {
  test('one item, whose summary opens the conversation on a model of another provider', async () => {
    const item = await compacted(old, way)
    expect(JSON.stringify(item)).not.toContain('Oslo')
    const asked = chat.calls.at(-1)?.json ?? {}
    expect(asked['tools']).toBeUndefined()
    expect(asked['messages']).toMatchObject([
      { role: 'user', content: 'I live in Oslo.' },
      { role: 'assistant' },
      { role: 'tool', content: '7 degrees' },
      { role: 'user', content: expect.stringContaining('summary of this conversation') },
    ])
    for (const [model, provider] of [
      ['large', claude],
      ['small', chat],
    ] as const) {
      const answer = await goOn(old, item, model, 'second-key-0123456789abcdef')
      expect(answer).toMatchObject({ model, status: 'completed' })
      const sent = JSON.stringify(provider.calls.at(-1)?.json['messages'])
      expect(sent).toContain(JSON.stringify(SUMMARY).slice(1, -1))
      expect(sent.indexOf('conversation_summary')).toBeLessThan(sent.indexOf('And where do I live?'))
    }
  })
})

test('its stream obeys the grammar, its body the schema', async () => {
  const body = { model: 'small', input: [...HISTORY, { type: 'compaction_trigger' }] }
  const ask = (stream: boolean) =>
    fetch(`${old.url}/v1/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}` },
      body: JSON.stringify({ ...body, stream }),
    })
  checkCompletedResponse(await (await ask(false)).json())
  const text = await (await ask(true)).text()
  checkResponsesStream(text)
  expect(text.match(/^event: .*$/gm)).toEqual([
    'event: response.created',
    'event: response.in_progress',
    'event: response.output_item.added',
    'event: response.output_item.done',
    'event: response.completed',
  ])
})

test('keys rotate: an item of the old key still opens; an item of the new key does not open with the old', async () => {
  const before = await compacted(old, 'whole')
  expect((await goOn(rotated, before, 'large')).output_text).toBe('I know.')
  const after = await compacted(rotated, 'whole')
  expect((await goOn(rotated, after, 'large')).output_text).toBe('I know.')
  expect(await thrownBy(goOn(old, after, 'large'))).toBeInstanceOf(OpenAI.BadRequestError)
})

test('a gateway without a configured key makes one and keeps it', async () => {
  expect((await goOn(own, await compacted(own, 'streamed'), 'large')).output_text).toBe('I know.')
})

test('tampered with, truncated, foreign, with an unknown key: all the same error', async () => {
  const item = await compacted(old, 'whole')
  if (item.type !== 'compaction') throw new Error('no item')
  const content = item.encrypted_content
  const other = (text: string) => (text === 'A' ? 'B' : 'A')
  const flipped = [0, 5, 12, 30, content.length >> 1, content.length - 2].map(
    (at) => `${content.slice(0, at)}${other(content[at] ?? '')}${content.slice(at + 1)}`,
  )
  const truncated = [content.slice(0, -1), content.slice(0, 40), 'gw1.', '']
  const tries = [
    ...[...flipped, ...truncated, `${content}A`, ` ${content}`].map((text) =>
      goOn(old, { ...item, encrypted_content: text }, 'large'),
    ),
    goOn(old, item, 'large', OTHER_KEY),
    goOn(strange, item, 'large'),
  ]
  const errors = await Promise.all(tries.map(thrownBy))
  const texts = errors.map((error) => {
    expect(error).toBeInstanceOf(OpenAI.BadRequestError)
    return error instanceof OpenAI.APIError ? JSON.stringify(error.error) : ''
  })
  expect(new Set(texts).size).toBe(1)
  expect(JSON.parse(texts[0] ?? '')).toMatchObject({
    type: 'invalid_request_error',
    param: 'input[1].encrypted_content',
  })
})
