/**
 * weir in front of a strict simulator of OpenAI, whose models take tools, or everything, by the Responses API alone:
 * official SDKs that know nothing of it.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import Anthropic from '@anthropic-ai/sdk'
import { ChatAnthropic } from '@langchain/anthropic'
import { HumanMessage, ToolMessage } from '@langchain/core/messages'
import { tool as langchainTool } from '@langchain/core/tools'
import { ChatOpenAI } from '@langchain/openai'
import { Agent, tool as agentTool, OpenAIProvider, Runner, setTracingDisabled } from '@openai/agents'
import * as ai from 'ai'
import * as ai5 from 'ai-5'
import { createAnthropic as createAnthropic5 } from 'ai-5-anthropic'
import { createOpenAI as createOpenAI5 } from 'ai-5-openai'
import * as ai6 from 'ai-6'
import { createAnthropic as createAnthropic6 } from 'ai-6-anthropic'
import { createOpenAI as createOpenAI6 } from 'ai-6-openai'
import OpenAI from 'openai'
import OpenAI6 from 'openai-6'
import { z } from 'zod'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { openaiServer } from '../support/openai-server.ts'
import * as does from '../support/scenarios.ts'
import { calls, textAnswer } from '../support/speech.ts'
import { sse } from '../support/speech-writer.ts'
import { type Call, Upstream } from '../support/upstream.ts'

const OSLO = { id: 'call_oslo', name: 'get_weather', json: '{"city":"Oslo"}' }
const ADDRESSED = 'This endpoint has no such model: use https://api.openai.com/v1/responses.'
const THOUGHT = { id: 'rs_up', type: 'reasoning', encrypted_content: 'gAAAAAB' }
const ABLE = { price: { input: 1, output: 10 }, supports: ['tools', 'images'] }
let upstream: Upstream
let gateway: Gateway

/** A call first, and a text once its result has come. */
function choose({ json }: Call) {
  return JSON.stringify(json).includes('12 degrees') ? textAnswer('It is 12 degrees.') : calls('', OSLO)
}

const audio = { needsResponses: 'everything' } as const

const itemsIn = ({ json }: Call): readonly JsonObject[] =>
  isArray(json['input']) ? json['input'].filter(isObject) : []
const outputsIn = (call: Call) => itemsIn(call).filter(({ type }) => type === 'function_call_output')

/** Two calls at once, then one more, then a text; without tools, what the words ask for. */
function inThreeSteps(call: Call) {
  const words = JSON.stringify(call.json['input'])
  if (words.includes('Too much')) return textAnswer('This goes on and', 'length')
  if (words.includes('Badly')) return textAnswer('I think', 'filter')
  if (!('tools' in call.json)) return textAnswer('{"city":"Oslo"}')
  const weather = (id: string, city: string) => ({ id, name: 'get_weather', json: JSON.stringify({ city }) })
  const results = outputsIn(call).length
  if (results === 0) return calls('One moment. ', weather('call_1', 'Oslo'), weather('call_2', 'Rome'))
  return results === 2 ? calls('', weather('call_3', 'Lima')) : textAnswer('Done.')
}

beforeAll(async () => {
  upstream = await Upstream.start({
    'gpt-tools': openaiServer({ needsResponses: 'tools' }, choose),
    'gpt-alone': openaiServer({ needsResponses: 'everything', thinks: false }, () => textAnswer('Alone.')),
    'gpt-stop': openaiServer({ needsResponses: 'everything' }, () => textAnswer('one STOP two')),
    'gpt-sound': openaiServer(audio, () => textAnswer('No.')),
    'gpt-sdk': openaiServer({ needsResponses: 'everything', refusesNone: true }, inThreeSteps),
    'gpt-older': openaiServer({ needsResponses: 'everything', thinks: false, isOlder: true }, () => textAnswer('Old.')),
    'gpt-addressed': (call) =>
      call.path.endsWith('/responses')
        ? openaiServer(audio, () => textAnswer('Hello.'))(call)
        : call.answer(404, JSON.stringify({ error: { message: ADDRESSED, type: 'invalid_request_error' } })),
    'gpt-unheard': openaiServer(audio, () => textAnswer('No.')),
    'gpt-hears': openaiServer({ needsResponses: 'nothing' }, () => textAnswer('I hear.')),
  })
  const openai = (model: string, more = {}) => ({ provider: 'up', model, ...more })
  gateway = await Gateway.start({
    providers: { up: upstream.url },
    models: {
      tools: { targets: [openai('gpt-tools')], ...ABLE },
      alone: { targets: [openai('gpt-alone')], ...ABLE },
      sdk: { targets: [openai('gpt-sdk')], ...ABLE },
      older: { targets: [openai('gpt-older', { api: 'responses' })], ...ABLE },
      refuses: { targets: [openai('gpt-refuses', { api: 'responses' })], ...ABLE },
      stop: { targets: [openai('gpt-stop', { api: 'responses' })], ...ABLE },
      sound: { targets: [openai('gpt-sound', { api: 'responses' })], ...ABLE },
      addressed: { targets: [openai('gpt-addressed')], ...ABLE },
      unheard: { targets: [openai('gpt-unheard'), openai('gpt-hears')], ...ABLE },
      hears: { targets: [openai('gpt-sound', { api: 'responses' }), openai('gpt-hears')], ...ABLE },
    },
    config: { listen: { explain_header: true, port: 0 } },
  })
})

afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const paths = (model: string) => upstream.calls.filter((call) => call.model === model).map(({ path }) => path)
const parameters = { type: 'object', properties: { city: { type: 'string' } } }
const openai = () => new OpenAI({ apiKey: KEY, baseURL: `${gateway.url}/v1`, maxRetries: 0 })

describe('a model that takes tools by the Responses API alone', () => {
  const tools = [{ type: 'function' as const, function: { name: 'get_weather', parameters } }]

  test('Chat Completions: a turn with a call and its result, and the next one without a rejection', async () => {
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'How warm is Oslo?' }]
    const first = await openai().chat.completions.create({ model: 'tools', messages, tools })
    const message = first.choices[0]?.message
    expect(message?.tool_calls).toMatchObject([{ id: 'call_oslo', function: { arguments: OSLO.json } }])
    expect(paths('gpt-tools')).toEqual(['/v1/chat/completions', '/v1/responses'])
    if (message !== undefined) messages.push(message)
    messages.push({ role: 'tool', tool_call_id: 'call_oslo', content: '12 degrees' })
    const stream = openai().chat.completions.stream({ model: 'tools', messages, tools })
    expect(await stream.finalContent()).toBe('It is 12 degrees.')
    expect(paths('gpt-tools').slice(2)).toEqual(['/v1/responses'])
    // The thoughts of the answer that was asked for by the other API come back as well.
    const items = upstream.calls.filter(({ model }) => model === 'gpt-tools').flatMap(itemsIn)
    expect(items.slice(-4).map(({ type, role }) => type ?? role)).toEqual([
      ...['user', 'reasoning', 'function_call', 'function_call_output'],
    ])
    expect(await gateway.line(({ event }) => event === 'target.form_learned')).toMatchObject({
      model: 'gpt-tools',
      field: 'api with tools',
    })
  })

  test('Chat Completions without tools stays there', async () => {
    const before = paths('gpt-tools').length
    await openai().chat.completions.create({ model: 'tools', messages: [{ role: 'user', content: '12 degrees' }] })
    expect(paths('gpt-tools').slice(before)).toEqual(['/v1/chat/completions'])
  })

  test('Messages', async () => {
    const client = new Anthropic({ apiKey: KEY, baseURL: gateway.url, maxRetries: 0 })
    const answer = await client.messages
      .stream({
        model: 'tools',
        max_tokens: 100,
        messages: [{ role: 'user', content: 'How warm is Oslo?' }],
        tools: [{ name: 'get_weather', input_schema: { type: 'object', properties: {} } }],
      })
      .finalMessage()
    expect(answer.content).toMatchObject([{ type: 'tool_use', id: 'call_oslo', input: { city: 'Oslo' } }])
  })

  test('Responses', async () => {
    const flat = [{ type: 'function' as const, name: 'get_weather', parameters, strict: null }]
    const answer = await openai().responses.stream({ model: 'tools', input: 'How warm?', tools: flat }).finalResponse()
    expect(answer.output).toMatchObject([{ type: 'function_call', call_id: 'call_oslo', arguments: OSLO.json }])
  })
})

