/**
 * Claude on Bedrock in native mode: by InvokeModel for callers of Messages, so that what they send and get passes as at
 * Anthropic, and by Converse for all others. Thoughts go there and back by both.
 */

import { describe, expect, test } from 'bun:test'
import { isObject, type JsonObject, objectOf } from '../../../src/core/json.ts'
import { frame, invoked } from '../../providers/bedrock/writer.ts'
import { ask, requestBytes } from '../../support/caller.ts'
import { KEY } from '../../support/gateway.ts'
import { stream as streams } from '../../support/scenarios.ts'
import { served } from '../../support/served.ts'
import {
  ANSWERS,
  CALL,
  contentOf,
  converseBlock,
  dataOf,
  listOf,
  outputOf,
  REDACTED,
  TEXT,
  THOUGHT,
} from '../../support/thoughtful-answers.ts'
import type { Call, Scenario } from '../../support/upstream.ts'

const CONVERSE_KEY = 'converse-key-0123456789abcdef'
const PLAIN_KEY = 'plain-key-0123456789abcdefgh'
const MODEL = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
const PATH = `/v1/model/${encodeURIComponent(MODEL)}`

const { upstream, gateway } = await served((url) => {
  const at = { dialect: 'bedrock', region: 'us-east-1', base_url: url }
  return {
    providers: {
      up: url,
      aws: { ...at, access_key_id: 'AKIDEXAMPLE', secret_access_key: 'secret-of-aws-0123456789' },
      keyed: { ...at, api_key: 'secret-of-bedrock' },
    },
    models: {
      m: ['up/m'],
      claude: {
        targets: [{ provider: 'aws', model: MODEL }],
        price: { input: 3, output: 15, cached_input: 0.3, cache_write: 3.75 },
        prompt_cache: { explicit: true, ttls: ['5m', '1h'] },
      },
      twin: [`keyed/${MODEL}`],
      opus: ['keyed/anthropic.claude-opus-4-7'],
      nova: ['keyed/us.amazon.nova-2-lite-v1:0'],
      pair: { targets: [{ provider: 'keyed', model: MODEL }], fallbacks: ['m'] },
    },
    config: {
      compatibility: { mode: 'native' },
      continuity: { keep_seconds: 0 },
      organizations: [
        {
          id: 'test',
          keys: [
            { id: 'native', key: KEY },
            { id: 'converse', key: CONVERSE_KEY, compatibility: { betas: 'off', tools: 'functions' } },
            { id: 'plain', key: PLAIN_KEY, compatibility: { mode: 'specification' } },
          ],
        },
      ],
    },
  }
})

const STREAM_TYPE = { 'content-type': 'application/vnd.amazon.eventstream' }
const MESSAGES = [{ role: 'user', content: 'hi' }]
const TOOLS = [{ name: 'look', input_schema: { type: 'object' } }]
const THINKING = { type: 'enabled', budget_tokens: 4000 }

const binary = (frames: readonly Uint8Array[]): Scenario => streams(frames, STREAM_TYPE)

type Answer = { readonly whole: JsonObject; readonly stream: readonly Uint8Array[] }

/** An answer of Anthropic's by InvokeModel. */
function claudes(...content: readonly JsonObject[]): Answer {
  const { whole, stream } = ANSWERS.anthropic(...content)
  return { whole, stream: invoked(stream) }
}

/** Answers in the API that is asked, which the address names. */
function speaks(content: readonly JsonObject[]): Scenario {
  return (call) => {
    const isConverse = call.path.includes('/converse')
    const { whole, stream } = isConverse ? ANSWERS.converse(...content) : claudes(...content)
    return call.path.endsWith('-stream') ? binary(stream)(call) : call.answer(200, JSON.stringify(whole))
  }
}

interface Asked {
  readonly key?: string
  readonly fields?: Readonly<Record<string, string>>
  readonly path?: string
}

async function sent(body: JsonObject, scenario: Scenario, { key = KEY, fields, path = '/v1/messages' }: Asked = {}) {
  upstream.otherwise(scenario)
  const before = upstream.calls.length
  const limit = path === '/v1/messages' ? { max_tokens: 20_000 } : {}
  const answer = await ask(
    gateway.port,
    requestBytes(path, { key, fields: { ...fields }, body: { ...limit, ...body } }),
  )
  const calls = upstream.calls.slice(before)
  const call: Call | undefined = calls[0]
  return { ...answer, calls, call, log: () => gateway.request(answer.header('x-request-id') ?? '') }
}

