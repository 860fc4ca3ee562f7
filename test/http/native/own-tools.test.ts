/** `tools: pass`: OpenAI's own tools, from callers of Responses to providers of Responses. */

import { describe, expect, test } from 'bun:test'
import { ask, requestBytes } from '../../support/caller.ts'
import { eventsOf } from '../../support/event-reader.ts'
import { KEY } from '../../support/gateway.ts'
import { json, stream as streams } from '../../support/scenarios.ts'
import { lastingGateway, lastingUpstream } from '../../support/served.ts'
import { SocketClient } from '../../support/socket-client.ts'
import { speaks, textAnswer } from '../../support/speech.ts'

const SPECIFICATION = 'specification-key-0123456789'
const LIMITED = 'limited-key-01234567890123'
const STRICT = 'strict-key-012345678901234'

const upstream = await lastingUpstream()
const priced = {
  targets: [{ provider: 'own', model: 'gpt' }],
  max_output_tokens: 100,
  context_window: 10_000,
  price: { input: 1, output: 10, tools: { web_search: 10, web_search_preview: 25, code_interpreter_4g: 120 } },
}
const limits = (strict: boolean) => ({ spend: { total: 0.3, ...(strict && { strict }) } })
const gateway = await lastingGateway({
  providers: {
    up: upstream.url,
    own: { dialect: 'openai', base_url: upstream.url, api: 'responses' },
    claude: { dialect: 'anthropic', base_url: upstream.url, api_key: 'secret-of-claude' },
  },
  models: { m: ['up/m'], own: ['own/gpt'], claude: ['claude/claude-sonnet-4-5'], priced },
  config: {
    compatibility: { tools: 'pass', reasoning: 'pass' },
    organizations: [
      {
        id: 'test',
        keys: [
          { id: 'native', key: KEY },
          { id: 'specification', key: SPECIFICATION, compatibility: { mode: 'specification' } },
          { id: 'limited', key: LIMITED, models: ['priced'], limits: limits(false) },
          { id: 'strict', key: STRICT, models: ['priced'], limits: limits(true) },
        ],
      },
    ],
  },
})

const TOOLS = [
  { type: 'web_search', search_context_size: 'low', user_location: { type: 'approximate', country: 'DE' } },
  { type: 'file_search', vector_store_ids: ['vs_1'], max_num_results: 3 },
  { type: 'code_interpreter', container: { type: 'auto' } },
  { type: 'image_generation', quality: 'low' },
  { type: 'mcp', server_label: 'x', server_url: 'https://mcp.example.com', require_approval: 'never' },
]
const FUNCTION = { type: 'function', name: 'find', parameters: { type: 'object', properties: {} } }
const SEARCH = {
  id: 'ws_1',
  type: 'web_search_call',
  status: 'completed',
  action: { type: 'search', query: 'é \u2028', sources: [{ type: 'url', url: 'https://a.example' }] },
}
const MCP = { id: 'mcp_1', type: 'mcp_call', server_label: 'x', name: 'f', arguments: '{"a":12345678901234567890}' }
const CITATION = { type: 'url_citation', url: 'https://a.example', title: 'A', start_index: 0, end_index: 3 }
const OUTPUT = { type: 'computer_call_output', call_id: 'c_1', output: { type: 'computer_screenshot', image_url: 'x' } }
const HISTORY = [
  { type: 'message', role: 'user', content: 'search' },
  SEARCH,
  { type: 'message', role: 'assistant', phase: 'commentary', content: [{ type: 'output_text', text: 'found' }] },
  { id: 'cu_1', type: 'computer_call', call_id: 'c_1', action: { type: 'wait' }, pending_safety_checks: [] },
  OUTPUT,
  { type: 'message', role: 'user', content: 'go on' },
]
const BODY = { input: HISTORY, tools: [...TOOLS, FUNCTION] }

async function sent(body: object, key = KEY) {
  const before = upstream.calls.length
  const answer = await ask(gateway.port, requestBytes('/v1/responses', { key, body }))
  return { answer, call: upstream.calls[before] }
}

async function lineOf(answer: { header(name: string): string | undefined }) {
  return gateway.request(answer.header('x-request-id') ?? '')
}

