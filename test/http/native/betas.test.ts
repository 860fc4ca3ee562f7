/** `betas: pass`: what callers of Messages and Claude exchange beyond the specification passes as it came. */

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../../src/core/json.ts'
import { PROGRAM } from '../../process/weir.ts'
import { ask, requestBytes } from '../../support/caller.ts'
import { eventsOf } from '../../support/event-reader.ts'
import { KEY } from '../../support/gateway.ts'
import { json, stream as streams } from '../../support/scenarios.ts'
import { served } from '../../support/served.ts'
import { speaks, textAnswer } from '../../support/speech.ts'
import type { Scenario } from '../../support/upstream.ts'

const SPECIFICATION = 'specification-key-0123456789'

const LIMITED = 'limited-key-0123456789abcdef'
const STRICT = 'strict-key-0123456789abcdefg'
const THINKER = 'thinker-key-0123456789012'
const LARGE = 'large-key-01234567890123456'
const STRICT_LARGE = 'large-strict-key-0123456789'
const PRICED = {
  targets: [{ provider: 'claude', model: 'claude-sonnet-4-5' }],
  price: {
    ...{ input: 1, output: 10, fields: { 'speed:fast': { factor: 6 }, 'inference_geo:us': { factor: 1.1 } } },
    tools: { web_search: 10, code_execution: 0 },
  },
}

const { upstream, gateway } = await served((url) => ({
  providers: {
    up: url,
    claude: { dialect: 'anthropic', base_url: url, api_key: 'secret-of-claude' },
  },
  models: {
    m: ['up/m'],
    claude: {
      targets: [{ provider: 'claude', model: 'claude-sonnet-4-5' }],
      prompt_cache: { explicit: true, ttls: ['5m', '1h'] },
    },
    unmarked: ['claude/claude-sonnet-4-5'],
    earlier: ['claude/claude-opus-4-1'],
    unknown: ['claude/other'],
    stated: { targets: [{ provider: 'claude', model: 'claude-of-ours' }], supports: ['tools', 'structured_output'] },
    priced: { ...PRICED, max_output_tokens: 1000 },
    dear: { ...PRICED, max_output_tokens: 100_000 },
  },
  config: {
    compatibility: { betas: 'pass', tools: 'pass' },
    organizations: [
      {
        id: 'test',
        keys: [
          { id: 'native', key: KEY },
          { id: 'specification', key: SPECIFICATION, compatibility: { mode: 'specification' } },
          { id: 'large', key: LARGE, models: ['dear'], limits: { spend: { total: 0.2 } } },
          {
            id: 'large-strict',
            key: STRICT_LARGE,
            models: ['dear'],
            limits: { spend: { total: 0.2, strict: true } },
          },
          { id: 'thinker', key: THINKER, compatibility: { mode: 'native' } },
          { id: 'limited', key: LIMITED, models: ['priced'], limits: { spend: { total: 0.2 } } },
          { id: 'strict', key: STRICT, models: ['priced'], limits: { spend: { total: 0.2, strict: true } } },
        ],
      },
    ],
  },
}))

const MESSAGES = [{ role: 'user', content: 'hi' }]
const BETAS = {
  'anthropic-beta': 'context-management-2025-06-27, tool-search-tool-2025-10-19,,bad beta',
  'anthropic-version': '2023-06-01',
}
const OWN_FIELDS = {
  context_management: { edits: [{ type: 'clear_tool_uses_20250919', keep: { type: 'tool_uses', value: 3 } }] },
  container: { id: 'container_1', skills: [{ type: 'anthropic', skill_id: 'pdf' }] },
  mcp_servers: [{ type: 'url', url: 'https://mcp.example.com', name: 'x', authorization_token: 't' }],
  top_k: 5,
  brand_new: [1, { deep: null }],
}
const TEXT = { type: 'text', text: 'x' }
const IMAGE = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGk=' } }
const TOOL = { name: 'find', description: 'd', input_schema: { type: 'object', properties: {} } }
const REFERENCE = { type: 'tool_reference', tool_name: 'find' }
const FOUND = { type: 'tool_result', tool_use_id: 'toolu_1', content: [REFERENCE] }
const ephemeral = { type: 'ephemeral', scope: 'global' }