test('a model that is on Responses alone, and does not think: both are learned from one request', async () => {
  const body = { model: 'alone', messages: [{ role: 'user' as const, content: 'Hi' }] }
  const { data: answer, response } = await openai().chat.completions.create(body).withResponse()
  expect(response.headers.get('x-gateway-route')).toBe('alone@up=answered')
  // Asked three times, and one attempt.
  const { attempts, fallbacks } = await gateway.request(response.headers.get('x-request-id'))
  expect([attempts, fallbacks]).toEqual([undefined, 0])
  expect(answer.choices[0]?.message.content).toBe('Alone.')
  expect(paths('gpt-alone')).toEqual(['/v1/chat/completions', '/v1/responses', '/v1/responses'])
  await openai().chat.completions.create({ model: 'alone', messages: [{ role: 'user', content: 'Hi' }] })
  expect(paths('gpt-alone').slice(3)).toEqual(['/v1/responses'])
})

test('a rejection that names the remedy by its address, which the log does not show', async () => {
  const { model, choices } = await openai().chat.completions.create({
    model: 'addressed',
    messages: [{ role: 'user', content: 'Hi' }],
  })
  expect([model, choices[0]?.message.content]).toEqual(['addressed', 'Hello.'])
  const learned = await gateway.line(
    ({ event, model: of }) => event === 'target.form_learned' && of === 'gpt-addressed',
  )
  expect(learned).toMatchObject({ field: 'api', seen: 'This endpoint has no such model: use /v1/responses.' })
})

test('a server that rejects two options of the same request: three requests, and one later', async () => {
  const body = { model: 'older', messages: [{ role: 'user' as const, content: 'Hi' }] }
  const say = () => openai().chat.completions.stream(body).finalContent()
  expect([await say(), await say()]).toEqual(['Old.', 'Old.'])
  expect(paths('gpt-older')).toEqual(Array(4).fill('/v1/responses'))
})

// Tracing would send every run to OpenAI, and the AI SDK would warn that it does not know our models.
setTracingDisabled(true)
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })

/** An agent that runs its tool until the model answers with a text, which it returns. */
type AgentRun = (streamed: boolean) => Promise<unknown>

const WORDS = 'How warm is it?'
const SYSTEM = 'You are terse.'
const city = z.object({ city: z.string() })
const at = (path: string) => ({ apiKey: KEY, baseURL: `${gateway.url}${path}` })
const description = 'The weather in a city.'
const schema = { type: 'object' as const, properties: { city: { type: 'string' } }, required: ['city'] }

function openaiRun(Client: typeof OpenAI): AgentRun {
  return async (streamed) => {
    const client = new Client({ ...at('/v1'), maxRetries: 0 })
    const run = { name: 'get_weather', description, parameters: schema, parse: JSON.parse, function: () => '4 degrees' }
    const tools = [{ type: 'function' as const, function: run }]
    const messages = [
      { role: 'system' as const, content: SYSTEM },
      { role: 'user' as const, content: WORDS },
    ]
    const body = { model: 'sdk', messages, tools, reasoning_effort: 'low' as const }
    return streamed
      ? client.chat.completions.runTools({ ...body, stream: true }).finalContent()
      : client.chat.completions.runTools(body).finalContent()
  }
}

function aiRun(sdk: typeof ai, model: () => ai.LanguageModel): AgentRun {
  return async (streamed) => {
    const get_weather = sdk.tool({ description, inputSchema: city, execute: async () => '4 degrees' })
    const of = { model: model(), system: SYSTEM, prompt: WORDS, tools: { get_weather }, stopWhen: sdk.stepCountIs(5) }
    return streamed ? sdk.streamText(of).text : (await sdk.generateText(of)).text
  }
}

function agentsRun(useResponses: boolean): AgentRun {
  return async (streamed) => {
    const openAIClient = new OpenAI({ ...at('/v1'), maxRetries: 0 })
    const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient, useResponses }) })
    const execute = async () => '4 degrees'
    const weather = agentTool({ name: 'get_weather', description, parameters: city, execute })
    const agent = new Agent({ name: 'clerk', instructions: SYSTEM, model: 'sdk', tools: [weather] })
    if (!streamed) return (await runner.run(agent, WORDS)).finalOutput
    const result = await runner.run(agent, WORDS, { stream: true })
    await result.completed
    return result.finalOutput
  }
}

function langchainRun(make: () => ChatOpenAI | ChatAnthropic): AgentRun {
  return async (streamed) => {
    const weather = langchainTool(async () => '4 degrees', { name: 'get_weather', description, schema: city })
    const model = make().bindTools([weather])
    const messages: Parameters<typeof model.invoke>[0] & unknown[] = [new HumanMessage(WORDS)]
    for (;;) {
      let answer = await (streamed ? undefined : model.invoke(messages))
      if (streamed)
        for await (const piece of await model.stream(messages))
          answer = answer === undefined ? piece : answer.concat(piece)
      if (answer === undefined || (answer.tool_calls ?? []).length === 0) return answer?.text
      messages.push(answer)
      for (const { id = '' } of answer.tool_calls ?? [])
        messages.push(new ToolMessage({ tool_call_id: id, content: '4 degrees' }))
    }
  }
}

