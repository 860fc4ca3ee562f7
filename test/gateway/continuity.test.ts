/** A model gets back what its provider wants of its own thoughts, and nothing that another has issued. */

import { describe, expect, test } from 'bun:test'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import { until } from '../process/weir.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import { json, stream } from '../support/scenarios.ts'
import { served } from '../support/served.ts'
import type { Scenario } from '../support/upstream.ts'

const OTHER_KEY = 'other-key-0123456789abcdef'
const SIGNATURE = 'EqRkCk8"\\/+é='
const ARGUMENTS = '{"city":"Oslo"}'

interface Answering {
  readonly thought: boolean
  readonly text: string
  readonly call: string | undefined
}

/** A provider's answer, whole and as a stream, and what of it must come back in the next body. */
interface Api {
  readonly whole: (answer: Answering) => JsonObject
  readonly streamed: (answer: Answering) => readonly string[]
  /** What of the last answer in a body belongs to thoughts, in its place. */
  readonly read: (body: JsonObject) => unknown
  readonly expected: (answer: Answering) => unknown
}

const data = (...chunks: readonly object[]) => chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`)
const named = (...chunks: readonly { type: string }[]) =>
  chunks.map((chunk) => `event: ${chunk.type}\ndata: ${JSON.stringify(chunk)}\n\n`)
const list = (value: unknown): readonly JsonObject[] => (isArray(value) ? value.filter(isObject) : [])
const lastOf = (values: readonly JsonObject[], matches: (one: JsonObject) => boolean) => values.findLast(matches)

const thinking = { type: 'thinking', thinking: 'Let me see: é "x"', signature: SIGNATURE }
const redacted = { type: 'redacted_thinking', data: 'EmwKAhgB' }

function anthropicBlocks({ thought, text, call }: Answering): JsonObject[] {
  return [
    ...(thought ? [thinking, redacted] : []),
    ...(text === '' ? [] : [{ type: 'text', text }]),
    ...(call === undefined ? [] : [{ type: 'tool_use', id: call, name: 'look', input: JSON.parse(ARGUMENTS) }]),
  ]
}

function anthropicDeltas(block: JsonObject): readonly [start: JsonObject, deltas: readonly JsonObject[]] {
  switch (block['type']) {
    case 'thinking': {
      const deltas = [
        { type: 'thinking_delta', thinking: 'Let me see: ' },
        { type: 'thinking_delta', thinking: 'é "x"' },
        { type: 'signature_delta', signature: SIGNATURE },
      ]
      return [{ ...block, thinking: '', signature: '' }, deltas]
    }
    case 'text':
      return [{ ...block, text: '' }, [{ type: 'text_delta', text: block['text'] ?? '' }]]
    case 'tool_use':
      return [{ ...block, input: {} }, [{ type: 'input_json_delta', partial_json: ARGUMENTS }]]
    default:
      return [block, []]
  }
}

const message = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'c',
  usage: { input_tokens: 3, output_tokens: 9 },
}
const stopOf = ({ call }: Answering) => ({
  stop_reason: call === undefined ? 'end_turn' : 'tool_use',
  stop_sequence: null,
})

const anthropic: Api = {
  whole: (answer) => ({ ...message, content: anthropicBlocks(answer), ...stopOf(answer) }),
  streamed: (answer) =>
    named(
      { type: 'message_start', message: { ...message, content: [], stop_reason: null } } as { type: string },
      ...anthropicBlocks(answer).flatMap((block, index) => {
        const [start, deltas] = anthropicDeltas(block)
        return [
          { type: 'content_block_start', index, content_block: start },
          ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
          { type: 'content_block_stop', index },
        ]
      }),
      { type: 'message_delta', delta: stopOf(answer), usage: { output_tokens: 9 } } as { type: string },
      { type: 'message_stop' },
    ),
  read: ({ messages }) => list(lastOf(list(messages), ({ role }) => role === 'assistant')?.['content']),
  expected: anthropicBlocks,
}

const reasoning = {
  id: 'rs_1',
  type: 'reasoning',
  summary: [{ type: 'summary_text', text: 'So.' }],
  encrypted_content: 'gAAA"\\é',
}

function responsesItems({ thought, text, call }: Answering): JsonObject[] {
  const content = [{ type: 'output_text', text, annotations: [] }]
  const phase = call === undefined ? 'final_answer' : 'commentary'
  return [
    ...(thought ? [reasoning] : []),
    ...(text === ''
      ? []
      : [{ id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content, ...(thought && { phase }) }]),
    ...(call === undefined
      ? []
      : [
          { id: 'fc_1', type: 'function_call', call_id: call, name: 'look', arguments: ARGUMENTS, status: 'completed' },
        ]),
  ]
}

const responses: Api = {
  whole: (answer) => ({ id: 'resp_1', object: 'response', status: 'completed', output: responsesItems(answer) }),
  streamed: (answer) => {
    let sequence_number = 0
    const items = responsesItems(answer)
    const response = { id: 'resp_1', object: 'response', status: 'completed', output: items }
    const events = items.flatMap((item, output_index) => {
      const place = { output_index, item_id: item['id'] ?? '' }
      const deltas =
        item['type'] === 'message'
          ? [{ type: 'response.output_text.delta', ...place, content_index: 0, delta: answer.text }]
          : item['type'] === 'function_call'
            ? [{ type: 'response.function_call_arguments.delta', ...place, delta: ARGUMENTS }]
            : []
      const added = { ...item, ...(item['type'] === 'reasoning' ? { summary: [], encrypted_content: 'partial' } : {}) }
      return [
        {
          type: 'response.output_item.added',
          output_index,
          item: { ...added, ...(item['content'] ? { content: [] } : {}) },
        },
        ...deltas,
        { type: 'response.output_item.done', output_index, item },
      ]
    })
    return named(
      ...[
        { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
        ...events,
        { type: 'response.completed', response },
      ].map((event) => ({ ...event, sequence_number: sequence_number++ })),
    )
  },
  read: ({ input }) => {
    const items = list(input)
    const from = items.findLastIndex((item) => item['role'] === 'user' && item['content'] === 'Oslo?') + 1
    return items
      .slice(from)
      .filter(({ type, role }) => type === 'reasoning' || type === 'function_call' || role === 'assistant')
      .map(({ type, phase, ...item }) =>
        type === 'reasoning' ? { type, ...item } : { type: type ?? 'message', phase },
      )
  },
  expected: (answer) =>
    responsesItems(answer).map(({ type, phase, ...item }) =>
      type === 'reasoning' ? { type, ...item } : { type, phase },
    ),
}

function geminiParts({ thought, text, call }: Answering): JsonObject[] {
  const signed = thought ? { thoughtSignature: SIGNATURE } : {}
  return [
    ...(text === '' ? [] : [{ text, ...(call === undefined ? signed : {}) }]),
    ...(call === undefined
      ? []
      : [{ functionCall: { id: call, name: 'look', args: JSON.parse(ARGUMENTS) }, ...signed }]),
  ]
}

const geminiChunk = (answer: Answering) => ({
  candidates: [{ content: { role: 'model', parts: geminiParts(answer) }, finishReason: 'STOP', index: 0 }],
})
const gemini: Api = {
  whole: geminiChunk,
  streamed: (answer) => data(geminiChunk(answer)),
  read: ({ contents }) =>
    list(lastOf(list(contents), ({ role }) => role === 'model')?.['parts']).map((part) => [
      part['functionCall'] === undefined ? 'text' : 'call',
      part['thoughtSignature'],
    ]),
  expected: (answer) =>
    geminiParts(answer).map((part) => [
      part['functionCall'] === undefined ? 'text' : 'call',
      // A call without a signature gets the documented replacement.
      part['thoughtSignature'] ?? (part['functionCall'] === undefined ? undefined : 'skip_thought_signature_validator'),
    ]),
}

function chatMessage({ thought, text, call }: Answering): JsonObject {
  const calls = [{ index: 0, id: call ?? '', type: 'function', function: { name: 'look', arguments: ARGUMENTS } }]
  return {
    ...{ role: 'assistant', content: text },
    ...(thought && { reasoning_content: 'Hm, "é".' }),
    ...(call !== undefined && { tool_calls: calls }),
  }
}

const choice = (answer: Answering, more: object) => ({
  ...{ id: 'c', object: 'chat.completion' },
  choices: [{ index: 0, finish_reason: answer.call === undefined ? 'stop' : 'tool_calls', ...more }],
})
const chat: Api = {
  whole: (answer) => choice(answer, { message: chatMessage(answer) }),
  streamed: (answer) => {
    const { reasoning_content: thought = '', ...rest } = chatMessage(answer)
    const pieces = typeof thought === 'string' && thought !== '' ? [thought.slice(0, 3), thought.slice(3)] : []
    const deltas = [...pieces.map((piece) => ({ role: 'assistant', content: null, reasoning_content: piece })), rest]
    const chunks = deltas.map((delta) => choice(answer, { delta, finish_reason: null }))
    return [...data(...chunks, choice(answer, { delta: {} })), 'data: [DONE]\n\n']
  },
  read: ({ messages }) => lastOf(list(messages), ({ role }) => role === 'assistant')?.['reasoning_content'],
  // Thoughts of an answer without calls are those of the past: servers that want them say so.
  expected: ({ thought, call }) => (thought && call !== undefined ? 'Hm, "é".' : undefined),
}

const APIS: Readonly<Record<string, Api>> = { claude: anthropic, resp: responses, gem: gemini, deep: chat, shy: chat }

const { upstream, gateway } = await served((url) => {
  const at = { base_url: url, api_key: 'provider-key-0123456789' }
  return {
    providers: {
      claude: { dialect: 'anthropic', ...at },
      resp: { dialect: 'openai', api: 'responses', ...at },
      gem: { dialect: 'gemini', ...at },
      deep: { dialect: 'openai', ...at },
      claude2: { dialect: 'anthropic', ...at },
    },
    models: {
      claude: ['claude/claude-opus-5', 'claude2/claude-opus-5'],
      claude2: ['claude2/claude-opus-5'],
      resp: ['resp/gpt-6-sol'],
      gem: ['gem/gemini-3-pro'],
      deep: ['deep/deep-1'],
      shy: ['deep/shy-1'],
    },
    config: {
      organizations: [
        { id: 'test', keys: [{ id: 'k', key: KEY }] },
        { id: 'other', keys: [{ id: 'o', key: OTHER_KEY }] },
      ],
    },
  }
})

const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }]
const answers =
  (api: Api, answer: Answering): Scenario =>
  (call) =>
    call.json['stream'] === true || call.path.includes('streamGenerate')
      ? stream(api.streamed(answer))(call)
      : json(200, JSON.stringify(api.whole(answer)))(call)

/** Sends a request of Chat Completions; returns the body that the provider got, and the message of a whole answer. */
async function send(model: string, messages: readonly object[], reaction: Scenario, more: object = {}, key = KEY) {
  upstream.otherwise(reaction)
  const before = upstream.calls.length
  const body = { model, messages, tools, ...more }
  const { status, text } = await ask(gateway.port, requestBytes('/v1/chat/completions', { key, body }))
  expect([status, text]).toEqual([200, text])
  const calls = upstream.calls.slice(before).map((call) => call.json)
  return { sent: calls[0] ?? {}, calls, text }
}

let turn = 0
/** A conversation after its first answer, as its caller sends it back. */
async function begin(model: string, streamed: boolean, answer: Answering) {
  const question = { role: 'user', content: `${turn++} ${model}` }
  const api = APIS[model] ?? anthropic
  const { text } = await send(model, [question, { role: 'user', content: 'Oslo?' }], answers(api, answer), {
    stream: streamed,
  })
  const message = streamed ? gathered(text) : JSON.parse(text).choices[0].message
  expect(text).not.toContain('Let me see')
  const results = list(message.tool_calls).map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'rain' }))
  const next = results.length > 0 ? results : [{ role: 'user', content: 'And now?' }]
  return { api, history: [question, { role: 'user', content: 'Oslo?' }, message, ...next] }
}

function gathered(text: string): JsonObject {
  const chunks = [...text.matchAll(/^data: (\{.*)$/gm)].map(
    ([, one]) => JSON.parse(one ?? '').choices?.[0]?.delta ?? {},
  )
  const content = chunks.map((delta) => delta.content ?? '').join('')
  const calls = chunks.flatMap((delta) => delta.tool_calls ?? [])
  if (calls.length === 0) return { role: 'assistant', content }
  const args = calls.map((call) => call.function?.arguments ?? '').join('')
  const { id } = calls[0]
  return {
    role: 'assistant',
    content,
    tool_calls: [{ id, type: 'function', function: { name: 'look', arguments: args } }],
  }
}

const ID = 'toolu_0123456789ABCDEFGHIJ'
const KINDS: readonly (readonly [string, Answering])[] = [
  ['a call', { thought: true, text: '', call: ID }],
  ['a text and a call', { thought: true, text: 'I look.', call: ID }],
  ['a text', { thought: true, text: 'Rain, "é".\nAll day.', call: undefined }],
]
const rows = ['claude', 'resp', 'gem', 'deep'].flatMap((model) =>
  [true, false].flatMap((streamed) =>
    KINDS.map(
      ([kind, answer], at) =>
        [
          model,
          streamed,
          kind,
          { ...answer, call: answer.call && `${answer.call}${at}${streamed ? 's' : 'w'}` },
        ] as const,
    ),
  ),
)

describe.each(rows)('%s, streamed: %p, after %s', (model, streamed, _, answer) => {
  test('gets its thoughts back in their place, and no other organisation does', async () => {
    const { api, history } = await begin(model, streamed, answer)
    const again = await send(model, history, answers(api, { thought: false, text: 'Done.', call: undefined }))
    // Gemini's calls with a signature have ids of weir's.
    const ids = (value: unknown) => `${JSON.stringify(value)}`.replaceAll(/call_[\w-]{24}/g, answer.call ?? '')
    expect(ids(api.read(again.sent))).toBe(ids(api.expected(answer)))
    // Once more: what was given back stays.
    const later = await send(model, history, answers(api, { thought: false, text: 'Done.', call: undefined }))
    expect(later.sent).toEqual(again.sent)
    const foreign = await send(
      model,
      history,
      answers(api, { thought: false, text: 'Done.', call: undefined }),
      {},
      OTHER_KEY,
    )
    expect(ids(api.read(foreign.sent))).toBe(ids(api.expected({ ...answer, thought: false })))
  })
})

test('another entry of the same provider gets none, and its own go on', async () => {
  const { history } = await begin('claude', false, { thought: true, text: '', call: `${ID}x` })
  const { sent } = await send(
    'claude2',
    history,
    answers(anthropic, { thought: false, text: 'Done.', call: undefined }),
  )
  expect(anthropic.read(sent)).toEqual(anthropicBlocks({ thought: false, text: '', call: `${ID}x` }))
  const back = await send('claude', history, answers(anthropic, { thought: false, text: 'Done.', call: undefined }))
  expect(anthropic.read(back.sent)).toEqual(anthropicBlocks({ thought: true, text: '', call: `${ID}x` }))
})

test('a target that rejects its own thoughts is asked again without', async () => {
  const { history } = await begin('claude', false, { thought: true, text: '', call: `${ID}y` })
  const done = answers(anthropic, { thought: false, text: 'Done.', call: undefined })
  const { calls } = await send('claude', history, (call) =>
    JSON.stringify(call.json).includes('"thinking"')
      ? json(
          400,
          '{"type":"error","error":{"type":"invalid_request_error","message":"Invalid `signature` in `thinking`"}}',
        )(call)
      : done(call),
  )
  expect(calls.map((call) => JSON.stringify(call).includes('"thinking"'))).toEqual([true, false])
})

test('ids that a server repeats in each answer lead to no other answer', async () => {
  const one = await begin('deep', false, { thought: true, text: '', call: '0' })
  const other = await begin('deep', true, { thought: true, text: '', call: '0' })
  const third = await begin('deep', false, { thought: false, text: '', call: '0' })
  const { sent } = await send('deep', one.history, answers(chat, { thought: false, text: 'Done.', call: undefined }))
  expect(chat.read(sent)).toBe('Hm, "é".')
  for (const { history, expected } of [
    { history: other.history, expected: 'Hm, "é".' },
    { history: third.history, expected: undefined },
  ]) {
    const again = await send('deep', history, answers(chat, { thought: false, text: 'Done.', call: undefined }))
    expect(chat.read(again.sent)).toBe(expected)
  }
})

test('a server that rejects its own thoughts is asked without them from then on', async () => {
  const { history } = await begin('shy', false, { thought: true, text: '', call: `${ID}s` })
  const done = answers(chat, { thought: true, text: 'Done.', call: undefined })
  const picky: Scenario = (call) =>
    JSON.stringify(call.json['messages']).includes('reasoning')
      ? json(400, '{"error":{"message":"\'messages.2\': property \'reasoning_content\' is unsupported"}}')(call)
      : done(call)
  const counts: number[] = []
  for (let turn = 0; turn < 3; turn++) counts.push((await send('shy', history, picky)).calls.length)
  expect(counts).toEqual([2, 1, 1])
})

const DETAILS = [
  { type: 'reasoning.text', text: 'Hm, "é".', signature: 'c2lnbmVk', format: 'anthropic-claude-v1', index: 0 },
  { type: 'reasoning.encrypted', data: 'gAAA', id: 'rs_1', format: 'openai-responses-v1', index: 1 },
]

test.each([true, false])('OpenRouter gets its reasoning_details back, streamed: %p', async (streamed) => {
  const id = `${ID}details${streamed}`
  const question = { role: 'user', content: `Details, ${streamed}` }
  const calls = [{ index: 0, id, type: 'function', function: { name: 'look', arguments: ARGUMENTS } }]
  const answer = { thought: true, text: '', call: id }
  const whole = {
    role: 'assistant',
    content: null,
    reasoning: 'Hm, "é".',
    reasoning_details: DETAILS,
    tool_calls: calls,
  }
  const [first, second] = DETAILS
  const delta = (detail: object) => ({ delta: { role: 'assistant', content: '', reasoning_details: [detail] } })
  const deltas = [
    delta({ ...first, text: 'Hm, ', signature: null }),
    delta({ ...first, text: '"é".', signature: null }),
    delta({ ...first, text: undefined }),
    delta(second ?? {}),
    { delta: { tool_calls: calls }, finish_reason: 'tool_calls' },
  ]
  const reaction = streamed
    ? stream([...data(...deltas.map((one) => choice(answer, { finish_reason: null, ...one }))), 'data: [DONE]\n\n'])
    : json(200, JSON.stringify(choice(answer, { message: whole })))
  await send('deep', [question], reaction, { stream: streamed })
  const called = { id, type: 'function', function: { name: 'look', arguments: ARGUMENTS } }
  const history = [
    question,
    { role: 'assistant', content: null, tool_calls: [called] },
    { role: 'tool', tool_call_id: id, content: 'rain' },
  ]
  const { sent } = await send('deep', history, answers(chat, { thought: false, text: 'Done.', call: undefined }))
  const message = list(sent['messages'])[1]
  expect([message?.['reasoning_details'], message?.['reasoning']]).toEqual([DETAILS, undefined])
})

test('an answer that the caller sends back in pieces gets its thoughts back', async () => {
  const ids = ['a', 'b'].map((mark) => `${ID}pieces${mark}`)
  const asked = { role: 'user', content: 'Both?' }
  const called = ids.map((call_id) => ({ type: 'function_call', call_id, name: 'look', arguments: '{}' }))
  const second = { ...reasoning, id: 'rs_2' }
  const output = [reasoning, called[0], second, called[1]]
  await send('resp', [asked], json(200, JSON.stringify({ status: 'completed', output })))
  const pieces = ids.flatMap((id) => [
    {
      ...{ role: 'assistant', content: null },
      tool_calls: [{ id, type: 'function', function: { name: 'look', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: id, content: 'rain' },
  ])
  const done = answers(responses, { thought: false, text: 'Done.', call: undefined })
  const { sent } = await send('resp', [asked, ...pieces], done)
  expect(list(sent['input']).map((item) => item['id'] ?? item['type'] ?? item['role'])).toEqual([
    ...['user', 'rs_1', 'function_call', 'rs_2', 'function_call', 'function_call_output', 'function_call_output'],
  ])
})

test('Claude gets an answer in pieces back as one turn', async () => {
  const ids = ['a', 'b'].map((mark) => `${ID}turn${mark}`)
  const asked = { role: 'user', content: 'Both, Claude?' }
  const uses = ids.map((id) => ({ type: 'tool_use', id, name: 'look', input: {} }))
  const content = [thinking, { type: 'text', text: 'I look.' }, ...uses]
  await send('claude', [asked], json(200, JSON.stringify({ ...message, content, stop_reason: 'tool_use' })))
  const pieces = ids.flatMap((id, at) => [
    {
      ...{ role: 'assistant', content: at === 0 ? 'I look.' : null },
      tool_calls: [{ id, type: 'function', function: { name: 'look', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: id, content: 'rain' },
  ])
  const done = answers(anthropic, { thought: false, text: 'Done.', call: undefined })
  const { sent } = await send('claude', [asked, ...pieces], done)
  expect(list(sent['messages']).slice(1)).toEqual([
    { role: 'assistant', content },
    { role: 'user', content: ids.map((id) => ({ type: 'tool_result', tool_use_id: id, content: 'rain' })) },
  ])
})

test('an answer whose text and calls are apart is one message again, with its thoughts first', async () => {
  const { history } = await begin('deep', false, { thought: true, text: 'I look.', call: `${ID}apart` })
  const [question, second, answer, ...rest] = history
  const apart = [
    { role: 'assistant', content: 'I look.' },
    { ...answer, content: null },
  ]
  const done = answers(chat, { thought: false, text: 'Done.', call: undefined })
  const { sent } = await send('deep', [question ?? {}, second ?? {}, ...apart, ...rest], done)
  const messages = list(sent['messages'])
  expect(messages.map(({ role }) => role)).toEqual(['user', 'user', 'assistant', 'tool'])
  expect([messages[2]?.['content'], messages[2]?.['reasoning_content']]).toEqual(['I look.', 'Hm, "é".'])
})

const SECOND = { ...thinking, thinking: 'Hm, 漢😀', signature: 'c2Vjb25k' }

test.each([
  ['a text', 'chat', []],
  ['a text', 'messages', []],
  ['texts and a call', 'chat', [{ type: 'tool_use', id: `${ID}between`, name: 'look', input: {} }]],
] as const)(
  'thinking between two texts of %s goes back between them, from a caller of %s',
  async (_, dialect, uses) => {
    const spokenTexts = ['First: é "😀"\n\n', ' and then, \\o/ é.'] as const
    const spoken = spokenTexts.map((text) => ({ type: 'text', text }))
    const content = [thinking, spoken[0], SECOND, redacted, spoken[1], ...uses]
    const asked = { role: 'user', content: `Between, ${dialect}, ${uses.length}` }
    const stop_reason = uses.length === 0 ? 'end_turn' : 'tool_use'
    await send('claude', [asked], json(200, JSON.stringify({ ...message, content, stop_reason })))
    const calls = uses.map(({ id }) => ({ id, type: 'function', function: { name: 'look', arguments: '{}' } }))
    const next = uses.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'rain' }))
    const parts = dialect === 'chat' ? spokenTexts.join('') : spoken
    const answer = { role: 'assistant', content: parts, ...(calls.length > 0 && { tool_calls: calls }) }
    const done = answers(anthropic, { thought: false, text: 'Done.', call: undefined })
    const { sent } = await send('claude', [asked, answer, ...next, { role: 'user', content: 'And?' }], done)
    expect(list(sent['messages'])[1]).toEqual({ role: 'assistant', content: content as JsonObject[] })
    // Changed, it has no such place.
    const other = { ...answer, content: spokenTexts.join('').replace('then', 'now') }
    const changed = await send('claude', [asked, other, ...next, { role: 'user', content: 'And?' }], done)
    expect(JSON.stringify(changed.sent)).not.toContain('"thinking"')
  },
)

test('a message of OpenAI that follows a thought stays one of its own, with its phase', async () => {
  const asked = { role: 'user', content: 'Phases?' }
  const spoken = (phase: string, text: string) => ({
    type: 'message',
    role: 'assistant',
    phase,
    content: [{ type: 'output_text', text }],
  })
  const second = { ...reasoning, id: 'rs_2' }
  const output = [reasoning, spoken('commentary', 'I look.'), second, spoken('final_answer', 'Rain.')]
  await send('resp', [asked], json(200, JSON.stringify({ status: 'completed', output })))
  const done = answers(responses, { thought: false, text: 'Done.', call: undefined })
  const answer = { role: 'assistant', content: 'I look.Rain.' }
  const { sent } = await send('resp', [asked, answer, { role: 'user', content: 'And?' }], done)
  expect(list(sent['input']).slice(1, 5)).toEqual([
    reasoning,
    { role: 'assistant', content: 'I look.', phase: 'commentary' },
    second,
    { role: 'assistant', content: 'Rain.', phase: 'final_answer' },
  ])
})

test('a call that the caller leaves out takes its thoughts along', async () => {
  const { history } = await begin('resp', false, { thought: true, text: 'I look.', call: `${ID}z` })
  const [question, second, , ...rest] = history
  const without = [question ?? {}, second ?? {}, { role: 'assistant', content: 'I look.' }, ...rest.slice(1)]
  const done = answers(responses, { thought: false, text: 'Done.', call: undefined })
  const { sent } = await send('resp', [...without, { role: 'user', content: 'Go on.' }], done)
  expect(JSON.stringify(sent)).not.toContain('reasoning","')
})

test('thoughts that a target does not get are not charged by an estimate', async () => {
  const { history } = await begin('claude', false, { thought: true, text: '', call: `${ID}c` })
  const unreported = json(
    200,
    JSON.stringify({ ...message, usage: {}, content: [{ type: 'text', text: 'Done.' }], stop_reason: 'end_turn' }),
  )
  const charged = async (model: string, key: string) => {
    const { text } = await send(model, history, unreported, {}, key)
    return JSON.parse(text).usage.prompt_tokens
  }
  const without = await charged('claude2', OTHER_KEY)
  expect(await charged('claude2', KEY)).toBe(without)
  expect(await charged('claude', KEY)).toBeGreaterThan(without)
})

test('the target that issued the last thoughts is asked first among equals, until it fails', async () => {
  const { history } = await begin('claude2', false, { thought: true, text: '', call: `${ID}a` })
  const paths = async (reaction: Scenario) => {
    upstream.otherwise(reaction)
    const before = upstream.calls.length
    const body = { model: 'claude', messages: history, tools }
    const answer = await ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body }))
    const thoughts = upstream.calls.slice(before).map((call) => anthropic.read(call.json))
    return { thoughts, fallbacks: answer.header('x-gateway-fallback-count') }
  }
  const [bare, whole] = [false, true].map((thought) => anthropicBlocks({ thought, text: '', call: `${ID}a` }))
  const done = answers(anthropic, { thought: false, text: 'Done.', call: undefined })
  expect(await paths(done)).toEqual({ thoughts: [whole], fallbacks: '1' })
  const failing: Scenario = (call) => (JSON.stringify(call.json).includes('thinking') ? json(500, '{}') : done)(call)
  expect((await paths(failing)).thoughts).toEqual([whole, bare])
})

test('counts of tokens include what is given back', async () => {
  const { history } = await begin('claude', false, { thought: true, text: '', call: `${ID}n` })
  const [question] = history
  const messages = [
    question,
    { role: 'assistant', content: [{ type: 'tool_use', id: `${ID}n`, name: 'look', input: JSON.parse(ARGUMENTS) }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: `${ID}n`, content: 'rain' }] },
  ]
  upstream.otherwise(json(200, '{"input_tokens":4711}'))
  const body = { model: 'claude', messages }
  const { text } = await ask(gateway.port, requestBytes('/v1/messages/count_tokens', { key: KEY, body }))
  expect(text).toBe('{"input_tokens":4711}')
  expect(anthropic.read(upstream.calls.at(-1)?.json ?? {})).toEqual(
    anthropicBlocks({ thought: true, text: '', call: `${ID}n` }),
  )
})

test('the answer of a stream that breaks off is not kept', async () => {
  const answer = { thought: true, text: '', call: `${ID}b` }
  const question = [{ role: 'user', content: 'cut' }]
  upstream.otherwise((call) => stream(anthropic.streamed(answer).slice(0, -2))(call))
  const body = { model: 'claude', messages: question, tools, stream: true }
  await ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body })).catch(() => undefined)
  const sentBack = {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: answer.call, type: 'function', function: { name: 'look', arguments: ARGUMENTS } }],
  }
  const done = answers(anthropic, { thought: false, text: 'Done.', call: undefined })
  const { sent } = await send(
    'claude',
    [...question, sentBack, { role: 'tool', tool_call_id: answer.call, content: 'x' }],
    done,
  )
  expect(JSON.stringify(sent)).not.toContain('thinking')
})

test('is counted', async () => {
  const wanted = ['found', 'missing', 'other_issuer'].map((result) => `weir_continuity_total{result="${result}"}`)
  const metrics = async () => await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  await until(async () => {
    const text = await metrics()
    return wanted.every((one) => text.includes(one))
  })
})
