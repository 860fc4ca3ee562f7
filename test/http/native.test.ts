/** The switches of native mode: what a key's callers may send and get that others may not. */

import { describe, expect, test } from 'bun:test'
import { isObject } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import { json, stream as streams } from '../support/scenarios.ts'
import { served } from '../support/served.ts'
import { speaks, textAnswer } from '../support/speech.ts'

/** One key for each way in which the settings of three levels meet. */
const KEYS = {
  native: 'native-key-0123456789abcdef',
  specification: 'specification-key-0123456789',
  single: 'single-key-0123456789abcdef',
  inherited: 'inherited-key-0123456789abc',
}

const { upstream, gateway } = await served((url) => ({
  providers: {
    up: url,
    claude: { dialect: 'anthropic', base_url: url, api_key: 'secret-of-claude' },
    google: { dialect: 'gemini', base_url: url, api_key: 'secret-of-google' },
    aws: { dialect: 'bedrock', region: 'us-east-1', base_url: url, api_key: 'secret-of-aws' },
  },
  models: {
    m: ['up/m'],
    claude: ['claude/c'],
    modern: ['claude/claude-sonnet-4-5'],
    old: ['claude/claude-3-haiku'],
    named: { targets: [{ provider: 'claude', model: 'c' }], supports: ['structured_output'] },
    mixed: { targets: [{ provider: 'claude', model: 'claude-3-haiku' }], fallbacks: ['old', 'modern'] },
    gem: ['google/gemini-3-pro'],
    amazon: ['aws/us.anthropic.claude-sonnet-4-5-v1:0'],
    picture: { targets: [{ provider: 'up', model: 'picture' }], supports: ['image_generation'] },
    vectors: { targets: [{ provider: 'up', model: 'vectors' }], supports: ['embeddings'] },
  },
  config: {
    compatibility: { mode: 'native', provider_errors: 'rewritten' },
    organizations: [
      {
        id: 'test',
        keys: [
          { id: 'program', key: KEY },
          { id: 'native', key: KEYS.native, compatibility: { mode: 'native' } },
          { id: 'specification', key: KEYS.specification, compatibility: { mode: 'specification' } },
        ],
      },
      {
        id: 'other',
        compatibility: { mode: 'specification', provider_errors: 'pass' },
        keys: [
          { id: 'inherited', key: KEYS.inherited },
          { id: 'single', key: KEYS.single, compatibility: { metadata: 'accept' } },
        ],
      },
    ],
  },
}))

const MESSAGES = [{ role: 'user', content: 'hi' }]
const BODIES = {
  '/v1/chat/completions': { model: 'm', messages: MESSAGES },
  '/v1/responses': { model: 'm', input: 'hi' },
  '/v1/messages': { model: 'm', max_tokens: 10, messages: MESSAGES },
} as const
const bytesFor = (path: string, body: object, key: string) => requestBytes(path, { key, body: { ...body } })

/** What decides for each key, and the two switches that hold for it. */
const CHOICES = [
  ['the program', KEY, 'rewritten', 'accept'],
  ["the key's mode, native", KEYS.native, 'pass', 'accept'],
  ["the key's mode, specification", KEYS.specification, 'rewritten', 'refuse'],
  ['a switch of the key, else of the organisation', KEYS.single, 'pass', 'accept'],
  ['the organisation', KEYS.inherited, 'pass', 'refuse'],
] as const

