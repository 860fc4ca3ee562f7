/** The body of Chat Completions: the golden bodies, and how logprobs, refusals and calls are put into it. */

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Completion } from '../../../src/core/completion.ts'
import { isArray, isObject, type JsonObject } from '../../../src/core/json.ts'
import { chatAnswer } from '../../../src/dialects/chat/answer.ts'
import { fold } from '../../support/decode.ts'
import { goldenEvents } from '../golden.ts'

const FOLDER = join(import.meta.dir, '../../fixtures/callers/chat')
const served = { model: 'acme-large', createdAt: 1763650000 }
const completion: Completion = { text: 'a', toolCalls: [], reason: 'stop', usage: { input: 1, output: 1 } }

function choiceOf(more: Partial<Completion>): JsonObject {
  const { choices } = chatAnswer({ ...completion, ...more }, served)
  const [choice] = isArray(choices) ? choices.filter(isObject) : []
  if (choice === undefined) throw new Error('no choice')
  return choice
}

describe('golden bodies', () => {
  test.each([...goldenEvents])('%s', (name, events) => {
    const answer = chatAnswer(fold(events), served)
    expect(answer['id']).toMatch(/^chatcmpl-[A-Za-z0-9_-]{24}$/)
    const golden = readFileSync(join(FOLDER, `${name}.json`), 'utf8')
    expect(JSON.stringify({ ...answer, id: 'chatcmpl-9f2c' }, null, 1)).toBe(golden)
  })
})

describe('content', () => {
  const toolCalls = [{ callId: 'call_a', name: 'look', json: '{"q":1}', isWhole: true }]
  const rows: readonly (readonly [name: string, more: Partial<Completion>, content: string | null])[] = [
    ['text', {}, 'a'],
    ['no text', { text: '' }, ''],
    ['text beside a call', { toolCalls }, 'a'],
    ['a call alone', { text: '', toolCalls }, null],
    ['a refusal alone', { text: '', refusal: 'no' }, null],
  ]
  test.each(rows)('%s', (_, more, content) => {
    expect(choiceOf(more)['message']).toMatchObject({ content, refusal: more.refusal ?? null })
  })

  test('a call that the limit cut keeps what the model wrote; `finish_reason` is `length`', () => {
    const cut = [{ callId: 'call_a', name: 'look', json: '{"q":', isWhole: false }]
    const choice = choiceOf({ text: '', toolCalls: cut, reason: 'length' })
    expect(choice).toMatchObject({
      finish_reason: 'length',
      message: { tool_calls: [{ id: 'call_a', type: 'function', function: { name: 'look', arguments: '{"q":' } }] },
    })
  })
})

test('logprobs of all pieces become one object', () => {
  const token = (name: string) => ({ token: name, logprob: -1, bytes: null, top_logprobs: [] })
  const logprobs = [
    { content: [token('a')], refusal: null },
    { content: [token('b'), token('c')], refusal: [token('d')] },
  ]
  const joined = { content: [token('a'), token('b'), token('c')], refusal: [token('d')] }
  expect<unknown>(choiceOf({ logprobs })['logprobs']).toEqual(joined)
  expect<unknown>(choiceOf({ logprobs: logprobs.slice(0, 1) })['logprobs']).toEqual({
    content: [token('a')],
    refusal: null,
  })
  expect(choiceOf({})['logprobs']).toBeNull()
})