interface Asked {
  readonly key?: string
  readonly fields?: Readonly<Record<string, string>>
  readonly path?: string
}

/** The caller's answer, and the call that the provider got. */
async function sent(body: object, { key = KEY, fields, path = '/v1/messages' }: Asked = {}) {
  upstream.otherwise((call) => {
    if (call.path.endsWith('count_tokens')) return call.answer(200, '{"input_tokens":7}')
    return speaks(call.path.includes('/messages') ? 'anthropic' : 'openai', () => textAnswer('Hello.'))(call)
  })
  const before = upstream.calls.length
  const bytes = requestBytes(path, { key, fields: { ...fields }, body: { max_tokens: 9, ...body } })
  const answer = await ask(gateway.port, bytes)
  return { answer, call: upstream.calls[before], calls: upstream.calls.length - before }
}

async function ignoredBy(answer: { header(name: string): string | undefined }): Promise<unknown> {
  return (await gateway.request(answer.header('x-request-id') ?? ''))['ignored']
}

describe('a request', () => {
  test('takes headers and fields with it, as they came', async () => {
    const { answer, call } = await sent({ model: 'claude', messages: MESSAGES, ...OWN_FIELDS }, { fields: BETAS })
    expect(answer.status).toBe(200)
    expect(call?.header('anthropic-beta')).toBe('context-management-2025-06-27,tool-search-tool-2025-10-19')
    expect(call?.header('anthropic-version')).toBe('2023-06-01')
    expect(call?.json).toMatchObject(OWN_FIELDS)
    expect(await ignoredBy(answer)).toBeUndefined()
  })

  test('takes them to the token counter, too', async () => {
    const path = '/anthropic/v1/messages/count_tokens'
    const { answer, call } = await sent({ model: 'claude', messages: MESSAGES, ...OWN_FIELDS }, { fields: BETAS, path })
    expect([answer.text, call?.json['mcp_servers']]).toEqual(['{"input_tokens":7}', OWN_FIELDS.mcp_servers])
  })

  test.each([
    ['a provider of another API', 'm', KEY],
    ['the specification', 'claude', SPECIFICATION],
  ])('leaves all of it out for %s', async (_, model, key) => {
    const { answer, call } = await sent({ model, messages: MESSAGES, ...OWN_FIELDS }, { fields: BETAS, key })
    expect(answer.status).toBe(200)
    expect(call?.header('anthropic-beta')).toBeUndefined()
    for (const name in OWN_FIELDS) expect(Object.keys(call?.json ?? {})).not.toContain(name)
    expect(await ignoredBy(answer)).toContain('context_management')
    const isHint = ({ event }: JsonObject) => event === 'compatibility.fields_ignored'
    if (key === SPECIFICATION) await gateway.line(isHint)
    expect(gateway.lines.filter(isHint).map((line) => line['key'])).toEqual(
      key === SPECIFICATION ? ['specification'] : [],
    )
  })

  test('a hint of what the specification leaves out is in the status, and weir check prints it', async () => {
    await gateway.line(({ event }) => event === 'compatibility.fields_ignored')
    const fields = expect.arrayContaining(['context_management', 'top_k'])
    expect(await (await fetch(`${gateway.adminUrl}/api/status`)).json()).toMatchObject({
      ignored_fields: [{ organization: 'test', key: 'specification', fields }],
    })
    const checked = Bun.spawn([...PROGRAM, 'check', '--config', `${gateway.folder}/weir.yaml`], {
      cwd: gateway.folder,
      env: { PATH: process.env['PATH'] },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [stdout, stderr, code] = await Promise.all([checked.stdout.text(), checked.stderr.text(), checked.exited])
    expect([code, stdout.includes(': ok')]).toEqual([0, true])
    expect(stderr).toContain("hint: callers of key 'specification' of organisation 'test' send ")
    expect(stderr).not.toContain("key 'native'")
  })

  test('never passes what weir decides, at whatever depth', async () => {
    for (const [body, param] of [
      [{ context_management: { edits: [{ api_base: 'x' }] } }, 'context_management.edits[0].api_base'],
      [{ brand_new: { timeout: 1 } }, 'brand_new.timeout'],
      [{ tools: [{ ...TOOL, options: { api_key: 'k' } }] }, 'tools[0].options.api_key'],
      [{ messages: [{ role: 'user', content: [{ type: 'odd', base_url: 'x' }] }] }, 'messages[0].content[0].base_url'],
      [{ messages: [{ role: 'user', content: [{ ...TEXT, api_key: 'x' }] }] }, 'messages[0].content[0].api_key'],
      [{ messages: [{ role: 'user', content: 'x', timeout: 1 }] }, 'messages[0].timeout'],
      [{ system: [{ ...TEXT, fallbacks: [] }] }, 'system[0].fallbacks'],
      [{ messages: [{ role: 'user', content: [{ ...IMAGE, timeout: 1 }] }] }, 'messages[0].content[0].timeout'],
      [
        { messages: [{ role: 'user', content: [{ ...IMAGE, source: { ...IMAGE.source, api_key: 'k' } }] }] },
        'messages[0].content[0].source.api_key',
      ],
      [{ messages: [{ role: 'user', content: [], odd: [{ timeout: 1 }] }] }, 'messages[0].odd[0].timeout'],
      [
        { messages: [{ role: 'user', content: [{ type: 'odd', a: [{ b: { base_url: 'x' } }] }] }] },
        'messages[0].content[0].a[0].b.base_url',
      ],
      [
        { system: [{ ...TEXT, cache_control: { type: 'ephemeral', api_key: 'k' } }] },
        'system[0].cache_control.api_key',
      ],
      [
        { messages: [{ role: 'user', content: [{ ...FOUND, content: [{ ...REFERENCE, x: { timeout: 1 } }] }] }] },
        'messages[0].content[0].content[0].x.timeout',
      ],
    ] as const) {
      const { answer, calls } = await sent({ model: 'claude', messages: MESSAGES, ...body })
      expect([answer.status, JSON.parse(answer.text).error.param, calls]).toEqual([400, param, 0])
      expect(JSON.parse(answer.text).error.code).toBe('forbidden_field')
    }
    const { call } = await sent({ model: 'claude', messages: MESSAGES, thinking: { type: 'enabled' }, metadata: {} })
    expect(Object.keys(call?.json ?? {}).sort()).toEqual(['max_tokens', 'messages', 'model'])
  })
})

/** What an agent sends, which is what the provider gets. */
const BODIES: Readonly<Record<string, object>> = {
  'system messages among others': {
    system: [{ type: 'text', text: 'a', cache_control: ephemeral }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'x', cache_control: ephemeral }] },
      { role: 'system', content: 'later' },
      { role: 'assistant', content: [{ type: 'text', text: 'ok' }] },
      { role: 'system', content: [{ type: 'text', text: '今日は' }] },
      { role: 'user', content: '続けて' },
    ],
  },
  'tool search': {
    system: 'one text',
    tools: [{ ...TOOL, defer_loading: true, eager_input_streaming: true, input_examples: [{ timeout: 1 }] }],
    messages: [
      { role: 'user', content: 'x' },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'a' },
          { type: 'tool_use', id: 'toolu_1', name: 'ToolSearch', input: { query: 'q' }, caller: { type: 'direct' } },
          { type: 'text', text: 'after' },
        ],
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'toolu_1',
            content: [{ type: 'tool_reference', tool_name: 'find' }],
            cache_control: ephemeral,
          },
        ],
      },
    ],
  },
  'results of a search': {
    tools: [TOOL],
    messages: [
      { role: 'user', content: 'x' },
      // The names of its arguments are the caller's own.
      {
        role: 'assistant',
        content: [{ type: 'tool_use', id: 'toolu_1', name: 'find', input: { timeout: 1 }, caller: {} }],
      },
      {
        role: 'user',
        content: [
          {
            ...{ type: 'tool_result', tool_use_id: 'toolu_1' },
            content: [
              { type: 'search_result', source: 's', title: 't', content: [TEXT], citations: { enabled: true } },
            ],
          },
        ],
      },
    ],
  },
  'blocks of tools that the provider ran': {
    messages: [
      {
        role: 'user',
        content: [
          { type: 'container_upload', file_id: 'file_1' },
          { type: 'text', text: 'x' },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'let me see' },
          { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'q' } },
          { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [{ type: 'web_search_result' }] },
          { type: 'text', text: 'found', citations: [{ type: 'web_search_result_location', cited_text: 'c' }] },
        ],
      },
      { role: 'user', content: 'y' },
    ],
  },
}

