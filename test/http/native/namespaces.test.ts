/** Tools as their caller listed them, with namespaces, for a provider of Responses; and servers that reject some. */

import { describe, expect, test } from 'bun:test'
import { ask, requestBytes } from '../../support/caller.ts'
import { eventsOf } from '../../support/event-reader.ts'
import { KEY } from '../../support/gateway.ts'
import { json, stream as streams } from '../../support/scenarios.ts'
import { served } from '../../support/served.ts'
import { SocketClient } from '../../support/socket-client.ts'
import { calls, speaks, textAnswer } from '../../support/speech.ts'

const own = { dialect: 'openai', api: 'responses' }
const { upstream, gateway } = await served((url) => ({
  providers: {
    up: url,
    own: { ...own, base_url: `${url}/own` },
    plain: { ...own, base_url: `${url}/plain` },
    ...Object.fromEntries([1, 2, 3].map((n) => [`small${n}`, { ...own, base_url: `${url}/small${n}` }])),
    claude: { dialect: 'anthropic', base_url: url, api_key: 'secret-of-claude' },
  },
  models: {
    m: ['up/m'],
    own: ['own/gpt'],
    plain: ['plain/gpt'],
    small1: ['small1/gpt'],
    small2: ['small2/gpt'],
    small3: ['small3/gpt'],
    claude: ['claude/claude-opus-5'],
  },
  config: { compatibility: { tools: 'pass' } },
}))

const GRAMMAR = { type: 'grammar', syntax: 'lark', definition: 'start: "x"' }
const PATCH = { type: 'custom', name: 'patch', description: 'Patches.', format: GRAMMAR }
const schema = { type: 'object', properties: { q: { type: 'string' } } }
const FIND = { type: 'function', name: 'find', description: 'Finds.', parameters: schema, strict: false }
const DEFERRED = { ...FIND, name: 'look', defer_loading: true, output_schema: { timeout: 1 } }
const SPACE = { type: 'namespace', name: 'edit', description: 'Edits.', tools: [PATCH, DEFERRED] }
const SEARCH = { type: 'tool_search', execution: 'client', description: 'Searches.', parameters: schema }
const MCP = {
  ...{ type: 'mcp', server_label: 'x', server_url: 'https://mcp.example.com' },
  ...{ authorization: 'secret-of-mcp', headers: { 'x-token': 'secret-of-mcp' } },
}
const TOOLS = [{ type: 'web_search' }, FIND, SPACE, PATCH, MCP, SEARCH]
const FOUND = { type: 'namespace', name: 'mcp__notes', description: 'Notes.', tools: [FIND] }
const HISTORY = [
  { role: 'user', content: 'x' },
  { type: 'tool_search_call', call_id: 's_1', execution: 'client', status: 'completed', arguments: { q: 'notes' } },
  { type: 'tool_search_output', call_id: 's_1', execution: 'client', status: 'completed', tools: [FOUND] },
  { type: 'function_call', call_id: 'c_1', name: 'find', namespace: 'mcp__notes', arguments: '{"q":"a"}' },
  { type: 'function_call_output', call_id: 'c_1', output: 'done' },
  { type: 'custom_tool_call', call_id: 'c_2', name: 'patch', namespace: 'edit', input: 'text' },
  { type: 'custom_tool_call_output', call_id: 'c_2', output: 'ok' },
]
const BODY = { input: HISTORY, tools: TOOLS, model: 'own' }
const usage = { input_tokens: 1, output_tokens: 1 }
const CALLS = [
  { type: 'function_call', id: 'fc_1', call_id: 'c_3', name: 'find', namespace: 'mcp__notes', arguments: '{"q":"b"}' },
  { type: 'custom_tool_call', id: 'ct_1', call_id: 'c_4', name: 'patch', namespace: 'edit', input: 'two' },
  { type: 'function_call', id: 'fc_2', call_id: 'c_5', name: 'find', arguments: '{"q":"c"}' },
]
const WHOLE = { id: 'r', object: 'response', status: 'completed', usage, output: CALLS }
const FRAMES = [
  { type: 'response.created', response: { ...WHOLE, status: 'in_progress', output: [] } },
  ...CALLS.flatMap((item, index) => [
    { type: 'response.output_item.added', output_index: index, item: { ...item, arguments: '', input: '' } },
    'input' in item
      ? { type: 'response.custom_tool_call_input.delta', output_index: index, item_id: item.id, delta: item.input }
      : {
          type: 'response.function_call_arguments.delta',
          output_index: index,
          item_id: item.id,
          delta: item.arguments,
        },
    { type: 'response.output_item.done', output_index: index, item },
  ]),
  { type: 'response.completed', response: WHOLE },
].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)

async function sent(body: object, path = '/v1/responses') {
  const before = upstream.calls.length
  const answer = await ask(gateway.port, requestBytes(path, { key: KEY, body }))
  return { answer, calls: upstream.calls.slice(before), call: upstream.calls[before]?.json }
}

