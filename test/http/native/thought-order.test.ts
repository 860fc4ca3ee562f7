/**
 * The order in which thoughts return to their provider among the blocks of its own tools, and of calls that texts
 * follow: sent back by the caller in native mode, or from what weir has kept.
 */

import { expect, test } from 'bun:test'
import { isArray, isObject, type JsonObject, objectOf, stringOf } from '../../../src/core/json.ts'
import { ask, requestBytes } from '../../support/caller.ts'
import { KEY } from '../../support/gateway.ts'
import { json } from '../../support/scenarios.ts'
import { served } from '../../support/served.ts'

const PRICE = { input: 1, output: 1, tools: { web_search: 10 } }

const { upstream, gateway } = await served((url) => ({
  providers: {
    claude: { dialect: 'anthropic', base_url: url, api_key: 'k' },
    gpt: { dialect: 'openai', api: 'responses', base_url: url, api_key: 'k' },
  },
  models: {
    claude: { targets: [{ provider: 'claude', model: 'claude-opus-4-7' }], price: PRICE },
    gpt: { targets: [{ provider: 'gpt', model: 'gpt-5.5' }], price: PRICE },
  },
  config: { compatibility: { mode: 'native' } },
}))

/** A block or an item by its short name: `T` a thought, `m` a text, `c` a call, `s` a search, `r` what it found. */
type Short = string

const CLAUDE: Readonly<Record<string, (name: Short) => JsonObject>> = {
  T: (name) => ({ type: 'thinking', thinking: name, signature: `signed ${name}` }),
  m: (name) => ({ type: 'text', text: name }),
  c: (name) => ({ type: 'tool_use', id: `toolu_${name}`, name: 'f', input: {} }),
  s: (name) => ({ type: 'server_tool_use', id: `srvtoolu_${name}`, name: 'web_search', input: { query: 'q' } }),
  r: (name) => ({ type: 'web_search_tool_result', tool_use_id: `srvtoolu_${name.replace('r', 's')}`, content: [] }),
}

const GPT: typeof CLAUDE = {
  T: (name) => ({ type: 'reasoning', id: `rs_${name}`, summary: [], encrypted_content: `sealed ${name}` }),
  m: (name) => ({
    ...{ type: 'message', id: `msg_${name}`, role: 'assistant', status: 'completed' },
    content: [{ type: 'output_text', text: name, annotations: [] }],
  }),
  c: (name) => ({ type: 'function_call', id: `fc_${name}`, call_id: `call_${name}`, name: 'f', arguments: '{}' }),
  s: (name) => ({
    type: 'web_search_call',
    id: `ws_${name}`,
    status: 'completed',
    action: { type: 'search', query: 'q' },
  }),
}

const blocksOf = (forms: typeof CLAUDE, names: readonly Short[]) =>
  names.map((name) => forms[name.slice(0, 1)]?.(name) ?? {})

const list = (value: unknown): readonly JsonObject[] => (isArray(value) ? value.filter(isObject) : [])

/** The short name of what reached the provider; of thoughts only if it is as issued. */
function nameOf(block: JsonObject): Short | undefined {
  const own = block['signature'] ?? block['encrypted_content']
  if (own !== undefined) return /^(?:signed|sealed) (T\d)$/.exec(String(own))?.[1] ?? `not as issued: ${own}`
  const text = stringOf(block['text']) ?? stringOf(block['content']) ?? stringOf(list(block['content'])[0]?.['text'])
  if (text !== undefined) return text
  const id = stringOf(block['call_id']) ?? stringOf(block['id']) ?? stringOf(block['tool_use_id'])
  const name = id?.split('_')[1]
  return block['type'] === 'web_search_tool_result' ? name?.replace('s', 'r') : name
}

async function answered(path: string, body: JsonObject): Promise<JsonObject> {
  const answer = await ask(gateway.port, requestBytes(path, { key: KEY, body }))
  expect([answer.status, answer.status === 200 ? '' : answer.text]).toEqual([200, ''])
  return objectOf(JSON.parse(answer.text)) ?? {}
}

const ORDERS = [
  // What the model wrote, and the same with its calls last.
  ['T1 s1 r1 T2 m1', 'T1 s1 r1 T2 m1'],
  ['T1 s1 r1 T2 s2 r2 T3 m1 c1', 'T1 s1 r1 T2 s2 r2 T3 m1 c1'],
  ['T1 m1 s1 r1 T2 c1', 'T1 m1 s1 r1 T2 c1'],
  ['T1 m1 T2 m2', 'T1 m1 T2 m2'],
  ['T1 c1 T2 c2', 'T1 c1 T2 c2'],
  ['T1 c1 s1 r1', 'T1 s1 r1 c1'],
  ['T1 c1 T2 m1', 'T1 T2 m1 c1'],
  ['T1 m1 c1 T2 m2 c2', 'T1 m1 T2 m2 c1 c2'],
  ['T1 c1 s1 r1 T2 m1 T3 c2', 'T1 s1 r1 T2 m1 c1 T3 c2'],
] as const

