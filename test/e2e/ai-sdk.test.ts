/** The Vercel AI SDK against the running program: its OpenAI provider's chat model, and the one for compatible services. */

import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { APICallError, generateText, isStepCount, type LanguageModel, Output, streamText, tool } from 'ai'
import { z } from 'zod'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { thrownBy } from '../support/thrown.ts'
import { BREAKS, FRAMES, HELLO, USAGE, useStage } from './stage.ts'

setDefaultTimeout(30_000)

const stage = useStage()

const makers: Readonly<Record<string, (model: string) => LanguageModel>> = {
  openai: (model) => createOpenAI({ apiKey: KEY, baseURL: `${stage.gateway.url}/v1` }).chat(model),
  'openai-compatible': (model) => {
    const settings = { name: 'weir', apiKey: KEY, baseURL: `${stage.gateway.url}/v1`, includeUsage: true }
    return createOpenAICompatible(settings).chatModel(model)
  },
}

const usage = {
  inputTokens: USAGE.prompt_tokens,
  outputTokens: USAGE.completion_tokens,
  totalTokens: USAGE.total_tokens,
}

/** A weather tool, and the cities that it was asked for. */
function weather() {
  const cities: string[] = []
  const get_weather = tool({
    description: 'The weather in a city.',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      cities.push(city)
      return { degrees: city.length }
    },
  })
  return { tools: { get_weather }, cities }
}

describe.each(Object.entries(makers))('%s', (_, make) => {
  test('text, whole', async () => {
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

  test.each([
    ['say too much', 'length', 'This goes on and'],
    ['say it badly', 'content-filter', 'I think'],
    ['say nothing', 'stop', ''],
  ] as const)('%s: %s', async (prompt, reason, text) => {
    const whole = await generateText({ model: make('small'), prompt })
    expect({ text: whole.text, reason: whole.finishReason }).toEqual({ text, reason })
    const streamed = streamText({ model: make('small'), prompt })
    expect({ text: await streamed.text, reason: await streamed.finishReason }).toEqual({ text, reason })
  })

  test.each([false, true])('tools over two steps, in parallel (streamed: %p)', async (stream) => {
    const { tools, cities } = weather()
    const request = { model: make('small'), tools, stopWhen: isStepCount(4), prompt: 'weather in Oslo and Rome' }
    const answer = stream ? streamText(request) : await generateText(request)
    const steps = await answer.steps
    expect(await answer.text).toBe('Seven degrees in Oslo, nineteen in Rome.')
    expect(cities.sort()).toEqual(['Oslo', 'Rome'])
    expect(steps.map((step) => step.finishReason)).toEqual(['tool-calls', 'stop'])
    expect(steps[0]?.toolCalls.map((call) => call.toolCallId)).toEqual(['call_oslo', 'call_rome'])
  })

  test('a tool call without arguments', async () => {
    const ask_oracle = tool({ inputSchema: z.object({}), execute: async () => 'silence' })
    const request = { model: make('small'), tools: { ask_oracle }, stopWhen: isStepCount(4), prompt: 'ask the oracle' }
    expect((await generateText(request)).text).toBe('The oracle is silent.')
    expect(await streamText(request).text).toBe('The oracle is silent.')
  })

  test('an object', async () => {
    const output = Output.object({ schema: z.object({ city: z.string(), degrees: z.number() }) })
    const answer = await generateText({ model: make('small'), output, prompt: 'as JSON' })
    expect(answer.output).toEqual({ city: 'Oslo', degrees: 7 })
  })

  test.each([
    ['error-400', 400, /context of 10 tokens/],
    ['absent', 404, /absent/],
    ['error-429', 429, /./],
    ['error-500', 502, /./],
  ] as const)('%s is an APICallError of status %d', async (model, statusCode, message) => {
    const error = await thrownBy(generateText({ model: make(model), prompt: 'say hello', maxRetries: 0 }))
    expect(error).toBeInstanceOf(APICallError)
    expect(error).toMatchObject({ statusCode })
    expect(String(error)).toMatch(message)
  })

  test.each(BREAKS)('a stream that breaks by %s is an error, after the text that had come', async (_, breaks) => {
    const seen = Promise.withResolvers<void>()
    stage.raw.on('raw', does.waits(FRAMES.slice(0, 3), seen.promise, breaks))
    const pieces: string[] = []
    const read = async () => {
      const answer = streamText({ model: make('raw'), prompt: 'go', maxRetries: 0, onError: () => {} })
      for await (const part of answer.stream) {
        if (part.type === 'error') throw part.error
        if (part.type !== 'text-delta') continue
        pieces.push(part.text)
        if (pieces.join('') === 'one two') seen.resolve()
      }
    }
    expect(await thrownBy(read())).toBeInstanceOf(Error)
    expect(pieces.join('')).toBe('one two')
  })

  test('an abort reaches the provider within a second', async () => {
    stage.raw.on('raw', does.stalls(FRAMES.slice(0, 2)))
    const from = stage.raw.calls.length
    const controller = new AbortController()
    const answer = streamText({ model: make('raw'), prompt: 'go', abortSignal: controller.signal })
    let leftAt = Number.POSITIVE_INFINITY
    for await (const part of answer.stream) {
      if (part.type !== 'text-delta') continue
      leftAt = performance.now()
      controller.abort()
    }
    const ending = await (await stage.raw.call(undefined, from)).aborted
    expect(ending.atMs - leftAt).toBeLessThan(1000)
  })
})
