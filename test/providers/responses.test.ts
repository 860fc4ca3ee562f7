/** The Responses API toward OpenAI, Azure and servers like them: which requests take it, and how they are written. */

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import type { StreamEvent } from '../../src/core/event.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { azure, openai } from '../../src/providers/openai/openai.ts'
import type { Provider, Target } from '../../src/providers/provider.ts'
import type { Literal } from '../support/literal.ts'
import { objectOf } from './conformance.ts'
import { openaiResponses } from './openai/dialect.ts'
import { endpoint, plainRequest } from './requests.ts'

const TOOLS = [{ name: 'f', parameters: { type: 'object' } }]
const OPENAI = endpoint({ baseUrl: 'https://api.openai.com/v1' })

function sent(more: Partial<Literal>, target: Partial<Target> = {}, provider: Provider = openaiResponses) {
  return provider.request(plainRequest(more), { endpoint: endpoint(), model: 'gpt-test', ...target })
}

const bodyOf = (more: Partial<Literal>, target?: Partial<Target>): JsonObject => objectOf(sent(more, target).body)

/** The path of the API that a request takes. */
const apiOf = (request: ChatRequest, target: Target, provider: Provider = openai) =>
  new URL(provider.request(request, target).url).pathname.split('/').at(-1)

describe('which API', () => {
  const plain = plainRequest({})
  const tools = plainRequest({ tools: TOOLS })
  const effort = (reasoningEffort: string) => plainRequest({ tools: TOOLS, sampling: { reasoningEffort } })
  const requests = [plain, tools, effort('low'), effort('none')] as const
  const chat = 'completions'
  test.each([
    ['gpt-4o', [chat, chat, chat, chat]],
    ['gpt-5', [chat, chat, chat, chat]],
    ['gpt-5.2-2025-12-11', [chat, chat, chat, chat]],
    ['gpt-5.4', [chat, chat, 'responses', chat]],
    ['gpt-5.4-mini', [chat, chat, 'responses', chat]],
    ['gpt-5.5', [chat, chat, 'responses', chat]],
    ['gpt-5.6-sol', [chat, 'responses', 'responses', chat]],
    ['gpt-6-luna-2026-09-01', [chat, 'responses', 'responses', chat]],
    ['gpt-6-astra', [chat, 'responses', 'responses', 'responses']],
    ['gpt-6.1-sol', [chat, 'responses', 'responses', 'responses']],
    ['gpt-5.10', [chat, 'responses', 'responses', chat]],
    ['gpt-5-pro', ['responses', 'responses', 'responses', 'responses']],
    ['o3-pro-2025-06-10', ['responses', 'responses', 'responses', 'responses']],
    ['gpt-5.1-codex-max', ['responses', 'responses', 'responses', 'responses']],
    ['codex-mini-latest', ['responses', 'responses', 'responses', 'responses']],
    ['gpt-5.1-prose', [chat, chat, chat, chat]],
    ['ft:gpt-4.1:acme-pro:codex:x1', [chat, chat, chat, chat]],
    ['ft:gpt-5.6-sol:acme::x1', [chat, 'responses', 'responses', chat]],
  ])('%s of OpenAI', (model, apis) => {
    expect(requests.map((request) => apiOf(request, { endpoint: OPENAI, model }))).toEqual(apis)
  })

  test('names at other servers show nothing', () => {
    expect(apiOf(tools, { endpoint: endpoint(), model: 'gpt-5.6-sol' })).toBe(chat)
  })

  test('the entry of the provider decides, and before it that of the target', () => {
    const target = { endpoint: { ...OPENAI, api: 'chat' as const }, model: 'gpt-5-pro' }
    expect(apiOf(tools, target)).toBe(chat)
    expect(apiOf(tools, { ...target, api: 'responses' })).toBe('responses')
    expect(apiOf(plain, { ...target, model: 'gpt-4o', api: 'auto' })).toBe(chat)
    expect(apiOf(plain, { ...target, api: 'auto' })).toBe('responses')
  })

  test.each([
    [
      'https://r.openai.azure.com',
      '2025-04-01-preview',
      'https://r.openai.azure.com/openai/responses?api-version=2025-04-01-preview',
    ],
    ['https://r.openai.azure.com', 'preview', 'https://r.openai.azure.com/openai/v1/responses?api-version=preview'],
    ['https://r.openai.azure.com', 'v1', 'https://r.openai.azure.com/openai/v1/responses?api-version=v1'],
    ['https://r.openai.azure.com/openai/v1', 'v1', 'https://r.openai.azure.com/openai/v1/responses?api-version=v1'],
  ])('Azure at %s with %s', (baseUrl, apiVersion, url) => {
    const target = { endpoint: endpoint({ baseUrl, apiVersion, api: 'responses' }), model: 'my-deployment' }
    const { headers, body, ...rest } = azure.request(plain, target)
    expect(rest.url).toBe(url)
    expect(headers).toMatchObject({ 'api-key': 'secret-key' })
    expect(objectOf(body)['model']).toBe('my-deployment')
    const chat = azure.request(plain, { ...target, api: 'chat' })
    const base = url.includes('/v1/') ? '/openai/v1' : '/openai/deployments/my-deployment'
    expect(chat.url).toBe(`https://r.openai.azure.com${base}/chat/completions?api-version=${apiVersion}`)
    expect(objectOf(chat.body)['model']).toBe('my-deployment')
    const models = url.replace('/responses?', '/models?')
    expect(azure.probe?.(target)?.url).toBe(models)
  })
})