const resource = { id: 'r', object: 'response', status: 'completed', usage: { input_tokens: 1000, output_tokens: 100 } }
const text = (name: string, annotations: readonly object[] = []) => [
  { type: 'output_text', annotations, logprobs: [], text: name },
]
const message = (id: string, phase: string, content: readonly object[]) => ({
  ...{ id, type: 'message', status: 'completed', phase, role: 'assistant', content },
})
const ITEMS = [
  message('msg_1', 'commentary', text('one')),
  SEARCH,
  { ...MCP, output: 'done', error: null },
  message('msg_2', 'final_answer', text('two', [CITATION])),
  { id: 'fc_1', type: 'function_call', status: 'completed', call_id: 'call_1', name: 'find', arguments: '{}' },
  { ...SEARCH, id: 'ws_2', action: { type: 'open_page', url: 'https://a.example' } },
]
const WHOLE = { ...resource, output: ITEMS }

/** Their events as OpenAI sends them, but for the members that repeat others. */
const EVENTS: readonly Record<string, unknown>[] = [
  { type: 'response.created', response: { ...resource, status: 'in_progress', output: [], usage: null } },
  { type: 'response.output_item.added', output_index: 0, item: message('msg_1', 'commentary', []) },
  { type: 'response.output_text.delta', output_index: 0, item_id: 'msg_1', content_index: 0, delta: 'on' },
  { type: 'response.output_text.delta', output_index: 0, item_id: 'msg_1', content_index: 0, delta: 'e' },
  { type: 'response.output_item.done', output_index: 0, item: ITEMS[0] },
  { type: 'response.output_item.added', output_index: 1, item: { ...SEARCH, status: 'in_progress', action: null } },
  { type: 'response.web_search_call.in_progress', output_index: 1, item_id: 'ws_1', sequence_number: 77 },
  { type: 'response.output_item.added', output_index: 2, item: { ...MCP, arguments: '' } },
  { type: 'response.web_search_call.completed', output_index: 1, item_id: 'ws_1' },
  { type: 'response.mcp_call_arguments.delta', output_index: 2, item_id: 'mcp_1', delta: MCP.arguments },
  { type: 'response.output_item.done', output_index: 2, item: ITEMS[2] },
  { type: 'response.output_item.done', output_index: 1, item: SEARCH },
  { type: 'response.output_item.added', output_index: 3, item: message('msg_2', 'final_answer', []) },
  { type: 'response.output_text.delta', output_index: 3, item_id: 'msg_2', content_index: 0, delta: 'two' },
  { type: 'response.output_text.annotation.added', output_index: 3, item_id: 'msg_2', annotation: CITATION },
  { type: 'response.output_item.done', output_index: 3, item: ITEMS[3] },
  { type: 'response.output_item.added', output_index: 4, item: { ...ITEMS[4], arguments: '' } },
  { type: 'response.function_call_arguments.delta', output_index: 4, item_id: 'fc_1', delta: '{}' },
  { type: 'response.output_item.done', output_index: 4, item: ITEMS[4] },
  { type: 'response.output_item.done', output_index: 5, item: ITEMS[5] },
  { type: 'response.completed', response: WHOLE },
]
const frames = (events: readonly Record<string, unknown>[]) =>
  events.map((event) => `event: ${event['type']}\ndata: ${JSON.stringify(event)}\n\n`)

/** Without the ids that weir makes for messages and calls. */
const unnamed = (items: readonly Record<string, unknown>[]) =>
  items.map((item) => (/^(?:message|function_call)$/.test(String(item['type'])) ? { ...item, id: '' } : item))