describe.each(Object.entries(BODIES))('a body with %s', (_, body) => {
  test('arrives as it was sent', async () => {
    const { answer, call } = await sent({ model: 'claude', ...body })
    expect(answer.status).toBe(200)
    expect(call?.json).toEqual({ ...body, model: 'claude-sonnet-4-5', max_tokens: 9 })
  })

  test('keeps its blocks next to one that has to be rewritten', async () => {
    const blank = { type: 'text', text: '  ' }
    const messages: readonly { role: string; content: unknown }[] = JSON.parse(JSON.stringify(body)).messages
    const spoilt = messages.map((message) =>
      Array.isArray(message.content) ? { ...message, content: [...message.content, blank] } : message,
    )
    const { call } = await sent({ model: 'claude', ...body, messages: spoilt })
    const flat = (list: unknown) =>
      JSON.stringify(list)
        .match(/"(?:type|citations|caller|scope)":"?[\w[{]+/g)
        ?.sort()
    const before = flat(messages.filter(({ role, content }) => role !== 'system' && typeof content !== 'string'))
    expect(flat(call?.json['messages'])).toEqual(expect.arrayContaining(before ?? []))
    expect(JSON.stringify(call?.json['messages'])).not.toContain('"  "')
  })
})

test('marks of a model that has none are left out, and nothing else', async () => {
  for (const body of Object.values(BODIES)) {
    const { call } = await sent({ model: 'unmarked', ...body })
    const unmarked = JSON.parse(JSON.stringify(body, (name, value) => (name === 'cache_control' ? undefined : value)))
    expect(JSON.stringify(call?.json)).not.toContain('cache_control')
    for (const type of [
      'tool_reference',
      'caller',
      'citations',
      'container_upload',
      'server_tool_use',
      'defer_loading',
    ])
      expect(JSON.stringify(call?.json).includes(type)).toBe(JSON.stringify(unmarked).includes(type))
  }
})

test('tools that are strict go to models that may take them, until one rejects them', async () => {
  const tools = [{ ...TOOL, strict: true }]
  const strictness = async (model: string) => {
    const { call } = await sent({ model, messages: MESSAGES, tools })
    return JSON.stringify(call?.json?.['tools']).includes('strict')
  }
  expect([await strictness('claude'), await strictness('earlier'), await strictness('stated')]).toEqual([
    ...[true, false, true],
  ])
  upstream.otherwise((call) => {
    const isStrict = JSON.stringify(call.json?.['tools']).includes('strict')
    const error = { type: 'invalid_request_error', message: 'tools.0.custom.strict: Extra inputs are not permitted' }
    if (isStrict) call.answer(400, JSON.stringify({ type: 'error', error }))
    else speaks('anthropic', () => textAnswer('Hello.'))(call)
  })
  for (const many of [2, 1]) {
    const before = upstream.calls.length
    const body = { model: 'unknown', max_tokens: 9, messages: MESSAGES, tools }
    const answer = await ask(gateway.port, requestBytes('/v1/messages', { key: KEY, body }))
    expect([answer.status, upstream.calls.length - before]).toEqual([200, many])
  }
})

test('blocks that the user has sent are not left out silently', async () => {
  const { answer, calls } = await sent({ model: 'm', ...BODIES['blocks of tools that the provider ran'] })
  expect([answer.status, calls]).toEqual([400, 0])
  expect(answer.text).toContain('Unsupported Anthropic content block')
  for (const type of ['thinking', 'redacted_thinking', 'document']) {
    const { answer: other } = await sent({ model: 'claude', messages: [{ role: 'user', content: [{ type }] }] })
    expect([other.status, other.text.includes('Unsupported Anthropic content block')]).toEqual([400, true])
  }
})

/** An answer of everything that Anthropic has beside texts and calls. */
const USAGE = {
  ...{ input_tokens: 3, output_tokens: 2, output_tokens_details: { thinking_tokens: 1 } },
  server_tool_use: { web_search_requests: 1 },
}
const RESULT = { type: 'web_search_tool_result', tool_use_id: 's1', content: [{ type: 'web_search_result', url: 'u' }] }
const CITATION = { type: 'web_search_result_location', cited_text: 'c' }
const CALL = { type: 'tool_use', id: 'toolu_1', name: 'find', input: { a: 1 }, caller: { type: 'direct' } }
const CONTENT = [
  { type: 'text', text: 'one' },
  { type: 'server_tool_use', id: 's1', name: 'web_search', input: { query: 'q' } },
  RESULT,
  { type: 'text', text: 'two', citations: [CITATION] },
  { type: 'text', text: 'three' },
  CALL,
]
const MESSAGE = { id: 'msg_1', type: 'message', role: 'assistant', model: 'c', container: { id: 'c1' } }
const STOP = { stop_reason: 'tool_use', stop_sequence: null }
const EDITS = { applied_edits: [{ type: 'clear_tool_uses_20250919' }] }
const WHOLE = { ...MESSAGE, content: CONTENT, ...STOP, context_management: EDITS, usage: USAGE }

const start = (index: number, block: object) => ({ type: 'content_block_start', index, content_block: block })
const delta = (index: number, value: object) => ({ type: 'content_block_delta', index, delta: value })
const stop = (index: number) => ({ type: 'content_block_stop', index })
const textDelta = (index: number, text: string) => delta(index, { type: 'text_delta', text })
const jsonDelta = (index: number, json: string) => delta(index, { type: 'input_json_delta', partial_json: json })
const BLOCKS = [
  ...[start(0, { type: 'text', text: '' }), textDelta(0, 'on'), textDelta(0, 'e'), stop(0)],
  start(1, { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} }),
  ...[jsonDelta(1, '{"query"'), jsonDelta(1, ':"q"}'), stop(1), start(2, RESULT), stop(2)],
  { type: 'odd_event', odd: [1] },
  start(3, { type: 'text', text: '', citations: [] }),
  delta(3, { type: 'citations_delta', citation: CITATION }),
  ...[textDelta(3, 'two'), stop(3), start(4, { type: 'text', text: '' }), textDelta(4, 'three'), stop(4)],
  ...[start(5, { ...CALL, input: {} }), jsonDelta(5, '{"a":1}'), stop(5)],
]
const EVENTS = [
  { type: 'message_start', message: { ...MESSAGE, content: [], stop_reason: null, stop_sequence: null, usage: USAGE } },
  ...BLOCKS,
  { type: 'message_delta', delta: { ...STOP, container: { id: 'c2' } }, usage: USAGE, context_management: EDITS },
  { type: 'late_event', late: true },
  { type: 'message_stop' },
]
const frames = (events: readonly { readonly type: string }[]) =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)

