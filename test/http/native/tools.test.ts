/** `tools: pass`: tools that take a text instead of arguments, with every provider. */

import { describe, expect, test } from 'bun:test'
import { ask, requestBytes } from '../../support/caller.ts'
import { eventsOf } from '../../support/event-reader.ts'
import { KEY } from '../../support/gateway.ts'
import { json, stream as streams } from '../../support/scenarios.ts'
import { served } from '../../support/served.ts'
import { calls, speaks } from '../../support/speech.ts'
import type { Speech } from '../../support/speech-writer.ts'

const SPECIFICATION = 'specification-key-0123456789'

const { upstream, gateway } = await served((url) => ({
  providers: {
    up: url,
    own: { dialect: 'openai', base_url: `${url}/v1`, api: 'responses' },
    claude: { dialect: 'anthropic', base_url: url, api_key: 'secret-of-claude' },
    gemini: { dialect: 'gemini', base_url: url, api_key: 'secret-of-gemini' },
    aws: { dialect: 'bedrock', base_url: url, region: 'us-east-1', api_key: 'secret-of-bedrock' },
  },
  models: {
    m: ['up/m'],
    own: ['own/gpt'],
    claude: ['claude/claude-sonnet-4-5'],
    gemini: ['gemini/gemini-3-pro'],
    bedrock: ['aws/amazon.nova-pro-v1:0'],
  },
  config: {
    compatibility: { tools: 'pass' },
    organizations: [
      {
        id: 'test',
        keys: [
          { id: 'native', key: KEY },
          { id: 'specification', key: SPECIFICATION, compatibility: { mode: 'specification' } },
        ],
      },
    ],
  },
}))

const PATCH = '*** Begin Patch\n+ "quoted" \\ é 😀 \u2028\n*** End Patch'
const GRAMMAR = { type: 'grammar', syntax: 'lark', definition: 'start: "x"' }
const TOOL = { type: 'custom', name: 'apply_patch', description: 'Patches files.', format: GRAMMAR }
const HISTORY = [
  { type: 'message', role: 'user', content: 'patch' },
  { type: 'custom_tool_call', id: 'ctc_1', call_id: 'call_1', name: 'apply_patch', input: PATCH },
  { type: 'custom_tool_call_output', call_id: 'call_1', output: 'Exit code: 0' },
]
const BODY = { input: HISTORY, tools: [TOOL] }

async function sent(body: object, key = KEY) {
  const before = upstream.calls.length
  const answer = await ask(gateway.port, requestBytes('/v1/responses', { key, body }))
  return { answer, call: upstream.calls[before]?.json }
}

describe('a model that knows functions alone', () => {
  test.each(['m', 'claude'] as const)(
    '%s gets a function of one text, and its call comes back as a text',
    async (model) => {
      const speaker = speaks(model === 'm' ? 'openai' : 'anthropic', () =>
        calls('', { id: 'call_2', name: 'apply_patch', json: JSON.stringify({ input: PATCH }) }),
      )
      for (const stream of [false, true]) {
        upstream.otherwise(speaker)
        const { answer, call } = await sent({ ...BODY, model, stream })
        expect(answer.status).toBe(200)
        expect(JSON.stringify(call?.['tools'])).toContain(
          '{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}',
        )
        expect(JSON.stringify(call?.['tools'])).toContain('start: \\"x\\"')
        expect(JSON.stringify(call?.['messages'])).toContain('Begin Patch')
        const events = stream ? eventsOf(answer.text) : []
        const resource = stream ? events.at(-1).response : JSON.parse(answer.text)
        const item = resource.output.find(({ type }: { type: string }) => type === 'custom_tool_call')
        expect(item).toMatchObject({ status: 'completed', name: 'apply_patch', input: PATCH })
        expect(item.id).toStartWith('ctc_')
        expect(resource.tools).toEqual([TOOL])
        if (!stream) continue
        const deltas = events.filter(({ type }) => type === 'response.custom_tool_call_input.delta')
        expect(deltas.map(({ delta }) => delta).join('')).toBe(PATCH)
        expect(events.find(({ type }) => type === 'response.custom_tool_call_input.done')).toMatchObject({
          input: PATCH,
        })
        expect(events.filter(({ type }) => type === 'response.output_item.done').at(-1).item).toEqual(item)
      }
    },
  )
})

