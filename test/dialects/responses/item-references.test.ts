/** References to items that were sent before: whose items are found, and what a request may refer to. */

import { describe, expect, test } from 'bun:test'
import type { StreamEvent } from '../../../src/core/event.ts'
import type { JsonObject } from '../../../src/core/json.ts'
import { responses } from '../../../src/dialects/responses/responses.ts'
import { checkResponsesStream } from '../../laws/responses-grammar.ts'
import { readBody } from '../../support/literal.ts'
import { accept, acceptLater, answered, CALLER, failureOf, rejectionOf, saying, sealer, streamed } from './setting.ts'

const ref = (id: unknown): JsonObject => ({ type: 'item_reference', id: id as string })
const user = { role: 'user', content: 'x' }
const events: StreamEvent[] = [
  { type: 'start' },
  { type: 'text', text: 'Let me ' },
  { type: 'text', text: 'check.' },
  { type: 'tool-start', index: 0, callId: 'call_1', name: 'f' },
  { type: 'tool-delta', index: 0, json: '{"a":1}' },
  { type: 'finish', reason: 'tool-call' },
  { type: 'end' },
]

function outputOf(how: string, organization = 'acme'): readonly JsonObject[] {
  const exchange = accept({ input: 'x' }, organization)
  if (how === 'streamed') return checkResponsesStream(streamed(exchange, events)).output
  return (answered(exchange, events) as { output: JsonObject[] }).output
}

describe.each(['streamed', 'whole'])('%s', (how) => {
  test('references are replaced by the message and the call', async () => {
    const items = outputOf(how)
    const result = { type: 'function_call_output', call_id: 'call_1', output: 'ok' }
    const referring = await acceptLater({ input: [user, ...items.map((item) => ref(item['id'])), result] })
    const sending = accept({ input: [user, ...items, result] })
    expect(referring.request).toEqual(sending.request)
    expect(referring.request.messages.map((message) => message.role)).toEqual(['user', 'assistant', 'tool'])
  })

  test.each([
    ['other', 'acme'],
    ['acme', 'other'],
  ])('an item of %s is not found for %s', async (owner, asker) => {
    const [message] = outputOf(how, owner)
    const failure = await rejectionOf(acceptLater({ input: [user, ref(message?.['id'])] }, asker))
    expect(failure.row.status).toBe(400)
    expect(failure.detail.param).toBe('input[1].id')
    expect(failure.message).toContain('store: false')
  })
})

test('the items of an incomplete answer are not stored', async () => {
  const sse = streamed(accept({ input: 'x' }), events.slice(0, -1))
  const id = /"id":"(msg_[^"]+)"/.exec(sse)?.[1]
  expect(id).toBeDefined()
  expect((await rejectionOf(acceptLater({ input: [ref(id)] }))).kind).toBe('invalid_field')
})

test('a reference without a type, as the official schema allows it', async () => {
  const [message] = outputOf('whole')
  expect((await acceptLater({ input: [user, { id: message?.['id'] }] })).request.messages).toHaveLength(2)
})

test.each([[undefined], [null], [''], [7]])('an id of %p is rejected', (id) => {
  expect(failureOf(() => accept({ input: [{ type: 'item_reference', id: id as never }] })).detail.param).toBe(
    'input[0].id',
  )
})

test('without an item store every reference is rejected', () => {
  const without = responses({ sealer })
  const [message] = outputOf('whole')
  const body = { model: 'm', input: [ref(message?.['id'])] }
  expect(failureOf(() => readBody(without, body, CALLER)).kind).toBe('invalid_field')
})

test('referenced items may not exceed the size limit of a body', async () => {
  const [message] = (answered(accept({ input: 'x' }), saying('x'.repeat(100_000))) as { output: JsonObject[] }).output
  const many = (count: number) => ({ input: Array.from({ length: count }, () => ref(message?.['id'])) })
  expect((await acceptLater(many(90))).request.messages).toHaveLength(90)
  expect((await rejectionOf(acceptLater(many(110)))).row.status).toBe(413)
  const different = Array.from({ length: 5000 }, (_, n) => ref(`msg_${n}`))
  expect(failureOf(() => accept({ input: different })).detail.param).toBe('input')
})