async function answered(model: string, stream: boolean, scenario: Scenario, key = KEY) {
  upstream.otherwise(scenario)
  const answer = await ask(
    gateway.port,
    requestBytes('/v1/messages', { key, body: { model, max_tokens: 9, messages: MESSAGES, stream } }),
  )
  return { answer, events: eventsOf(answer.text).filter(({ type }) => type !== 'ping') }
}

test('a beta that the provider refuses without naming it is found, and the log and the admin API show it', async () => {
  const BAD = 'odd-2025-01-01'
  const beta = ['a-2025-01-01', 'b-2025-01-01', BAD, 'x-2025-01-01'].join()
  const betasOf = (call: { header(name: string): string | undefined }) => call.header('anthropic-beta') ?? ''
  upstream.otherwise((call) =>
    betasOf(call).includes(BAD)
      ? call.answer(400, '{"type":"error","error":{"type":"invalid_request_error","message":"invalid beta flag"}}')
      : speaks('anthropic', () => textAnswer('Hello.'))(call),
  )
  const body = { model: 'unmarked', max_tokens: 9, messages: MESSAGES }
  const before = upstream.calls.length
  let answer = await ask(
    gateway.port,
    requestBytes('/v1/messages', { key: KEY, fields: { 'anthropic-beta': beta }, body }),
  )
  const further = upstream.calls.length - before - 1
  expect([answer.status, further > 0 && further <= 4]).toEqual([200, true])
  expect(await ignoredBy(answer)).toContain(`anthropic-beta.${BAD}`)
  for (let turn = 0; turn < 2; turn++)
    answer = await ask(
      gateway.port,
      requestBytes('/v1/messages', { key: KEY, fields: { 'anthropic-beta': beta }, body }),
    )
  const last = upstream.calls.at(-1)
  expect([answer.status, last && betasOf(last)]).toEqual([200, 'a-2025-01-01,b-2025-01-01,x-2025-01-01'])
  expect(upstream.calls.length - before - 3).toBeLessThanOrEqual(4)
  const shown = await (await fetch(`${gateway.adminUrl}/api/targets`)).text()
  expect(shown).toContain(`anthropic-beta ${BAD}`)
})

