/**
 * The official `openai` SDK, current and previous major, against the real program: Responses over a Chat Completions
 * provider.
 */

import { describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod'
import OpenAI6 from 'openai-6'
import { z } from 'zod'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { thrownBy } from '../support/thrown.ts'
import { afterThreeSteps, BREAKS, FRAMES, HELLO, THREE_STEPS, useStage } from './stage.ts'

// Both majors agree in what is used here, but have different types.
const MAJORS: readonly (readonly [name: string, Sdk: typeof OpenAI])[] = [
  ['newest', OpenAI],
  ['the major before', OpenAI6 as unknown as typeof OpenAI],
]

const stage = useStage()

const USAGE = { input_tokens: 11, output_tokens: 7, total_tokens: 18 }
const get_weather: OpenAI.Responses.FunctionTool = {
  type: 'function',
  name: 'get_weather',
  description: 'The weather in a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: null,
}

type Item = OpenAI.Responses.ResponseInputItem
type Body = OpenAI.Responses.ResponseCreateParamsNonStreaming

function callsOf({ output }: OpenAI.Responses.Response) {
  return output.flatMap((item) => (item.type === 'function_call' ? [item] : []))
}

describe.each(MAJORS)('%s', (_, Sdk) => {
  const connect = (more: object = {}) =>
    new Sdk({ apiKey: KEY, baseURL: `${stage.gateway.url}/v1`, maxRetries: 0, ...more })
  const answer = (streamed: boolean, body: Body) =>
    streamed
      ? connect()
          .responses.stream({ ...body, stream: true })
          .finalResponse()
      : connect().responses.create(body)

  describe.each([false, true])('streamed: %p', (streamed) => {
    test('text', async () => {
      const response = await answer(streamed, { model: 'small', input: 'say hello', instructions: 'Be kind.' })
      expect(response.output_text).toBe(HELLO)
      expect(response).toMatchObject({
        object: 'response',
        model: 'small',
        status: 'completed',
        instructions: 'Be kind.',
        usage: USAGE,
      })
      expect(stage.mock.getLastRequest()?.body).toMatchObject({
        messages: [
          { role: 'system', content: 'Be kind.' },
          { role: 'user', content: 'say hello' },
        ],
        max_tokens: 4096,
      })
    })

    test.each([
      ['say too much', 'This goes on and'],
      ['say it badly', 'I think'],
      ['say nothing', ''],
    ])('%s: completed', async (input, text) => {
      const response = await answer(streamed, { model: 'small', input })
      const { output_text, status, incomplete_details, output } = response
      expect({ output_text, status, incomplete_details }).toEqual({
        output_text: text,
        status: 'completed',
        incomplete_details: null,
      })
      expect(output).toHaveLength(1)
    })

    test('parallel calls, their items sent back with their outputs', async () => {
      const ask = 'weather in Oslo and Rome'
      const first = await answer(streamed, { model: 'small', input: ask, tools: [get_weather] })
      expect(callsOf(first).map(({ call_id, name, arguments: json }) => [call_id, name, json])).toEqual([
        ['call_oslo', 'get_weather', '{"city":"Oslo"}'],
        ['call_rome', 'get_weather', '{"city":"Rome"}'],
      ])
      const outputs = callsOf(first).map(
        ({ call_id }): Item => ({ type: 'function_call_output', call_id, output: '7' }),
      )
      const input = [{ role: 'user' as const, content: ask }, ...callsOf(first), ...outputs]
      const second = await answer(streamed, { model: 'small', input, tools: [get_weather] })
      expect(second.output_text).toBe('Seven degrees in Oslo, nineteen in Rome.')
    })

    test('a loop of three steps, with items and with references to them', async () => {
      stage.raw.on('steps', THREE_STEPS)
      for (const refers of [false, true]) {
        const input: Item[] = [{ role: 'user', content: 'Oslo, then Rome' }]
        let text = ''
        for (let step = 0; step < 3; step++) {
          const response = await answer(streamed, { model: 'steps', input: [...input], tools: [get_weather] })
          text += response.output_text
          for (const item of response.output) {
            if (item.type !== 'message' && item.type !== 'function_call') throw new Error(`an item ${item.type}`)
            input.push(refers ? { type: 'item_reference', id: item.id ?? '' } : item)
          }
          for (const { call_id } of callsOf(response))
            input.push({ type: 'function_call_output', call_id, output: `of ${call_id}` })
        }
        expect(text).toBe('First Oslo.Now Rome.Done.')
        expect(stage.raw.calls.filter((call) => call.model === 'steps').at(-1)?.json['messages']).toMatchObject(
          afterThreeSteps((call) => `of ${call}`),
        )
      }
    })

    test('a call without arguments', async () => {
      const tools = [{ ...get_weather, name: 'ask_oracle', parameters: null }]
      const response = await answer(streamed, { model: 'small', input: 'ask the oracle', tools })
      expect(callsOf(response)).toMatchObject([{ name: 'ask_oracle', arguments: '{}' }])
    })
  })

  test('a stream arrives in pieces, numbered without gaps', async () => {
    let text = ''
    const numbers: number[] = []
    const types = new Set<string>()
    for await (const event of await connect().responses.create({ model: 'small', input: 'say hello', stream: true })) {
      numbers.push(event.sequence_number)
      types.add(event.type)
      if (event.type === 'response.output_text.delta') text += event.delta
    }
    expect(text).toBe(HELLO)
    expect(numbers).toEqual(numbers.map((_, at) => at))
    expect([...types]).toEqual([
      'response.created',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ])
  })

  test('the parse helpers read an answer and the arguments of a call', async () => {
    const shape = z.object({ city: z.string(), degrees: z.number() })
    const text = { format: zodTextFormat(shape, 'weather') }
    const parsed = await connect().responses.parse({ model: 'small', input: 'as JSON', text })
    expect(parsed.output_parsed).toEqual({ city: 'Oslo', degrees: 7 })
    const streamed = await connect().responses.stream({ model: 'small', input: 'as JSON', text }).finalResponse()
    expect(streamed.output_parsed).toEqual({ city: 'Oslo', degrees: 7 })
    const tools = [zodResponsesFunction({ name: 'get_weather', parameters: z.object({ city: z.string() }) })]
    const called = await connect().responses.parse({ model: 'small', input: 'weather in Oslo', tools })
    expect(called.output[0]).toMatchObject({ type: 'function_call', parsed_arguments: { city: 'Oslo' } })
  })

  test.each([
    ['error-400', Sdk.BadRequestError, 400, 'context_length_exceeded', /context of 10 tokens/],
    ['error-401', Sdk.InternalServerError, 502, 'upstream_failed', /./],
    ['error-429', Sdk.RateLimitError, 429, 'upstream_rate_limited', /./],
    ['error-500', Sdk.InternalServerError, 502, 'upstream_failed', /./],
    ['error-503', Sdk.InternalServerError, 503, 'overloaded', /./],
    ['absent', Sdk.NotFoundError, 404, 'model_not_found', /absent/],
  ] as const)('%s is an error of its class', async (model, kind, status, code, message) => {
    for (const streamed of [false, true]) {
      const error = await thrownBy(answer(streamed, { model, input: 'say hello' }))
      expect(error).toBeInstanceOf(kind)
      expect(error).toMatchObject({ status, code })
      expect(String(error)).toMatch(message)
      expect(String(error)).not.toMatch(/provider-key|10\.0\.0\.1/)
    }
  })

  test('a wrong key, a forbidden field, an unknown reference', async () => {
    const wrong = connect({ apiKey: 'not-a-key-at-all' }).responses.create({ model: 'small', input: 'hi' })
    expect(await thrownBy(wrong)).toBeInstanceOf(Sdk.AuthenticationError)
    const forbidden = await thrownBy(connect().responses.create({ model: 'small', input: 'hi', metadata: {} }))
    expect(forbidden).toBeInstanceOf(Sdk.BadRequestError)
    expect(String(forbidden)).toContain('metadata')
    const input: Item[] = [{ type: 'item_reference', id: 'msg_unknown' }]
    const reference = await thrownBy(connect().responses.create({ model: 'small', input }))
    expect(reference).toMatchObject({ status: 400, param: 'input[0].id' })
    expect(String(reference)).toContain('store: false')
  })

  test.each(BREAKS)('%s throws, after the text that arrived', async (_, breaks) => {
    const seen = Promise.withResolvers<void>()
    stage.raw.on('raw', does.waits(FRAMES.slice(0, 3), seen.promise, breaks))
    let text = ''
    const read = async () => {
      for await (const event of await connect().responses.create({ model: 'raw', input: 'go', stream: true })) {
        if (event.type === 'response.output_text.delta') text += event.delta
        if (text === 'one two') seen.resolve()
      }
    }
    const error = await thrownBy(read())
    expect(text).toBe('one two')
    expect(String(error)).not.toContain('secret')
  })

  test.each(BREAKS)('%s throws in the streaming helper', async (_, breaks) => {
    stage.raw.on('raw', does.waits(FRAMES.slice(0, 3), Promise.resolve(), breaks))
    expect(await thrownBy(answer(true, { model: 'raw', input: 'go' }))).toBeInstanceOf(Error)
  })

  test('an abort reaches the provider', async () => {
    stage.raw.on('raw', does.stalls(FRAMES.slice(0, 2)))
    const from = stage.raw.calls.length
    const stream = connect().responses.stream({ model: 'raw', input: 'go' })
    stream.on('response.output_text.delta', () => stream.abort())
    expect(await thrownBy(stream.finalResponse())).toBeInstanceOf(Sdk.APIUserAbortError)
    await (await stage.raw.call(undefined, from)).aborted
    expect(await stage.gateway.line((one) => one['outcome'] === 'caller_left')).toMatchObject({
      requested_model: 'raw',
    })
  })
})
