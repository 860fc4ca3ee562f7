/** Thoughts that callers see and send back, in every dialect, from providers that sign them and from others. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { isArray, isObject, type JsonObject, objectOf } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { json, stream as streams } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

const PLAIN_KEY = 'plain-key-0123456789abcdefgh'
const OTHER_KEY = 'other-key-0123456789abcdefgh'
let upstream: Upstream
let gateway: Gateway

beforeAll(async () => {
  upstream = await Upstream.start()
  const at = { base_url: upstream.url, api_key: 'secret-of-claude' }
  gateway = await Gateway.start({
    providers: {
      up: upstream.url,
      claude: { dialect: 'anthropic', ...at },
      second: { dialect: 'anthropic', ...at },
      answers: { dialect: 'openai', api: 'responses', ...at },
      aws: { dialect: 'bedrock', region: 'us-east-1', ...at },
    },
    models: {
      deep: ['up/deep'],
      sonnet: ['claude/claude-sonnet-4-5'],
      opus: ['claude/claude-opus-4-7'],
      twin: ['second/claude-sonnet-4-5'],
      gpt: ['answers/gpt-5.1'],
      bedrock: ['aws/us.anthropic.claude-sonnet-4-5-v1:0'],
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
  })
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

/** One answer of each provider: a thought, a text and a call, whole and as a stream. */
const THOUGHT = { type: 'thinking', thinking: 'Let "me" see.', signature: 'c2lnbmVk' }
const REDACTED = { type: 'redacted_thinking', data: 'cmVkYWN0ZWQ=' }
const TEXT = { type: 'text', text: 'I look.' }
const CALL = { type: 'tool_use', id: 'toolu_0123456789abcdefgh', name: 'look', input: { at: 'x' } }
const REASONING = {
  type: 'reasoning',
  id: 'rs_1',
  summary: [
    { type: 'summary_text', text: 'First.' },
    { type: 'summary_text', text: 'Second.' },
  ],
  encrypted_content: 'ZW5jcnlwdGVk',
}
const CALLED = {
  type: 'function_call',
  id: 'fc_1',
  call_id: 'call_0123456789abcdefgh',
  name: 'look',
  arguments: '{"at":"x"}',
}
const SPOKEN = {
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  content: [{ type: 'output_text', text: 'I look.', annotations: [] }],
}

const sse = (events: readonly JsonObject[]) =>
  events.map((event) => `event: ${event['type']}\ndata: ${JSON.stringify(event)}\n\n`)

const ANSWERS = {
  anthropic(...content: readonly JsonObject[]) {
    const message = {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'c',
      usage: { input_tokens: 3, output_tokens: 9 },
    }
    const blocks = content.flatMap((block, index): JsonObject[] => {
      const delta = (more: JsonObject) => ({ type: 'content_block_delta', index, delta: more })
      const start = (more: JsonObject) => ({ type: 'content_block_start', index, content_block: more })
      const { type, thinking = '', signature = '', text = '', input = {} } = block
      const stop = { type: 'content_block_stop', index }
      if (type === 'thinking')
        return [
          start({ type, thinking: '', signature: '' }),
          ...String(thinking)
            .split(' ')
            .map((word, at) => delta({ type: 'thinking_delta', thinking: at > 0 ? ` ${word}` : word })),
          delta({ type: 'signature_delta', signature }),
          stop,
        ]
      if (type === 'text') return [start({ type, text: '' }), delta({ type: 'text_delta', text }), stop]
      if (type === 'redacted_thinking') return [start(block), stop]
      return [
        start({ ...block, input: {} }),
        delta({ type: 'input_json_delta', partial_json: JSON.stringify(input) }),
        stop,
      ]
    })
    const stop = {
      stop_reason: content.some(({ type }) => type === 'tool_use') ? 'tool_use' : 'end_turn',
      stop_sequence: null,
    }
    const events = [
      { type: 'message_start', message: { ...message, content: [], stop_reason: null, stop_sequence: null } },
      ...blocks,
      { type: 'message_delta', delta: stop, usage: { output_tokens: 9 } },
      { type: 'message_stop' },
    ]
    return { whole: { ...message, content: [...content], ...stop }, stream: sse(events) }
  },
  responses(...output: readonly JsonObject[]) {
    const response = {
      id: 'resp_1',
      object: 'response',
      status: 'completed',
      output: [...output],
      usage: { input_tokens: 3, output_tokens: 9 },
    }
    const events = output.flatMap((item, output_index): JsonObject[] => {
      const parts = isArray(item['summary']) ? item['summary'].filter(isObject) : []
      const deltas = parts.flatMap(({ text }, summary_index): JsonObject[] => [
        {
          type: 'response.reasoning_summary_part.added',
          output_index,
          summary_index,
          part: { type: 'summary_text', text: '' },
        },
        { type: 'response.reasoning_summary_text.delta', output_index, summary_index, delta: text ?? '' },
      ])
      const begun =
        item['type'] === 'function_call' ? { ...item, arguments: '' } : { ...item, content: [], summary: [] }
      return [
        { type: 'response.output_item.added', output_index, item: begun },
        ...deltas,
        { type: 'response.output_item.done', output_index, item },
      ]
    })
    const all = [{ type: 'response.created', response }, ...events, { type: 'response.completed', response }]
    return { whole: response, stream: sse(all) }
  },
  chat(reasoning: string, text: string) {
    const delta = (more: JsonObject, finish_reason: string | null = null) =>
      `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: more, finish_reason }] })}\n\n`
    const message = { role: 'assistant', content: text, reasoning_content: reasoning }
    return {
      whole: { id: 'c', object: 'chat.completion', choices: [{ index: 0, message, finish_reason: 'stop' }] },
      stream: [
        ...reasoning.split(' ').map((word, at) => delta({ reasoning_content: at > 0 ? ` ${word}` : word })),
        delta({ content: text }),
        delta({}, 'stop'),
        'data: [DONE]\n\n',
      ],
    }
  },
}

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
  const log = () => gateway.request(got.header('x-request-id'))
  return { text: got.text, status: got.status, log, body: upstream.calls[before]?.json ?? {} }
}

