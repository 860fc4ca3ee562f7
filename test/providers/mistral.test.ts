/** Requests to Mistral's own API: no field that it rejects, and calls that still pair with their results. */

import { describe, expect, test } from 'bun:test'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import { isMistral } from '../../src/providers/openai/mistral.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { chatRequest } from '../support/literal.ts'
import { property } from '../support/random.ts'
import { sentText } from './conformance.ts'
import { endpoint, plainRequest, randomRequest } from './requests.ts'

const MISTRAL = { endpoint: endpoint({ baseUrl: 'https://api.mistral.ai/v1' }), model: 'mistral-large-latest' }
/** The fields of a chat completion request and of its messages in Mistral's API reference. */
const FIELDS = [
  ...['model', 'messages', 'max_tokens', 'stop', 'stream', 'temperature', 'top_p', 'frequency_penalty'],
  ...['presence_penalty', 'random_seed', 'response_format', 'tools', 'tool_choice', 'parallel_tool_calls'],
]
const MESSAGE_FIELDS = 'role content tool_calls tool_call_id prefix'.split(' ')

async function sent(request: ChatRequest, target = MISTRAL): Promise<JsonObject> {
  const { body } = openai.request(request, target)
  return JSON.parse(sentText(body))
}

function messagesOf(body: JsonObject): readonly JsonObject[] {
  const { messages } = body
  return isArray(messages) ? messages.filter(isObject) : []
}

function callIdsOf(message: JsonObject): readonly unknown[] {
  const calls = message['tool_calls']
  return isArray(calls) ? calls.map((call) => (isObject(call) ? call['id'] : undefined)) : []
}

describe('a request', () => {
  property('has no field and no id that Mistral rejects, and the same pairs of ids', 300, async (random) => {
    const request = chatRequest(randomRequest(random))
    const [body, plain] = await Promise.all([
      sent({
        ...request,
        sampling: { ...request.sampling, seed: 7, logprobs: true },
        hints: { user: 'u', promptCacheKey: 'k' },
      }),
      sent(request, { ...MISTRAL, endpoint: endpoint() }),
    ])
    expect(Object.keys(body).filter((name) => !FIELDS.includes(name))).toEqual([])
    expect(body['random_seed']).toBe(7)
    const choice = body['tool_choice']
    expect(isObject(choice) ? choice['type'] : choice).toBeOneOf([undefined, 'auto', 'none', 'required', 'function'])
    if (request.toolChoice?.mode === 'allowed')
      expect(body['tools']).toHaveLength(new Set(request.toolChoice.names).size)
    const sentOf = new Map<unknown, unknown>()
    for (const [i, message] of messagesOf(body).entries()) {
      expect(Object.keys(message).filter((name) => !MESSAGE_FIELDS.includes(name))).toEqual([])
      const before = messagesOf(plain)[i] ?? {}
      const ids = message['role'] === 'tool' ? [message['tool_call_id']] : callIdsOf(message)
      const own = message['role'] === 'tool' ? [before['tool_call_id']] : callIdsOf(before)
      for (const [n, id] of ids.entries()) {
        expect(String(id)).toMatch(/^[A-Za-z0-9]{9}$/)
        expect(sentOf.get(own[n]) ?? id).toBe(id)
        sentOf.set(own[n], id)
      }
    }
    expect(new Set(sentOf.values()).size).toBe(sentOf.size)
  })

  test('keeps the ids that Mistral made', async () => {
    const call = { callId: 'aB3dE6gH9', name: 'f', json: '{}' }
    const body = await sent(
      plainRequest({
        messages: [
          { role: 'assistant', parts: [], toolCalls: [call] },
          { role: 'tool', callId: 'aB3dE6gH9', parts: [{ type: 'text', text: 'ok' }] },
        ],
      }),
    )
    expect(JSON.stringify(body).split('"aB3dE6gH9"')).toHaveLength(3)
  })

  test('that begins the answer is marked as a prefix', async () => {
    const parts = [{ type: 'text' as const, text: '{' }]
    const body = await sent(plainRequest({ messages: [{ role: 'assistant', parts, toolCalls: [] }] }))
    expect(messagesOf(body).at(-1)).toEqual({ role: 'assistant', content: '{', prefix: true })
  })
})

test.each([
  ['https://api.mistral.ai/v1', true],
  ['https://codestral.mistral.ai/v1', true],
  ['https://api.openai.com/v1', false],
  ['https://mistral.ai.example.test/v1', false],
  ['https://api.example.test/mistral.ai/v1', false],
  ['https://notmistral.ai/v1', false],
])('%s is Mistral: %p', (url, is) => {
  expect(isMistral(url)).toBe(is)
})