describe.each(CHOICES)('%s decides', (_, key, errors, metadata) => {
  test.each(['/v1/chat/completions', '/v1/responses'] as const)(`metadata on %s: ${metadata}`, async (path) => {
    upstream.otherwise(speaks('openai', () => textAnswer('Hello.')))
    const before = upstream.calls.length
    const answer = await ask(gateway.port, bytesFor(path, { ...BODIES[path], metadata: { user: 'x' } }, key))
    if (metadata === 'refuse')
      return expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('metadata')])
    expect(answer.status).toBe(200)
    expect(Buffer.from(upstream.calls[before]?.body ?? []).toString()).not.toContain('metadata')
  })

  test.each([
    ['/v1/images/generations', { model: 'picture', prompt: 'x' }],
    ['/v1/images/edits', { model: 'picture', prompt: 'x', images: [{ image_url: 'data:image/png;base64,AAAA' }] }],
    ['/v1/embeddings', { model: 'vectors', input: 'x' }],
  ])(`metadata on %s: ${metadata}`, async (path, body) => {
    upstream.otherwise(json(400, '{"error":{"message":"reached"}}'))
    for (const value of [{ user: 'x' }, 'x', null]) {
      const before = upstream.calls.length
      const { text } = await ask(gateway.port, bytesFor(path, { ...body, metadata: value }, key))
      expect(text.includes('reached')).toBe(metadata === 'accept')
      expect(Buffer.from(upstream.calls[before]?.body ?? []).toString())
    }
  })

  test.each(Object.entries(BODIES))(`errors of a provider on %s: ${errors}`, async (path, body) => {
    for (const status of [400, 413, 422]) {
      const error = {
        message: 'The tool `x` is odd.',
        type: 'strange_error',
        param: 'tools[3].x',
        code: status === 422 ? 'odd_tool' : 17,
      }
      upstream.otherwise(json(status, JSON.stringify({ error })))
      const answer = await ask(gateway.port, bytesFor(path, body, key))
      const sent: unknown = JSON.parse(answer.text)
      if (!isObject(sent)) throw new Error('an error that is no object')
      if (errors === 'rewritten') {
        expect(answer.status).toBe(status === 413 ? 413 : 400)
        expect(answer.text).not.toContain('strange_error')
        expect(answer.text).not.toContain('odd_tool')
        continue
      }
      expect(answer.status).toBe(status)
      expect(sent).toMatchObject(path === '/v1/messages' ? { type: 'error', error } : { error })
    }
  })
})

/** How a provider of each API ends an answer of text, whole and as a stream. */
const ENDINGS = {
  openai(reason: string, text: string) {
    const choice = { index: 0, message: { role: 'assistant', content: text }, finish_reason: reason }
    const delta = { index: 0, delta: { role: 'assistant', content: text }, finish_reason: null }
    const chunks = [{ choices: [delta] }, { choices: [{ index: 0, delta: {}, finish_reason: reason }] }]
    const stream = chunks.map(
      (chunk) => `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', ...chunk })}\n\n`,
    )
    return [{ id: 'c', object: 'chat.completion', choices: [choice] }, [...stream, 'data: [DONE]\n\n']] as const
  },
  anthropic(reason: string, text: string, sequence: string | null = null) {
    const message = {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'c',
      usage: { input_tokens: 3, output_tokens: 2 },
    }
    const stop = { stop_reason: reason, stop_sequence: sequence }
    const events = [
      { type: 'message_start', message: { ...message, content: [], stop_reason: null, stop_sequence: null } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: stop, usage: { output_tokens: 2 } },
      { type: 'message_stop' },
    ]
    const stream = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    return [{ ...message, content: [{ type: 'text', text }], ...stop }, stream] as const
  },
}

/** How an answer ended, for each caller: the provider's ending, then what the specification and native mode report. */
const STOPS = [
  ['m', ENDINGS.openai('length', 'a'), 'max_tokens', 'max_tokens', null, 'max_output_tokens'],
  ['m', ENDINGS.openai('content_filter', 'a'), 'stop_sequence', 'refusal', null, 'content_filter'],
  ['m', ENDINGS.openai('stop', 'a'), 'end_turn', 'end_turn', null, null],
  ['claude', ENDINGS.anthropic('end_turn', 'a'), 'end_turn', 'end_turn', null, null],
  ['claude', ENDINGS.anthropic('stop_sequence', 'a', 'END'), 'end_turn', 'stop_sequence', 'END', null],
  ['claude', ENDINGS.anthropic('pause_turn', 'a'), 'end_turn', 'pause_turn', null, null],
  ['claude', ENDINGS.anthropic('refusal', 'a'), 'stop_sequence', 'refusal', null, 'content_filter'],
  [
    'claude',
    ENDINGS.anthropic('model_context_window_exceeded', 'a'),
    ...(['max_tokens', 'model_context_window_exceeded', null, 'max_output_tokens'] as const),
  ],
] as const

