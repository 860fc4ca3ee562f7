/**
 * Three majors of the Vercel AI SDK against the real program: the OpenAI, Anthropic and OpenAI-compatible providers.
 */

import { describe, expect, test } from 'bun:test'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import * as ai from 'ai'
import * as ai5 from 'ai-5'
import { createAnthropic as createAnthropic5 } from 'ai-5-anthropic'
import { createOpenAI as createOpenAI5 } from 'ai-5-openai'
import * as ai6 from 'ai-6'
import { createAnthropic as createAnthropic6 } from 'ai-6-anthropic'
import { createOpenAI as createOpenAI6 } from 'ai-6-openai'
import { z } from 'zod'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { thrownBy } from '../support/thrown.ts'
import { afterThreeSteps, BREAKS, FRAMES, HELLO, THREE_STEPS, useStage } from './stage.ts'

// It would warn at each request that it does not know our models.
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })

const stage = useStage()

interface Major {
  readonly major: number
  readonly sdk: typeof ai
  readonly openai: typeof createOpenAI
  readonly anthropic: typeof createAnthropic
}

// The majors agree in what is used here, but have different types.
const MAJORS: readonly Major[] = [
  { major: 7, sdk: ai, openai: createOpenAI, anthropic: createAnthropic },
  {
    major: 6,
    sdk: ai6 as unknown as typeof ai,
    openai: createOpenAI6 as unknown as typeof createOpenAI,
    anthropic: createAnthropic6 as unknown as typeof createAnthropic,
  },
  {
    major: 5,
    sdk: ai5 as unknown as typeof ai,
    openai: createOpenAI5 as unknown as typeof createOpenAI,
    anthropic: createAnthropic5 as unknown as typeof createAnthropic,
  },
]

interface Maker {
  readonly name: string
  readonly sdk: typeof ai
  readonly make: (model: string) => ai.LanguageModel
  /** The SDK's reason for a filtered and for a truncated answer: not every dialect has a reason for each. */
  readonly filtered: string
  readonly cut: string
}

const at = (path: string) => ({ apiKey: KEY, baseURL: `${stage.gateway.url}${path}` })

function makersOf({ major, sdk, openai, anthropic }: Major): Maker[] {
  const chat = { sdk, filtered: 'content-filter', cut: 'length' }
  const messages = { sdk, filtered: 'stop', cut: 'length' }
  const bearer = () => ({ authToken: KEY, baseURL: `${stage.gateway.url}/v1` })
  const compatible = () => createOpenAICompatible({ name: 'weir', ...at('/v1'), includeUsage: true })
  return [
    { name: `${major}, openai (chat)`, ...chat, make: (model) => openai(at('/v1')).chat(model) },
    {
      name: `${major}, openai (Responses)`,
      sdk,
      filtered: 'stop',
      cut: 'stop',
      make: (model) => openai(at('/v1')).responses(model),
    },
    { name: `${major}, anthropic`, ...messages, make: (model) => anthropic(at('/anthropic/v1'))(model) },
    ...(major === 7
      ? [
          {
            name: '7, anthropic, with a bearer token',
            ...messages,
            make: (model: string) => anthropic(bearer())(model),
          },
          { name: '7, openai-compatible', ...chat, make: (model: string) => compatible().chatModel(model) },
        ]
      : []),
  ]
}

const MAKERS = MAJORS.flatMap(makersOf)

const usage = { inputTokens: 11, outputTokens: 7, totalTokens: 18 }

/** A weather tool that records the cities it was called with. */
function weather() {
  const cities: string[] = []
  const get_weather = ai.tool({
    description: 'The weather in a city.',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      cities.push(city)
      return { degrees: city.length }
    },
  })
  return { tools: { get_weather }, cities }
}

