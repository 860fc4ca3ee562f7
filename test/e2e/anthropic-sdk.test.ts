/**
 * The official `@anthropic-ai/sdk`, current and 0.x, against the real program: Messages over a Chat Completions
 * provider.
 */

import { describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema'
import Anthropic0 from 'anthropic-0'
import { betaTool as betaTool0 } from 'anthropic-0/helpers/beta/json-schema'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { thrownBy } from '../support/thrown.ts'
import { afterThreeSteps, BREAKS, FRAMES, HELLO, THREE_STEPS, useStage } from './stage.ts'

interface Line {
  readonly name: string
  readonly Sdk: typeof Anthropic
  readonly tool: typeof betaTool
  /**
   * The statuses that the tool runner gets over three steps. The current one continues a thread, gets an error, and
   * sends the whole history.
   */
  readonly runnerStatuses: readonly number[]
}

// Both lines agree in what is used here, but have different types.
const LINES: readonly Line[] = [
  { name: 'newest', Sdk: Anthropic, tool: betaTool, runnerStatuses: [200, 404, 200, 404, 200] },
  {
    name: '0.x',
    Sdk: Anthropic0 as unknown as typeof Anthropic,
    tool: betaTool0 as unknown as typeof betaTool,
    runnerStatuses: [200, 200, 200],
  },
]

const stage = useStage()

const USAGE = { input_tokens: 11, output_tokens: 7 }
const user = (content: string) => [{ role: 'user' as const, content }]
const ask = (model: string, content: string) => ({ model, max_tokens: 300, messages: user(content) })
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } as const
const get_weather: Anthropic.Tool = {
  name: 'get_weather',
  description: 'The weather in a city.',
  input_schema: { ...schema, required: ['city'] },
}
const textOf = (message: Anthropic.Message) =>
  message.content.map((block) => (block.type === 'text' ? block.text : '')).join('')
const callsOf = (message: Anthropic.Message) =>
  message.content.flatMap((block) => (block.type === 'tool_use' ? [{ id: block.id, input: block.input }] : []))

