/** Thoughts that callers see and send back, in every dialect, from providers that sign them and from others. */

import { describe, expect, test } from 'bun:test'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import Anthropic from '@anthropic-ai/sdk'
import type { MessageParam } from '@anthropic-ai/sdk/resources/messages'
import { generateText } from 'ai'
import OpenAI from 'openai'
import { type JsonObject, objectOf } from '../../src/core/json.ts'
import { checkSent, checkStream } from '../support/api-schema.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import { json, stream as streams } from '../support/scenarios.ts'
import { served } from '../support/served.ts'
import { SocketClient } from '../support/socket-client.ts'
import {
  ANSWERS,
  CALL,
  CALLED,
  contentOf,
  dataOf,
  listOf,
  outputOf,
  REASONING,
  REDACTED,
  SPOKEN,
  TEXT,
  THOUGHT,
} from '../support/thoughtful-answers.ts'

const PLAIN_KEY = 'plain-key-0123456789abcdefgh'
const OTHER_KEY = 'other-key-0123456789abcdefgh'
const { upstream, gateway } = await served((url) => {
  const at = { base_url: url, api_key: 'secret-of-claude' }
  return {
    providers: {
      up: url,
      claude: { dialect: 'anthropic', ...at },
      second: { dialect: 'anthropic', ...at },
      answers: { dialect: 'openai', api: 'responses', ...at },
    },
    models: {
      deep: ['up/deep'],
      sonnet: ['claude/claude-sonnet-4-5'],
      opus: ['claude/claude-opus-4-7'],
      twin: ['second/claude-sonnet-4-5'],
      gpt: ['answers/gpt-5.1'],
      'gpt-5.1': ['answers/gpt-5.1'],
      pair: { targets: [{ provider: 'claude', model: 'claude-sonnet-4-5' }], fallbacks: ['gpt'] },
    },
    config: {
      compatibility: { mode: 'native' },
      continuity: { keep_seconds: 0 },
      organizations: [
        {
          id: 'test',
          keys: [
            { id: 'program', key: KEY },
            { id: 'plain', key: PLAIN_KEY, compatibility: { mode: 'specification' } },
          ],
        },
        { id: 'other', keys: [{ id: 'other', key: OTHER_KEY }] },
      ],
    },
  }
})

type Path = '/v1/chat/completions' | '/v1/responses' | '/v1/messages'
const BODIES: Readonly<Record<Path, JsonObject>> = {
  '/v1/chat/completions': { messages: [{ role: 'user', content: 'hi' }], reasoning_effort: 'high' },
  '/v1/responses': {
    input: [{ role: 'user', content: 'hi' }],
    reasoning: { effort: 'high', summary: 'auto' },
    include: ['reasoning.encrypted_content'],
    store: false,
    max_output_tokens: 20_000,
  },
  '/v1/messages': {
    max_tokens: 20_000,
    thinking: { type: 'enabled', budget_tokens: 4000 },
    messages: [{ role: 'user', content: 'hi' }],
  },
}
const PATHS = ['/v1/chat/completions', '/v1/responses', '/v1/messages'] as const

interface Sent {
  readonly text: string
  readonly status: number
  readonly log: () => Promise<JsonObject>
  readonly body: JsonObject
}

const SCHEMAS = {
  '/v1/chat/completions': ['ChatAnswer', 'ChatChunk'],
  '/v1/responses': ['Response', 'ResponsesEvent'],
  '/v1/messages': ['Message', 'MessagesEvent'],
} as const

/** With its thoughts it is as `docs/openapi.json` describes it. */
function checkAnswer(path: Path, text: string, isStream: boolean): void {
  const [answer, event] = SCHEMAS[path]
  if (isStream) checkStream(event, text)
  else checkSent(answer, JSON.parse(text))
}