const WHOLE = calls('', { id: 'call_2', name: 'apply_patch', json: JSON.stringify({ input: PATCH }) })
const CUT: Speech = {
  ...{ text: '', finish: 'length' },
  calls: [{ id: 'call_2', name: 'apply_patch', json: String.raw`{"input":"*** Begin Patch\n+ \u00e` }],
}

test.each([
  ['gemini', '/v1/responses', WHOLE, PATCH],
  ['bedrock', '/v1/responses', WHOLE, PATCH],
  ['gemini', '/v1/chat/completions', WHOLE, PATCH],
  ['bedrock', '/v1/chat/completions', WHOLE, PATCH],
  ['m', '/v1/responses', CUT, '*** Begin Patch\n+ '],
  ['m', '/v1/chat/completions', CUT, '*** Begin Patch\n+ '],
] as const)('%s calls it from %s: %j', async (model, path, speech, expected) => {
  const { type, ...custom } = TOOL
  const { type: kind, ...grammar } = GRAMMAR
  const chat = {
    messages: [{ role: 'user', content: 'patch' }],
    tools: [{ type, custom: { ...custom, format: { type: kind, grammar } } }],
  }
  for (const stream of [false, true]) {
    upstream.otherwise(speaks(model === 'm' ? 'openai' : model, () => speech))
    const before = upstream.calls.length
    const body = { ...(path === '/v1/responses' ? BODY : chat), model, stream }
    const answer = await ask(gateway.port, requestBytes(path, { key: KEY, body }))
    expect([answer.status, upstream.calls.length - before]).toEqual([200, 1])
    expect(JSON.stringify(upstream.calls.at(-1)?.json)).toContain('must match this grammar')
    const events = stream ? eventsOf(answer.text.replace('data: [DONE]', '')) : [JSON.parse(answer.text)]
    const text =
      path === '/v1/responses'
        ? (stream ? events.at(-1).response : events[0]).output.find((one: object) => 'input' in one).input
        : events
            .flatMap(({ choices }) => (choices[0]?.delta ?? choices[0]?.message)?.tool_calls ?? [])
            .map(({ custom: called }) => called?.input ?? '')
            .join('')
    expect(text).toBe(expected)
  }
})

describe('a provider of Responses', () => {
  const item = { id: 'ctc_9', type: 'custom_tool_call', status: 'completed', call_id: 'call_2', name: 'apply_patch' }
  const resource = { id: 'r', object: 'response', status: 'completed', usage: { input_tokens: 1, output_tokens: 1 } }
  const frames = [
    { type: 'response.created', response: { ...resource, status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, status: 'in_progress', input: '' } },
    { type: 'response.custom_tool_call_input.delta', output_index: 0, item_id: 'ctc_9', delta: PATCH.slice(0, 20) },
    { type: 'response.custom_tool_call_input.delta', output_index: 0, item_id: 'ctc_9', delta: PATCH.slice(20) },
    { type: 'response.custom_tool_call_input.done', output_index: 0, item_id: 'ctc_9', input: PATCH },
    { type: 'response.output_item.done', output_index: 0, item: { ...item, input: PATCH } },
    { type: 'response.completed', response: { ...resource, output: [{ ...item, input: PATCH }] } },
  ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)

  test.each([true, false])('gets the tool, its grammar and its calls as they are (streamed: %p)', async (stream) => {
    const whole = { ...resource, output: [{ ...item, input: PATCH }] }
    upstream.otherwise(stream ? streams(frames) : json(200, JSON.stringify(whole)))
    const { answer, call } = await sent({ ...BODY, model: 'own', stream })
    expect(call?.['tools']).toEqual([TOOL])
    expect(call?.['input']).toMatchObject([
      { role: 'user' },
      { type: 'custom_tool_call', call_id: 'call_1', name: 'apply_patch', input: PATCH },
      { type: 'custom_tool_call_output', call_id: 'call_1', output: 'Exit code: 0' },
    ])
    const answered = stream ? eventsOf(answer.text).at(-1).response : JSON.parse(answer.text)
    expect(answered.output).toMatchObject([{ type: 'custom_tool_call', name: 'apply_patch', input: PATCH }])
  })
})