describe.each([false, true])('by InvokeModel, streamed: %p', (stream) => {
  test('fields, betas and tools pass in the body, and the request is signed', async () => {
    const own = { context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] }, top_k: 5 }
    const fields = { 'anthropic-beta': 'context-management-2025-06-27,b-2', 'anthropic-version': '2023-06-01' }
    const body = { model: 'claude', stream, messages: MESSAGES, thinking: THINKING, tools: TOOLS, ...own }
    const { call, status } = await sent(body, speaks([TEXT]), { fields })
    expect(status).toBe(200)
    expect(call?.path).toBe(`${PATH}/${stream ? 'invoke-with-response-stream' : 'invoke'}`)
    expect(call?.header('authorization')).toStartWith('AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/')
    expect(call?.header('anthropic-beta')).toBeUndefined()
    expect(call?.json).toEqual({
      anthropic_version: 'bedrock-2023-05-31',
      max_tokens: 20_000,
      tools: TOOLS,
      messages: MESSAGES,
      thinking: THINKING,
      anthropic_beta: ['context-management-2025-06-27', 'b-2'],
      ...own,
    })
  })

  test('blocks that only Anthropic has pass, with its usage', async () => {
    const found = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } }
    const cited = { type: 'text', text: 'I look.', citations: [{ type: 'char_location', cited_text: 'y' }] }
    const whole = claudes(TEXT).whole
    const scenario: Scenario = (call) => {
      if (!stream) return call.answer(200, JSON.stringify({ ...whole, content: [found, cited] }))
      const [start = '', ...rest] = ANSWERS.anthropic(TEXT).stream
      const event = (type: string, more: JsonObject) => `data: ${JSON.stringify({ type, ...more })}`
      const others = [
        event('content_block_start', { index: 0, content_block: found }),
        event('content_block_stop', { index: 0 }),
      ]
      const moved = rest.map((text) => text.replace('"index":0', '"index":1'))
      return binary(invoked([start, ...others, ...moved]))(call)
    }
    const { text } = await sent({ model: 'claude', stream, messages: MESSAGES }, scenario)
    expect(contentOf(text, stream)).toMatchObject([found, stream ? TEXT : cited])
  })

  test('thoughts are sealed for the caller, and come back to this entry byte for byte', async () => {
    const body = { stream, thinking: THINKING, tools: TOOLS, messages: MESSAGES }
    const first = await sent({ model: 'claude', ...body }, speaks([THOUGHT, REDACTED, TEXT, CALL]))
    const content = contentOf(first.text, stream)
    expect(first.text).not.toContain(THOUGHT.signature)
    expect(first.text).not.toContain(REDACTED.data)
    const result = { type: 'tool_result', tool_use_id: CALL.id, content: 'seen' }
    const messages = [...MESSAGES, { role: 'assistant', content }, { role: 'user', content: [result] }]
    const back = await sent({ model: 'claude', ...body, messages }, speaks([TEXT]))
    expect(objectOf(listOf(back.call?.json['messages'])[1])?.['content']).toEqual([THOUGHT, REDACTED, TEXT, CALL])
    // Another entry is another issuer, and the model cannot think without the thoughts before its calls.
    const twin = await sent({ model: 'twin', ...body, messages }, speaks([TEXT]))
    expect(objectOf(listOf(twin.call?.json['messages'])[1])?.['content']).toEqual([TEXT, CALL])
    expect(twin.call?.json['thinking']).toEqual({ type: 'disabled' })
  })

  test('costs what Bedrock reports, cached tokens included', async () => {
    const usage = {
      input_tokens: 10,
      cache_read_input_tokens: 100,
      cache_creation_input_tokens: 1000,
      output_tokens: 9,
    }
    const { whole, stream: events } = ANSWERS.anthropic(TEXT)
    const reported = events.map((event) =>
      event.replace(/"usage":\{"input_tokens":3[^}]*\}/, `"usage":${JSON.stringify(usage)}`),
    )
    const { log, text } = await sent({ model: 'claude', stream, messages: MESSAGES }, (call) =>
      stream ? binary(invoked(reported))(call) : call.answer(200, JSON.stringify({ ...whole, usage })),
    )
    expect(text).toContain('"cache_read_input_tokens":100')
    expect(await log()).toMatchObject({
      ...{ input_tokens: 1110, cached_input_tokens: 100, output_tokens: 9 },
      cost_micro_usd: 10 * 3 + 100 * 0.3 + 1000 * 3.75 + 9 * 15,
    })
  })

  test('a mark for all of a request is placed, because Bedrock rejects the field', async () => {
    const mark = { type: 'ephemeral', ttl: '1h' }
    const { call } = await sent({ model: 'claude', stream, messages: MESSAGES, cache_control: mark }, speaks([TEXT]))
    expect(call?.json['cache_control']).toBeUndefined()
    expect(call?.json['messages']).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'hi', cache_control: mark }] },
    ])
  })
})