/** Asks, and returns what the caller and the provider got. */
async function sent(
  path: Path,
  model: string,
  more: JsonObject,
  answer: { whole: JsonObject; stream: string[] },
  key = KEY,
): Promise<Sent> {
  const isStream = more['stream'] === true
  upstream.otherwise(isStream ? streams(answer.stream) : json(200, JSON.stringify(answer.whole)))
  const before = upstream.calls.length
  const got = await ask(gateway.port, requestBytes(path, { key, body: { model, ...BODIES[path], ...more } }))
  if (got.status === 200) checkAnswer(path, got.text, isStream)
  const log = () => gateway.request(got.header('x-request-id'))
  return { text: got.text, status: got.status, log, body: upstream.calls[before]?.json ?? {} }
}

describe.each([false, true])('streamed: %p', (stream) => {
  const claude = ANSWERS.anthropic(THOUGHT, TEXT, REDACTED, CALL)
  const gpt = ANSWERS.responses(REASONING, SPOKEN, CALLED)
  const tools = [{ name: 'look', input_schema: { type: 'object' } }]

  test('Messages gets blocks of thinking, and the issuer gets them back byte for byte', async () => {
    const first = await sent('/v1/messages', 'sonnet', { stream, tools }, claude)
    const content = contentOf(first.text, stream)
    expect(structuredClone(content)).toMatchObject([
      { type: 'thinking', thinking: THOUGHT.thinking, signature: expect.stringMatching(/^[\w+/=]{60,}$/) },
      { type: 'text', text: 'I look.' },
      { type: 'redacted_thinking', data: expect.stringMatching(/^[\w+/=]{60,}$/) },
      { type: 'tool_use', name: 'look', input: { at: 'x' } },
    ])
    expect(first.text).not.toContain(THOUGHT.signature)
    expect(first.text).not.toContain(REDACTED.data)
    const history = (blocks: readonly JsonObject[]) => [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: [...blocks] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: CALL.id, content: 'seen' }] },
    ]
    const back = await sent('/v1/messages', 'sonnet', { stream, tools, messages: history(content) }, claude)
    expect(objectOf(listOf(back.body['messages'])[1])?.['content']).toEqual([THOUGHT, TEXT, REDACTED, CALL])
    expect(back.body['thinking']).toEqual({ type: 'enabled', budget_tokens: 4000 })

    // For another issuer, another organisation, and altered, they are left out, and the model does not think.
    const altered = content.map((block) => (block['type'] === 'thinking' ? { ...block, thinking: 'Let me.' } : block))
    const forged = content.map((block) => (block['type'] === 'thinking' ? { ...block, signature: 'Zm9yZ2Vk' } : block))
    const unsigned = content.map((block) => (block['type'] === 'thinking' ? { ...block, signature: 7 } : block))
    for (const [model, blocks, key] of [
      ['twin', content, KEY],
      ['sonnet', content, OTHER_KEY],
      ['sonnet', altered, KEY],
      ['sonnet', forged, KEY],
      ['sonnet', unsigned, KEY],
    ] as const) {
      const other = await sent('/v1/messages', model, { stream, tools, messages: history(blocks) }, claude, key)
      expect(other.status).toBe(200)
      const kept = objectOf(listOf(other.body['messages'])[1])?.['content']
      expect(listOf(kept)[0]?.['type']).toBe('text')
      expect(other.body['thinking']).toEqual({ type: 'disabled' })
      expect((await other.log())['ignored']).toContain('thinking')
    }
  })

  test('Messages gets the thoughts of other APIs, too', async () => {
    const first = await sent('/v1/messages', 'gpt', { stream, tools }, gpt)
    const content = contentOf(first.text, stream)
    expect(structuredClone(content)).toMatchObject([
      { type: 'thinking', thinking: 'First.\n\nSecond.' },
      { type: 'text', text: 'I look.' },
      { type: 'tool_use' },
    ])
    expect(first.body['reasoning']).toEqual({ effort: 'low', summary: 'auto' })
    const messages = [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: CALLED.call_id, content: 'seen' }] },
    ]
    const back = await sent('/v1/messages', 'gpt', { stream, tools, messages }, gpt)
    expect(listOf(back.body['input'])[1]).toEqual(REASONING)
    const chat = await sent('/v1/messages', 'deep', { stream }, ANSWERS.chat('Let me see.', 'Hi.'))
    expect(contentOf(chat.text, stream)).toMatchObject([
      { type: 'thinking', thinking: 'Let me see.', signature: expect.stringMatching(/./) },
      { type: 'text', text: 'Hi.' },
    ])
  })

  test('Messages without thinking sees none', async () => {
    for (const thinking of [null, { type: 'disabled' }]) {
      const { text } = await sent('/v1/messages', 'sonnet', { stream, thinking }, claude)
      expect(contentOf(text, stream).map(({ type }) => type)).toEqual(['text', 'tool_use'])
    }
    const omitted = { type: 'enabled', budget_tokens: 4000, display: 'omitted' }
    const { text } = await sent('/v1/messages', 'sonnet', { stream, thinking: omitted }, claude)
    expect(contentOf(text, stream)[0]).toMatchObject({ type: 'thinking', thinking: '' })
  })

  test('Responses gets items of reasoning, and the issuer gets them back', async () => {
    const asked = { stream, tools: [{ type: 'function', name: 'look', parameters: {} }] }
    for (const [model, answer] of [
      ['gpt', gpt],
      ['sonnet', claude],
    ] as const) {
      const first = await sent('/v1/responses', model, asked, answer)
      const output = outputOf(first.text, stream)
      const types =
        model === 'gpt'
          ? ['reasoning', 'message', 'function_call']
          : ['reasoning', 'message', 'reasoning', 'function_call']
      expect(output.map(({ type }) => type)).toEqual(types)
      const texts = model === 'gpt' ? ['First.', 'Second.'] : [THOUGHT.thinking]
      expect(structuredClone(output[0])).toMatchObject({
        id: expect.stringMatching(/^rs_/),
        summary: texts.map((text) => ({ type: 'summary_text', text })),
        encrypted_content: expect.stringMatching(/^[\w+/=]{60,}$/),
      })
      const callId = output.find(({ type }) => type === 'function_call')?.['call_id'] ?? null
      const input = [
        { role: 'user', content: 'hi' },
        ...output,
        { type: 'function_call_output', call_id: callId, output: 'seen' },
      ]
      const back = await sent('/v1/responses', model, { ...asked, input }, answer)
      if (model === 'gpt') expect(listOf(back.body['input'])[1]).toEqual(REASONING)
      else
        expect(listOf(objectOf(listOf(back.body['messages'])[1])?.['content'])).toEqual([THOUGHT, TEXT, REDACTED, CALL])
      const other = await sent(
        '/v1/responses',
        model === 'gpt' ? 'sonnet' : 'gpt',
        { ...asked, input },
        model === 'gpt' ? claude : gpt,
      )
      expect([
        other.status,
        JSON.stringify(other.body).includes('rs_'),
        JSON.stringify(other.body).includes(THOUGHT.signature),
      ]).toEqual([200, false, false])
    }
  })

  test('Responses shows what it was asked for', async () => {
    const none = { reasoning: { effort: 'high' }, include: null }
    const first = await sent('/v1/responses', 'gpt', { stream, ...none }, gpt)
    expect(outputOf(first.text, stream).map(({ type }) => type)).toEqual(['message', 'function_call'])
    const summary = await sent('/v1/responses', 'gpt', { stream, include: null }, gpt)
    expect(outputOf(summary.text, stream)[0]).toEqual({
      ...REASONING,
      id: expect.any(String),
      encrypted_content: undefined,
    })
    const sealed = await sent('/v1/responses', 'gpt', { stream, reasoning: { effort: 'high' } }, gpt)
    expect(outputOf(sealed.text, stream)[0]).toMatchObject({ summary: [], encrypted_content: expect.any(String) })
    expect((await sealed.log())['ignored']).toBeUndefined()
  })

  test('Chat Completions gets the words', async () => {
    for (const [model, answer, expected] of [
      ['sonnet', claude, THOUGHT.thinking],
      ['gpt', gpt, 'First.\n\nSecond.'],
      ['deep', ANSWERS.chat('Let me see.', 'Hi.'), 'Let me see.'],
    ] as const) {
      const { text } = await sent('/v1/chat/completions', model, { stream }, answer)
      const messages = stream
        ? dataOf(text).flatMap((chunk) => listOf(chunk['choices']).map(({ delta }) => objectOf(delta) ?? {}))
        : [JSON.parse(text).choices[0].message]
      expect(messages.map((message) => message['reasoning_content'] ?? '').join('')).toBe(expected)
    }
  })
})