/** The names of tools in a list, or of calls among items. */
function namesOf(items: unknown): readonly unknown[] {
  if (!Array.isArray(items)) return []
  return items.map(({ name, namespace }: Record<string, unknown>) => [name, namespace])
}

/** Without the ids that weir makes. */
const unnamed = (items: readonly Record<string, unknown>[]) => items.map(({ id: _, status: __, ...others }) => others)

describe.each([false, true])('a provider of Responses, streamed: %p', (stream) => {
  test('gets tools in their order, with namespaces, and calls of them by two names', async () => {
    upstream.otherwise(stream ? streams(FRAMES) : json(200, JSON.stringify(WHOLE)))
    const { answer, call } = await sent({ ...BODY, stream })
    expect(call?.['tools']).toEqual(TOOLS)
    expect(call?.['input']).toEqual(HISTORY)
    const resource = stream ? eventsOf(answer.text).at(-1).response : JSON.parse(answer.text)
    expect(unnamed(resource.output)).toEqual(unnamed(CALLS))
  })

  test('has its tools repeated in the answer, without credentials', async () => {
    upstream.otherwise(stream ? streams(FRAMES) : json(200, JSON.stringify(WHOLE)))
    const { answer } = await sent({ ...BODY, stream, max_tool_calls: 3, tool_choice: { type: 'web_search' } })
    const { tools, max_tool_calls, tool_choice } = stream ? eventsOf(answer.text)[0].response : JSON.parse(answer.text)
    const { authorization: _, headers: __, ...mcp } = MCP
    expect(tools).toEqual([FIND, PATCH, { type: 'web_search' }, mcp, SEARCH, SPACE])
    expect([max_tool_calls, tool_choice]).toEqual([3, { type: 'web_search' }])
    expect(answer.text).not.toContain('secret-of-mcp')
  })
})

test('a turn on a socket continues from a call of a tool that a search has found', async () => {
  await using client = await SocketClient.open(gateway.port, KEY)
  upstream.otherwise(streams(FRAMES))
  const create = { type: 'response.create', model: 'own', tools: TOOLS }
  const first = await client.turn({ ...create, input: HISTORY })
  let { response } = first.at(-1) as { response: { id: string } }
  const outputs = CALLS.map(({ type, call_id }) => ({
    type: type === 'function_call' ? 'function_call_output' : 'custom_tool_call_output',
    call_id,
    output: 'ok',
  }))
  const second = await client.turn({ ...create, input: outputs, previous_response_id: response.id })
  const whole = [...HISTORY, ...unnamed(CALLS), ...outputs]
  expect<unknown>(upstream.calls.at(-1)?.json?.['input']).toEqual(whole)
  ;({ response } = second.at(-1) as { response: { id: string } })
  upstream.otherwise(streams(FRAMES.slice(0, 1).concat(FRAMES.slice(-1).map((last) => last.replaceAll('"c_', '"d_')))))
  const more = [{ role: 'user', content: 'more' }]
  await client.turn({ ...create, input: more, previous_response_id: response.id })
  expect(namesOf(upstream.calls.at(-1)?.json?.['input'])).toEqual(namesOf([...whole, ...CALLS, ...more]))
})

test('a namespace that comes twice with other tools goes as functions', async () => {
  upstream.otherwise(json(200, JSON.stringify(WHOLE)))
  const tools = [SPACE, { ...SPACE, tools: [FIND] }]
  const { call } = await sent({ ...BODY, input: 'x', tools })
  expect(namesOf(call?.['tools'])).toEqual(['edit__patch', 'edit__look', 'edit__find'].map((name) => [name, undefined]))
})

test('what is no function within a namespace is not sent without its price', async () => {
  upstream.otherwise(json(200, JSON.stringify(WHOLE)))
  const { call } = await sent({ ...BODY, input: 'x', tools: [{ ...SPACE, tools: [FIND, { type: 'web_search' }] }] })
  expect(JSON.stringify(call?.['tools'])).not.toContain('web_search')
})

test.each([
  [{ ...FIND, base_url: 'x' }, 'tools[0].base_url'],
  [{ ...PATCH, format: { ...GRAMMAR, api_key: 'k' } }, 'tools[0].format.api_key'],
  [{ ...PATCH, fallbacks: [] }, 'tools[0].fallbacks'],
  [{ ...SPACE, timeout: 1 }, 'tools[0].timeout'],
  [{ ...FIND, description: { api_key: 'k' } }, 'tools[0].description.api_key'],
  [{ ...SPACE, tools: [{ ...FIND, annotations: { api_key: 'k' } }] }, 'tools[0].tools[0].annotations.api_key'],
])('a forbidden name in a tool is refused: %j', async (tool, param) => {
  const { answer, call } = await sent({ ...BODY, input: 'x', tools: [tool] })
  expect([answer.status, JSON.parse(answer.text).error?.param, call]).toEqual([400, param, undefined])
})