describe('who is asked how', () => {
  const chat = { model: 'claude', messages: MESSAGES }
  test.each([
    ['Messages of a key without betas and tools', { ...chat }, { key: CONVERSE_KEY }, 'converse'],
    ['Messages by the specification', { ...chat }, { key: PLAIN_KEY }, 'converse'],
    ['Chat', { ...chat }, { path: '/v1/chat/completions' }, 'converse'],
    ['Responses', { model: 'claude', input: 'hi' }, { path: '/v1/responses' }, 'converse'],
    ['Messages, of a model that is no Claude', { ...chat, model: 'nova' }, {}, 'converse'],
    ['Messages', { ...chat }, {}, 'invoke'],
  ])('%s', async (_, body, asked, method) => {
    const { call, status } = await sent(body, speaks([TEXT]), asked)
    expect([status, call?.path.split('/').at(-1)]).toEqual([200, method])
  })

  test('what only Anthropic takes is named in the log if the model is no Claude', async () => {
    const { log, call } = await sent({ model: 'nova', messages: MESSAGES, top_k: 5 }, speaks([TEXT]))
    expect([call?.json['top_k'], (await log())['ignored']]).toEqual([undefined, ['top_k']])
  })

  test('an image by its address is a 400, as by Converse', async () => {
    const image = { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }
    const { status, calls } = await sent(
      { model: 'claude', messages: [{ role: 'user', content: [image] }] },
      speaks([TEXT]),
    )
    expect([status, calls.length]).toEqual([400, 0])
  })
})

describe('errors of a stream', () => {
  const body = { model: 'pair', stream: true, messages: MESSAGES }
  const events = ANSWERS.anthropic(TEXT).stream

  test('an exception before content is a fallback', async () => {
    const { status, text, calls } = await sent(body, (call) =>
      call.path.includes('/invoke')
        ? binary([frame('throttlingException', { message: 'slow down' }, 'exception')])(call)
        : call.answer(
            200,
            JSON.stringify({ choices: [{ index: 0, message: { content: 'x' }, finish_reason: 'stop' }] }),
          ),
    )
    expect([status, calls.length]).toEqual([200, 2])
    expect(text).toContain('message_stop')
  })

  test.each([
    ['an exception after content', frame('modelStreamErrorException', { message: 'broke' }, 'exception')],
    ['the end without a final marker', undefined],
    ['a message without bytes', frame('chunk', { p: 'x' })],
    ['bytes that are no event', frame('chunk', { bytes: Buffer.from('{"type"').toString('base64') })],
  ])('%s cuts the stream', async (_, last) => {
    const begun = invoked(events.slice(0, 3))
    const { text, log } = await sent(body, binary(last === undefined ? begun : [...begun, last]))
    expect(text).toContain('I look.')
    expect(text).not.toContain('message_stop')
    expect((await log())['outcome']).toBe('provider_cut')
  })
})

