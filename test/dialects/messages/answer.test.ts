/** The body of Messages: the golden bodies, usage with a cache, refusals and incomplete calls. */

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AnswerCall, Completion } from '../../../src/core/completion.ts'
import type { Usage } from '../../../src/core/token-usage.ts'
import { messagesAnswer } from '../../../src/dialects/messages/answer.ts'
import { messagesUsage } from '../../../src/dialects/messages/usage.ts'
import { fold } from '../../support/decode.ts'
import { goldenEvents } from '../golden.ts'

const FOLDER = join(import.meta.dir, '../../fixtures/callers/messages')
const served = { model: 'acme-large', createdAt: 1763650000 }

const plain: Completion = { text: 'a', toolCalls: [], reason: 'stop', usage: { input: 1, output: 1 } }
const tool = (json: string, isWhole = true): AnswerCall => ({ callId: 'call_a', name: 'look', json, isWhole })
const contentOf = (completion: Partial<Completion>) => messagesAnswer({ ...plain, ...completion }, served)['content']

describe('golden bodies', () => {
  test.each([...goldenEvents])('%s', (name, events) => {
    const answer = messagesAnswer(fold(events), served)
    const golden = readFileSync(join(FOLDER, `${name}.json`), 'utf8')
    expect(answer['id']).toMatch(/^msg_[A-Za-z0-9_-]{24}$/)
    expect(JSON.stringify({ ...answer, id: 'msg_01Ab' }, null, 1)).toBe(golden)
  })
})

test('ids are generated and unique', () => {
  expect(messagesAnswer(plain, served)['id']).not.toBe(messagesAnswer(plain, served)['id'])
})

describe('content', () => {
  test('text before calls; no empty text beside a call', () => {
    const use = { type: 'tool_use', id: 'call_a', name: 'look', input: { q: 1 } }
    expect(contentOf({ toolCalls: [tool('{"q":1}')] })).toEqual([{ type: 'text', text: 'a' }, use])
    expect(contentOf({ text: '', toolCalls: [tool('{"q":1}')] })).toEqual([use])
    expect(contentOf({ text: '' })).toEqual([{ type: 'text', text: '' }])
  })

  test('a refusal is text', () => {
    expect(contentOf({ text: '', refusal: 'no' })).toEqual([{ type: 'text', text: 'no' }])
  })

  test('an incomplete call is left out, and those before it stay', () => {
    const toolCalls = [tool('{"q":1}'), tool('{"q":', false)]
    const input = { q: 1 }
    const whole = { type: 'tool_use', id: 'call_a', name: 'look', input }
    expect(contentOf({ text: '', toolCalls, reason: 'length' })).toEqual([whole])
    expect(contentOf({ text: '', toolCalls, reason: 'content-filter' })).toEqual([whole])
    const alone = messagesAnswer({ ...plain, text: '', toolCalls: [tool('{"q":', false)], reason: 'length' }, served)
    expect(alone).toMatchObject({ content: [{ type: 'text', text: '' }], stop_reason: 'max_tokens' })
  })
})

describe('usage', () => {
  const cache = (written: number, read: number) => ({
    cache_creation_input_tokens: written,
    cache_read_input_tokens: read,
  })
  const rows: readonly (readonly [usage: Usage, expected: object])[] = [
    [{}, { input_tokens: 0, output_tokens: 0 }],
    [
      { input: 9, output: 3, reasoning: 2 },
      { input_tokens: 9, output_tokens: 3 },
    ],
    [
      { input: 9, cachedInput: 0, cacheWrite5m: 0, cacheWrite1h: 0, output: 3 },
      { input_tokens: 9, output_tokens: 3 },
    ],
    [
      { input: 9, cachedInput: 5, output: 3 },
      { input_tokens: 4, ...cache(0, 5), output_tokens: 3 },
    ],
    [
      { input: 9, cacheWrite5m: 6, output: 3 },
      { input_tokens: 3, ...cache(6, 0), output_tokens: 3 },
    ],
    [
      { input: 20, cachedInput: 5, cacheWrite5m: 6, cacheWrite1h: 7, output: 3 },
      {
        input_tokens: 2,
        ...cache(13, 5),
        cache_creation: { ephemeral_5m_input_tokens: 6, ephemeral_1h_input_tokens: 7 },
        output_tokens: 3,
      },
    ],
    // Parts that exceed the provider's total do not make a figure negative.
    [
      { input: 4, cachedInput: 5, output: 3 },
      { input_tokens: 0, ...cache(0, 5), output_tokens: 3 },
    ],
  ]
  test.each(rows)('%j', (usage, expected) => {
    expect(messagesUsage(usage)).toEqual({ ...expected })
  })
})
