/**
 * weir in front of a strict simulator of OpenAI, whose models take tools, or everything, by the Responses API alone:
 * official SDKs that know nothing of it.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { openaiServer } from '../support/openai-server.ts'
import * as does from '../support/scenarios.ts'
import { calls, textAnswer } from '../support/speech.ts'
import { sse } from '../support/speech-writer.ts'
import { type Call, Upstream } from '../support/upstream.ts'

const OSLO = { id: 'call_oslo', name: 'get_weather', json: '{"city":"Oslo"}' }
const ABLE = { price: { input: 1, output: 10 }, supports: ['tools', 'images'] }
let upstream: Upstream
let gateway: Gateway

/** A call first, and a text once its result has come. */
function choose({ json }: Call) {
  return JSON.stringify(json).includes('12 degrees') ? textAnswer('It is 12 degrees.') : calls('', OSLO)
}

const audio = { needsResponses: 'everything' } as const

beforeAll(async () => {
  upstream = await Upstream.start({
    'gpt-tools': openaiServer({ needsResponses: 'tools' }, choose),
    'gpt-alone': openaiServer({ needsResponses: 'everything', thinks: false }, () => textAnswer('Alone.')),
    'gpt-stop': openaiServer({ needsResponses: 'everything' }, () => textAnswer('one STOP two')),
    'gpt-sound': openaiServer(audio, () => textAnswer('No.')),
    'gpt-hears': openaiServer({ needsResponses: 'nothing' }, () => textAnswer('I hear.')),
  })
  const openai = (model: string, more = {}) => ({ provider: 'up', model, ...more })
  gateway = await Gateway.start({
    providers: { up: upstream.url },
    models: {
      tools: { targets: [openai('gpt-tools')], ...ABLE },
      alone: { targets: [openai('gpt-alone')], ...ABLE },
      stop: { targets: [openai('gpt-stop', { api: 'responses' })], ...ABLE },
      sound: { targets: [openai('gpt-sound', { api: 'responses' })], ...ABLE },
      hears: { targets: [openai('gpt-sound', { api: 'responses' }), openai('gpt-hears')], ...ABLE },
    },
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
  const answer = await openai().chat.completions.create({ model: 'alone', messages: [{ role: 'user', content: 'Hi' }] })
  expect(answer.choices[0]?.message.content).toBe('Alone.')
  expect(paths('gpt-alone')).toEqual(['/v1/chat/completions', '/v1/responses', '/v1/responses'])
  await openai().chat.completions.create({ model: 'alone', messages: [{ role: 'user', content: 'Hi' }] })
  expect(paths('gpt-alone').slice(3)).toEqual(['/v1/responses'])
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
  })
})