test('without the switch, a block of thinking is rejected and no thought is shown', async () => {
  const answer = ANSWERS.anthropic(THOUGHT, TEXT)
  const blocks = [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: [THOUGHT, TEXT] },
    { role: 'user', content: 'a' },
  ]
  for (const path of PATHS) {
    const { text, status, body } = await sent(path, 'sonnet', {}, answer, PLAIN_KEY)
    expect([status, text.includes('Let me'), body['thinking']]).toEqual([200, false, undefined])
  }
  expect((await sent('/v1/messages', 'sonnet', { messages: blocks }, answer, PLAIN_KEY)).status).toBe(400)
})

const tools = [{ name: 'look', input_schema: { type: 'object' } }]
const history = (content: readonly JsonObject[]) => [
  { role: 'user', content: 'hi' },
  { role: 'assistant', content: [...content] },
  { role: 'user', content: [{ type: 'tool_result', tool_use_id: CALL.id, content: 'seen' }] },
]

test('two providers in turn under one conversation get what they take', async () => {
  const claude = ANSWERS.anthropic(THOUGHT, TEXT, CALL)
  const gpt = ANSWERS.responses(REASONING, SPOKEN, CALLED)
  const down = { whole: { error: { type: 'overloaded_error', message: 'busy' } }, status: 529 }
  const messages: JsonObject[] = [{ role: 'user', content: 'hi' }]
  const thoughts: string[][] = []
  for (const served of ['claude', 'gpt', 'claude', 'gpt', 'gpt', 'claude']) {
    upstream.otherwise((call) => {
      const isClaude = call.path.includes('/messages')
      const body = isClaude ? (served === 'claude' ? claude.whole : down.whole) : gpt.whole
      return call.answer(isClaude && served === 'gpt' ? down.status : 200, JSON.stringify(body))
    })
    const before = upstream.calls.length
    const body = { model: 'pair', ...BODIES['/v1/messages'], tools, messages }
    const got = await ask(gateway.port, requestBytes('/v1/messages', { key: KEY, body }))
    expect(got.status).toBe(200)
    const last = JSON.stringify(upstream.calls.slice(before).at(-1)?.json)
    thoughts.push([THOUGHT.signature, REASONING.encrypted_content].map((own) => String(last.split(own).length - 1)))
    const content = contentOf(got.text, false)
    const id = content.find(({ type }) => type === 'tool_use')?.['id'] ?? null
    messages.push(
      { role: 'assistant', content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'seen' }] },
    )
  }
  expect(thoughts.map((each) => each.join(' '))).toEqual(['0 0', '0 0', '1 0', '0 1', '0 2', '2 0'])
})

