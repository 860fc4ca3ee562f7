/**
 * Every provider against a third-party simulator: it accepts the requests, and its answers mean the same for every
 * provider.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import type { Endpoint } from '../../src/core/endpoint.ts'
import type { FinishReason } from '../../src/core/event.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { azure, openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import type { Literal, Message } from '../support/literal.ts'
import { sentText } from './conformance.ts'
import { type Outcome, streamed, whole } from './outcome.ts'
import { endpoint, plainRequest } from './requests.ts'

const HELLO = 'Hello: 日本語, 👩‍👩‍👧‍👦 and "quotes"\n\twith tabs.'
const OSLO = { name: 'get_weather', arguments: '{"city":"Oslo"}', id: 'call_oslo' }
const ROME = { name: 'get_weather', arguments: '{"city":"Rome"}', id: 'call_rome' }
const ORACLE = { name: 'ask_oracle', arguments: '{}', id: 'call_oracle' }

interface Known {
  readonly name: string
  /** Its reason for a content filter, which the simulator passes on. */
  readonly filtered: string
  readonly provider: Provider
  readonly path: string
  readonly more?: Partial<Endpoint>
}

const PROVIDERS: readonly Known[] = [
  { name: 'openai', filtered: 'content_filter', provider: openai, path: '/v1' },
  { name: 'azure', filtered: 'content_filter', provider: azure, path: '', more: { apiVersion: '2025-04-01-preview' } },
  { name: 'anthropic', filtered: 'refusal', provider: anthropic, path: '' },
  { name: 'gemini', filtered: 'content_filter', provider: gemini, path: '' },
  { name: 'bedrock', filtered: 'content_filtered', provider: bedrock, path: '' },
]

const user = (text: string): Message => ({ role: 'user', parts: [{ type: 'text', text }] })
const TOOLS = ['get_weather', 'ask_oracle'].map((name) => ({
  name,
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
}))

interface Scene {
  readonly name: string
  readonly request: Partial<Literal>
  readonly text: string
  readonly calls: readonly (typeof OSLO)[]
  readonly reason: FinishReason
}

const picture: Message = {
  role: 'user',
  parts: [
    { type: 'image', source: { type: 'base64', mediaType: 'image/png', data: 'iVBORw0KGgo=' } },
    { type: 'text', text: 'what is in this picture' },
  ],
}
const answered: readonly Message[] = [
  user('weather in Oslo and Rome'),
  {
    role: 'assistant',
    parts: [],
    toolCalls: [OSLO, ROME].map(({ id, name, arguments: json }) => ({ callId: id, name, json })),
  },
  { role: 'tool', callId: OSLO.id, parts: [{ type: 'text', text: '7' }] },
  { role: 'tool', callId: ROME.id, parts: [{ type: 'text', text: '19' }] },
]

const SCENES: readonly Scene[] = [
  { name: 'text', request: { messages: [user('say hello')] }, text: HELLO, calls: [], reason: 'stop' },
  { name: 'nothing', request: { messages: [user('say nothing')] }, text: '', calls: [], reason: 'stop' },
  { name: 'too much', request: { messages: [user('say too much')] }, text: 'On and', calls: [], reason: 'length' },
  { name: 'filtered', request: { messages: [user('say it badly')] }, text: 'I', calls: [], reason: 'content-filter' },
  { name: 'a picture', request: { messages: [picture] }, text: 'A cat.', calls: [], reason: 'stop' },
  {
    name: 'a call without arguments',
    request: { messages: [user('ask the oracle')], tools: TOOLS },
    text: '',
    calls: [ORACLE],
    reason: 'tool-call',
  },
  {
    name: 'calls in parallel',
    request: { messages: [user('weather in Oslo and Rome')], tools: TOOLS },
    text: '',
    calls: [OSLO, ROME],
    reason: 'tool-call',
  },
  {
    name: 'text and a call',
    request: { messages: [user('answer and ask')], tools: TOOLS },
    text: 'One moment.',
    calls: [OSLO],
    reason: 'tool-call',
  },
  {
    name: 'the results of calls',
    request: { messages: answered, tools: TOOLS },
    text: 'Seven and nineteen.',
    calls: [],
    reason: 'stop',
  },
]

let mock: LLMock

beforeAll(async () => {
  mock = new LLMock({ host: '127.0.0.1', port: 0, chunkSize: 5 })
  mock.on({ userMessage: 'say hello' }, { content: HELLO })
  mock.on({ userMessage: 'say nothing' }, { content: '' })
  mock.on({ userMessage: 'say too much' }, { content: 'On and', finishReason: 'length' })
  for (const { name: model, filtered: finishReason } of PROVIDERS)
    mock.on({ model, userMessage: 'say it badly' }, { content: 'I', finishReason })
  mock.on({ userMessage: 'what is in this picture' }, { content: 'A cat.' })
  mock.on({ userMessage: 'ask the oracle' }, { toolCalls: [ORACLE] })
  mock.on({ userMessage: 'weather in Oslo and Rome', hasToolResult: false }, { toolCalls: [OSLO, ROME] })
  mock.on({ userMessage: 'weather in Oslo and Rome', hasToolResult: true }, { content: 'Seven and nineteen.' })
  mock.on({ userMessage: 'answer and ask' }, { content: 'One moment.', toolCalls: [OSLO] })
  await mock.start()
})

afterAll(() => mock.stop())

async function ask({ name: model, provider, path, more }: Known, request: ChatRequest): Promise<Outcome> {
  const target = { endpoint: endpoint({ baseUrl: `${mock.url}${path}`, ...more }), model }
  const { url, headers, body } = provider.request(request, target)
  const response = await fetch(url, {
    method: 'POST',
    headers: { ...headers, connection: 'close' },
    body: sentText(body),
  })
  expect(response.status).toBe(200)
  if (!request.stream) return whole(provider, await response.text())
  expect(response.headers.get('content-type')).toStartWith(provider.streamType)
  const chunks: Uint8Array[] = []
  for await (const chunk of response.body ?? []) chunks.push(chunk)
  return streamed(provider, chunks)
}

describe.each(PROVIDERS.map((known) => [known.name, known] as const))('%s', (_, known) => {
  for (const stream of [true, false]) {
    test.each(SCENES.map((scene) => [scene.name, scene] as const))(
      `gives %s, streamed: ${stream}`,
      async (_, scene) => {
        const outcome = await ask(known, plainRequest({ stream, ...scene.request }))
        expect(outcome).toMatchObject({ text: scene.text, reason: scene.reason, ended: true })
        expect(outcome.calls.map(({ name, json }) => ({ name, json: JSON.parse(json) }))).toEqual(
          scene.calls.map(({ name, arguments: json }) => ({ name, json: JSON.parse(json) })),
        )
      },
    )
  }
})