test('by the specification such tools and their calls are skipped', async () => {
  upstream.otherwise(speaks('openai', () => asText))
  const { call } = await sent({ ...BODY, model: 'm' }, SPECIFICATION)
  expect(call?.['tools']).toBeUndefined()
  expect(JSON.stringify(call)).not.toContain('Begin Patch')
})

const asText = { text: 'ok', calls: [], finish: 'stop' } as const

describe('a tool in a namespace', () => {
  const input = [
    { type: 'message', role: 'user', content: 'patch' },
    { type: 'custom_tool_call', call_id: 'call_1', name: 'apply_patch', namespace: 'edit', input: PATCH },
    { type: 'custom_tool_call_output', call_id: 'call_1', output: 'Exit code: 0' },
  ]
  const body = { input, tools: [{ type: 'namespace', name: 'edit', tools: [TOOL] }] }

  test.each(['m', 'claude'])('goes to %s under one name, and its calls come back with two', async (model) => {
    const call = { id: 'call_2', name: 'edit__apply_patch', json: JSON.stringify({ input: PATCH }) }
    upstream.otherwise(speaks(model === 'claude' ? 'anthropic' : 'openai', () => calls('', call)))
    const { answer } = await sent({ ...body, model })
    const made = { type: 'custom_tool_call', name: 'apply_patch', namespace: 'edit', input: PATCH }
    expect(JSON.parse(answer.text).output.at(-1)).toMatchObject(made)
  })
})

test.each([
  [7, 'tools[0].format'],
  [{}, 'tools[0].format.type'],
  [{ type: 'odd' }, 'tools[0].format.type'],
  [{ ...GRAMMAR, syntax: 'bnf' }, 'tools[0].format.syntax'],
  [{ ...GRAMMAR, definition: '' }, 'tools[0].format.definition'],
])('a format that is none is refused: %j', async (format, param) => {
  const { answer } = await sent({ model: 'm', input: 'x', tools: [{ ...TOOL, format }] })
  expect([answer.status, JSON.parse(answer.text).error.param]).toEqual([400, param])
  upstream.otherwise(speaks('openai', () => asText))
  const other = await sent({ model: 'm', input: 'x', tools: [{ ...TOOL, format }] }, SPECIFICATION)
  expect(other.answer.status).toBe(200)
})

