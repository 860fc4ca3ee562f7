/** The OpenAI Agents SDK against the real program: agents that run tools, over Responses and over Chat Completions. */

import { describe, expect, test } from 'bun:test'
import { Agent, OpenAIProvider, Runner, type RunStreamEvent, setTracingDisabled, tool } from '@openai/agents'
import OpenAI from 'openai'
import { z } from 'zod'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { thrownBy } from '../support/thrown.ts'
import { afterThreeSteps, BREAKS, FRAMES, HELLO, THREE_STEPS, useStage } from './stage.ts'

// Tracing would send every run to OpenAI.
setTracingDisabled(true)

const stage = useStage()

type Run = AsyncIterable<RunStreamEvent> & { readonly completed: Promise<void> }

/** A weather tool that records the cities it was called with. */
function weather() {
  const cities: string[] = []
  const get_weather = tool({
    name: 'get_weather',
    description: 'The weather in a city.',
    parameters: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      cities.push(city)
      return `${city.length} degrees`
    },
  })
  return { get_weather, cities }
}

describe.each([
  ['Responses', true],
  ['Chat Completions', false],
])('%s', (_, useResponses) => {
  const runner = () => {
    const openAIClient = new OpenAI({ apiKey: KEY, baseURL: `${stage.gateway.url}/v1`, maxRetries: 0 })
    return new Runner({ modelProvider: new OpenAIProvider({ openAIClient, useResponses }) })
  }
  const agent = (model: string, tools: ReturnType<typeof weather>['get_weather'][] = []) =>
    new Agent({ name: 'clerk', instructions: 'You are terse.', model, tools })

  /** The agent's final text. */
  async function run(streamed: boolean, who: ReturnType<typeof agent>, words: string): Promise<unknown> {
    if (!streamed) return (await runner().run(who, words)).finalOutput
    const result = await runner().run(who, words, { stream: true })
    for await (const _event of result);
    await result.completed
    return result.finalOutput
  }

  describe.each([false, true])('streamed: %p', (streamed) => {
    test.each([
      ['say hello', HELLO],
      ['say too much', 'This goes on and'],
      ['say it badly', 'I think'],
    ])('%s', async (words, text) => {
      expect(await run(streamed, agent('small'), words)).toBe(text)
    })

    test('tools in parallel', async () => {
      const { get_weather, cities } = weather()
      const output = await run(streamed, agent('small', [get_weather]), 'weather in Oslo and Rome')
      expect(output).toBe('Seven degrees in Oslo, nineteen in Rome.')
      expect(cities.sort()).toEqual(['Oslo', 'Rome'])
    })

    test('a loop of three steps', async () => {
      stage.raw.on('steps', THREE_STEPS)
      const { get_weather, cities } = weather()
      expect(await run(streamed, agent('steps', [get_weather]), 'Oslo, then Rome')).toBe('Done.')
      expect(cities).toEqual(['Oslo', 'Rome'])
      expect(stage.raw.calls.filter((call) => call.model === 'steps').at(-1)?.json['messages']).toMatchObject([
        { role: 'system', content: 'You are terse.' },
        ...afterThreeSteps(() => '4 degrees'),
      ])
    })

    test.each([
      ['error-400', OpenAI.BadRequestError, /context of 10 tokens/],
      ['error-429', OpenAI.RateLimitError, /./],
      ['error-500', OpenAI.InternalServerError, /./],
      ['absent', OpenAI.NotFoundError, /absent/],
    ] as const)('%s is an error of its class', async (model, kind, message) => {
      const error = await thrownBy(run(streamed, agent(model), 'say hello'))
      expect(error).toBeInstanceOf(kind)
      expect(String(error)).toMatch(message)
      expect(String(error)).not.toMatch(/provider-key|10\.0\.0\.1/)
    })
  })

  /** Reads a run to its end; `onText` gets each piece of text. */
  async function read(result: Run, seen: (text: string) => void) {
    let text = ''
    for await (const event of result) {
      if (event.type !== 'raw_model_stream_event' || event.data.type !== 'output_text_delta') continue
      text += event.data.delta
      seen(text)
    }
    await result.completed
  }

  test.each(BREAKS)('%s throws, after the text that arrived', async (_, breaks) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    stage.raw.on('raw', does.waits(FRAMES.slice(0, 3), promise, breaks))
    let last = ''
    const run = async () =>
      read(await runner().run(agent('raw'), 'go', { stream: true }), (text) => {
        last = text
        if (text === 'one two') resolve()
      })
    const error = await thrownBy(run())
    expect(String(error)).not.toContain('secret')
    expect(last).toBe('one two')
  })

  test('an abort reaches the provider', async () => {
    stage.raw.on('raw', does.stalls(FRAMES.slice(0, 2)))
    const from = stage.raw.calls.length
    const controller = new AbortController()
    const run = async () =>
      read(await runner().run(agent('raw'), 'go', { stream: true, signal: controller.signal }), () => {
        controller.abort()
      })
    await run().catch(() => {})
    await (await stage.raw.call(undefined, from)).aborted
    expect(await stage.gateway.line((one) => one['outcome'] === 'caller_left')).toMatchObject({
      requested_model: 'raw',
    })
  })
})