test('after a thought that the caller sees there is no fallback; after one that it does not, there is', async () => {
  const broken = (thought: JsonObject) => ANSWERS.anthropic(thought, TEXT).stream.slice(0, 4)
  const error = `event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n`
  for (const [thinking, served] of [
    [{ type: 'enabled', budget_tokens: 4000 }, undefined],
    [{ type: 'disabled' }, 'gpt'],
  ] as const) {
    upstream.otherwise((call) =>
      streams(call.path.includes('/messages') ? [...broken(THOUGHT), error] : ANSWERS.responses(SPOKEN).stream)(call),
    )
    const body = { model: 'pair', ...BODIES['/v1/messages'], thinking, stream: true }
    const got = await ask(gateway.port, requestBytes('/v1/messages', { key: KEY, body })).catch(() => undefined)
    expect(got?.text.includes('message_stop') === true ? got.header('x-gateway-served-model') : undefined).toBe(served)
  }
})

test('a target that misses thoughts is asked without thinking', async () => {
  const message = 'messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.'
  upstream.otherwise((call) => {
    const isOn = objectOf(call.json?.['thinking'])?.['type'] === 'adaptive'
    const whole = isOn
      ? { type: 'error', error: { type: 'invalid_request_error', message } }
      : ANSWERS.anthropic(TEXT).whole
    return call.answer(isOn ? 400 : 200, JSON.stringify(whole))
  })
  const body = {
    model: 'opus',
    ...BODIES['/v1/messages'],
    thinking: { type: 'adaptive' },
    tools,
    messages: history([CALL]),
  }
  const got = await ask(gateway.port, requestBytes('/v1/messages', { key: KEY, body }))
  expect(got.status).toBe(200)
  expect((await gateway.request(got.header('x-request-id')))['ignored']).toEqual(['thinking'])
})