async function anthropicRun(streamed: boolean): Promise<unknown> {
  const client = new Anthropic({ apiKey: KEY, baseURL: gateway.url, maxRetries: 0 })
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: WORDS }]
  const tools = [{ name: 'get_weather', description, input_schema: schema }]
  for (;;) {
    const body = { model: 'sdk', max_tokens: 100, system: SYSTEM, messages, tools }
    const answer = await (streamed ? client.messages.stream(body).finalMessage() : client.messages.create(body))
    const uses = answer.content.filter((block) => block.type === 'tool_use')
    if (uses.length === 0) return answer.content.map((block) => (block.type === 'text' ? block.text : '')).join('')
    const results = uses.map(({ id }) => ({ type: 'tool_result' as const, tool_use_id: id, content: '4 degrees' }))
    messages.push({ role: 'assistant', content: answer.content }, { role: 'user', content: results })
  }
}

// The majors agree in what is used here, but have different types.
const MAJORS = [
  [7, ai, createOpenAI, createAnthropic],
  [6, ai6, createOpenAI6, createAnthropic6],
  [5, ai5, createOpenAI5, createAnthropic5],
] as unknown as readonly (readonly [number, typeof ai, typeof createOpenAI, typeof createAnthropic])[]

const langchain = (useResponsesApi: boolean) => () =>
  new ChatOpenAI({ model: 'sdk', useResponsesApi, apiKey: KEY, maxRetries: 0, configuration: at('/v1') })

const AGENTS: readonly (readonly [string, AgentRun])[] = [
  ['openai 7', openaiRun(OpenAI)],
  ['openai 6', openaiRun(OpenAI6 as unknown as typeof OpenAI)],
  ['anthropic', anthropicRun],
  ['Agents SDK, Responses', agentsRun(true)],
  ['Agents SDK, Chat Completions', agentsRun(false)],
  ['LangChain, Responses', langchainRun(langchain(true))],
  ['LangChain, Chat Completions', langchainRun(langchain(false))],
  [
    'LangChain, Messages',
    langchainRun(() => {
      const anthropicApiUrl = `${gateway.url}/anthropic`
      return new ChatAnthropic({ model: 'sdk', apiKey: KEY, maxRetries: 0, anthropicApiUrl })
    }),
  ],
  ...MAJORS.flatMap(([major, sdk, openai, anthropic]) => [
    [`AI SDK ${major}, Chat Completions`, aiRun(sdk, () => openai(at('/v1')).chat('sdk'))] as const,
    [`AI SDK ${major}, Responses`, aiRun(sdk, () => openai(at('/v1')).responses('sdk'))] as const,
    [`AI SDK ${major}, Messages`, aiRun(sdk, () => anthropic(at('/anthropic/v1'))('sdk'))] as const,
  ]),
]

describe.each(AGENTS.map(([name, run]) => [name, run] as const))('three steps with tools: %s', (_, run) => {
  test.each([false, true])('streamed: %p', async (streamed) => {
    const before = upstream.calls.length
    expect(await run(streamed)).toBe('Done.')
    const asked = upstream.calls.slice(before).filter(({ path }) => path === '/v1/responses')
    expect(asked.map((call) => outputsIn(call).length)).toEqual([0, 2, 3])
    const last = asked.at(-1)
    const ids = (type: string) =>
      last && itemsIn(last).flatMap((item) => (item['type'] === type ? [item['call_id']] : []))
    expect(ids('function_call')).toEqual(['call_1', 'call_2', 'call_3'])
    expect(ids('function_call_output')).toEqual(['call_1', 'call_2', 'call_3'])
    // Each earlier answer has its thought again, before it, as it was issued.
    const types = last === undefined ? [] : itemsIn(last).map(({ type, role }) => type ?? role)
    const thoughts = last === undefined ? [] : itemsIn(last).filter(({ type }) => type === 'reasoning')
    expect(thoughts).toEqual(Array(2).fill({ ...THOUGHT, summary: [] }))
    expect(types.slice(types.indexOf('reasoning'))).toEqual([
      ...['reasoning', 'assistant', 'function_call', 'function_call', 'function_call_output', 'function_call_output'],
      ...['reasoning', 'function_call', 'function_call_output'],
    ])
  })
})

