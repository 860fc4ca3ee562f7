/**
 * A conversation over a socket is the same as POSTs of its whole history: the provider gets the same bodies, the caller
 * the same events, and the ledger the same sums; however the frames are cut, and whichever lanes run side by side.
 */

import { expect } from 'bun:test'
import { createHash } from 'node:crypto'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { KEY } from '../support/gateway.ts'
import { property, type Random } from '../support/random.ts'
import * as does from '../support/scenarios.ts'
import { lasting, lastingUpstream } from '../support/served.ts'
import { Serving } from '../support/serving.ts'
import { fragments, RawSocket, TEXT } from '../support/socket-client.ts'
import type { Call } from '../support/upstream.ts'

const LANES = ['', 'a', 'b', 'c'] as const
const ANSWER = does.chatFrames(['Ein ', 'Wört', ' "\\ 🎈', ' und noch eins'])

const asked: JsonObject[] = []

/** The same for each request with this body. */
function chosen({ json }: Call, below: number): number {
  return createHash('sha256').update(JSON.stringify(json)).digest().readUInt32LE() % below
}

/** A stream whose one call depends on the request. */
function callFrames(call: Call): readonly string[] {
  const [first = '', , ...rest] = does.chatFrames([''])
  const name = 'look_up'
  const calls = [{ index: 0, id: `call_${chosen(call, 1e9)}`, type: 'function', function: { name, arguments: '{}' } }]
  const delta = first.replace('"role":"assistant","content":""', `"tool_calls":${JSON.stringify(calls)}`)
  return [first, delta, ...rest.map((frame) => frame.replace('"stop"', '"tool_calls"'))]
}