const dataOf = (text: string): JsonObject[] =>
  text.split('\n').flatMap((line) => {
    const value: unknown = line.startsWith('data: {') ? JSON.parse(line.slice(6)) : undefined
    return isObject(value) ? [value] : []
  })

/** The blocks of an answer of Messages, from its stream as SDKs put it together. */
function contentOf(text: string, isStream: boolean): JsonObject[] {
  if (!isStream) return listOf(JSON.parse(text)['content'])
  const blocks: JsonObject[] = []
  for (const event of dataOf(text)) {
    const index = Number(event['index'])
    const delta = objectOf(event['delta']) ?? {}
    const block = blocks[index] ?? {}
    if (event['type'] === 'content_block_start') blocks[index] = { ...objectOf(event['content_block']) }
    if (delta['type'] === 'thinking_delta')
      blocks[index] = { ...block, thinking: `${block['thinking']}${delta['thinking']}` }
    if (delta['type'] === 'signature_delta')
      blocks[index] = { ...block, signature: `${block['signature']}${delta['signature']}` }
    if (delta['type'] === 'text_delta') blocks[index] = { ...block, text: `${block['text']}${delta['text']}` }
    if (delta['type'] === 'input_json_delta')
      blocks[index] = { ...block, input: JSON.parse(String(delta['partial_json'])) }
  }
  return blocks
}

/** The items of an answer of Responses; of a stream, those that were done must be those at the end. */
function outputOf(text: string, isStream: boolean): JsonObject[] {
  if (!isStream) return listOf(JSON.parse(text)['output'])
  const events = dataOf(text)
  const done = events.flatMap((event) =>
    event['type'] === 'response.output_item.done' ? [objectOf(event['item']) ?? {}] : [],
  )
  const last = listOf(objectOf(events.at(-1)?.['response'])?.['output'])
  expect(done).toEqual(last)
  expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, at) => at))
  return last
}

function listOf(value: unknown): JsonObject[] {
  return isArray(value) ? value.filter(isObject) : []
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
    expect([status, text.includes('Let'), body['thinking']]).toEqual([200, false, undefined])
  }
  expect((await sent('/v1/messages', 'sonnet', { messages: blocks }, answer, PLAIN_KEY)).status).toBe(400)
})

const tools = [{ name: 'look', input_schema: { type: 'object' } }]
const history = (content: readonly JsonObject[]) => [
  { role: 'user', content: 'hi' },
  { role: 'assistant', content: [...content] },
  { role: 'user', content: [{ type: 'tool_result', tool_use_id: CALL.id, content: 'seen' }] },
]

test('Bedrock gets its thoughts back in the form of Converse', async () => {
  const text = { text: 'Let me.', signature: 'c2ln' }
  const content = [
    { reasoningContent: { reasoningText: text } },
    { reasoningContent: { redactedContent: 'cmVk' } },
    { toolUse: { toolUseId: CALL.id, name: 'look', input: { at: 'x' } } },
  ]
  const whole = {
    output: { message: { role: 'assistant', content } },
    stopReason: 'tool_use',
    usage: { inputTokens: 1, outputTokens: 2 },
  }
  const answer = { whole, stream: [] }
  const first = await sent('/v1/messages', 'bedrock', { tools }, answer)
  const blocks = contentOf(first.text, false)
  expect(blocks.map(({ type }) => type)).toEqual(['thinking', 'redacted_thinking', 'tool_use'])
  const back = await sent('/v1/messages', 'bedrock', { tools, messages: history(blocks) }, answer)
  expect(objectOf(listOf(back.body['messages'])[1])?.['content']).toEqual(content)
  expect(back.body['additionalModelRequestFields']).toEqual({ thinking: { type: 'enabled', budget_tokens: 4000 } })
})

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