describe.each(LINES.map((line) => [line.name, line] as const))('%s', (_, { Sdk, tool, runnerStatuses }) => {
  const connect = (path = '/anthropic', more: object = {}) =>
    new Sdk({ apiKey: KEY, baseURL: `${stage.gateway.url}${path}`, maxRetries: 0, ...more })

  test('the SDK lists the models, page by page', async () => {
    const whole = await connect().models.list()
    const ids: string[] = []
    for await (const { id } of connect().models.list({ limit: 2 })) ids.push(id)
    expect(ids).toEqual(whole.data.map(({ id }) => id))
    expect(ids.length).toBeGreaterThan(2)
  })

  /** One answer, streamed or not. */
  async function answer(streamed: boolean, body: ReturnType<typeof ask> & { tools?: Anthropic.Tool[] }) {
    return streamed ? connect().messages.stream(body).finalMessage() : connect().messages.create(body)
  }

  describe.each([false, true])('streamed: %p', (streamed) => {
    test('text', async () => {
      const message = await answer(streamed, ask('small', 'say hello'))
      expect(textOf(message)).toBe(HELLO)
      expect(message).toMatchObject({ model: 'small', stop_reason: 'end_turn', stop_sequence: null, usage: USAGE })
    })

    test.each([
      ['say too much', 'max_tokens', 'This goes on and'],
      ['say it badly', 'stop_sequence', 'I think'],
      ['say nothing', 'end_turn', ''],
    ] as const)('%s: %s', async (words, reason, text) => {
      const message = await answer(streamed, ask('small', words))
      expect({ reason: message.stop_reason, text: textOf(message) }).toEqual({ reason, text })
      expect(message.content).toHaveLength(1)
    })

    test('calls in parallel and their results, by hand', async () => {
      const first = await answer(streamed, { ...ask('small', 'weather in Oslo and Rome'), tools: [get_weather] })
      expect(first.stop_reason).toBe('tool_use')
      expect(callsOf(first)).toEqual([
        { id: 'call_oslo', input: { city: 'Oslo' } },
        { id: 'call_rome', input: { city: 'Rome' } },
      ])
      const results = callsOf(first).map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: '7' }) as const)
      const messages: Anthropic.MessageParam[] = [
        ...user('weather in Oslo and Rome'),
        { role: 'assistant', content: first.content },
        { role: 'user', content: results },
      ]
      const body = { model: 'small', max_tokens: 300, messages, tools: [get_weather] }
      const second = streamed
        ? await connect().messages.stream(body).finalMessage()
        : await connect().messages.create(body)
      expect(textOf(second)).toBe('Seven degrees in Oslo, nineteen in Rome.')
      expect(second.stop_reason).toBe('end_turn')
    })

    test('a call without arguments', async () => {
      const tools = [{ name: 'ask_oracle', input_schema: { type: 'object' as const } }]
      const message = await answer(streamed, { ...ask('small', 'ask the oracle'), tools })
      expect(callsOf(message)).toEqual([{ id: 'call_oracle', input: {} }])
    })

    test('the tool runner, over three steps', async () => {
      stage.raw.on('steps', THREE_STEPS)
      const cities: string[] = []
      const runnable = tool({
        name: 'get_weather',
        description: 'The weather in a city.',
        inputSchema: schema,
        run: ({ city }) => {
          cities.push(city)
          return `${city.length} degrees`
        },
      })
      const statuses: number[] = []
      const fetching = async (input: string | URL | Request, init?: RequestInit) => {
        const response = await fetch(input, init)
        statuses.push(response.status)
        return response
      }
      const body = { ...ask('steps', 'Oslo, then Rome'), system: 'You are terse.', tools: [runnable] }
      const last = await connect('/anthropic', { fetch: fetching })
        .beta.messages.toolRunner({ ...body, stream: streamed })
        .runUntilDone()
      expect(last.content).toMatchObject([{ type: 'text', text: 'Done.' }])
      expect(cities).toEqual(['Oslo', 'Rome'])
      // The model got the whole conversation at every step.
      const sent = stage.raw.calls.filter((call) => call.model === 'steps').at(-1)?.json['messages']
      expect(sent).toMatchObject([{ role: 'system', content: 'You are terse.' }, ...afterThreeSteps(() => '4 degrees')])
      expect(statuses).toEqual([...runnerStatuses])
    })
  })

  test('a stream arrives in pieces, block by block', async () => {
    const types: string[] = []
    let text = ''
    for await (const event of await connect().messages.create({ ...ask('small', 'say hello'), stream: true })) {
      if (types.at(-1) !== event.type) types.push(event.type)
      if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text
    }
    expect(text).toBe(HELLO)
    expect(types).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ])
  })

  test('on both paths, with a key in either header, through the beta helper', async () => {
    for (const path of ['', '/anthropic']) {
      for (const auth of [{ apiKey: KEY }, { apiKey: null, authToken: KEY }]) {
        const { data, response } = await connect(path, auth)
          .beta.messages.create({ ...ask('small', 'say hello'), betas: ['whatever-2026-01-01'] })
          .withResponse()
        expect(data.content).toMatchObject([{ type: 'text', text: HELLO }])
        expect(response.headers.get('x-gateway-served-model')).toBe('small')
        expect(response.headers.get('request-id')).toMatch(/^req_/)
      }
    }
  })

  test('counts tokens', async () => {
    const count = await connect().messages.countTokens({ model: 'small', messages: user('say hello') })
    expect(count.input_tokens).toBeGreaterThan(0)
  })

  test.each([
    ['error-400', Sdk.BadRequestError, 400, 'invalid_request_error', /context of 10 tokens/],
    ['error-401', Sdk.InternalServerError, 502, 'api_error', /./],
    ['error-429', Sdk.RateLimitError, 429, 'rate_limit_error', /./],
    ['error-500', Sdk.InternalServerError, 502, 'api_error', /./],
    ['error-503', Sdk.InternalServerError, 503, 'overloaded_error', /./],
    ['absent', Sdk.NotFoundError, 404, 'not_found_error', /absent/],
  ] as const)('%s is an error of its class', async (model, kind, status, type, message) => {
    for (const streamed of [false, true]) {
      const error = await thrownBy(answer(streamed, ask(model, 'say hello')))
      expect(error).toBeInstanceOf(kind)
      expect(error).toMatchObject({ status, error: { type: 'error', error: { type } } })
      expect(String(error)).toMatch(message)
      expect(String(error)).not.toMatch(/provider-key|10\.0\.0\.1/)
    }
  })

  test('a wrong key, a missing field, an unknown block', async () => {
    const wrong = await thrownBy(connect('/anthropic', { apiKey: 'not-a-key' }).messages.create(ask('small', 'hi')))
    expect(wrong).toBeInstanceOf(Sdk.AuthenticationError)
    const missing = await thrownBy(connect().messages.create({ ...ask('small', 'hi'), messages: [] }))
    expect(missing).toBeInstanceOf(Sdk.BadRequestError)
    const source = { type: 'text', media_type: 'text/plain', data: 'hi' } as const
    const document = { role: 'user' as const, content: [{ type: 'document' as const, source }] }
    const block = await thrownBy(connect().messages.create({ ...ask('small', 'hi'), messages: [document] }))
    expect(block).toBeInstanceOf(Sdk.BadRequestError)
    expect(String(block)).toContain('Unsupported Anthropic content block')
  })

  test.each(BREAKS)('%s throws, after the text that arrived', async (_, breaks) => {
    const seen = Promise.withResolvers<void>()
    stage.raw.on('raw', does.waits(FRAMES.slice(0, 3), seen.promise, breaks))
    let text = ''
    const read = async () => {
      for await (const event of await connect().messages.create({ ...ask('raw', 'go'), stream: true })) {
        if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text
        if (text === 'one two') seen.resolve()
      }
    }
    const error = await thrownBy(read())
    expect(text).toBe('one two')
    expect(String(error)).not.toContain('secret')
  })

  test.each(BREAKS)('%s throws in the streaming helper', async (_, breaks) => {
    stage.raw.on('raw', does.waits(FRAMES.slice(0, 3), Promise.resolve(), breaks))
    expect(await thrownBy(connect().messages.stream(ask('raw', 'go')).finalMessage())).toBeInstanceOf(Error)
  })

  test('an abort reaches the provider', async () => {
    stage.raw.on('raw', does.stalls(FRAMES.slice(0, 2)))
    const from = stage.raw.calls.length
    const stream = connect().messages.stream(ask('raw', 'go'))
    stream.on('text', () => stream.abort())
    expect(await thrownBy(stream.finalMessage())).toBeInstanceOf(Sdk.APIUserAbortError)
    await (await stage.raw.call(undefined, from)).aborted
    expect(await stage.gateway.line((one) => one['outcome'] === 'caller_left')).toMatchObject({
      requested_model: 'raw',
    })
  })
})

test('two credentials at once: the old line sends both and gets an error', async () => {
  const client = new Anthropic0({ apiKey: KEY, authToken: KEY, baseURL: `${stage.gateway.url}/anthropic` })
  const error = await thrownBy(client.messages.create(ask('small', 'say hello')))
  expect(error).toBeInstanceOf(Anthropic0.BadRequestError)
  expect(String(error)).toMatch(/ANTHROPIC_API_KEY.*ANTHROPIC_AUTH_TOKEN/)
})