describe('what a rejection teaches', () => {
  const TOOLS_REJECTED =
    'Function tools with reasoning_effort are not supported for gpt-x in /v1/chat/completions. ' +
    "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
  const ALONE = 'This model is only supported in v1/responses and not in v1/chat/completions.'
  const NOT_CHAT =
    'This is not a chat model and thus not supported in the v1/chat/completions endpoint. ' +
    'Did you mean to use v1/completions?'
  const chat = 'completions'
  const tools = plainRequest({ tools: TOOLS })
  const plain = plainRequest({})

  function learned(message: string, request: ChatRequest, target: Target, status = 400, param?: string) {
    const error = new ProviderError(status === 404 ? 'failed' : 'rejected', message, { status, param })
    const rejection = { error, target, request, organization: 'acme', sentMs: performance.now() }
    return openai.learn?.(rejection)
  }

  test.each([
    [TOOLS_REJECTED, 400, tools, 'api with tools', [chat, 'responses']],
    [
      'Function tools with reasoning_effort are not supported for gpt-5.4. Please use /v1/responses instead.',
      400,
      tools,
      'api with tools',
      [chat, 'responses'],
    ],
    [ALONE, 404, plain, 'api', ['responses', 'responses']],
    ...[
      'Model m is not available here. Use the Responses API (/v1/responses) instead.',
      'This model is available only through the Responses API: POST /v1/responses.',
      'This model requires the `/v1/responses` endpoint.',
      'Chat is not offered for this model but only at /v1/responses.',
      'Please call POST /v1/responses.',
      'Use the /openai/v1/responses endpoint for this model.',
      'This model is not here. Use https://api.openai.com/v1/responses.',
    ].map((message) => [message, 404, plain, 'api', ['responses', 'responses']] as const),
    [ALONE, 400, tools, 'api', ['responses', 'responses']],
  ] as const)('%s', (message, status, request, field, later) => {
    const target = { endpoint: endpoint(), model: 'gpt-x' }
    const lesson = learned(message, request, target, status)
    expect(lesson?.field).toBe(field)
    expect(lesson && apiOf(request, target, lesson.provider)).toBe('responses')
    expect(apiOf(request, target)).toBe(chat)
    expect(lesson?.keep()).toBe('for ten minutes')
    expect([plain, tools].map((each) => apiOf(each, target))).toEqual([...later])
  })

  test.each([
    [NOT_CHAT, 404],
    ['The model `gpt-x` does not exist or you do not have access to it.', 404],
    ['This model is not supported in v1/responses.', 400],
    ['This model is only supported in v1/chat/completions and not in v1/responses.', 400],
    ['These tools cannot be used with the Responses API (/v1/responses).', 400],
    ['Parameter is unsupported on this model in /v1/responses.', 400],
    ['The chatCompletion operation does not work with the specified model, gpt-x.', 400],
    ['Failed to download https://evil.test/: please use /v1/responses', 400],
    ['Failed to load the image at https://evil.test/v1/responses', 400],
    ['Overloaded. Please use /v1/responses.', 503],
  ])('nothing: %s', (message, status) => {
    const error = new ProviderError(status === 400 ? 'rejected' : 'failed', message, { status })
    const target = { endpoint: endpoint(), model: 'gpt-x' }
    const rejection = { error, target, request: tools, organization: 'acme', sentMs: performance.now() }
    expect(openai.learn?.(rejection)).toBeUndefined()
  })

  test.each(['please use /v1/responses', String.raw`please use \/v1\/responses`, String.raw`use \\/v1\\\/responses`])(
    'is not kept if the words are the caller’s: %s',
    (text) => {
      const target = { endpoint: endpoint(), model: 'gpt-x' }
      const messages = [{ role: 'user', parts: [{ type: 'text', text }] }] as const
      expect(learned(ALONE, plainRequest({ messages }), target, 404)?.keep()).toBeUndefined()
      expect(apiOf(plain, target)).toBe(chat)
    },
  )

  test('nothing of an error about what the caller has written', () => {
    const target = { endpoint: endpoint(), model: 'gpt-x' }
    expect(learned(ALONE, plain, target, 400, 'messages[0].content[1].image_url.url')).toBeUndefined()
    expect(learned(ALONE, plain, target, 400, 'model')?.field).toBe('api')
  })

  test('nothing where the configuration decides', () => {
    const at = endpoint({ api: 'chat' })
    expect(learned(ALONE, plain, { endpoint: at, model: 'gpt-x' }, 404)).toBeUndefined()
    const free = endpoint()
    learned(ALONE, plain, { endpoint: free, model: 'gpt-x' }, 404)?.keep()
    expect(apiOf(plain, { endpoint: free, model: 'gpt-x', api: 'chat' })).toBe(chat)
  })

  test('what the Responses API of a server rejects is left out', () => {
    const target = { endpoint: endpoint({ api: 'responses' }), model: 'gpt-x' }
    const request = plainRequest({ stream: true })
    const thoughts = learned('Encrypted content is not supported with this model.', request, target, 400, 'include')
    expect(thoughts?.field).toBe('include')
    thoughts?.keep()
    const padding = learned("Unknown parameter: 'stream_options.include_obfuscation'.", request, target)
    expect(padding?.field).toBe('stream_options.include_obfuscation')
    padding?.keep()
    const { body } = openai.request(request, target)
    expect(Object.keys(objectOf(body))).toEqual(['model', 'input', 'store', 'stream'])
  })

  test.each([
    "Unknown parameter: 'include'.",
    "Invalid value: 'reasoning.encrypted_content'. Supported values are: 'message.output_text.logprobs'.",
    "body.include.0: Input should be 'file_search_call.results'",
    "[{'type': 'literal_error', 'loc': ('body', 'include', 0), 'msg': 'Input should be …'}]",
    'include: Extra inputs are not permitted',
    '`include` is not supported by this server',
  ])('that it gives no encrypted thoughts: %s', (message) => {
    const target = { endpoint: endpoint({ api: 'responses' }), model: 'gpt-x' }
    expect(learned(message, plain, target)?.field).toBe('include')
  })

  test('two things at once: the API, and then the thoughts', () => {
    const target = { endpoint: endpoint(), model: 'gpt-x' }
    const first = learned(ALONE, plain, target, 404)
    const error = new ProviderError('rejected', 'Encrypted content is not supported with this model.', { status: 400 })
    const second = first?.provider.learn?.({
      error,
      target,
      request: plain,
      organization: 'acme',
      sentMs: performance.now(),
    })
    expect(second?.field).toBe('include')
    expect(second && objectOf(second.provider.request(plain, target).body)['include']).toBeUndefined()
    expect(second && apiOf(plain, target, second.provider)).toBe('responses')
  })
})

