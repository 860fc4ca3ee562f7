/** LangChain against the real program, in all three dialects. */

import { describe, expect, test } from 'bun:test'
import { ChatAnthropic } from '@langchain/anthropic'
import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { type AIMessage, type AIMessageChunk, HumanMessage, ToolMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { ChatOpenAI } from '@langchain/openai'
import { z } from 'zod'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { thrownBy } from '../support/thrown.ts'
import { afterThreeSteps, BREAKS, FRAMES, HELLO, THREE_STEPS, useStage } from './stage.ts'

const stage = useStage()

const openai = (model: string, useResponsesApi: boolean) =>
  new ChatOpenAI({
    model,
    useResponsesApi,
    apiKey: KEY,
    maxRetries: 0,
    configuration: { baseURL: `${stage.gateway.url}/v1` },
  })

const MAKERS: Readonly<Record<string, (model: string) => ChatOpenAI | ChatAnthropic>> = {
  'Chat Completions': (model) => openai(model, false),
  Responses: (model) => openai(model, true),
  Messages: (model) =>
    new ChatAnthropic({ model, apiKey: KEY, maxRetries: 0, anthropicApiUrl: `${stage.gateway.url}/anthropic` }),
}

const get_weather = tool(async ({ city }) => `${city.length} degrees`, {
  name: 'get_weather',
  description: 'The weather in a city.',
  schema: z.object({ city: z.string() }),
})

/** The chunks of a stream as one message. */
async function gathered(stream: AsyncIterable<AIMessageChunk>): Promise<AIMessageChunk> {
  let whole: AIMessageChunk | undefined
  for await (const piece of stream) whole = whole === undefined ? piece : whole.concat(piece)
  if (whole === undefined) throw new Error('an empty stream')
  return whole
}

type Asking = Pick<BaseChatModel, 'invoke' | 'stream'>

const ask = async (model: Asking, streamed: boolean, messages: readonly (HumanMessage | AIMessage | ToolMessage)[]) =>
  streamed ? await gathered(await model.stream([...messages])) : await model.invoke([...messages])

describe.each(Object.entries(MAKERS))('%s', (dialect, make) => {
  describe.each([false, true])('streamed: %p', (streamed) => {
    test('text', async () => {
      const answer = await ask(make('small'), streamed, [new HumanMessage('say hello')])
      expect(answer.text).toBe(HELLO)
      const input_tokens: unknown = JSON.parse(JSON.stringify(answer.usage_metadata ?? {})).input_tokens
      // It takes the input tokens of a Messages stream from its first event alone. That has our estimate, because a
      // Chat Completions provider reports usage at the end.
      if (dialect === 'Messages' && streamed) expect(Number(input_tokens)).toBeWithin(1, 50)
      else expect(input_tokens).toBe(11)
      expect(answer.usage_metadata).toMatchObject({ output_tokens: 7 })
    })

    test.each([
      ['say too much', 'This goes on and'],
      ['say it badly', 'I think'],
      ['say nothing', ''],
    ])('%s', async (words, text) => {
      expect((await ask(make('small'), streamed, [new HumanMessage(words)])).text).toBe(text)
    })

    test('tools in parallel', async () => {
      const model = make('small').bindTools([get_weather])
      const question = new HumanMessage('weather in Oslo and Rome')
      const first = await ask(model, streamed, [question])
      const called = first.tool_calls ?? []
      expect(called.map(({ id, name, args }) => ({ id, name, args }))).toEqual([
        { id: 'call_oslo', name: 'get_weather', args: { city: 'Oslo' } },
        { id: 'call_rome', name: 'get_weather', args: { city: 'Rome' } },
      ])
      const results = called.map(({ id = '' }) => new ToolMessage({ tool_call_id: id, content: '7' }))
      const second = await ask(model, streamed, [question, first, ...results])
      expect(second.text).toBe('Seven degrees in Oslo, nineteen in Rome.')
    })

    test('a loop of three steps', async () => {
      stage.raw.on('steps', THREE_STEPS)
      const model = make('steps').bindTools([get_weather])
      const history: (HumanMessage | AIMessage | ToolMessage)[] = [new HumanMessage('Oslo, then Rome')]
      for (;;) {
        const answer = await ask(model, streamed, history)
        history.push(answer)
        if (!answer.tool_calls?.length) break
        for (const call of answer.tool_calls) history.push(await get_weather.invoke({ ...call, type: 'tool_call' }))
      }
      expect(history.at(-1)?.text).toBe('Done.')
      expect(stage.raw.calls.filter((call) => call.model === 'steps').at(-1)?.json['messages']).toMatchObject(
        afterThreeSteps(() => '4 degrees'),
      )
    })

    test('a call without arguments', async () => {
      const oracle = tool(async () => 'silence', { name: 'ask_oracle', schema: z.object({}) })
      const model = make('small').bindTools([oracle])
      const answer = await ask(model, streamed, [new HumanMessage('ask the oracle')])
      expect(answer.tool_calls).toMatchObject([{ name: 'ask_oracle', args: {} }])
    })

    test.each([
      ['error-400', 400, /context of 10 tokens/],
      ['error-429', 429, /./],
      ['error-500', 502, /./],
      ['absent', 404, /absent/],
    ] as const)('%s is an error of status %d', async (model, status, message) => {
      const error = await thrownBy(ask(make(model), streamed, [new HumanMessage('say hello')]))
      expect(error).toBeInstanceOf(Error)
      // It converts the error for a context that is too small.
      if (model !== 'error-400') expect(error).toMatchObject({ status })
      expect(String(error)).toMatch(message)
      expect(String(error)).not.toMatch(/provider-key|10\.0\.0\.1/)
    })
  })

  test('a stream arrives in pieces', async () => {
    const pieces: string[] = []
    for await (const piece of await make('small').stream('say hello')) pieces.push(piece.text)
    expect(pieces.join('')).toBe(HELLO)
    expect(pieces.filter((piece) => piece !== '').length).toBeGreaterThan(5)
  })

  test.each(BREAKS)('%s throws, after the text that arrived', async (_, breaks) => {
    const seen = Promise.withResolvers<void>()
    stage.raw.on('raw', does.waits(FRAMES.slice(0, 3), seen.promise, breaks))
    let text = ''
    const read = async () => {
      for await (const piece of await make('raw').stream('go')) {
        text += piece.text
        if (text === 'one two') seen.resolve()
      }
    }
    const error = await thrownBy(read())
    expect(String(error)).not.toContain('secret')
    expect(text).toBe('one two')
  })

  test('an abort reaches the provider', async () => {
    stage.raw.on('raw', does.stalls(FRAMES.slice(0, 2)))
    const from = stage.raw.calls.length
    const controller = new AbortController()
    const read = async () => {
      for await (const piece of await make('raw').stream('go', { signal: controller.signal })) {
        if (piece.text !== '') controller.abort()
      }
    }
    await thrownBy(read())
    await (await stage.raw.call(undefined, from)).aborted
    expect(await stage.gateway.line((one) => one['outcome'] === 'caller_left')).toMatchObject({
      requested_model: 'raw',
    })
  })
})
