/** The laws of the Responses dialect over random answers: order, fold and round trip. */

import { describe, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { generateText, streamText } from 'ai'
import OpenAI from 'openai'
import type { Completion } from '../../src/core/completion.ts'
import type { StreamEvent } from '../../src/core/event.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { jsonInside } from '../../src/wire/sse.ts'
import { accept, acceptLater, plain, SERVED } from '../dialects/responses/setting.ts'
import { answerText } from '../support/bytes.ts'
import { fold } from '../support/decode.ts'
import { canBeCopied, Encoding } from '../support/encoding.ts'
import type { Seen } from '../support/literal.ts'
import { property, type Random } from '../support/random.ts'
import { randomEvents } from '../support/streams.ts'
import { checkResponsesStream } from './responses-grammar.ts'
import { checkCompletedResponse } from './responses-schema.ts'

const exchangeOf = () => accept({ input: 'x', stream: true })
const encodeAll = (exchange: Seen, events: readonly StreamEvent[]) => Encoding.of(exchange, SERVED).addAll(events)

/** The content of an answer's output, whatever its order: its text, and its calls with their arguments. */
function contentIn(output: JsonValue | undefined): { text: string; calls: unknown[] } {
  if (!isArray(output)) throw new Error('no output')
  const items = output.filter(isObject)
  const parts = items.flatMap((item) => (isArray(item['content']) ? item['content'].filter(isObject) : []))
  const calls = items.filter((item) => item['type'] === 'function_call')
  return {
    text: parts.map((part) => part['text']).join(''),
    calls: calls.map((call) => [call['call_id'], call['name'], call['arguments']]),
  }
}

const contentOfEvents = ({ toolCalls }: Completion, events: readonly StreamEvent[]) => ({
  text: events.map((event) => (event.type === 'text' || event.type === 'refusal' ? event.text : '')).join(''),
  calls: toolCalls.map((call) => [call.callId, call.name, call.json]),
})

property(
  'order and fold: the grammar accepts every stream, and its content is that of the whole answer',
  400,
  (random) => {
    const events = randomEvents(random)
    const reading = checkResponsesStream(encodeAll(exchangeOf(), events))
    const completion = fold(events)
    const whole = JSON.parse(answerText(exchangeOf().answer(completion, SERVED)))
    checkCompletedResponse(whole)
    expect(contentIn(whole['output'])).toEqual(contentOfEvents(completion, events))
    const anonymous = (output: JsonValue | undefined) =>
      isArray(output) ? output.filter(isObject).map(({ id: _, ...item }) => item) : output
    expect(anonymous(reading.response['output'])).toEqual(anonymous(whole['output']))
    for (const [key, value] of Object.entries(whole)) {
      if (!['id', 'output', 'completed_at'].includes(key)) expect(reading.response[key]).toEqual(value as never)
    }
  },
)

property(
  'splice: copied JSON text gives the same bytes as decoded text, however many pieces come at once',
  200,
  (random) => {
    const events = randomEvents(random)
    const exchange = exchangeOf()
    const encoding = Encoding.of(exchange, SERVED)
    let copied = ''
    let insides: string[] = []
    const copy = () => {
      if (insides.length > 0) copied += encoding.copy(insides)
      insides = []
    }
    for (const event of events) {
      if (canBeCopied(event)) insides.push(jsonInside(event.text))
      if (!canBeCopied(event) || random.chance(0.3)) copy()
      if (!canBeCopied(event)) copied += encoding.add(event)
    }
    expect(plain(copied)).toBe(plain(encodeAll(exchange, events)))
  },
)

property('cut: no prefix of the events ends the stream', 50, (random) => {
  const events = randomEvents(random)
  for (let end = 0; end < events.length; end++) {
    const sse = encodeAll(exchangeOf(), events.slice(0, end))
    expect(sse).not.toContain('event: response.completed')
  }
})

property('compaction: one item for any text; a cut for nothing, a refusal, or what a filter stopped', 100, (random) => {
  const events = randomEvents(random)
  const exchange = accept({ input: [{ role: 'user', content: 'x' }, { type: 'compaction_trigger' }] })
  const answer = fold(events)
  const hasRefused = (answer.refusal ?? '') !== ''
  if (answer.reason === 'content-filter' || hasRefused || answer.text.trim() === '') {
    expect(() => encodeAll(exchange, events)).toThrow(ProviderError)
    return
  }
  const { output } = checkResponsesStream(encodeAll(exchange, events))
  const [message] = accept({ input: [...output] }).request.messages
  expect(JSON.stringify(message)).toContain(JSON.stringify(answer.text).slice(1, -1))
})

/**
 * The caller's next input: what it had, the answer's items or references to them, outputs in some order, and what the
 * user sends next.
 */
function nextInput(
  random: Random,
  input: readonly JsonObject[],
  output: readonly JsonObject[],
  turn: number,
): JsonObject[] {
  const items = output.map((item) => (random.chance(0.3) ? { type: 'item_reference', id: item['id'] } : item))
  const calls = output.filter((item) => item['type'] === 'function_call')
  const results = calls.map((call) => ({
    type: 'function_call_output',
    call_id: call['call_id'],
    output: `result ${turn}`,
  }))
  if (random.chance(0.5)) results.reverse()
  const user = { role: 'user', content: `turn ${turn}` }
  return random.chance(0.2) ? [...input, ...items, user, ...results] : [...input, ...items, ...results, user]
}

property('round trip: what was answered is taken back over three turns, with nothing lost', 200, async (random) => {
  let input: JsonObject[] = [{ role: 'user', content: 'turn 0' }]
  let text = ''
  const calls: string[] = []
  for (let turn = 1; turn <= 3; turn++) {
    const events = randomEvents(random).map((event) =>
      event.type === 'tool-start' ? { ...event, callId: `${event.callId}_${turn}` } : event,
    )
    const exchange = await acceptLater({ input })
    const output = random.chance(0.5)
      ? checkResponsesStream(encodeAll(exchange, events)).output
      : (JSON.parse(answerText(exchange.answer(fold(events), SERVED))).output as readonly JsonObject[])
    text += contentIn([...output]).text
    calls.push(...fold(events).toolCalls.map((call) => call.callId))
    input = nextInput(random, input, output, turn)
  }
  const { messages } = (await acceptLater({ input })).request
  const turns = messages.filter((message) => message.role === 'assistant')
  expect(turns.flatMap((message) => message.parts.map((part) => part.text)).join('')).toBe(text)
  expect(turns.flatMap((message) => message.toolCalls.map((call) => call.callId))).toEqual(calls)
  messages.forEach((message, at) => {
    // Every provider wants this: right after a turn's calls their outputs, all of them and no others.
    if (message.role !== 'assistant') return
    const rest = messages.slice(at + 1)
    const others = rest.findIndex((other) => other.role !== 'tool')
    const outputs = rest.slice(0, others === -1 ? undefined : others)
    expect(outputs.flatMap((other) => (other.role === 'tool' ? other.callId : [])).sort()).toEqual(
      message.toolCalls.map((call) => call.callId).sort(),
    )
  })
})

/** A `fetch` that answers with a stream in one piece, or with a body. */
function answering(make: (body: JsonObject) => string | JsonObject): typeof fetch {
  const answer = async (_: unknown, init?: { readonly body?: unknown }) => {
    const body: JsonObject = JSON.parse(String(init?.body))
    const answer = make(body)
    const type = typeof answer === 'string' ? 'text/event-stream' : 'application/json'
    return new Response(typeof answer === 'string' ? answer : JSON.stringify(answer), {
      headers: { 'content-type': type },
    })
  }
  return Object.assign(answer, { preconnect: () => {} })
}

/** What weir would answer to a body, streamed if it asks for that. */
const weir = (events: readonly StreamEvent[]) =>
  answering((body) => {
    const exchange = accept(body)
    return body['stream'] === true
      ? encodeAll(exchange, events)
      : JSON.parse(answerText(exchange.answer(fold(events), SERVED)))
  })

describe('what official SDKs accumulate is what the whole answer has', () => {
  const TOOLS = ['ping', 'get_weather', 'x-y_Z9']

  property('openai', 60, async (random) => {
    const events = randomEvents(random)
    const client = new OpenAI({ apiKey: 'k', baseURL: 'http://weir.test/v1', fetch: weir(events), maxRetries: 0 })
    const streamed = await client.responses.stream({ model: 'm', input: 'x' }).finalResponse()
    const whole = await client.responses.create({ model: 'm', input: 'x' })
    const expected = contentOfEvents(fold(events), events)
    const contentOf = (output: unknown) => contentIn(JSON.parse(JSON.stringify(output)))
    expect(contentOf(whole.output)).toEqual(JSON.parse(JSON.stringify(expected)))
    expect(contentOf(streamed.output)).toEqual(JSON.parse(JSON.stringify(expected)))
  })

  property('the Vercel AI SDK', 60, async (random) => {
    const events = randomEvents(random)
    const provider = createOpenAI({ apiKey: 'k', baseURL: 'http://weir.test/v1', fetch: weir(events) })
    const ask = { model: provider.responses('acme-large'), prompt: 'x', maxRetries: 0, onError: () => {} }
    const streamed = streamText(ask)
    const whole = await generateText(ask)
    const expected = contentOfEvents(fold(events), events)
    expect(whole.text).toBe(expected.text)
    expect((await streamed.steps).map((step) => step.text).join('')).toBe(expected.text)
    for (const calls of [whole.toolCalls, await streamed.toolCalls]) {
      expect(calls.map((call) => call.toolCallId).sort()).toEqual(
        expected.calls.map((call) => String((call as string[])[0])).sort(),
      )
      for (const call of calls) expect(TOOLS).toContain(call.toolName)
    }
  })

  test('a stream that is cut makes the SDK throw', async () => {
    const events = randomEventsWithText().slice(0, -1)
    const cut: typeof fetch = Object.assign(
      async () => {
        const body = new ReadableStream({
          start(controller) {
            controller.enqueue(new TextEncoder().encode(encodeAll(exchangeOf(), events)))
            controller.error(new Error('reset'))
          },
        })
        return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
      },
      { preconnect: () => {} },
    )
    const client = new OpenAI({ apiKey: 'k', baseURL: 'http://weir.test/v1', fetch: cut, maxRetries: 0 })
    await expect(client.responses.stream({ model: 'm', input: 'x' }).finalResponse()).rejects.toThrow()
  })
})

function randomEventsWithText(): StreamEvent[] {
  return [{ type: 'start' }, { type: 'text', text: 'half an ans' }, { type: 'finish', reason: 'stop' }, { type: 'end' }]
}