describe('an answer', () => {
  test('passes as a stream, in its order', async () => {
    const { answer, events } = await answered('claude', true, streams(frames(EVENTS)))
    expect(answer.end).toBe('whole')
    expect(events.slice(1, -3)).toEqual(BLOCKS)
    expect(events[0].message.container).toEqual({ id: 'c1' })
    expect(events.slice(-3)).toMatchObject(EVENTS.slice(-3))
  })

  test('keeps a citation that comes before its text in the block of the text', async () => {
    const cited = (index: number) => [
      ...[start(index, { type: 'text', text: '' }), delta(index, { type: 'citations_delta', citation: CITATION })],
      ...[textDelta(index, 'cited'), stop(index)],
    ]
    const call = [start(3, { ...CALL, input: {} }), jsonDelta(3, '{"a":1}'), stop(3)]
    const blocks = [...cited(0), start(1, RESULT), stop(1), ...cited(2), ...call, ...cited(4)]
    const scenario = streams(frames([...EVENTS.slice(0, 1), ...blocks, ...EVENTS.slice(-3)]))
    const { events } = await answered('claude', true, scenario)
    expect(events.slice(1, -3)).toEqual(blocks)
    const { answer } = await answered('claude', false, scenario)
    const text = { type: 'text', text: 'cited', citations: [CITATION] }
    expect(JSON.parse(answer.text).content).toEqual([text, RESULT, text, CALL, text])
  })

  test('passes as a whole', async () => {
    const { answer } = await answered('claude', false, json(200, JSON.stringify(WHOLE)))
    const { id: _, model: __, ...body } = JSON.parse(answer.text)
    const { id: ___, model: ____, ...expected } = WHOLE
    expect(body).toEqual(expected)
  })

  test('is the same if the provider streams it to a caller of a whole one', async () => {
    const { answer } = await answered('claude', false, streams(frames(EVENTS)))
    expect(JSON.parse(answer.text)).toMatchObject({
      content: CONTENT,
      context_management: EDITS,
      container: { id: 'c2' },
    })
  })

  test('is cut without its final marker, whatever has passed', async () => {
    for (const many of [EVENTS.length - 1, EVENTS.length - 3, 8]) {
      const { answer } = await answered('claude', true, streams(frames(EVENTS.slice(0, many))))
      expect([answer.end, answer.text.includes('message_stop')]).toEqual(['cut', false])
    }
  })

  test('has none of it by the specification', async () => {
    const { events } = await answered('claude', true, streams(frames(EVENTS)), SPECIFICATION)
    const types = events.map(({ type, content_block: block }) => block?.type ?? type)
    expect(types).not.toContain('server_tool_use')
    expect(types).not.toContain('odd_event')
    const { answer } = await answered('claude', false, json(200, JSON.stringify(WHOLE)), SPECIFICATION)
    const body = JSON.parse(answer.text)
    expect(body.content).toEqual([
      { type: 'text', text: 'onetwothree' },
      { ...CALL, caller: undefined },
    ])
    expect(Object.keys(body.usage)).toEqual(['input_tokens', 'output_tokens'])
  })
})