const event = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`
const CLAUDE = [
  event('message_start', {
    message: {
      ...{ id: 'msg_up', type: 'message', role: 'assistant', model: 'up', content: [] },
      usage: { input_tokens: 20, output_tokens: 1 },
    },
  }),
  event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
  event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Ja, "genau"' } }),
  event('content_block_stop', { index: 0 }),
  event('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 4 } }),
  event('message_stop', {}),
]

/** The same by the Responses API: a text, or a call whose id depends on the request. */
function responsesFrames(call: Call, isCall: boolean): readonly string[] {
  const id = `call_${chosen(call, 1e9)}`
  const item = isCall
    ? { type: 'function_call', id: 'fc_up', call_id: id, name: 'look_up', arguments: '{}' }
    : { type: 'message', id: 'msg_up', role: 'assistant', content: [{ type: 'output_text', text: 'Sí "\\ 🎈' }] }
  const delta = isCall
    ? event('response.function_call_arguments.delta', { output_index: 0, item_id: 'fc_up', delta: '{}' })
    : event('response.output_text.delta', { output_index: 0, content_index: 0, item_id: 'msg_up', delta: 'Sí "\\ 🎈' })
  const usage = { input_tokens: 30, output_tokens: 5, total_tokens: 35 }
  return [
    event('response.created', { response: { id: 'resp_up', status: 'in_progress', output: [] } }),
    event('response.output_item.added', { output_index: 0, item: { ...item, arguments: '', content: [] } }),
    delta,
    event('response.output_item.done', { output_index: 0, item }),
    event('response.completed', { response: { id: 'resp_up', status: 'completed', output: [item], usage } }),
  ]
}

const noted = (scenario: (call: Call) => void | Promise<void>) => (call: Call) => {
  asked.push(call.json)
  return scenario(call)
}
const upstream = await lastingUpstream({
  speaks: noted(does.stream(ANSWER)),
  calls: noted((call) => does.stream(callFrames(call))(call)),
  // After every frame but the final marker.
  breaks: noted((call) => does.resets(ANSWER.slice(0, 1 + chosen(call, ANSWER.length - 1)))(call)),
  rejects: noted(does.json(400, '{"error":{"message":"no"}}')),
  claude: noted(does.stream(CLAUDE)),
  'responses-speaks': noted((call) => does.stream(responsesFrames(call, false))(call)),
  'responses-calls': noted((call) => does.stream(responsesFrames(call, true))(call)),
})
const models = Object.fromEntries(['speaks', 'calls', 'breaks', 'rejects'].map((name) => [name, [`up/${name}`]]))
const weir = lasting(
  new Serving({
    providers: {
      up: upstream.url,
      responses: { dialect: 'openai', api: 'responses', base_url: upstream.url, api_key: 'x' },
      anthropic: { dialect: 'anthropic', base_url: new URL(upstream.url).origin, api_key: 'x' },
    },
    models: {
      ...models,
      claude: ['anthropic/claude'],
      'responses-speaks': ['responses/responses-speaks'],
      'responses-calls': ['responses/responses-calls'],
    },
  }),
)

/** Most turns succeed. */
const modelOf = (random: Random) =>
  random.chance(0.5)
    ? random.pick(['responses-speaks', 'responses-calls'])
    : random.pick(['speaks', 'speaks', 'calls', 'calls', 'claude', 'claude', 'breaks', 'rejects', 'unknown'])

/** A response that may be continued. */
interface Known {
  readonly id: string
  readonly history: readonly JsonValue[]
}

function inputOf(random: Random, history: readonly JsonValue[]): JsonValue {
  const text = random.pick(['hi', '', 'a "quoted" \\ text', 'Ünïcödé 🎈\n', 'x'.repeat(3000), 'é'.repeat(9000)])
  const last = history.at(-1)
  // What follows a call is nearly always its result.
  if (isObject(last) && last['type'] === 'function_call' && random.chance(0.8))
    return [{ type: 'function_call_output', call_id: last['call_id'] ?? '', output: text }]
  if (random.chance(0.4)) return text
  if (random.chance(0.6))
    return random.list(3, () => ({ type: 'message', role: random.pick(['user', 'developer']), content: `${text}.` }))
  return random.list(3, () => unusualItem(random, text, history)).flat()
}

/** Items that callers rarely send, of which some change what an earlier part of the conversation means. */
function unusualItem(random: Random, text: string, history: readonly JsonValue[]): readonly JsonValue[] {
  const call_id = `own_${random.below(1e9)}`
  const calls = history.filter((item) => isObject(item) && item['type'] === 'function_call')
  const older = Object(random.pick([{ call_id }, ...calls]))['call_id']
  const call = { type: 'function_call', call_id, name: 'look_up', arguments: '{"a":1}' }
  return random.pick<readonly JsonValue[]>([
    [{ role: 'assistant', content: [{ type: 'output_text', text }] }],
    [
      {
        role: 'user',
        content: [
          { type: 'input_text', text },
          { type: 'input_text', text: 'and' },
        ],
      },
    ],
    [{ role: 'user', content: [] }],
    [call, { ...call, call_id: `${call_id}b` }, { type: 'function_call_output', call_id, output: { text } }],
    [
      { ...call, namespace: 'mcp', arguments: { text } },
      { type: 'function_call_output', call_id, output: [text] },
    ],
    [call, { type: 'function_call_output', call_id: older, output: text }],
    [call],
    [{ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' }],
    [{ type: 'additional_tools', tools: [{ type: 'function', name: 'more' }] }],
    [{ type: 'function_call', call_id, name: 'naïve name', arguments: 'no JSON' }],
    [
      { ...call, call_id: 'odd id!' },
      { type: 'function_call_output', call_id: 'odd id!', output: text },
    ],
  ])
}

const itemsOf = (input: JsonValue): readonly JsonValue[] =>
  isArray(input) ? input : [{ type: 'message', role: 'user', content: input }]

/** What differs between two answers to one request: ids, times, and what a socket adds. */
function comparable(events: readonly JsonObject[]): readonly unknown[] {
  const ids = new Map<string, number>()
  const text = JSON.stringify(
    events.filter(({ type }) => type !== 'response.in_progress' && type !== 'response.failed'),
    (name, value) => {
      if (name === 'gateway' || name === 'sequence_number' || name === 'previous_response_id') return undefined
      if (name === 'created_at' || name === 'completed_at' || name === 'stream_id') return undefined
      return value
    },
  )
  return JSON.parse(
    text.replace(/(?:resp|msg|fc)_[\w-]{20,}/g, (id) => {
      if (!ids.has(id)) ids.set(id, ids.size)
      return `id ${ids.get(id)}`
    }),
  )
}

/** The events of a POST; of one that fails before its content the error, in the form of a frame. */
async function posted(body: object): Promise<readonly JsonObject[]> {
  const response = await fetch(`http://127.0.0.1:${weir.port}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true }),
  })
  if (response.status !== 200) return [{ type: 'error', status: response.status, ...Object(await response.json()) }]
  let text = ''
  try {
    for await (const piece of response.body ?? []) text += Buffer.from(piece).toString()
  } catch {
    // Broken off, as the turn was.
  }
  return [...text.matchAll(/^data: (\{.*\})$/gm)].map(([, json = '']) => JSON.parse(json))
}