test('thoughts in a history are counted', async () => {
  upstream.otherwise(json(200, '{"input_tokens":7}'))
  const body = { model: 'sonnet', ...BODIES['/v1/messages'], messages: history([THOUGHT, TEXT, CALL]) }
  const path = '/v1/messages/count_tokens'
  const counted = await ask(gateway.port, requestBytes(path, { key: KEY, body }))
  expect([counted.status, counted.text]).toEqual([200, '{"input_tokens":7}'])
  expect((await ask(gateway.port, requestBytes(path, { key: PLAIN_KEY, body }))).status).toBe(400)
})

test.each([
  ['/v1/chat/completions', { reasoning_effort: 'most' }, 'reasoning_effort'],
  ['/v1/responses', { reasoning: 'high' }, 'reasoning'],
  ['/v1/responses', { reasoning: { effort: 7 } }, 'reasoning.effort'],
  ['/v1/responses', { reasoning: { summary: 'long' } }, 'reasoning.summary'],
  ['/v1/messages', { thinking: true }, 'thinking'],
  ['/v1/messages', { thinking: {} }, 'thinking.type'],
  ['/v1/messages', { thinking: { type: 'on' } }, 'thinking.type'],
  ['/v1/messages', { thinking: { type: 'enabled' } }, 'thinking.budget_tokens'],
  ['/v1/messages', { thinking: { type: 'enabled', budget_tokens: 1023 } }, 'thinking.budget_tokens'],
  ['/v1/messages', { thinking: { type: 'enabled', budget_tokens: 20_000 } }, 'thinking.budget_tokens'],
  ['/v1/messages', { thinking: { type: 'adaptive', display: 'all' } }, 'thinking.display'],
  ['/v1/messages', { output_config: { effort: 'most' } }, 'output_config.effort'],
] as const)('%s rejects %j', async (path, more, param) => {
  const { status, text } = await sent(path, 'sonnet', more, ANSWERS.anthropic(TEXT))
  expect([status, JSON.parse(text).error.param]).toEqual([400, param])
  expect((await sent(path, 'sonnet', more, ANSWERS.anthropic(TEXT), PLAIN_KEY)).status).toBe(200)
})