describe.each(STOPS)('an answer of %s', (model, [body, stream], specified, native, sequence, incomplete) => {
  const answered = async (path: string, sent: object, key: string, streamed: boolean) => {
    upstream.otherwise(streamed ? streams(stream) : json(200, JSON.stringify(body)))
    return (await ask(gateway.port, bytesFor(path, { ...sent, model, stream: streamed }, key))).text
  }

  test.each([true, false])(`that ends with ${native} on Messages (streamed: %p)`, async (streamed) => {
    for (const [key, reason, met] of [
      [KEYS.native, native, sequence],
      [KEYS.specification, specified, null],
    ] as const) {
      const text = await answered('/v1/messages', { ...BODIES['/v1/messages'], stop_sequences: ['END'] }, key, streamed)
      expect(text).toContain(`"stop_reason":"${reason}","stop_sequence":${JSON.stringify(met)}`)
    }
  })

  test.each([true, false])(`that is incomplete by ${incomplete} on Responses (streamed: %p)`, async (streamed) => {
    for (const [key, reason] of [
      [KEYS.native, incomplete],
      [KEYS.specification, null],
    ] as const) {
      const text = await answered('/v1/responses', BODIES['/v1/responses'], key, streamed)
      const status = reason === null ? 'completed' : 'incomplete'
      const [name, data = ''] = (text.split('event: ').at(-1) ?? '').split('\ndata: ')
      if (streamed) expect(name).toBe(`response.${status}`)
      expect(streamed ? JSON.parse(data).response : JSON.parse(text)).toMatchObject({
        ...{ status, incomplete_details: reason === null ? null : { reason } },
        output: [{ type: 'message', status, content: [{ type: 'output_text', text: 'a' }] }],
      })
    }
  })
})

