/**
 * A conversation over a socket is the same as POSTs of its whole history: the provider gets the same bodies, the caller
 * the same events, and the ledger the same sums.
 */

import { afterAll, beforeAll, expect } from 'bun:test'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import { KEY } from '../support/gateway.ts'
import { property, type Random } from '../support/random.ts'
import * as does from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { SocketClient } from '../support/socket-client.ts'
import { type Call, Upstream } from '../support/upstream.ts'

let upstream: Upstream
let weir: Serving
const asked: JsonObject[] = []

beforeAll(async () => {
  const noted = (scenario: (call: Call) => void | Promise<void>) => (call: Call) => {
    asked.push(call.json)
    return scenario(call)
  }
  upstream = await Upstream.start({
    speaks: noted(does.answersText('Ein ', 'Wört', ' "\\ 🎈')),
    breaks: noted(does.resets(does.chatFrames(['Hello']).slice(0, 2))),
    rejects: noted(does.json(400, '{"error":{"message":"no"}}')),
  })
  const models = Object.fromEntries(['speaks', 'breaks', 'rejects'].map((name) => [name, [`up/${name}`]]))
  weir = new Serving({ providers: { up: upstream.url }, models })
})

afterAll(async () => {
  await weir[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

/** Two turns in three succeed. */
const modelOf = (random: Random) => random.pick(['speaks', 'speaks', 'speaks', 'speaks', 'breaks', 'rejects'])

function inputOf(random: Random): JsonObject['input'] {
  const text = random.pick(['hi', '', 'a "quoted" \\ text', 'Ünïcödé 🎈\n', 'x'.repeat(3000)])
  if (random.chance(0.4)) return text
  return random.list(3, () => ({ type: 'message', role: random.pick(['user', 'developer']), content: `${text}.` }))
}

const messageOf = (input: JsonObject['input']) =>
  isArray(input) ? input : [{ type: 'message', role: 'user', content: input ?? null }]

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
    text.replace(/(?:resp|msg)_[\w-]{20,}/g, (id) => {
      if (!ids.has(id)) ids.set(id, ids.size)
      return `id ${ids.get(id)}`
    }),
  )
}

/** The events of a POST; of one that fails before its content the error, in the form of a frame. */
async function posted(body: JsonObject): Promise<readonly JsonObject[]> {
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

const outputOf = (frames: readonly JsonObject[]) => {
  const response = frames.at(-1)?.['response']
  return isObject(response) && isArray(response['output']) ? response['output'] : []
}

interface Known {
  readonly id: string
  readonly history: readonly unknown[]
}

property('a conversation over a socket is that of POSTs with the whole history', 12, async (random) => {
  await using client = await SocketClient.open(weir.port, KEY)
  const lanes = new Map<string, Known>()
  for (let turns = 0; turns < 8; turns++) {
    const lane = random.pick(['', 'a', 'b'])
    const parent = random.chance(0.7) ? lanes.get(random.pick(['', 'a', 'b'])) : undefined
    const input = inputOf(random)
    const settings = { model: modelOf(random), ...(random.chance(0.5) ? { instructions: 'Be brief.' } : {}) }
    const from = asked.length
    const ledgerFrom = weir.ledger.reserved.length
    const history = [...(parent?.history ?? []), ...messageOf(input)]
    const frames = await client.turn({
      ...{ type: 'response.create', ...settings, input },
      ...(lane === '' ? {} : { stream_id: lane }),
      ...(parent === undefined ? {} : { previous_response_id: parent.id }),
    })
    await weir.idle()
    const whole = parent === undefined ? input : history
    const events = await posted({ ...settings, input: whole } as JsonObject)
    await weir.idle()
    expect(comparable(withoutHeaders(frames))).toEqual(comparable(events))
    const bodies = asked.slice(from)
    expect(bodies.slice(0, bodies.length / 2)).toEqual(bodies.slice(bodies.length / 2))
    const holds = weir.ledger.reserved.slice(ledgerFrom)
    expect(holds[0]?.estimate).toEqual(holds[1]?.estimate)
    const charges = holds.map(({ id }) => weir.ledger.settled.get(id)?.map(({ costMicroUsd }) => costMicroUsd))
    expect(charges[0]).toEqual(charges[1])
    const isDone = frames.at(-1)?.['type'] === 'response.completed'
    if (isDone) {
      const { id } = Object(frames.at(-1)?.['response'])
      lanes.set(lane, { id, history: [...history, ...outputOf(frames)] })
    } else if (parent !== undefined && lanes.get(lane) === parent) lanes.delete(lane)
  }
})