describe('the request', () => {
  test('has everything in the places of the API', () => {
    const png = { type: 'base64', mediaType: 'image/png', data: 'aGk=' } as const
    const body = bodyOf({
      stream: true,
      messages: [
        { role: 'system', parts: [{ type: 'text', text: 'Be brief.' }] },
        {
          role: 'user',
          parts: [
            { type: 'text', text: 'Look' },
            { type: 'image', source: png, detail: 'low' },
            {
              type: 'native',
              json: { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,aGk=' } },
            },
          ],
        },
        {
          role: 'assistant',
          parts: [{ type: 'text', text: 'Well' }],
          toolCalls: [{ callId: 'call_1', name: 'f', json: '{"a":"é"}' }],
        },
        {
          role: 'tool',
          callId: 'call_1',
          parts: [
            { type: 'text', text: 'one' },
            { type: 'text', text: 'two' },
          ],
        },
        { role: 'assistant', parts: [{ type: 'text', text: 'So' }], refusal: 'No.', toolCalls: [] },
      ],
      tools: [
        { name: 'f', description: 'F.', parameters: { type: 'object' } },
        { name: 'g', parameters: { type: 'object' }, strict: true },
      ],
      toolChoice: { mode: 'tool', name: 'f' },
      parallelToolCalls: false,
      maxOutputTokens: 3,
      sampling: {
        temperature: 0.5,
        topP: 0.9,
        reasoningEffort: 'low',
        verbosity: 'high',
        logprobs: true,
        topLogprobs: 2,
        responseFormat: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object' }, strict: true } },
      },
      hints: { user: 'u', serviceTier: 'flex', promptCacheKey: 'k', promptCacheRetention: '24h' },
    })
    expect(body).toEqual({
      model: 'gpt-test',
      input: [
        { role: 'system', content: 'Be brief.' },
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'Look' },
            { type: 'input_image', image_url: 'data:image/png;base64,aGk=', detail: 'low' },
            { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,aGk=' },
          ],
        },
        { role: 'assistant', content: 'Well' },
        { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{"a":"é"}' },
        { type: 'function_call_output', call_id: 'call_1', output: 'one\ntwo' },
        {
          role: 'assistant',
          content: [
            { type: 'output_text', text: 'So' },
            { type: 'refusal', refusal: 'No.' },
          ],
        },
      ],
      tools: [
        { type: 'function', name: 'f', description: 'F.', parameters: { type: 'object' }, strict: false },
        { type: 'function', name: 'g', parameters: { type: 'object' }, strict: true },
      ],
      tool_choice: { type: 'function', name: 'f' },
      parallel_tool_calls: false,
      max_output_tokens: 16,
      temperature: 0.5,
      top_p: 0.9,
      top_logprobs: 2,
      reasoning: { effort: 'low' },
      text: { format: { type: 'json_schema', name: 'x', schema: { type: 'object' }, strict: true }, verbosity: 'high' },
      user: 'u',
      service_tier: 'flex',
      prompt_cache_key: 'k',
      prompt_cache_retention: '24h',
      store: false,
      include: ['reasoning.encrypted_content', 'message.output_text.logprobs'],
      stream: true,
      stream_options: { include_obfuscation: false },
    })
  })

  test('asks models that do not think for no thoughts', () => {
    const included = (model: string) => bodyOf({}, { model })['include']
    expect(['gpt-4o-mini', 'gpt-4.1', 'gpt-3.5-turbo', 'ft:gpt-4o:acme::1'].map(included)).toEqual(
      Array(4).fill(undefined),
    )
    const thoughts = ['reasoning.encrypted_content']
    expect(['gpt-5.6-sol', 'o4-mini', 'my-deployment', 'gpt-41'].map(included)).toEqual(Array(4).fill(thoughts))
  })

  test('has the texts of the system as those of the developer for models that think', () => {
    const roleFor = (model: string, at = OPENAI) => {
      const messages = [{ role: 'system', parts: [{ type: 'text', text: 'x' }] }] as const
      const { input } = bodyOf({ messages }, { endpoint: at, model })
      return Array.isArray(input) ? input[0]?.role : undefined
    }
    expect(roleFor('gpt-5-pro')).toBe('developer')
    expect(roleFor('gpt-4o')).toBe('system')
    expect(roleFor('gpt-5-pro', endpoint())).toBe('system')
  })

  test('leaves out and names what only Chat Completions has', () => {
    const sampling = { seed: 1, frequencyPenalty: 0.5, presencePenalty: 0.5, logitBias: { '7': 1 } }
    const { body, ignored } = sent({ sampling })
    expect(Object.keys(objectOf(body))).toEqual(['model', 'input', 'store', 'include'])
    expect(ignored).toEqual(['seed', 'frequency_penalty', 'presence_penalty', 'logit_bias'])
    expect(sent({ sampling: { frequencyPenalty: 0 } }).ignored).toBeUndefined()
  })

  test('is not sent without its sound', () => {
    const parts = [{ type: 'native', json: { type: 'input_audio', input_audio: { data: 'aGk=' } } }] as const
    expect(() => sent({ messages: [{ role: 'user', parts }] })).toThrow(
      expect.objectContaining({ kind: 'rejected', detail: { unsent: true } }),
    )
  })

  test('restores names and gives repeated ids others', () => {
    const call = { callId: '0', name: 'a.b', json: '{}' }
    const answer = [
      { role: 'assistant', parts: [], toolCalls: [call] },
      { role: 'tool', callId: '0', parts: [{ type: 'text', text: 'r' }] },
    ] as const
    const { body, toolNames } = sent({ messages: [...answer, ...answer] })
    const items = objectOf(body)['input'] as JsonObject[]
    expect(items.map(({ call_id: id }) => id)).toEqual(['0', '0', '0_2', '0_2'])
    expect(toolNames?.get(String(items[0]?.['name']))).toBe('a.b')
  })
})