describe('a request', () => {
  test('takes tools, items and fields of them as they came, in their order', async () => {
    upstream.otherwise(json(200, JSON.stringify(WHOLE)))
    const include = ['web_search_call.action.sources', 'bogus.thing', 'reasoning.encrypted_content']
    const choice = { type: 'web_search' }
    const { answer, call } = await sent({ ...BODY, model: 'own', include, max_tool_calls: 3, tool_choice: choice })
    expect(answer.status).toBe(200)
    expect(call?.path).toEndWith('/responses')
    expect(call?.json?.['tools']).toEqual([...TOOLS, { ...FUNCTION, strict: false }])
    expect(call?.json?.['input']).toMatchObject([
      { role: 'user' },
      SEARCH,
      { content: 'found', phase: 'commentary' },
      HISTORY[3],
      OUTPUT,
      {},
    ])
    expect(call?.json).toMatchObject({ max_tool_calls: 3, tool_choice: choice })
    expect(call?.json?.['include']).toEqual(['web_search_call.action.sources', 'reasoning.encrypted_content'])
    expect((await lineOf(answer))['ignored']).toBeUndefined()
  })

  test.each(['m', 'claude'])('of another API (%s) has none of it, and the log names it', async (model) => {
    upstream.otherwise(speaks(model === 'm' ? 'openai' : 'anthropic', () => textAnswer('Hello.')))
    const body = { ...BODY, model, max_tool_calls: 3 }
    const native = await sent(body)
    const other = await sent(body, SPECIFICATION)
    expect([native.answer.status, native.call?.json]).toEqual([200, other.call?.json])
    const { ignored } = await lineOf(native.answer)
    const kinds = TOOLS.map(({ type }) => `tools.${type}`)
    expect(ignored).toEqual(['max_tool_calls', ...kinds, 'input'])
  })

  test('of nothing but such items is an error of the caller there', async () => {
    const { answer } = await sent({ model: 'm', input: [SEARCH], tools: [] })
    expect([answer.status, answer.text.includes('no item')]).toEqual([400, true])
  })

  test.each([
    [{ tools: [{ type: 'mcp', server_label: 'x', headers: { api_key: 'k' } }] }, 'tools[0].headers.api_key'],
    [{ tools: TOOLS.slice(0, 1), tool_choice: { type: 'web_search', base_url: 'x' } }, 'tool_choice.base_url'],
    [{ input: [{ ...SEARCH, fallbacks: [] }] }, 'input[0].fallbacks'],
    [{ tools: TOOLS, max_tool_calls: 'x' }, 'max_tool_calls'],
    [{ tools: TOOLS, max_tool_calls: 0 }, 'max_tool_calls'],
  ])('with %j is refused', async (body, param) => {
    const { answer, call } = await sent({ model: 'own', input: 'x', ...body })
    expect([answer.status, JSON.parse(answer.text).error.param, call]).toEqual([400, param, undefined])
  })
})

describe('an answer', () => {
  test('passes as a whole, in its order', async () => {
    upstream.otherwise(json(200, JSON.stringify(WHOLE)))
    const { answer } = await sent({ ...BODY, model: 'own' })
    expect(unnamed(JSON.parse(answer.text).output)).toEqual(unnamed(ITEMS))
  })

  test('passes as a stream: items begin and end in their order, with their events between', async () => {
    upstream.otherwise(streams(frames(EVENTS)))
    const { answer } = await sent({ ...BODY, model: 'own', stream: true })
    const events = eventsOf(answer.text)
    const ended = events.filter(({ type }) => type === 'response.output_item.done')
    expect(unnamed(ended.map(({ item }) => item))).toEqual(unnamed(ITEMS))
    expect(events.at(-1).response.output).toEqual(ended.map(({ item }) => item))
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index))
    expect(ended.map(({ output_index: index }) => index)).toEqual([0, 1, 2, 3, 4, 5])
    const begun = events.flatMap(({ type, item }) => (type === 'response.output_item.added' ? [item.phase] : []))
    expect(begun.filter((phase) => phase !== undefined)).toEqual(['commentary', 'final_answer'])
    const own = events.filter(({ type }) => /web_search_call|mcp_call/.test(type))
    expect(own).toMatchObject([
      { type: 'response.web_search_call.in_progress', output_index: 1, item_id: 'ws_1' },
      { type: 'response.web_search_call.completed', output_index: 1 },
      { type: 'response.mcp_call_arguments.delta', output_index: 2, delta: MCP.arguments },
    ])
    const annotated = events.find(({ type }) => type === 'response.output_text.annotation.added')
    expect(annotated).toMatchObject({ output_index: 3, annotation_index: 0, annotation: CITATION })
  })

  test('is the same if the provider streams it to a caller of a whole one, and the reverse', async () => {
    upstream.otherwise(streams(frames(EVENTS)))
    const whole = await sent({ ...BODY, model: 'own' })
    expect(unnamed(JSON.parse(whole.answer.text).output)).toEqual(unnamed(ITEMS))
    upstream.otherwise(json(200, JSON.stringify(WHOLE)))
    const { answer } = await sent({ ...BODY, model: 'own', stream: true })
    expect(unnamed(eventsOf(answer.text).at(-1).response.output)).toEqual(unnamed(ITEMS))
  })

  test('is cut without its final marker, whatever has passed', async () => {
    for (const many of [3, 7, 12, EVENTS.length - 1]) {
      upstream.otherwise(streams(frames(EVENTS.slice(0, many))))
      const { answer } = await sent({ ...BODY, model: 'own', stream: true })
      expect([answer.end, answer.text.includes('response.completed')]).toEqual(['cut', false])
    }
  })

  test('has none of it by the specification', async () => {
    upstream.otherwise(streams(frames(EVENTS)))
    const { answer } = await sent({ ...BODY, model: 'own', stream: true }, SPECIFICATION)
    const { output } = eventsOf(answer.text).at(-1).response
    expect(output).toMatchObject([{ content: text('onetwo') }, { type: 'function_call' }])
    expect(output[0]).not.toHaveProperty('phase')
  })
})

