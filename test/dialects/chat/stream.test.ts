/** The Chat Completions stream: the golden streams byte for byte, the role chunk, usage, refusals and logprobs. */

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { StreamEvent } from '../../../src/core/event.ts'
import { ChatEncoder } from '../../../src/dialects/chat/stream.ts'
import { checkChatStream } from '../../laws/chat-grammar.ts'
import { Encoding } from '../../support/encoding.ts'
import { goldenEvents } from '../golden.ts'

const FOLDER = join(import.meta.dir, '../../fixtures/callers/chat')
const served = { model: 'acme-large', createdAt: 1763650000 }

const encoding = (includeUsage = true) => new Encoding(() => new ChatEncoder(served, includeUsage, 'chatcmpl-9f2c'))
const golden = (name: string) => readFileSync(join(FOLDER, name), 'utf8')
const text = (value: string): StreamEvent => ({ type: 'text', text: value })
const start: StreamEvent = { type: 'tool-start', index: 0, callId: 'call_a', name: 'look' }
const json: StreamEvent = { type: 'tool-delta', index: 0, json: '{}' }
const ending: readonly StreamEvent[] = [{ type: 'finish', reason: 'stop' }, { type: 'end' }]

/** The deltas of the chunks, in order. */
function deltasOf(stream: string): unknown[] {
  return [...stream.matchAll(/^data: (\{.*\})$/gm)].flatMap(([, chunk = '']) => {
    const [choice] = JSON.parse(chunk).choices
    return choice === undefined ? [] : [choice.delta]
  })
}

describe('golden streams come out byte for byte', () => {
  test.each([...goldenEvents])('%s', (name, events) => {
    expect(encoding().addAll(events)).toBe(golden(`${name}.sse`))
  })

  test('without the usage chunk', () => {
    expect(encoding(false).addAll(goldenEvents.get('text') ?? [])).toBe(golden('text.no-usage.sse'))
  })
})

describe('the role chunk', () => {
  const rows: readonly (readonly [first: string, events: readonly StreamEvent[], content: string | null])[] = [
    ['text', [text('a')], ''],
    ['a call', [start, json], null],
    ['a refusal', [{ type: 'refusal', text: 'no' }], null],
    ['nothing', [], ''],
  ]
  test.each(rows)('before %s', (_, events, content) => {
    const [role] = deltasOf(encoding().addAll([...events, ...ending]))
    expect(role).toEqual({ role: 'assistant', content, refusal: null })
  })

  test('waits for the first content', () => {
    const one = encoding()
    const before: StreamEvent[] = [
      { type: 'start' },
      { type: 'usage', usage: { input: 1 } },
      { type: 'reasoning', text: 'x' },
    ]
    expect(one.addAll(before)).toBe('')
    expect(deltasOf(one.add(text('a')))).toHaveLength(2)
    expect(deltasOf(one.add(text('b')))).toHaveLength(1)
  })
})

test('without `include_usage` no chunk has the key, with it all but the last have null', () => {
  const events: StreamEvent[] = [text('a'), start, json, ...ending]
  expect(encoding(false).addAll(events)).not.toContain('"usage"')
  const usages = [
    ...encoding()
      .addAll(events)
      .matchAll(/"usage":(null|\{)/g),
  ].map(([, usage]) => usage)
  expect(usages).toEqual(['null', 'null', 'null', 'null', 'null', '{'])
})

test('a refusal goes out in its own field', () => {
  const stream = encoding().addAll([{ type: 'refusal', text: 'I ' }, { type: 'refusal', text: 'won’t' }, ...ending])
  expect(checkChatStream(stream, { includeUsage: true })).toMatchObject({ text: '', refusal: 'I won’t' })
})

test('logprobs go out with the text that they belong to', () => {
  const logprobs = { content: [{ token: 'a', logprob: -0.1, bytes: [97], top_logprobs: [] }], refusal: null }
  const stream = encoding().addAll([{ type: 'text', text: 'a', logprobs }, text('b'), ...ending])
  expect(stream).toContain(`"delta":{"content":"a"},"logprobs":${JSON.stringify(logprobs)},"finish_reason":null`)
  expect(stream).toContain('"delta":{"content":"b"},"logprobs":null')
  checkChatStream(stream, { includeUsage: true })
})

test('deltas of calls carry the index of their call', () => {
  const second: StreamEvent = { type: 'tool-start', index: 1, callId: 'call_b', name: 'look' }
  const events = [start, second, { type: 'tool-delta', index: 1, json: '{}' } as const, json]
  const indexes = deltasOf(encoding().addAll([...events, ...ending])).flatMap((delta) => {
    const { tool_calls: calls } = delta as { tool_calls?: readonly { index: number }[] }
    return calls?.map(({ index }) => index) ?? []
  })
  expect(indexes).toEqual([0, 1, 1, 0])
})