/** The events of a stream of these events of the provider. */
function read(
  events: readonly JsonObject[],
  stop: readonly string[] = [],
): { events: StreamEvent[]; hasStopped: boolean } {
  const decoder = (sent({ stop, stream: true }).reader ?? openaiResponses).decoder()
  const read = events.flatMap((event) => decoder.decode(String(event['type']), JSON.stringify(event)))
  return { events: read, hasStopped: decoder.hasStopped === true }
}

const ADDED = { type: 'response.output_item.added', item: { type: 'message' }, output_index: 0 }
const delta = (text: string) => ({ type: 'response.output_text.delta', delta: text, output_index: 0 })
const COMPLETED = {
  type: 'response.completed',
  response: { status: 'completed', output: [], usage: { input_tokens: 3, output_tokens: 2 } },
}

describe('the answer', () => {
  test('may end within a call', () => {
    const item = { type: 'function_call', call_id: 'c1', name: 'f', arguments: '' }
    const { events } = read([
      { type: 'response.output_item.added', item, output_index: 0 },
      { type: 'response.function_call_arguments.delta', delta: '{"a":', output_index: 0 },
      {
        type: 'response.incomplete',
        response: { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } },
      },
    ])
    expect(events).toEqual([
      { type: 'start' },
      { type: 'tool-start', index: 0, callId: 'c1', name: 'f' },
      { type: 'tool-delta', index: 0, json: '{"a":' },
      { type: 'finish', reason: 'length' },
      { type: 'end' },
    ])
  })

  test('has every text once, whatever ends before its message does', () => {
    const items = [
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'sealed' },
      { type: 'web_search_call', id: 'ws_1', status: 'completed' },
      { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
      { type: 'message', content: [{ type: 'output_text', text: 'Hi' }] },
    ]
    const added = items.map(({ type, ...item }, output_index) => {
      const begun = type === 'function_call' ? { ...item, arguments: '' } : {}
      return { type: 'response.output_item.added', item: { ...begun, type }, output_index }
    })
    const done = items.map((item, output_index) => ({ type: 'response.output_item.done', item, output_index }))
    const text = { type: 'response.output_text.delta', delta: 'Hi', output_index: 3 }
    const { events } = read([...added, text, ...done, COMPLETED])
    expect(events.filter(({ type }) => type === 'text')).toEqual([{ type: 'text', text: 'Hi' }])
    const { encrypted_content, id, summary, type } = items[0] ?? {}
    const json = JSON.stringify({ type, id, summary, encrypted_content })
    expect(events).toContainEqual({ type: 'thought', json })
    expect(events).toContainEqual({ type: 'tool-delta', index: 0, json: '{}' })
  })

  test('has every thought once, whatever ends before it does', () => {
    const item = (output_index: number) => {
      const [type, text] = ['reasoning', `thought ${output_index}`]
      const whole = { type, id: `rs_${output_index}`, summary: [{ type: 'summary_text', text }] }
      return {
        added: { type: 'response.output_item.added', item: { ...whole, summary: [] }, output_index },
        delta: { type: 'response.reasoning_summary_text.delta', delta: text, output_index },
        done: { type: 'response.output_item.done', item: whole, output_index },
      }
    }
    const [first, second, third] = [item(0), item(1), item(2)]
    const pair = [first.added, first.delta, second.added, second.delta, second.done, first.done]
    const { events } = read([...pair, third.added, third.done, COMPLETED])
    const thoughts = events.flatMap((event) => (event.type === 'reasoning' ? [event.text] : []))
    expect(thoughts).toEqual(['thought 0', 'thought 1', 'thought 2'])
  })

  test.each([
    ['flex', 'flex'],
    ['auto', undefined],
    [null, undefined],
  ])('names the tier that served it: %p', (service_tier, serviceTier) => {
    const output = [{ type: 'message', content: [{ type: 'output_text', text: 'x' }] }]
    const body = { status: 'completed', output, service_tier, usage: { input_tokens: 3, output_tokens: 2 } }
    const created = { type: 'response.created', response: { service_tier: 'priority' } }
    const { events } = read([created, ADDED, delta('x'), { type: 'response.completed', response: body }])
    const usage = expect.objectContaining({ input: 3, output: 2, serviceTier })
    expect(events).toContainEqual({ type: 'usage', usage })
    expect(openaiResponses.plain?.(body)?.usage).toEqual(usage)
    const { usage: _, ...uncounted } = body
    expect(openaiResponses.plain?.(uncounted)?.usage?.serviceTier).toBe(serviceTier)
  })

  test('has log probabilities as Chat Completions has them', () => {
    const logprobs = [{ token: 'a', logprob: -0.5, top_logprobs: [{ token: 'b', logprob: -1 }] }]
    expect(read([ADDED, { ...delta('a'), logprobs }]).events.at(-1)).toEqual({
      type: 'text',
      text: 'a',
      logprobs: {
        content: [{ token: 'a', logprob: -0.5, bytes: null, top_logprobs: [{ token: 'b', logprob: -1, bytes: null }] }],
        refusal: null,
      },
    })
  })

  test('may have the types of its events in their names alone, and its calls by their ids', () => {
    const decoder = openaiResponses.decoder()
    const item = { type: 'function_call', id: 'fc_1', call_id: 'c1', name: 'f', arguments: '' }
    const events = [
      { ...ADDED, item },
      { type: 'response.function_call_arguments.delta', delta: '{"a":1}', item_id: 'fc_1', output_index: 1 },
      { type: 'response.output_item.done', item: { ...item, arguments: '{"a":1}' }, output_index: 1 },
      COMPLETED,
    ].flatMap(({ type, ...event }) => decoder.decode(type, JSON.stringify(event)))
    expect(events).toEqual([
      { type: 'start' },
      { type: 'tool-start', index: 0, callId: 'c1', name: 'f' },
      { type: 'tool-delta', index: 0, json: '{"a":1}' },
      { type: 'usage', usage: expect.objectContaining({ input: 3 }) },
      { type: 'finish', reason: 'tool-call' },
      { type: 'end' },
    ])
  })

  test('is read to its last member without its output', () => {
    // The output is no JSON: nothing but the counts is parsed.
    const decoder = openaiResponses.decoder()
    for (const event of [ADDED, delta('x')]) decoder.decode(event.type, JSON.stringify(event))
    const last =
      '{"type":"response.completed","response":{"status":"completed","output":[!],"usage":{"output_tokens":2}}}'
    expect(decoder.decode('response.completed', last)).toContainEqual({ type: 'end' })
  })
})