describe('other answers of a model that is on Responses alone', () => {
  const create = (content: OpenAI.ChatCompletionUserMessageParam['content'], more: object = {}) =>
    openai().chat.completions.create({ model: 'sdk', messages: [{ role: 'user', content }], ...more })

  test('structured', async () => {
    const format = { name: 'place', schema: { ...schema, additionalProperties: false }, strict: true }
    const answer = await create('Where?', { response_format: { type: 'json_schema', json_schema: format } })
    expect(JSON.parse(answer.choices[0]?.message.content ?? '')).toEqual({ city: 'Oslo' })
    expect(upstream.calls.at(-1)?.json['text']).toEqual({ format: { type: 'json_schema', ...format } })
  })

  test('about a picture', async () => {
    const image_url = { url: 'data:image/png;base64,aGk=', detail: 'high' as const }
    await create([{ type: 'image_url', image_url }])
    expect(upstream.calls.at(-1)?.json['input']).toEqual([
      { role: 'user', content: [{ type: 'input_image', image_url: image_url.url, detail: 'high' }] },
    ])
  })

  test.each([
    ['Too much', 'length'],
    ['Badly', 'content_filter'],
  ])('%s', async (words, reason) => {
    expect((await create(words)).choices[0]?.finish_reason).toBe(reason as 'length')
    const messages = [{ role: 'user' as const, content: words }]
    let last: string | null = null
    for await (const { choices } of await openai().chat.completions.create({ model: 'sdk', messages, stream: true }))
      last = choices[0]?.finish_reason ?? last
    expect(last).toBe(reason)
  })

  test('a refusal', async () => {
    const part = { type: 'refusal', refusal: 'I cannot.' }
    const body = { status: 'completed', output: [{ type: 'message', content: [part] }], usage: null }
    upstream.on('gpt-refuses', does.json(200, JSON.stringify(body)))
    expect((await create('No', { model: 'refuses' })).choices[0]?.message).toMatchObject({
      refusal: 'I cannot.',
      content: null,
    })
  })

  test('an error of the caller: an effort that the model does not take', async () => {
    const failed = await create('Hi', { reasoning_effort: 'none' }).catch((error) => error)
    expect(failed).toMatchObject({ status: 400, message: expect.stringContaining("'none'") })
  })
})

describe('fields that the Responses API does not have', () => {
  test('`stop` ends the text, and the provider is not read any further', async () => {
    const delta = (text: string) => sse({ type: 'response.output_text.delta', delta: text })
    upstream.on('gpt-stop', does.stalls(['one S', 'TO', 'P two'].map(delta)))
    const messages = [{ role: 'user' as const, content: 'Count.' }]
    const stream = await openai().chat.completions.create({ model: 'stop', messages, stop: 'STOP', stream: true })
    let text = ''
    let finish: string | null = null
    for await (const { choices } of stream) {
      text += choices[0]?.delta.content ?? ''
      finish = choices[0]?.finish_reason ?? finish
    }
    expect({ text, finish }).toEqual({ text: 'one ', finish: 'stop' })
    await (await upstream.call('gpt-stop')).aborted
    const line = await gateway.line(({ requested_model: name, event }) => name === 'stop' && event === undefined)
    expect(line).toMatchObject({ outcome: 'completed', usage: 'estimated', finish_reason: 'stop' })
  })

  test('`seed` is left out and named', async () => {
    const body = { model: 'alone', seed: 7, messages: [{ role: 'user', content: 'Hi' }] }
    const { status } = await ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body }))
    expect(status).toBe(200)
    await gateway.line(({ ignored }) => Array.isArray(ignored) && ignored.includes('seed'))
  })

  test('sound: the next candidate, or 400', async () => {
    const content = [{ type: 'input_audio', input_audio: { data: 'aGk=', format: 'wav' } }]
    const body = { messages: [{ role: 'user', content }] }
    const heard = (model: string) =>
      ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body: { ...body, model } }))
    expect((await heard('sound')).status).toBe(400)
    expect(await heard('hears')).toMatchObject({ status: 200, text: expect.stringContaining('I hear.') })
    // The first one is asked by Chat Completions, and names an API that cannot be sent the sound.
    expect(await heard('unheard')).toMatchObject({ status: 200, text: expect.stringContaining('I hear.') })
  })
})