describe('a budget of thoughts beyond the limit of one answer', () => {
  const thinking = { type: 'enabled', budget_tokens: 9000 }
  const asked = { model: 'claude', max_tokens: 4000, messages: MESSAGES, tools: [TOOL], thinking }
  const beta = { 'anthropic-beta': 'interleaved-thinking-2025-05-14' }

  test('passes with its beta and tools', async () => {
    const { call } = await sent(asked, { key: THINKER, fields: beta })
    expect(call?.json).toMatchObject({ max_tokens: 4000, thinking })
  })

  test.each([
    [asked, {}],
    [{ ...asked, tools: [] }, beta],
    [asked, { 'anthropic-beta': 'context-1m-2025-08-07' }],
  ])('is refused without one of them', async (body, fields) => {
    const { answer, calls } = await sent(body, { key: THINKER, fields })
    expect([answer.status, answer.text.includes('less than max_tokens'), calls]).toEqual([400, true, 0])
  })
})

test.each(['image', 'document'])('data of an %s that is no base64 is refused', async (type) => {
  const source = { type: 'base64', media_type: type === 'image' ? 'image/png' : 'application/pdf' }
  const body = (data: string) => ({
    model: 'claude',
    messages: [{ role: 'user', content: [{ type, source: { ...source, data } }] }],
  })
  for (const data of ['no base64!', 'YQ=', 'Y Q=', '====', 'YQ=YQ==='])
    expect((await sent(body(data), { key: THINKER })).answer.status).toBe(400)
  const { answer, call } = await sent(body('YQ=='), { key: THINKER })
  expect([answer.status, call?.json?.['messages']]).toEqual([200, body('YQ==').messages])
})