/** The frames of a turn without the headers, which a POST's body has not. */
function withoutHeaders(frames: readonly JsonObject[]): readonly JsonObject[] {
  return frames.map((frame) => {
    if (frame['type'] !== 'error' || !isObject(frame['error'])) return frame
    const { headers: _, ...error } = frame['error']
    const { headers: __, ...rest } = frame
    return { ...rest, error }
  })
}

function outputOf(last: JsonObject | undefined): readonly JsonValue[] {
  const response = last?.['response']
  return isObject(response) && isArray(response['output']) ? response['output'] : []
}

/** A random turn in a lane. */
interface Turn {
  readonly lane: string
  readonly parent: Known | undefined
  readonly input: JsonValue
  readonly settings: JsonObject
  readonly isWarmUp: boolean
}

const TOOLS = [{ type: 'function', name: 'look_up', parameters: { type: 'object', properties: {} } }]

function turnOf(random: Random, lane: string, parent: Known | undefined): Turn {
  const settings = { model: modelOf(random), tools: TOOLS, ...(random.chance(0.5) && { instructions: 'Be brief.' }) }
  return { lane, parent, input: inputOf(random, parent?.history ?? []), settings, isWarmUp: random.chance(0.1) }
}

/** Turns for lanes that run side by side. A fork's parent is in none of them: nothing else can happen to it. */
function turnsOf(random: Random, known: ReadonlyMap<string, Known>): readonly Turn[] {
  const first = random.below(LANES.length)
  const running = LANES.slice(first, first + random.between(1, 3))
  const parents = [...known].filter(([lane]) => !running.some((other) => other === lane)).map(([, one]) => one)
  return running.map((lane) => {
    const own = known.get(lane)
    const fork = parents[random.below(Math.max(1, parents.length))]
    return turnOf(random, lane, random.chance(0.25) ? undefined : random.chance(0.7) ? own : fork)
  })
}

/** Sends the frames of turns, in fragments and packets of any size; resolves to the frames of each lane. */
async function take(random: Random, socket: RawSocket, turns: readonly Turn[]): Promise<Map<string, JsonObject[]>> {
  const sent = turns.map(({ lane, parent, input, settings, isWarmUp }) => {
    const frame = {
      ...{ type: 'response.create', ...settings, input },
      ...(lane !== '' && { stream_id: lane }),
      ...(parent !== undefined && { previous_response_id: parent.id }),
      ...(isWarmUp && { generate: false }),
    }
    const bytes = Buffer.from(JSON.stringify(frame))
    const ends = random.list(3, () => random.below(bytes.length)).sort((one, other) => one - other)
    return fragments(bytes, ends)
  })
  const bytes = Buffer.concat(sent)
  for (let from = 0; from < bytes.length; ) {
    const size = random.between(1, bytes.length)
    socket.write(bytes.subarray(from, from + size))
    from += size
    if (random.chance(0.5)) await new Promise(setImmediate)
  }
  const frames = new Map<string, JsonObject[]>(turns.map(({ lane }) => [lane, []]))
  for (let running = turns.length; running > 0; ) {
    const next = await socket.next()
    if (next === undefined) throw new Error('the connection is gone')
    expect(next.opcode).toBe(TEXT)
    const frame: JsonObject = JSON.parse(next.data.toString())
    frames.get(String(frame['stream_id'] ?? ''))?.push(frame)
    if (/^(?:error|response\.(?:completed|incomplete|failed))$/.test(String(frame['type']))) running--
  }
  return frames
}