describe('a caller of Chat Completions', () => {
  const grammar = { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: "x"' } }
  const tool = { type: 'custom', custom: { name: 'apply_patch', description: 'Patches files.', format: grammar } }
  const history = [
    { role: 'user', content: 'patch' },
    {
      ...{ role: 'assistant', content: null },
      tool_calls: [{ id: 'call_1', type: 'custom', custom: { name: 'apply_patch', input: PATCH } }],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'Exit code: 0' },
  ]

  async function chat(body: object, key = KEY) {
    const before = upstream.calls.length
    const whole = { messages: history, tools: [tool], ...body }
    const answer = await ask(gateway.port, requestBytes('/v1/chat/completions', { key, body: whole }))
    return { answer, call: upstream.calls[before]?.json }
  }

  test.each(['m', 'claude', 'gemini'] as const)(
    'has its call as a text from %s, whole and as a stream',
    async (model) => {
      const dialect = { m: 'openai', claude: 'anthropic', gemini: 'gemini' } as const
      upstream.otherwise(
        speaks(dialect[model], () =>
          calls('', { id: 'call_2', name: 'apply_patch', json: JSON.stringify({ input: PATCH }) }),
        ),
      )
      for (const stream of [false, true]) {
        const { answer, call } = await chat({ model, stream })
        expect(answer.status).toBe(200)
        expect(JSON.stringify(call)).toContain('Begin Patch')
        expect(JSON.stringify(call)).toContain('start: \\"x\\"')
        const made = { id: expect.any(String), type: 'custom', custom: { name: 'apply_patch', input: PATCH } }
        if (!stream) {
          expect(JSON.parse(answer.text).choices[0].message.tool_calls).toEqual([made])
          continue
        }
        const deltas = eventsOf(answer.text.replace('data: [DONE]', '')).flatMap(
          ({ choices }) => choices[0]?.delta?.tool_calls ?? [],
        )
        expect(deltas[0]).toEqual({ index: 0, ...made, custom: { name: 'apply_patch', input: '' } })
        expect(deltas.map(({ custom }) => custom.input).join('')).toBe(PATCH)
      }
    },
  )

  test('has it with its grammar from a provider of Responses, and may force it', async () => {
    const choice = { type: 'custom', custom: { name: 'apply_patch' } }
    const allowed = { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [choice] } }
    const item = { id: 'ctc_9', type: 'custom_tool_call', status: 'completed', call_id: 'call_2', name: 'apply_patch' }
    const output = [{ ...item, input: PATCH }]
    const whole = {
      id: 'r',
      object: 'response',
      status: 'completed',
      output,
      usage: { input_tokens: 1, output_tokens: 1 },
    }
    upstream.otherwise(json(200, JSON.stringify(whole)))
    const { answer, call } = await chat({ model: 'own', tool_choice: choice })
    expect(call?.['tools']).toEqual([TOOL])
    expect(call?.['tool_choice']).toEqual({ type: 'custom', name: 'apply_patch' })
    expect(call?.['input']).toMatchObject([{}, { type: 'custom_tool_call', input: PATCH }, { call_id: 'call_1' }])
    expect(JSON.parse(answer.text).choices[0].message.tool_calls[0].custom.input).toBe(PATCH)
    expect((await chat({ model: 'own', tool_choice: allowed })).call?.['tool_choice']).toMatchObject({
      tools: [{ type: 'custom', name: 'apply_patch' }],
    })
  })

  test.each([
    [{ tools: [{ type: 'custom' }] }, 'tools[0].custom'],
    [{ tools: [{ type: 'custom', custom: {} }] }, 'tools[0].custom.name'],
    [{ tools: [{ type: 'custom', custom: { name: 'x', format: { type: 'odd' } } }] }, 'tools[0].custom.format.type'],
    [
      { tools: [{ type: 'custom', custom: { name: 'x', format: { type: 'grammar' } } }] },
      'tools[0].custom.format.grammar.syntax',
    ],
    [{ tool_choice: { type: 'custom' } }, 'tool_choice.custom.name'],
    [
      { messages: [{ role: 'assistant', tool_calls: [{ id: 'c', type: 'custom', custom: { name: 'x' } }] }] },
      'messages[0].tool_calls[0].custom.input',
    ],
  ])('gets a 400 for a wrong one: %j', async (body, param) => {
    const { answer } = await chat({ model: 'm', ...body })
    expect([answer.status, JSON.parse(answer.text).error.param]).toEqual([400, param])
  })

  test('has none by the specification', async () => {
    upstream.otherwise(speaks('openai', () => asText))
    const messages = [{ role: 'user', content: 'x' }]
    const { answer, call } = await chat({ model: 'm', messages }, SPECIFICATION)
    expect([answer.status, call?.['tools']]).toEqual([200, undefined])
    expect((await chat({ model: 'm' }, SPECIFICATION)).answer.status).toBe(400)
  })
})