describe.each(MAKERS.map((maker) => [maker.name, maker] as const))('%s', (_, { sdk, make, filtered, cut }) => {
  const { generateText, streamText, stepCountIs } = sdk

  test('text, not streamed', async () => {
    const answer = await generateText({ model: make('small'), prompt: 'say hello' })
    expect(answer.text).toBe(HELLO)
    expect(answer.finishReason).toBe('stop')
    expect(answer.usage).toMatchObject(usage)
    expect(answer.response.modelId).toBe('small')
  })

  test('text, streamed', async () => {
    const answer = streamText({ model: make('small'), prompt: 'say hello' })
    const pieces: string[] = []
    for await (const piece of answer.textStream) pieces.push(piece)
    expect(pieces.join('')).toBe(HELLO)
    expect(pieces.length).toBeGreaterThan(5)
    expect(await answer.finishReason).toBe('stop')
    expect(await answer.usage).toMatchObject(usage)
  })

  test('truncated, filtered and empty answers', async () => {
    const rows = [
      ['say too much', cut, 'This goes on and'],
      ['say it badly', filtered, 'I think'],
      ['say nothing', 'stop', ''],
    ] as const
    for (const [prompt, reason, text] of rows) {
      const whole = await generateText({ model: make('small'), prompt })
      expect({ prompt, text: whole.text, reason: whole.finishReason }).toEqual({
        prompt,
        text,
        reason: reason as never,
      })
      const streamed = streamText({ model: make('small'), prompt })
      expect<unknown>({ text: await streamed.text, reason: await streamed.finishReason }).toEqual({ text, reason })
    }
  })

  test.each([false, true])('tools in parallel (streamed: %p)', async (stream) => {
    const { tools, cities } = weather()
    const request = { model: make('small'), tools, stopWhen: stepCountIs(4), prompt: 'weather in Oslo and Rome' }
    const answer = stream ? streamText(request) : await generateText(request)
    const steps = await answer.steps
    expect(await answer.text).toBe('Seven degrees in Oslo, nineteen in Rome.')
    expect(cities.sort()).toEqual(['Oslo', 'Rome'])
    expect(steps.map((step) => step.finishReason)).toEqual(['tool-calls', 'stop'])
    expect(steps[0]?.toolCalls.map((call) => call.toolCallId)).toEqual(['call_oslo', 'call_rome'])
  })

  test.each([false, true])('a loop of three steps keeps the text between calls (streamed: %p)', async (stream) => {
    stage.raw.on('steps', THREE_STEPS)
    const { tools, cities } = weather()
    const request = { model: make('steps'), tools, stopWhen: stepCountIs(5), prompt: 'Oslo, then Rome' }
    const answer = stream ? streamText(request) : await generateText(request)
    expect(await answer.text).toBe('Done.')
    expect(cities).toEqual(['Oslo', 'Rome'])
    // On Responses the SDK sends references to earlier texts instead of the texts.
    expect(stage.raw.calls.filter((call) => call.model === 'steps').at(-1)?.json['messages']).toMatchObject(
      afterThreeSteps(() => '{"degrees":4}'),
    )
  })

  test('a tool call without arguments', async () => {
    const ask_oracle = ai.tool({ inputSchema: z.object({}), execute: async () => 'silence' })
    const request = { model: make('small'), tools: { ask_oracle }, stopWhen: stepCountIs(4), prompt: 'ask the oracle' }
    expect((await generateText(request)).text).toBe('The oracle is silent.')
    expect(await streamText(request).text).toBe('The oracle is silent.')
  })

  test.each([
    ['error-400', 400, /context of 10 tokens/],
    ['absent', 404, /absent/],
    ['error-429', 429, /./],
    ['error-500', 502, /./],
    ['error-503', 503, /./],
  ] as const)('%s is an APICallError of status %d with our message', async (model, statusCode, message) => {
    const whole = await thrownBy(generateText({ model: make(model), prompt: 'say hello', maxRetries: 0 }))
    const streamed = streamText({ model: make(model), prompt: 'say hello', maxRetries: 0, onError: () => {} })
    const parts: unknown[] = []
    for await (const part of streamed.fullStream) if (part.type === 'error') parts.push(part.error)
    for (const error of [whole, ...parts]) {
      expect(sdk.APICallError.isInstance(error)).toBe(true)
      expect(error).toMatchObject({ statusCode, isRetryable: statusCode === 429 || statusCode >= 500 })
      expect(String(error)).toMatch(message)
      expect(String(error)).not.toMatch(/Bad Request|provider-key|10\.0\.0\.1/)
    }
    expect(parts).toHaveLength(1)
  })

  test.each(BREAKS)('a stream that breaks by %s is an error, after the text that arrived', async (_, breaks) => {
    const seen = Promise.withResolvers<void>()
    stage.raw.on('raw', does.waits(FRAMES.slice(0, 3), seen.promise, breaks))
    let text = ''
    const read = async () => {
      const answer = streamText({ model: make('raw'), prompt: 'go', maxRetries: 0, onError: () => {} })
      for await (const part of answer.fullStream) {
        if (part.type === 'error') throw part.error
        if (part.type !== 'text-delta') continue
        text += part.text
        if (text === 'one two') seen.resolve()
      }
    }
    const error = await thrownBy(read())
    expect(error).toBeInstanceOf(Error)
    expect(String(error)).not.toContain('secret')
    expect(text).toBe('one two')
  })

  test('an abort reaches the provider', async () => {
    stage.raw.on('raw', does.stalls(FRAMES.slice(0, 2)))
    const from = stage.raw.calls.length
    const controller = new AbortController()
    const answer = streamText({ model: make('raw'), prompt: 'go', abortSignal: controller.signal })
    for await (const part of answer.fullStream) {
      if (part.type === 'text-delta') controller.abort()
    }
    await (await stage.raw.call(undefined, from)).aborted
    expect(await stage.gateway.line((one) => one['outcome'] === 'caller_left')).toMatchObject({
      requested_model: 'raw',
    })
  })
})

