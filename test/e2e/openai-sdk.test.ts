/** The official `openai` SDK against the real program and a provider simulator: Chat Completions. */

import { describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { thrownBy } from '../support/thrown.ts'
import { BREAKS, ERRORS, FRAMES, HELLO, USAGE, useStage } from './stage.ts'

const stage = useStage()
const client = () => new OpenAI({ apiKey: KEY, baseURL: `${stage.gateway.url}/v1`, maxRetries: 0 })

const user = (content: string) => [{ role: 'user' as const, content }]
const weather = {
  type: 'function' as const,
  function: {
    name: 'get_weather',
    description: 'The weather in a city.',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}

/** The tool that `runTools` runs, which records the cities it was called with. */
function runnableWeather() {
  const cities: string[] = []
  const tool = {
    type: 'function' as const,
    function: {
      ...weather.function,
      parse: (json: string): { city: string } => JSON.parse(json),
      function: ({ city }: { city: string }) => {
        cities.push(city)
        return `${city.length} degrees`
      },
    },
  }
  return { tool, cities }
}

describe('text', () => {
  test('not streamed', async () => {
    const { data, response } = await client()
      .chat.completions.create({ model: 'small', messages: user('say hello') })
      .withResponse()
    expect(data.choices[0]?.message.content).toBe(HELLO)
    expect(data.choices[0]?.finish_reason).toBe('stop')
    expect(data.model).toBe('small')
    expect(data.usage).toMatchObject(USAGE)
    expect(response.headers.get('x-gateway-requested-model')).toBe('small')
    expect(response.headers.get('x-gateway-served-model')).toBe('small')
    expect(response.headers.get('x-gateway-fallback-count')).toBe('0')
    expect(data).toHaveProperty('_request_id', response.headers.get('x-request-id') ?? '')
  })

  test('streamed', async () => {
    const stream = await client().chat.completions.create({ model: 'small', messages: user('say hello'), stream: true })
    const pieces: string[] = []
    for await (const chunk of stream) {
      expect(chunk.usage).toBeUndefined()
      pieces.push(chunk.choices[0]?.delta.content ?? '')
    }
    expect(pieces.join('')).toBe(HELLO)
    expect(pieces.length).toBeGreaterThan(5)
  })

  test('streamed with usage', async () => {
    const request = { model: 'small', messages: user('say hello'), stream_options: { include_usage: true } }
    const stream = await client().chat.completions.create({ ...request, stream: true })
    let usage: unknown
    for await (const chunk of stream) usage = chunk.usage ?? usage
    expect(usage).toMatchObject(USAGE)
  })

  test('through the streaming helper, with the same result as without streaming', async () => {
    const request = { model: 'small', messages: user('say hello'), stream_options: { include_usage: true } }
    const streamed = await client().chat.completions.stream(request).finalChatCompletion()
    const whole = await client().chat.completions.create({ model: 'small', messages: user('say hello') })
    expect(streamed.choices[0]?.message.content).toBe(whole.choices[0]?.message.content ?? '')
    expect(streamed.choices[0]?.finish_reason).toBe('stop')
    expect(streamed.usage).toEqual(whole.usage)
  })

  test.each([
    ['say too much', 'length', 'This goes on and'],
    ['say it badly', 'content_filter', 'I think'],
    ['say nothing', 'stop', ''],
  ] as const)('%s: %s', async (words, reason, text) => {
    const whole = await client().chat.completions.create({ model: 'small', messages: user(words) })
    expect(whole.choices[0]).toMatchObject({ finish_reason: reason, message: { content: text } })
    const streamed = await client()
      .chat.completions.stream({ model: 'small', messages: user(words) })
      .finalChatCompletion()
    expect(streamed.choices[0]).toMatchObject({ finish_reason: reason, message: { content: text } })
  })

  test('in a shape that the SDK parses', async () => {
    const schema = z.object({ city: z.string(), degrees: z.number() })
    const request = { model: 'small', messages: user('as JSON'), response_format: zodResponseFormat(schema, 'weather') }
    const parsed = await client().chat.completions.parse(request)
    expect(parsed.choices[0]?.message.parsed).toEqual({ city: 'Oslo', degrees: 7 })
    const body = stage.mock.getLastRequest()?.body
    expect(body).toMatchObject({
      response_format: { type: 'json_schema', json_schema: { name: 'weather', strict: true } },
    })
  })
})

describe('tools', () => {
  test('over two steps by hand, streamed and whole', async () => {
    for (const stream of [false, true]) {
      const ask = async (messages: OpenAI.ChatCompletionMessageParam[]) => {
        const request = { model: 'small', messages, tools: [weather] }
        const answer = stream
          ? await client().chat.completions.stream(request).finalChatCompletion()
          : await client().chat.completions.create(request)
        return answer.choices[0]
      }
      const messages: OpenAI.ChatCompletionMessageParam[] = user('weather in Oslo')
      const first = await ask(messages)
      expect(first?.finish_reason).toBe('tool_calls')
      expect(first?.message.content).toBeNull()
      const call = first?.message.tool_calls?.[0]
      expect(call).toMatchObject({
        id: 'call_oslo',
        type: 'function',
        function: { name: 'get_weather', arguments: '{"city":"Oslo"}' },
      })
      if (first === undefined || call === undefined) throw new Error('no call')
      const second = await ask([...messages, first.message, { role: 'tool', tool_call_id: call.id, content: '7' }])
      expect(second).toMatchObject({ finish_reason: 'stop', message: { content: 'Seven degrees in Oslo.' } })
    }
  })

  test.each([false, true])('by runTools, in parallel (streamed: %p)', async (stream) => {
    const { tool, cities } = runnableWeather()
    const request = { model: 'small', messages: user('weather in Oslo and Rome'), tools: [tool] }
    const runner = stream
      ? client().chat.completions.runTools({ ...request, stream: true })
      : client().chat.completions.runTools(request)
    expect(await runner.finalContent()).toBe('Seven degrees in Oslo, nineteen in Rome.')
    expect(cities.sort()).toEqual(['Oslo', 'Rome'])
    const sent = stage.mock.getLastRequest()?.body
    const messages = sent !== null && sent !== undefined && 'messages' in sent ? sent.messages : []
    expect(Array.isArray(messages) ? messages.map((message) => message.role) : []).toEqual([
      'user',
      'assistant',
      'tool',
      'tool',
    ])
  })

  test('a call without arguments', async () => {
    const tools = [{ type: 'function' as const, function: { name: 'ask_oracle' } }]
    const request = { model: 'small', messages: user('ask the oracle'), tools }
    const whole = await client().chat.completions.create(request)
    const streamed = await client().chat.completions.stream(request).finalChatCompletion()
    for (const answer of [whole, streamed])
      expect(answer.choices[0]?.message.tool_calls?.[0]).toMatchObject({
        function: { name: 'ask_oracle', arguments: '{}' },
      })
  })
})

describe('errors', () => {
  const rows = [
    ['error-400', OpenAI.BadRequestError, 400, 'context_length_exceeded', /context of 10 tokens/],
    ['error-401', OpenAI.InternalServerError, 502, 'upstream_failed', /./],
    ['error-429', OpenAI.RateLimitError, 429, 'upstream_rate_limited', /./],
    ['error-500', OpenAI.InternalServerError, 502, 'upstream_failed', /./],
    ['error-503', OpenAI.InternalServerError, 503, 'overloaded', /./],
    ['absent', OpenAI.NotFoundError, 404, 'model_not_found', /absent/],
  ] as const
  test.each(rows)('%s', async (model, kind, status, code, message) => {
    for (const stream of [false, true]) {
      const asked = client().post<unknown>('/chat/completions', {
        body: { model, messages: user('say hello'), stream },
      })
      const error = await thrownBy(asked)
      expect(error).toBeInstanceOf(kind)
      if (!(error instanceof OpenAI.APIError)) return
      expect({ status: error.status, code: error.code }).toEqual({ status, code })
      expect(error.message).toMatch(message)
      expect(error.message).not.toMatch(/provider-key|10\.0\.0\.1/)
      expect(error.headers?.get('cache-control')).toBe('no-store')
      if (model === 'error-429') expect(error.headers?.get('retry-after')).toMatch(/^[1-7]$/)
    }
  })

  test('every error of the table is tested', () => {
    const models: readonly string[] = rows.map(([model]) => model)
    for (const name of Object.keys(ERRORS)) expect(models).toContain(name)
  })

  test('a wrong key', async () => {
    const other = new OpenAI({ apiKey: 'not-a-key-at-all', baseURL: `${stage.gateway.url}/v1` })
    const error = await thrownBy(other.chat.completions.create({ model: 'small', messages: user('say hello') }))
    expect(error).toBeInstanceOf(OpenAI.AuthenticationError)
    expect(error).toMatchObject({ status: 401, code: 'invalid_api_key' })
  })

  test('a forbidden field and a missing one', async () => {
    const body = { model: 'small', messages: user('say hello'), metadata: {} }
    const forbidden = await thrownBy(client().post('/chat/completions', { body }))
    expect(forbidden).toBeInstanceOf(OpenAI.BadRequestError)
    expect(String(forbidden)).toContain('metadata')
    const missing = await thrownBy(client().post('/chat/completions', { body: { model: 'small' } }))
    expect(missing).toMatchObject({ status: 400, param: 'messages' })
  })
})

describe('models', () => {
  test('are listed', async () => {
    const names: string[] = []
    for await (const model of client().models.list()) {
      expect(model).toMatchObject({ object: 'model', created: 0 })
      names.push(model.id)
    }
    expect(names.sort()).toEqual([...Object.keys(ERRORS), 'raw', 'small', 'steps'].sort())
  })
})

describe('a stream that breaks', () => {
  const begun = FRAMES.slice(0, 3)
  test.each(BREAKS)('%s throws, after the text that arrived', async (_, breaks) => {
    const seen = Promise.withResolvers<void>()
    stage.raw.on('raw', does.waits(begun, seen.promise, breaks))
    const pieces: string[] = []
    const read = async () => {
      const stream = await client().chat.completions.create({ model: 'raw', messages: user('go'), stream: true })
      for await (const chunk of stream) {
        pieces.push(chunk.choices[0]?.delta.content ?? '')
        if (pieces.at(-1) === ' two') seen.resolve()
      }
    }
    const error = await thrownBy(read())
    expect(pieces.join('')).toBe('one two')
    expect(String(error)).not.toContain('secret')
  })

  test.each(BREAKS)('%s throws in the streaming helper', async (_, breaks) => {
    stage.raw.on('raw', does.waits(begun, Promise.resolve(), breaks))
    const helper = client().chat.completions.stream({ model: 'raw', messages: user('go') })
    expect(await thrownBy(helper.finalContent())).toBeInstanceOf(Error)
  })

  test.each([
    ['a clean end in the middle', begun, '0\r\n\r\n'],
    ['an error event', [...begun, 'data: {"error":{"message":"secret","code":500}}\n\n'], '0\r\n\r\n'],
  ] as const)('what came in one breath with %s reaches the caller all the same', async (_, pieces, tail) => {
    stage.raw.on('raw', does.inOneBreath(pieces, tail))
    const body = { model: 'raw', messages: user('go'), stream: true }
    const answer = await ask(stage.gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body }))
    expect({ status: answer.status, end: answer.end }).toEqual({ status: 200, end: 'cut' })
    expect(answer.text).toContain('"content":" two"')
    expect(answer.text).not.toContain('[DONE]')
    expect(answer.text).not.toContain('finish_reason":"')
  })
})

describe('a caller that leaves', () => {
  test('in the middle of a stream: the provider sees it', async () => {
    stage.raw.on('raw', does.stalls(FRAMES.slice(0, 2)))
    const from = stage.raw.calls.length
    const stream = await client().chat.completions.create({ model: 'raw', messages: user('go'), stream: true })
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content === 'one') break
    await (await stage.raw.call(undefined, from)).aborted
    const line = await stage.gateway.line((one) => one['outcome'] === 'caller_left')
    expect(line).toMatchObject({ requested_model: 'raw', streamed: true, usage: 'estimated' })
    expect(Number(line['output_tokens'])).toBeGreaterThan(0)
  })

  test.each([true, false])('before the answer: the provider sees it (streamed: %p)', async (stream) => {
    stage.raw.on('raw', does.silent())
    const from = stage.raw.calls.length
    const controller = new AbortController()
    const request = { model: 'raw', messages: user('go'), stream }
    const asked = thrownBy(client().chat.completions.create(request, { signal: controller.signal }))
    const call = await stage.raw.call(undefined, from)
    controller.abort()
    expect(await asked).toBeInstanceOf(OpenAI.APIUserAbortError)
    await call.aborted
  })
})