const searching = { type: 'web_search_20250305', name: 'web_search' }

async function claudeTurns(order: string, sends: 'thoughts' | 'nothing', think: string): Promise<string> {
  const content = blocksOf(CLAUDE, order.split(' '))
  const usage = { input_tokens: 1, output_tokens: 1 }
  const whole = { type: 'message', id: 'm', role: 'assistant', model: 'x', content, stop_reason: 'tool_use', usage }
  upstream.otherwise(json(200, JSON.stringify(whole)))
  const question = { role: 'user', content: `${order} ${sends} ${think}` }
  const common = {
    model: 'claude',
    max_tokens: 3000,
    thinking: { type: think },
    tools: [{ name: 'f', input_schema: {} }, searching],
  }
  const first = await answered('/v1/messages', { ...common, messages: [question] })
  const sent = list(first['content']).filter(({ type }) => sends === 'thoughts' || type !== 'thinking')
  const results = sent
    .filter(({ type }) => type === 'tool_use')
    .map(({ id }) => ({ type: 'tool_result', tool_use_id: id ?? '', content: 'r' }))
  const next = { role: 'user', content: [...results, { type: 'text', text: 'next' }] }
  await answered('/v1/messages', { ...common, messages: [question, { role: 'assistant', content: sent }, next] })
  return list(list(upstream.calls.at(-1)?.json['messages'])[1]?.['content'])
    .map(nameOf)
    .join(' ')
}

async function gptTurns(order: string, sends: 'thoughts' | 'nothing'): Promise<string> {
  const output = blocksOf(GPT, order.split(' '))
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
  upstream.otherwise(json(200, JSON.stringify({ id: 'r', object: 'response', status: 'completed', output, usage })))
  const question = { role: 'user', content: `${order} ${sends}` }
  const include = sends === 'thoughts' ? { include: ['reasoning.encrypted_content'] } : {}
  const tools = [
    { type: 'function', name: 'f', parameters: { type: 'object', properties: {} } },
    { type: 'web_search' },
  ]
  const first = await answered('/v1/responses', { model: 'gpt', input: [question], tools, ...include })
  const sent = list(first['output'])
  const results = sent
    .filter(({ type }) => type === 'function_call')
    .map(({ call_id }) => ({ type: 'function_call_output', call_id: call_id ?? '', output: 'r' }))
  await answered('/v1/responses', { model: 'gpt', input: [question, ...sent, ...results], tools, ...include })
  const items = list(upstream.calls.at(-1)?.json['input']).slice(1)
  return items
    .filter(({ type }) => type !== 'function_call_output')
    .map(nameOf)
    .join(' ')
}

test.each(ORDERS)('Messages: %s, sent back, arrives as %s', async (written, arrives) => {
  expect(await claudeTurns(written, 'thoughts', 'adaptive')).toBe(arrives)
})

test.each(ORDERS)('Responses: %s, sent back, arrives as %s', async (written, arrives) => {
  const [sent, expected] = [written, arrives].map((order) => order.replaceAll(/ r\d/g, ''))
  expect(await gptTurns(sent ?? '', 'thoughts')).toBe(expected ?? '')
})

// Thoughts of an answer in which something follows a call, and a thought either, stay out.
const KEPT = ORDERS.filter(([written, arrives]) => written === arrives)

test.each(KEPT)('Messages: %s, sent back without its thoughts, arrives whole', async (written) => {
  expect(await claudeTurns(written, 'nothing', 'adaptive')).toBe(written)
})

test.each(KEPT)('Responses: %s, sent back without its reasoning, arrives whole', async (written) => {
  const sent = written.replaceAll(/ r\d/g, '')
  expect(await gptTurns(sent, 'nothing')).toBe(sent)
})

test.each([
  ['T1 s1 r1', 'adaptive'],
  ['T1 m1 s1', 'adaptive'],
  ['m1', 'disabled'],
] as const)('an answer of %s that goes on has thinking %s', async (order, type) => {
  const content = blocksOf(CLAUDE, order.split(' '))
  const whole = { type: 'message', id: 'm', role: 'assistant', model: 'x', content, stop_reason: 'pause_turn' }
  upstream.otherwise(json(200, JSON.stringify({ ...whole, usage: { input_tokens: 1, output_tokens: 1 } })))
  const question = { role: 'user', content: `Go on: ${order}` }
  const common = { model: 'claude', max_tokens: 3000, thinking: { type: 'adaptive' }, tools: [searching] }
  const first = await answered('/v1/messages', { ...common, messages: [question] })
  expect(first['stop_reason']).toBe('pause_turn')
  await answered('/v1/messages', {
    ...common,
    messages: [question, { role: 'assistant', content: first['content'] ?? [] }],
  })
  const call = upstream.calls.at(-1)
  expect(objectOf(call?.json['thinking'])?.['type']).toBe(type)
  expect(list(list(call?.json['messages'])[1]?.['content']).map(nameOf).join(' ')).toBe(order)
})