describe('a schema for the answer', () => {
  const properties = { city: { type: 'string' } }
  const schema = { type: 'object', properties, required: ['city'], additionalProperties: false }
  const named = { name: 'place', schema, strict: true }
  /** What each dialect sends. */
  const ASKED = {
    '/v1/chat/completions': { response_format: { type: 'json_schema', json_schema: named } },
    '/v1/responses': { text: { format: { type: 'json_schema', ...named }, verbosity: 'low' } },
    '/v1/messages': { output_config: { format: { type: 'json_schema', schema } } },
  } as const
  const paths = ['/v1/chat/completions', '/v1/responses', '/v1/messages'] as const

  /** The caller's answer, and what the provider got. */
  async function sent(path: keyof typeof ASKED, model: string, key: string, asked: object = ASKED[path]) {
    upstream.otherwise((call) => {
      const whole = { openai: ENDINGS.openai('stop', '{}')[0], anthropic: ENDINGS.anthropic('end_turn', '{}')[0] }
      const candidates = [{ content: { role: 'model', parts: [{ text: '{}' }] }, finishReason: 'STOP', index: 0 }]
      const output = { message: { role: 'assistant', content: [{ text: '{}' }] } }
      if (call.path.includes('/converse')) return call.answer(200, JSON.stringify({ output, stopReason: 'end_turn' }))
      const body = whole[/\/messages|\/invoke/.test(call.path) ? 'anthropic' : 'openai']
      return call.answer(200, JSON.stringify(call.path.includes('generateContent') ? { candidates } : body))
    })
    const before = upstream.calls.length
    const answer = await ask(gateway.port, bytesFor(path, { ...BODIES[path], model, ...asked }, key))
    return { answer, call: upstream.calls[before]?.json, calls: upstream.calls.length - before }
  }

  test.each(paths)('of %s goes to every provider that follows one', async (path) => {
    // Messages has no name and no `strict`.
    const more = path === '/v1/messages' ? { name: 'answer' } : { name: 'place', strict: true }
    const chat = await sent(path, 'm', KEYS.native)
    expect(chat.call?.['response_format']).toEqual({ type: 'json_schema', json_schema: { schema, ...more } })
    const claude = await sent(path, 'modern', KEYS.native)
    expect(claude.call?.['output_config']).toEqual({ format: { type: 'json_schema', schema } })
    const gemini = await sent(path, 'gem', KEYS.native)
    const config = { responseMimeType: 'application/json', responseJsonSchema: schema }
    expect(gemini.call?.['generationConfig']).toMatchObject(config)
    const amazon = await sent(path, 'amazon', KEYS.native)
    const { name } = more
    const structure = { jsonSchema: { schema: JSON.stringify(schema), name } }
    // Callers of Messages reach Claude there by InvokeModel.
    if (path === '/v1/messages')
      expect(amazon.call?.['output_config']).toEqual({ format: { type: 'json_schema', schema } })
    else expect(amazon.call?.['outputConfig']).toEqual({ textFormat: { type: 'json_schema', structure } })
    expect([chat, claude, gemini, amazon].map(({ answer }) => answer.status)).toEqual([200, 200, 200, 200])
    const tool = { name: 'f', description: '', parameters: {}, input_schema: {} }
    const tools = [
      path === '/v1/chat/completions' ? { type: 'function', function: tool } : { type: 'function', ...tool },
    ]
    const beside = await sent(path, 'gem', KEYS.native, { ...ASKED[path], tools })
    expect(beside.call?.['generationConfig']).toMatchObject(config)
    // By the specification, the two that only native mode has get none.
    const plain = await sent(path, 'amazon', KEYS.specification)
    const without = await sent(path, 'gem', KEYS.specification, { ...ASKED[path], tools })
    expect([plain.call?.['outputConfig'], JSON.stringify(without.call).includes('responseJsonSchema')]).toEqual([
      undefined,
      false,
    ])
  })

  test.each(paths)('of %s passes over a model that follows none', async (path) => {
    const { answer, calls } = await sent(path, 'mixed', KEYS.native)
    expect([answer.status, answer.header('x-gateway-served-model'), calls]).toEqual([200, 'modern', 1])
    expect(answer.header('x-gateway-fallback-count')).toBe('0')
  })

  test.each(paths)('of %s alone with such a model', async (path) => {
    const { answer, calls } = await sent(path, 'old', KEYS.native)
    // What Chat Completions always passed on still passes.
    const passes = path === '/v1/chat/completions'
    expect([answer.status, calls]).toEqual(passes ? [200, 1] : [400, 0])
    expect(answer.text.includes("The model 'old' follows no schema for its answer")).toBe(!passes)
    const named = await sent(path, 'named', KEYS.native)
    expect(named.call?.['output_config']).toEqual({ format: { type: 'json_schema', schema } })
    expect(named.answer.status).toBe(200)
    expect((await sent(path, 'named', KEYS.specification)).call?.['output_config']).toBeUndefined()
  })

  test('has no effect by the specification, but on Chat Completions', async () => {
    const ignored = { '/v1/responses': ['text.format', 'text.verbosity'], '/v1/messages': ['output_config'] }
    for (const path of ['/v1/responses', '/v1/messages'] as const) {
      const { answer, call } = await sent(path, 'm', KEYS.specification)
      expect([answer.status, call?.['response_format']]).toEqual([200, undefined])
      expect((await gateway.request(answer.header('x-request-id')))['ignored']).toEqual(ignored[path])
    }
    const { answer, call } = await sent('/v1/chat/completions', 'mixed', KEYS.specification)
    expect([answer.header('x-gateway-served-model'), call?.['output_config']]).toEqual(['mixed', undefined])
  })

  test('is in the answer of Responses, and not among what was ignored', async () => {
    const { answer } = await sent('/v1/responses', 'm', KEYS.native)
    expect(JSON.parse(answer.text).text).toEqual({ format: { type: 'json_schema', description: null, ...named } })
    expect((await gateway.request(answer.header('x-request-id')))['ignored']).toEqual(['text.verbosity'])
  })

  test('without a schema, JSON', async () => {
    const { call, answer } = await sent('/v1/responses', 'm', KEYS.native, {
      text: { format: { type: 'json_object' } },
    })
    expect(call?.['response_format']).toEqual({ type: 'json_object' })
    expect(JSON.parse(answer.text).text).toEqual({ format: { type: 'json_object' } })
    const none = await sent('/v1/responses', 'claude', KEYS.native, { text: { format: { type: 'json_object' } } })
    expect([none.answer.status, none.calls]).toEqual([400, 0])
    for (const none of [null, { format: null }, { format: { type: 'text' } }]) {
      const plain = await sent('/v1/responses', 'm', KEYS.native, { text: none })
      expect([plain.answer.status, plain.call?.['response_format']]).toEqual([200, undefined])
    }
  })

  test.each([
    ['/v1/responses', { text: 'json' }, 'text'],
    ['/v1/messages', { output_config: 'high' }, 'output_config'],
    ['/v1/responses', { text: { format: 'json' } }, 'text.format'],
    ['/v1/responses', { text: { format: { type: 'xml' } } }, 'text.format.type'],
    ['/v1/responses', { text: { format: { type: 'json_schema', schema: {} } } }, 'text.format.name'],
    ['/v1/responses', { text: { format: { type: 'json_schema', name: 'x' } } }, 'text.format.schema'],
    ['/v1/messages', { output_config: { format: { type: 'json_object' } } }, 'output_config.format.type'],
    ['/v1/messages', { output_config: { format: { type: 'json_schema' } } }, 'output_config.format.schema'],
    ['/v1/messages', { output_format: { type: 'json_schema', schema: 1 } }, 'output_format.schema'],
  ] as const)('%s rejects %j', async (path, asked, param) => {
    const { answer, calls } = await sent(path, 'm', KEYS.native, asked)
    expect([answer.status, JSON.parse(answer.text).error.param, calls]).toEqual([400, param, 0])
  })
})