test('a turn on a socket continues from such items, and an item can be referred to', async () => {
  await using client = await SocketClient.open(gateway.port, KEY)
  upstream.otherwise(streams(frames(EVENTS)))
  const create = { type: 'response.create', model: 'own', tools: TOOLS }
  const first = await client.turn({ ...create, input: 'x' })
  const { response } = first.at(-1) as { response: { id: string } }
  const output = [{ type: 'function_call_output', call_id: 'call_1', output: 'ok' }]
  await client.turn({ ...create, input: output, previous_response_id: response.id })
  const phases = (items: unknown) => (items as { phase?: string }[]).flatMap(({ phase }) => phase ?? [])
  expect(phases(upstream.calls.at(-1)?.json?.['input'])).toEqual(['commentary', 'final_answer'])
  const types = (items: unknown) => (items as { type?: string; role?: string }[]).map(({ type, role }) => type ?? role)
  const own = ['web_search_call', 'mcp_call', 'assistant', 'web_search_call', 'function_call', 'function_call_output']
  expect(types(upstream.calls.at(-1)?.json?.['input'])).toEqual(['user', 'assistant', ...own])
  await sent({
    model: 'own',
    input: [
      { type: 'item_reference', id: 'ws_1' },
      { role: 'user', content: 'x' },
    ],
  })
  expect(upstream.calls.at(-1)?.json?.['input']).toMatchObject([SEARCH, {}])
})

describe('a program that calls tools', () => {
  const caller = { type: 'program', caller_id: 'call_p' }
  const PROGRAM = { id: 'prg_1', type: 'program', call_id: 'call_p', code: 'await find({})', fingerprint: 'f' }
  const CALL = { type: 'function_call', status: 'completed', arguments: '{}', call_id: 'call_1', name: 'find', caller }
  const FREE = { type: 'custom_tool_call', status: 'completed', input: 'x', call_id: 'call_2', name: 'edit', caller }
  const whole = { ...resource, output: [PROGRAM, { ...CALL, id: 'fc_1' }, { ...FREE, id: 'ctc_1' }] }
  const tools = [{ type: 'programmatic_tool_calling' }, { ...FUNCTION, allowed_callers: ['programmatic'] }]
  const body = { tools: [...tools, { type: 'custom', name: 'edit' }] }
  const RESULTS = [
    { type: 'function_call_output', call_id: 'call_1', output: 'y', caller },
    { type: 'custom_tool_call_output', call_id: 'call_2', output: 'z' },
  ]
  const withoutIds = (items: readonly Record<string, unknown>[]) => items.map(({ id: _, ...others }) => others)
  const asked = { role: 'user', content: 'go' }

  test('passes with its calls and their outputs, to and fro', async () => {
    upstream.otherwise(json(200, JSON.stringify(whole)))
    const { output } = JSON.parse((await sent({ ...body, model: 'own', input: [asked] })).answer.text)
    expect(withoutIds(output)).toEqual([{ ...PROGRAM, id: undefined }, CALL, FREE])
    const added = whole.output.map((item, output_index) => ({ type: 'response.output_item.done', output_index, item }))
    upstream.otherwise(streams(frames([...added, { type: 'response.completed', response: whole }])))
    const { answer } = await sent({ ...body, model: 'own', input: [asked], stream: true })
    expect(withoutIds(eventsOf(answer.text).at(-1).response.output)).toEqual(withoutIds(output))

    const done = { id: 'pro_1', type: 'program_output', call_id: 'call_p', result: 'r', status: 'completed' }
    const input = [asked, ...output, ...RESULTS, done]
    upstream.otherwise(json(200, JSON.stringify(WHOLE)))
    const { call } = await sent({ ...body, model: 'own', input })
    expect(call?.json).toMatchObject({ input, tools: body.tools })
    const other = await sent({ ...body, model: 'claude', input })
    expect([other.answer.status, JSON.stringify(other.call?.json).includes('call_')]).toEqual([502, false])
  })

  test('continues on a socket', async () => {
    upstream.otherwise(streams(frames([{ type: 'response.completed', response: whole }])))
    await using socket = await SocketClient.open(gateway.port, KEY)
    const create = { ...body, type: 'response.create', model: 'own' }
    const { response } = (await socket.turn({ ...create, input: [asked] })).at(-1) as { response: typeof whole }
    await socket.turn({ ...create, previous_response_id: response.id, input: RESULTS })
    expect(upstream.calls.at(-1)?.json?.['input']).toEqual([asked, ...response.output, ...RESULTS])
  })
})