test('an answer of 10 MB takes no more memory than its longest delta, and is counted by its last event', () => {
  const lengths: number[] = []
  const decoder = openaiResponses.decoder()
  const framer = openaiResponses.framer()
  const events: StreamEvent[] = []
  const write = (event: JsonObject) =>
    framer.push(Buffer.from(`event: ${event['type']}\ndata: ${JSON.stringify(event)}\n\n`), (name, data) => {
      lengths.push(data.length)
      for (const each of decoder.decode(name, data)) if (each.type !== 'text') events.push(each)
    })
  const piece = String.raw`"é" \ \"`.repeat(8000)
  const text = piece.repeat(120)
  const item = { type: 'message', content: [{ type: 'output_text', text }] }
  write(ADDED)
  for (let at = 0; at < 120; at++) write(delta(piece))
  write({ type: 'response.output_text.done', text })
  write({ type: 'response.output_item.done', item, output_index: 0 })
  const usage = { input_tokens: 3, output_tokens: 2 }
  write({ type: 'response.completed', response: { status: 'completed', output: [item], usage, service_tier: 'flex' } })
  expect(Math.max(...lengths)).toBeLessThan(3_700_000)
  expect(text.length).toBeGreaterThan(9_000_000)
  expect(events.slice(1)).toEqual([
    { type: 'usage', usage: expect.objectContaining({ input: 3, output: 2, serviceTier: 'flex' }) },
    { type: 'finish', reason: 'stop' },
    { type: 'end' },
  ])
})