test('what is passed on has no secrets and no addresses of the operator', async () => {
  const secrets = ['sk-proj-0123456789abcdefghij', `127.0.0.1:${new URL(upstream.url).port}`]
  for (const secret of secrets) {
    const error = { message: `No: ${secret}.`, type: `t ${secret}`, param: `p ${secret}`, code: `c ${secret}` }
    upstream.otherwise(json(400, JSON.stringify({ error })))
    const answer = await ask(
      gateway.port,
      bytesFor('/v1/chat/completions', BODIES['/v1/chat/completions'], KEYS.native),
    )
    expect(answer.status).toBe(400)
    expect(answer.text).not.toContain(secret)
  }
})

test("an error that is not about the request is weir's own, whatever the mode", async () => {
  for (const [status, expected] of [
    [401, 502],
    [404, 502],
    [500, 502],
  ] as const) {
    upstream.otherwise(json(status, '{"error":{"message":"secret words","type":"strange_error"}}'))
    const answer = await ask(
      gateway.port,
      bytesFor('/v1/chat/completions', BODIES['/v1/chat/completions'], KEYS.native),
    )
    expect([answer.status, answer.text.includes('strange_error')]).toEqual([expected, false])
  }
})

test('explain and the status show the switches', async () => {
  const explain = async (key: string) =>
    JSON.parse((await gateway.run('explain', '--key', key, '--model', 'm', '--json')).stdout)
  expect((await explain('single')).compatibility).toEqual({
    reasoning: 'off',
    structured_output: 'off',
    content: 'off',
    tools: 'functions',
    betas: 'off',
    status: 'completed',
    provider_errors: 'pass',
    metadata: 'accept',
  })
  expect((await explain('specification')).compatibility).toEqual({
    reasoning: 'off',
    structured_output: 'off',
    content: 'off',
    tools: 'functions',
    betas: 'off',
    status: 'completed',
    provider_errors: 'rewritten',
    metadata: 'refuse',
  })
  const status = await (await fetch(`${gateway.adminUrl}/api/status`)).json()
  expect(status).toMatchObject({
    compatibility: {
      ...{ reasoning: 'pass', structured_output: 'pass', status: 'provider' },
      ...{ provider_errors: 'rewritten', metadata: 'accept' },
    },
  })
})