describe('official SDKs read the thoughts, and send them back', () => {
  const claude = ANSWERS.anthropic(THOUGHT, TEXT, CALL)
  const gpt = ANSWERS.responses(REASONING, SPOKEN, CALLED)
  const body = () => Buffer.from(upstream.calls.at(-1)?.body ?? []).toString()

  test('of Anthropic', async () => {
    const client = new Anthropic({ apiKey: KEY, baseURL: gateway.url, maxRetries: 0 })
    upstream.otherwise(streams(claude.stream))
    const asked = { model: 'sonnet', max_tokens: 9000, thinking: { type: 'enabled', budget_tokens: 2000 } } as const
    const question = { role: 'user', content: 'hi' } as const
    const look = { name: 'look', input_schema: { type: 'object' } } as const
    const first = await client.messages.stream({ ...asked, tools: [look], messages: [question] }).finalMessage()
    expect(first.content[0]).toMatchObject({ type: 'thinking', thinking: THOUGHT.thinking })
    const again = await client.messages.stream({ ...asked, tools: [look], messages: [question] }).finalMessage()
    const result = { type: 'tool_result' as const, tool_use_id: CALL.id, content: 'seen' }
    const messages: MessageParam[] = [
      question,
      { role: 'assistant', content: again.content },
      { role: 'user', content: [result] },
    ]
    await client.messages.stream({ ...asked, tools: [look], messages }).finalMessage()
    expect(body()).toContain(JSON.stringify(THOUGHT))
  })

  test('of OpenAI', async () => {
    const client = new OpenAI({ apiKey: KEY, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
    upstream.otherwise(streams(gpt.stream))
    const asked = { model: 'gpt', reasoning: { effort: 'high', summary: 'auto' }, store: false } as const
    const include = ['reasoning.encrypted_content' as const]
    const first = await client.responses.stream({ ...asked, include, input: 'hi' }).finalResponse()
    const { summary } = REASONING
    expect(first.output[0]).toMatchObject({ type: 'reasoning', summary })
    const again = await client.responses.stream({ ...asked, include, input: 'hi' }).finalResponse()
    const result = { type: 'function_call_output', call_id: CALLED.call_id, output: 'seen' } as const
    const input = [{ role: 'user', content: 'hi' } as const, ...again.output, result]
    await client.responses.create({ ...asked, include, input: JSON.parse(JSON.stringify(input)) })
    expect(body()).toContain(JSON.stringify(REASONING))
  })

  test('of Vercel', async () => {
    upstream.otherwise(json(200, JSON.stringify(claude.whole)))
    const provider = createAnthropic({ apiKey: KEY, baseURL: `${gateway.url}/v1` })
    const options = { anthropic: { thinking: { type: 'enabled', budgetTokens: 2000 } } }
    const read = await generateText({
      model: provider('sonnet'),
      prompt: 'hi',
      providerOptions: options,
      maxRetries: 0,
    })
    expect(read.reasoningText).toBe(THOUGHT.thinking)
    upstream.otherwise(json(200, JSON.stringify(ANSWERS.responses(REASONING, SPOKEN).whole)))
    const openai = createOpenAI({ apiKey: KEY, baseURL: `${gateway.url}/v1` })
    const asked = { openai: { reasoningEffort: 'high', reasoningSummary: 'auto', store: false } }
    const whole = await generateText({ model: openai('gpt-5.1'), prompt: 'hi', providerOptions: asked, maxRetries: 0 })
    expect(whole.reasoning.map((part) => part.type === 'reasoning' && part.text)).toEqual(['First.', 'Second.'])
  })
})

test('a turn on a socket continues with the thoughts of the one before', async () => {
  const socket = await SocketClient.open(gateway.port, KEY)
  await using _ = socket
  upstream.otherwise(streams(ANSWERS.responses(REASONING, SPOKEN, CALLED).stream))
  const turn = async (more: JsonObject) => {
    socket.send({ type: 'response.create', model: 'gpt', ...BODIES['/v1/responses'], ...more })
    const types: unknown[] = []
    for (;;) {
      const event = await socket.next()
      types.push(event['type'])
      if (event['type'] === 'response.completed') return { types, id: objectOf(event['response'])?.['id'] ?? null }
      if (event['type'] === 'error') throw new Error(JSON.stringify(event))
    }
  }
  const first = await turn({})
  expect(first.types).toContain('response.reasoning_summary_text.delta')
  const output = [{ type: 'function_call_output', call_id: CALLED.call_id, output: 'seen' }]
  await turn({ previous_response_id: first.id, input: output })
  expect(listOf(upstream.calls.at(-1)?.json['input'])[1]).toEqual(REASONING)
})