describe('under a spend limit', () => {
  const search = { type: 'web_search' }
  const answer = (output: readonly object[], more: object = {}) =>
    json(200, JSON.stringify({ ...resource, output, ...more }))

  async function cost(body: object, output: readonly object[] = ITEMS, key = LIMITED, more: object = {}) {
    upstream.otherwise(answer(output, more))
    const made = await sent({ model: 'priced', input: 'x', max_output_tokens: 100, ...body }, key)
    const line = made.answer.status === 200 ? await lineOf(made.answer) : {}
    return {
      status: made.answer.status,
      text: made.answer.text,
      cost: line['cost_micro_usd'],
      calls: line['tool_calls'],
    }
  }

  test('calls are reserved as many as the request allows, and charged as they come', async () => {
    // 1,000 tokens at $1 and 100 at $10 a million; one search, and a page that costs nothing.
    const made = await cost({ tools: [search], max_tool_calls: 5 })
    expect([made.cost, made.calls]).toEqual([12_000, { web_search: 1, mcp: 1 }])
    expect((await cost({ tools: [{ type: 'web_search_preview_2025_03_11' }] })).cost).toBe(27_000)
    const reported = { tool_usage: { web_search: { num_requests: 3 } } }
    expect((await cost({ tools: [search] }, ITEMS, LIMITED, reported)).cost).toBe(32_000)
    expect((await cost({ tools: [search], max_tool_calls: 40 })).status).toBe(429)
  })

  test.each([
    { type: 'file_search', vector_store_ids: ['vs_1'] },
    { type: 'code_interpreter', container: { type: 'auto' } },
    { type: 'code_interpreter', container: { type: 'auto', memory_limit: '64g' } },
    { type: 'shell', environment: { type: 'container_auto' } },
    { type: 'brand_new_tool' },
  ])('what has no price is refused: %j', async (tool) => {
    const { status, text: body } = await cost({ tools: [tool] })
    expect([status, JSON.parse(body).error]).toMatchObject([400, { code: 'unpriced_tool', param: 'tools' }])
    upstream.otherwise(answer(ITEMS))
    expect((await sent({ model: 'priced', input: 'x', tools: [tool] })).answer.status).toBe(200)
  })

  test('a container with more memory has its own price, and what the caller runs has none', async () => {
    const ran = [{ type: 'code_interpreter_call', id: 'ci_1', code: 'x', container_id: 'c', status: 'completed' }]
    const tools = [{ type: 'code_interpreter', container: { type: 'auto', memory_limit: '4g' } }]
    expect((await cost({ tools, max_tool_calls: 1 }, ran)).cost).toBe(122_000)
    const shell = [{ type: 'shell', environment: { type: 'local' } }, { type: 'local_shell' }]
    expect((await cost({ tools: shell }, ran.slice(1))).status).toBe(200)
  })

  test('that is strict, their calls must be limited', async () => {
    const { status, text: body } = await cost({ tools: [search] }, ITEMS, STRICT)
    expect([status, body.includes('max_tool_calls')]).toEqual([400, true])
    expect((await cost({ tools: [search], max_tool_calls: 2 }, ITEMS, STRICT)).status).toBe(200)
  })
})
