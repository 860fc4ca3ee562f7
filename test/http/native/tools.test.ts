/** `tools: pass`: tools that take a text instead of arguments, with every provider. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { ask, requestBytes } from '../../support/caller.ts'
import { Gateway, KEY } from '../../support/gateway.ts'
import { json, stream as streams } from '../../support/scenarios.ts'
import { calls, speaks } from '../../support/speech.ts'
import { Upstream } from '../../support/upstream.ts'

const SPECIFICATION = 'specification-key-0123456789'

let upstream: Upstream
let gateway: Gateway

beforeAll(async () => {
  upstream = await Upstream.start()
  gateway = await Gateway.start({
    providers: {
      up: upstream.url,
      own: { dialect: 'openai', base_url: `${upstream.url}/v1`, api: 'responses' },
      claude: { dialect: 'anthropic', base_url: upstream.url, api_key: 'secret-of-claude' },
    },
    models: { m: ['up/m'], own: ['own/gpt'], claude: ['claude/claude-sonnet-4-5'] },
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
  })
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

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

function eventsOf(text: string) {
  return text.split('\n\n').flatMap((event) => {
    const data = /^data: (.*)$/m.exec(event)?.[1]
    return data === undefined ? [] : [JSON.parse(data)]
  })
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
