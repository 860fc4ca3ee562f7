/** The dialect as the gateway uses it: one exchange, whole and streamed, and the operator's option. */

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../../src/core/json.ts'
import { messages } from '../../../src/dialects/messages/messages.ts'
import { checkMessagesStream } from '../../laws/messages-grammar.ts'
import { answerText } from '../../support/bytes.ts'
import { Encoding } from '../../support/encoding.ts'
import { readAtOnce, type Seen } from '../../support/literal.ts'
import { goldenEvents } from '../golden.ts'

const caller = { organization: 'org' }
const served = { model: 'acme-large', createdAt: 1 }

function exchangeOf(body: JsonObject, toolResultImages: 'refuse' | 'pass'): Seen {
  return readAtOnce(messages({ toolResultImages }), body, caller)
}

test('one exchange answers whole and streamed under the served name, never the requested one', () => {
  const exchange = exchangeOf({ model: 'auto', messages: [{ role: 'user', content: 'hi' }], stream: true }, 'refuse')
  expect(exchange.request).toMatchObject({ model: 'auto', stream: true })
  const usage = { input: 1, output: 1 }
  expect(
    JSON.parse(answerText(exchange.answer({ text: 'a', toolCalls: [], reason: 'stop', usage }, served))).model,
  ).toBe('acme-large')
  const stream = Encoding.of(exchange, served).addAll(goldenEvents.get('text_tool') ?? [])
  expect(stream).toContain('"model":"acme-large"')
  expect(stream).not.toContain('"auto"')
  expect(checkMessagesStream(stream).stopReason).toBe('tool_use')
})

test('images in results pass only if the operator allows it', () => {
  const source = { type: 'base64', media_type: 'image/png', data: 'AAAA' }
  const content = [{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'image', source }] }]
  const body = { model: 'm', messages: [{ role: 'user', content }] }
  expect(() => exchangeOf(body, 'refuse')).toThrow('Unsupported Anthropic content block')
  expect(exchangeOf(body, 'pass').request.messages.map(({ role }) => role)).toEqual(['tool', 'user'])
})