test('a text that is in its item alone, and too long for an event, is an error and never shortened', () => {
  const decoder = openaiResponses.decoder()
  const framer = openaiResponses.framer()
  const item = { type: 'message', content: [{ type: 'output_text', text: 'x'.repeat(4_000_000) }] }
  const write = (event: JsonObject) =>
    framer.push(Buffer.from(`data: ${JSON.stringify(event)}\n\n`), (name, data) => void decoder.decode(name, data))
  write(ADDED)
  expect(() => write({ type: 'response.output_item.done', item, output_index: 0 })).toThrow(
    expect.objectContaining({ kind: 'broken' }),
  )
})

describe.each(['openai', 'openai-6'])('the events of the union of %s', (sdk) => {
  const path = Bun.resolveSync(`${sdk}/resources/responses/responses`, import.meta.dir).replace(/\.m?js$/, '.d.ts')
  const types = new Set(readFileSync(path, 'utf8').match(/(?<=type: ')response\.[a-z_.]+(?=';)/g))
  /** Those that end an answer, or are of clients. */
  for (const type of ['completed', 'incomplete', 'failed', 'create', 'cancel', 'steer'])
    types.delete(`response.${type}`)

  test('are all there', () => expect(types.size).toBeGreaterThan(45))

  test.each([...types, 'keepalive', 'response.unheard_of'])('%s', (type) => {
    const stream = [{ type: 'response.created' }, ADDED, delta('a'), delta('b'), COMPLETED]
    const isDelta = type === 'response.output_text.delta' || type === 'response.refusal.delta'
    const own = {
      'response.function_call_arguments.delta': { output_index: 1 },
      'response.custom_tool_call_input.delta': { output_index: 1 },
      'response.output_item.added': { output_index: 1, item: { type: 'web_search_call' } },
    }[type]
    const more = { ...{ item_id: 'x', output_index: 0, delta: isDelta ? '' : 'x', text: 'x' }, ...own }
    const item = { type: 'function_call', call_id: 'c', name: 'f', arguments: '' }
    const call = own === undefined ? [] : [{ type: 'response.output_item.added', output_index: 1, item }]
    const withoutThoughts = (events: readonly JsonObject[]) =>
      read(events).events.filter((event) => !/^(?:reasoning|tool-delta)$/.test(event.type))
    const between = (...events: readonly JsonObject[]) => [...stream.slice(0, 3), ...events, ...stream.slice(3)]
    const isCall = type === 'response.function_call_arguments.delta' || type === 'response.custom_tool_call_input.delta'
    expect(withoutThoughts(between(...(isCall ? call : []), { type, ...more }))).toEqual(
      withoutThoughts(between(...(isCall ? call : []))),
    )
  })
})