describe.each(MAJORS.map((line) => [line.major, line] as const))('%d', (_, { sdk: { generateText }, openai }) => {
  test.each([
    ['refers to earlier items', undefined],
    ['sends earlier items if nothing may be stored', false],
  ])('over two turns Responses %s', async (_, store) => {
    const sent: string[] = []
    const recording = Object.assign(
      (input: string | URL | Request, init?: RequestInit) => {
        sent.push(String(init?.body))
        return fetch(input, init)
      },
      { preconnect: () => {} },
    )
    const model = openai({ ...at('/v1'), fetch: recording }).responses('small')
    const first = await generateText({ model, prompt: 'say hello' })
    const from = stage.mock.getRequests().length
    await generateText({
      model,
      messages: [
        { role: 'user', content: 'say hello' },
        ...first.response.messages,
        { role: 'user', content: 'weather in Oslo' },
      ],
      ...(store === undefined ? {} : { providerOptions: { openai: { store } } }),
    })
    expect(sent[1]?.includes('item_reference')).toBe(store === undefined)
    expect(stage.mock.getRequests().slice(from)[0]?.body).toMatchObject({
      messages: [{ content: 'say hello' }, { role: 'assistant', content: HELLO }, { content: 'weather in Oslo' }],
    })
  })
})

test.each([
  ['openai', () => createOpenAI(at('/v1')).chat('small')],
  ['openai-compatible', () => createOpenAICompatible({ name: 'weir', ...at('/v1') }).chatModel('small')],
] as const)('an object, by the chat model of %s', async (_, make) => {
  const output = ai.Output.object({ schema: z.object({ city: z.string(), degrees: z.number() }) })
  const answer = await ai.generateText({ model: make(), output, prompt: 'as JSON' })
  expect(answer.output).toEqual({ city: 'Oslo', degrees: 7 })
})
