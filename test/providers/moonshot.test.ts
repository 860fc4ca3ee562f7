/** Requests to Moonshot's own API: each call of the conversation has thoughts, without which it is rejected. */

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { requestIn } from '../support/literal.ts'
import { sentText } from './conformance.ts'
import { endpoint } from './requests.ts'

const dialect = chat({ imageUrls: 'public' })

/** The messages that a server gets of a conversation with this text. */
function messagesAt(baseUrl: string, text: string): JsonObject[] {
  const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }
  const messages = [
    { role: 'user', content: text },
    { role: 'assistant', content: 'Wait.' },
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'call_1', content: 'done' },
  ]
  const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }]
  const request = requestIn(dialect, { model: 'kimi', messages, tools })
  const { body } = openai.request(request, { endpoint: endpoint({ baseUrl }), model: 'kimi-k2.5' })
  return JSON.parse(sentText(body)).messages
}

const thoughts = (messages: readonly JsonObject[]) => messages.map((message) => message['reasoning_content'])

describe.each([
  ['a short conversation', 'hi'],
  ['a conversation that is not parsed', 'hi '.repeat(8000)],
])('%s', (_, text) => {
  test.each(['https://api.moonshot.ai/v1', 'https://api.moonshot.cn/v1', 'https://api.kimi.com/coding/v1'])(
    '%s: a call has thoughts, and nothing else changes',
    (baseUrl) => {
      const messages = messagesAt(baseUrl, text)
      expect(thoughts(messages)).toEqual([undefined, undefined, ' ', undefined])
      const others = messages.map(({ reasoning_content: _, ...rest }) => rest)
      expect(others).toEqual(messagesAt('https://provider.test/v1', text))
    },
  )

  test.each(['https://api.deepseek.com/v1', 'https://moonshot.ai.test/v1', 'https://relay.test/api.moonshot.ai'])(
    '%s: not there',
    (baseUrl) => expect(thoughts(messagesAt(baseUrl, text))).toEqual([undefined, undefined, undefined, undefined]),
  )
})