describe('under a spend limit', () => {
  const usage = { input_tokens: 1000, output_tokens: 100 }
  const message = { ...MESSAGE, container: undefined, content: [{ type: 'text', text: 'x' }], stop_reason: 'end_turn' }
  const search = { type: 'web_search_20250305', name: 'web_search', max_uses: 3 }

  async function cost(body: object, reported: object, key = LIMITED) {
    upstream.otherwise(json(200, JSON.stringify({ ...message, usage: { ...usage, ...reported } })))
    const sentBody = { model: 'priced', max_tokens: 100, messages: MESSAGES, ...body }
    const answer = await ask(gateway.port, requestBytes('/v1/messages', { key, body: sentBody }))
    const line = answer.status === 200 ? await gateway.request(answer.header('x-request-id')) : {}
    return { answer, cost: line['cost_micro_usd'], toolCalls: line['tool_calls'] }
  }

  test('fields multiply the price, unless another value has served', async () => {
    // 1,000 tokens at $1 and 100 at $10 a million.
    expect((await cost({}, {})).cost).toBe(2000)
    expect((await cost({ speed: 'fast' }, {})).cost).toBe(12_000)
    expect((await cost({ speed: 'fast' }, { speed: 'fast' })).cost).toBe(12_000)
    expect((await cost({ speed: 'fast' }, { speed: 'standard' })).cost).toBe(2000)
    expect((await cost({ speed: 'fast', inference_geo: 'us' }, {})).cost).toBe(13_200)
    expect((await cost({ speed: 'standard', inference_geo: null }, {})).cost).toBe(2000)
  })

  test('calls of tools are reserved, and charged as they are reported', async () => {
    const made = await cost({ tools: [search] }, { server_tool_use: { web_search_requests: 2 } })
    expect([made.cost, made.toolCalls]).toEqual([22_000, { web_search: 2 }])
    expect((await cost({ tools: [{ ...search, max_uses: 20 }] }, {})).answer.status).toBe(429)
    expect((await cost({ tools: [{ type: 'bash_20250124', name: 'bash' }] }, {})).cost).toBe(2000)
  })

  test.each([
    [{ speed: 'fast' }, LARGE],
    [{ tools: [{ ...search, max_uses: 16 }] }, LARGE],
    [{ speed: 'fast', tools: [search] }, STRICT_LARGE],
  ])('the limit that a refusal names passes, and one more does not: %j', async (body, key) => {
    const refused = await cost({ ...body, model: 'dear', max_tokens: 100_000 }, {}, key)
    const most = Number(/at most (\d+) tokens/.exec(refused.answer.text)?.[1])
    expect([refused.answer.status, most > 0]).toEqual([429, true])
    expect((await cost({ ...body, model: 'dear', max_tokens: most + 1 }, {}, key)).answer.status).toBe(429)
    expect((await cost({ ...body, model: 'dear', max_tokens: most }, {}, key)).answer.status).toBe(200)
  })

  test.each([
    [{ speed: 'turbo' }, 'unpriced_field', 'speed'],
    [{ speed: { odd: 1 } }, 'unpriced_field', 'speed'],
    [{ inference_geo: 'eu' }, 'unpriced_field', 'inference_geo'],
    [{ tools: [{ type: 'web_fetch_20250910', name: 'web_fetch' }] }, 'unpriced_tool', 'tools'],
    [{ tools: [{ type: 'mcp_toolset', mcp_server_name: 'x' }] }, 'unpriced_tool', 'tools'],
  ])('what has no price is refused: %j', async (body, code, param) => {
    const { answer } = await cost(body, {})
    const { error } = JSON.parse(answer.text)
    expect([answer.status, error.type, error.message.includes('no price')]).toEqual([
      400,
      'invalid_request_error',
      true,
    ])
    const line = await gateway.request(answer.header('x-request-id'))
    expect([line['error'], line['param']]).toEqual([code, param])
    expect((await cost(body, {}, KEY)).answer.status).toBe(200)
  })

  test('that is strict, the calls of a tool must be limited', async () => {
    const { max_uses: _, ...endless } = search
    expect((await cost({ tools: [endless] }, {}, STRICT)).answer.status).toBe(400)
    expect((await cost({ tools: [search] }, {}, STRICT)).answer.status).toBe(200)
    expect((await cost({ tools: [{ ...endless, type: 'code_execution_20250825' }] }, {}, STRICT)).answer.status).toBe(
      200,
    )
  })
})