describe.each([false, true])('by Converse, streamed: %p', (stream) => {
  const content = [THOUGHT, REDACTED, CALL]
  const sentBack = content.map(converseBlock)
  const assistant = (call: Call | undefined) => objectOf(listOf(call?.json['messages'])[1])?.['content']

  test('thoughts reach callers of Messages, and go back byte for byte', async () => {
    const body = { model: 'claude', stream, thinking: THINKING, tools: TOOLS }
    const key = CONVERSE_KEY
    const first = await sent({ ...body, messages: MESSAGES }, speaks(content), { key })
    const blocks = contentOf(first.text, stream)
    expect(blocks.map(({ type }) => type)).toEqual(['thinking', 'redacted_thinking', 'tool_use'])
    expect([blocks[0]?.['thinking'], first.text.includes(THOUGHT.signature)]).toEqual([THOUGHT.thinking, false])
    const result = { type: 'tool_result', tool_use_id: CALL.id, content: 'seen' }
    const messages = [...MESSAGES, { role: 'assistant', content: blocks }, { role: 'user', content: [result] }]
    const back = await sent({ ...body, messages }, speaks([TEXT]), { key })
    expect(assistant(back.call)).toEqual(sentBack)
    expect(back.call?.json['additionalModelRequestFields']).toEqual({ thinking: THINKING })
  })

  test('thoughts reach callers of Responses, and go back byte for byte', async () => {
    const body = {
      ...{ model: 'claude', stream, store: false, reasoning: { effort: 'high', summary: 'auto' } },
      ...{ include: ['reasoning.encrypted_content'], max_output_tokens: 20_000 },
      tools: [{ type: 'function', name: 'look', parameters: { type: 'object' } }],
    }
    const question = { role: 'user', content: 'hi' }
    const asked = { path: '/v1/responses' }
    const first = await sent({ ...body, input: [question] }, speaks(content), asked)
    const items = outputOf(first.text, stream)
    expect(items.map(({ type }) => type)).toEqual(['reasoning', 'reasoning', 'function_call'])
    expect(listOf(items[0]?.['summary']).map(({ text }) => text)).toEqual([THOUGHT.thinking])
    const result = { type: 'function_call_output', call_id: items[2]?.['call_id'] ?? null, output: 'seen' }
    const back = await sent({ ...body, input: [question, ...items, result] }, speaks([TEXT]), asked)
    expect(assistant(back.call)).toEqual(sentBack)
  })

  test('thoughts reach callers of Chat as text, which cannot go back without its signature', async () => {
    const body = { model: 'claude', stream, reasoning_effort: 'high', max_tokens: 20_000 }
    const asked = { path: '/v1/chat/completions' }
    const first = await sent({ ...body, messages: MESSAGES }, speaks([THOUGHT, TEXT]), asked)
    const words = stream
      ? dataOf(first.text)
          .map(({ choices }) => objectOf(objectOf(listOf(choices)[0])?.['delta'])?.['reasoning_content'] ?? '')
          .join('')
      : objectOf(listOf(JSON.parse(first.text).choices)[0]?.['message'])?.['reasoning_content']
    expect(words).toBe(THOUGHT.thinking)
    const spoken = { role: 'assistant', content: TEXT.text, reasoning_content: THOUGHT.thinking }
    const messages = [...MESSAGES, spoken, { role: 'user', content: 'and?' }]
    const back = await sent({ ...body, messages }, speaks([TEXT]), asked)
    expect([back.status, assistant(back.call)]).toEqual([200, [{ text: TEXT.text }]])
  })
})

describe('what a target rejects about thinking is learned', () => {
  /** Rejects once each form that the model does not take, in Bedrock's words. */
  const strict =
    (takes: (json: JsonObject) => string | undefined): Scenario =>
    (call) => {
      const problem = takes(call.json)
      if (problem === undefined) return speaks([TEXT])(call)
      const message = `The model returned the following errors: ${problem}`
      return call.answer(400, JSON.stringify({ message }), { 'x-amzn-errortype': 'ValidationException' })
    }
  const adaptiveOnly = (json: JsonObject) => {
    const fields = objectOf(json['additionalModelRequestFields']) ?? json
    const thinking = objectOf(fields['thinking'])
    return thinking?.['type'] === 'enabled'
      ? '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" instead.'
      : undefined
  }

  test.each([
    ['InvokeModel', KEY, 'twin'],
    ['Converse', CONVERSE_KEY, 'claude'],
  ])('by %s', async (_, key, model) => {
    const body = { model, messages: MESSAGES, thinking: THINKING }
    const first = await sent(body, strict(adaptiveOnly), { key })
    expect([first.status, first.calls.length]).toEqual([200, 2])
    const again = await sent(body, strict(adaptiveOnly), { key })
    expect([again.status, again.calls.length]).toEqual([200, 1])
    const json = again.call?.json ?? {}
    const fields = isObject(json['additionalModelRequestFields']) ? json['additionalModelRequestFields'] : json
    expect(objectOf(fields['thinking'])?.['type']).toBe('adaptive')
  })

  test('a word for the effort that Nova does not take is lowered', async () => {
    const body = { model: 'nova', messages: MESSAGES, reasoning_effort: 'high' }
    const path = '/v1/chat/completions'
    const effortOf = (json: JsonObject) =>
      objectOf(objectOf(json['additionalModelRequestFields'])?.['reasoningConfig'])?.['maxReasoningEffort']
    const noHigh = strict((json) =>
      effortOf(json) === 'high' ? "reasoningConfig.maxReasoningEffort must be one of 'low', 'medium'" : undefined,
    )
    const first = await sent(body, noHigh, { path })
    expect([first.status, first.calls.map(({ json }) => effortOf(json))]).toEqual([200, ['high', 'medium']])
    const again = await sent(body, noHigh, { path })
    expect(again.calls.map(({ json }) => effortOf(json))).toEqual(['medium'])
  })
})