/** What every turn's frames have, whatever the turn. */
function expectOrder({ isWarmUp, settings }: Turn, frames: readonly JsonObject[]): void {
  const types = frames.map(({ type }) => type)
  if (types[0] === 'error') return expect(types).toEqual(['error'])
  expect(frames.map(({ sequence_number }) => sequence_number)).toEqual(frames.map((_, index) => index))
  const opening = isWarmUp ? ['response.created'] : ['response.created', 'response.in_progress']
  expect(types.slice(0, opening.length)).toEqual(opening)
  expect(types.filter((type) => type === 'response.in_progress')).toHaveLength(opening.length - 1)
  if (settings['model'] === 'breaks' && !isWarmUp) expect(types.at(-1)).toBe('response.failed')
}

/** Compares a turn with the POST of its whole history. */
async function expectEqual(turn: Turn, frames: readonly JsonObject[]): Promise<void> {
  const { parent, input, settings } = turn
  const [fromAsked, fromReserved] = [asked.length, weir.ledger.reserved.length]
  const whole = parent === undefined ? input : [...parent.history, ...itemsOf(input)]
  const events = await posted({ ...settings, input: whole })
  await weir.idle()
  expect(comparable(withoutHeaders(frames))).toEqual(comparable(events))
  const json = (bodies: readonly JsonObject[]) => bodies.map((body) => JSON.stringify(body))
  for (const body of json(asked.slice(fromAsked))) expect(json(asked.slice(0, fromAsked))).toContain(body)
  const sums = weir.ledger.reserved.map(({ id, estimate }) => ({
    estimate,
    charges: weir.ledger.settled.get(id)?.map(({ costMicroUsd }) => costMicroUsd),
  }))
  for (const sum of sums.slice(fromReserved)) expect(sums.slice(0, fromReserved)).toContainEqual(sum)
}

property('a conversation over sockets is that of POSTs with the whole history', 12, async (random) => {
  let socket = await RawSocket.with(weir.port, KEY)
  const known = new Map<string, Known>()
  let lost: string | undefined
  for (let batches = 0; batches < 6; batches++) {
    asked.length = 0
    weir.ledger.reserved.length = 0
    if (random.chance(0.15)) {
      lost = [...known.values()][0]?.id
      known.clear()
      socket[Symbol.dispose]()
      socket = await RawSocket.with(weir.port, KEY)
    }
    const turns = turnsOf(random, known)
    const frames = await take(random, socket, turns)
    await weir.idle()
    const [asks, holds] = [asked.length, weir.ledger.reserved.length]
    for (const turn of turns) {
      const own = frames.get(turn.lane) ?? []
      expectOrder(turn, own)
      const last = own.at(-1)
      if (turn.isWarmUp) expect(outputOf(last)).toEqual([])
      else await expectEqual(turn, own)
      const history = [...(turn.parent?.history ?? []), ...itemsOf(turn.input), ...outputOf(last)]
      if (last?.['type'] === 'response.completed') known.set(turn.lane, { id: Object(last['response']).id, history })
      else if (turn.parent !== undefined && known.get(turn.lane) === turn.parent) {
        lost = turn.parent.id
        known.delete(turn.lane)
      }
    }
    // As many as the POSTs, which are those of all turns but warm-ups.
    expect([2 * asks, 2 * holds]).toEqual([asked.length, weir.ledger.reserved.length])
    if (lost === undefined) continue
    const gone = turnOf(random, LANES[random.below(LANES.length)] ?? '', { id: lost, history: [] })
    const [error] = (await take(random, socket, [gone])).get(gone.lane) ?? []
    expect(error).toMatchObject({ status: 400, error: { code: 'previous_response_not_found' } })
    lost = undefined
  }
  socket[Symbol.dispose]()
})