describe('stop sequences', () => {
  const texts = (events: readonly StreamEvent[]) =>
    events.map((event) => (event.type === 'text' ? event.text : '')).join('')

  test.each([
    ['in one event', ['one STOP two'], 'one '],
    ['over events', ['one S', 'T', 'OP two'], 'one '],
    ['of which the first counts', ['one', ' END STOP'], 'one '],
    ['that only begin', ['one ST', 'OX ', 'EN'], 'one STOX EN'],
    ['at the very beginning', ['STOP'], ''],
    ['after their own beginning', ['SSTOP'], 'S'],
  ])('%s', (_, pieces, text) => {
    const { events, hasStopped } = read([ADDED, ...pieces.map(delta), COMPLETED], ['STOP', 'END'])
    expect(texts(events)).toBe(text)
    expect(events.slice(-2)).toEqual([{ type: 'finish', reason: 'stop' }, { type: 'end' }])
    expect(hasStopped).toBe(!pieces.join('').includes('STOX'))
  })

  /** As a provider does: checks for a stop sequence after each character, the longest one first. */
  function naiveText(text: string, stop: readonly string[]): string {
    for (let end = 1; end <= text.length; end++) {
      const found = stop.filter((sequence) => text.slice(0, end).endsWith(sequence))
      if (found.length > 0) return text.slice(0, end - Math.max(...found.map(({ length }) => length)))
    }
    return text
  }

  function divisionsOf(text: string): readonly string[][] {
    return Array.from({ length: 2 ** (text.length - 1) }, (_, cuts) => {
      const pieces = [text.slice(0, 1)]
      for (let at = 1; at < text.length; at++) {
        if ((cuts >> (at - 1)) & 1) pieces.push(text.charAt(at))
        else pieces[pieces.length - 1] += text.charAt(at)
      }
      return pieces
    })
  }

  const ALL_TEXTS = [...'abc'].flatMap((a) =>
    [...'abc'].flatMap((b) => [...'abc'].flatMap((c) => [...'abc'].map((d) => a + b + c + d))),
  )

  test.each([
    { stop: ['abc', 'b'] },
    { stop: ['abcd', 'bc'], texts: ['abcd', 'aabcd', 'ababcd'] },
    { stop: ['bc', 'abc'] },
    { stop: ['aab', 'ab', 'ba'] },
    { stop: ['abab', 'bab', 'ca'] },
  ])('the same however the text is divided: $stop', ({ stop, texts: all = ALL_TEXTS }) => {
    for (const text of all) {
      const expected = naiveText(text, stop)
      const body = { status: 'completed', output: [{ type: 'message', content: [{ type: 'output_text', text }] }] }
      expect([text, texts(sent({ stop }).reader?.events(body) ?? [])]).toEqual([text, expected])
      for (const pieces of divisionsOf(text))
        expect([pieces, texts(read([ADDED, ...pieces.map(delta), COMPLETED], stop).events)]).toEqual([pieces, expected])
    }
  })

  test.each([
    ['before one', ['one ST'], /ended/],
    ['after one', ['one STOP'], undefined],
  ])('of a stream that breaks off %s', (_, pieces, error) => {
    const decoder = (sent({ stop: ['STOP'], stream: true }).reader ?? openaiResponses).decoder()
    for (const event of [ADDED, ...pieces.map(delta)]) decoder.decode(event.type, JSON.stringify(event))
    if (error === undefined) expect(decoder.close()).toEqual([])
    else expect(() => decoder.close()).toThrow(error)
  })

  test.each([
    ['64 of 1,024 characters', Array(64).fill('x'.repeat(1024)), true],
    ['too many', Array(65).fill('x'), false],
    ['a longer one', ['x'.repeat(1025)], false],
  ])('%s', (_, stop, isTaken) => {
    const request = expect(() => sent({ stop }))
    if (isTaken) request.not.toThrow()
    else request.toThrow(expect.objectContaining({ kind: 'rejected', detail: { unsent: true } }))
  })

  test('end a whole answer, whose usage stays', () => {
    const content = [{ type: 'output_text', text: 'one STOP two' }]
    const body = {
      status: 'completed',
      output: [{ type: 'message', content }],
      usage: { input_tokens: 3, output_tokens: 9 },
    }
    const events = sent({ stop: ['STOP'] }).reader?.events(body) ?? []
    expect(texts(events)).toBe('one ')
    expect(events).toContainEqual({ type: 'usage', usage: expect.objectContaining({ output: 9 }) })
    expect(events.at(-1)).toEqual({ type: 'end' })
  })
})