test('tools lose the cache marks of other APIs, which this one rejects', async () => {
  const cache_control = { type: 'ephemeral' }
  const marked = (tool: object) => ({ ...tool, cache_control })
  const tools = [FIND, PATCH, { ...SPACE, tools: SPACE.tools.map(marked) }, { type: 'web_search' }].map(marked)
  const { call } = await sent({ ...BODY, input: 'x', tools })
  expect(call?.['tools']).toEqual([FIND, PATCH, SPACE, { type: 'web_search' }])
  const { call: alone } = await sent({ ...BODY, input: 'x', tools: [marked(PATCH)] })
  expect(alone?.['tools']).toEqual([PATCH])
})

test('a forbidden name in a tool of Chat Completions that takes a text is refused', async () => {
  const custom = { name: 'patch', format: { type: 'text' }, base_url: 'x' }
  const body = { model: 'm', messages: [{ role: 'user', content: 'x' }], tools: [{ type: 'custom', custom }] }
  const { answer, call } = await sent(body, '/v1/chat/completions')
  expect([answer.status, JSON.parse(answer.text).error?.param, call]).toEqual([
    400,
    'tools[0].custom.base_url',
    undefined,
  ])
})

describe('a server that rejects', () => {
  const rejects = (words: string, param: string) =>
    json(
      400,
      JSON.stringify({ error: { message: words, type: 'invalid_request_error', param, code: 'invalid_value' } }),
    )

  test('namespaces gets functions from then on', async () => {
    upstream.otherwise((call) =>
      JSON.stringify(call.json?.['tools']).includes('"namespace"')
        ? rejects("Invalid value: 'namespace'. Supported values are: 'function' and 'custom'.", 'tools[0].type')(call)
        : json(
            200,
            JSON.stringify({ ...WHOLE, output: [{ ...CALLS[1], name: 'edit__patch', namespace: undefined }] }),
          )(call),
    )
    const body = { model: 'plain', input: 'x', tools: [SPACE, FIND] }
    for (const many of [2, 1]) {
      const { answer, calls: made } = await sent(body)
      expect([answer.status, made.length]).toEqual([200, many])
      expect(namesOf(made.at(-1)?.json?.['tools'])).toEqual(
        ['find', 'edit__patch', 'edit__look'].map((name) => [name, undefined]),
      )
      expect(JSON.parse(answer.text).output).toMatchObject([{ name: 'patch', namespace: 'edit', input: 'two' }])
    }
  })

  test.each([
    ['small1', "Invalid value: 'custom'. Supported values are: 'function'.", 'tools[0].type'],
    ['small2', "Custom tools are not supported with model 'gpt'.", 'tools'],
    [
      'small3',
      "[{'type': 'literal_error', 'loc': ('body', 'tools', 0, 'type'), 'msg': \"Input should be 'function'\"}]",
      '',
    ],
  ])('tools that take a text gets functions from then on: %s %s', async (model, words, param) => {
    const input = '{"input":"two"}'
    const output = [{ type: 'function_call', id: 'f', call_id: 'c_4', name: 'patch', arguments: input }]
    upstream.otherwise((call) =>
      JSON.stringify(call.json?.['tools']).includes('"custom"')
        ? rejects(words, param)(call)
        : json(200, JSON.stringify({ ...WHOLE, output }))(call),
    )
    const { answer, calls: made } = await sent({ model, input: 'x', tools: [PATCH] })
    expect([answer.status, made.length <= 2]).toEqual([200, true])
    expect(made.at(-1)?.json?.['tools']).toMatchObject([{ type: 'function', name: 'patch', parameters: {} }])
    expect(JSON.parse(answer.text).output).toMatchObject([{ type: 'custom_tool_call', name: 'patch', input: 'two' }])
    const again = await sent({ model, input: 'x', tools: [PATCH] })
    expect([again.answer.status, again.calls.length]).toEqual([200, 1])
  })

  test('a tool of its caller that is wrong teaches nothing', async () => {
    upstream.otherwise((call) =>
      JSON.stringify(call.json?.['tools']).includes('start: bad')
        ? rejects("Invalid grammar in tool 'custom': unsupported 'custom'.", 'tools[0].format.definition')(call)
        : json(200, JSON.stringify(WHOLE))(call),
    )
    const bad = { ...PATCH, name: 'custom', format: { ...GRAMMAR, definition: 'start: bad' } }
    expect((await sent({ model: 'own', input: 'x', tools: [bad] })).answer.status).toBe(400)
    const { call } = await sent({ model: 'own', input: 'x', tools: [PATCH] })
    expect(call?.['tools']).toEqual([PATCH])
  })
})

test('other providers get functions, and calls come back with both names', async () => {
  const call = { id: 'call_2', name: 'edit__look', json: '{"q":"a"}' }
  for (const [model, dialect] of [
    ['m', 'openai'],
    ['claude', 'anthropic'],
  ] as const) {
    upstream.otherwise(speaks(dialect, () => calls('', call)))
    const { answer } = await sent({ ...BODY, model })
    expect(JSON.parse(answer.text).output.at(-1)).toMatchObject({ name: 'look', namespace: 'edit' })
    upstream.otherwise(speaks(dialect, () => textAnswer('ok')))
    expect(JSON.parse((await sent({ ...BODY, model })).answer.text).tools).toEqual([FIND, PATCH])
  }
})
