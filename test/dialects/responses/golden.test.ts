/**
 * The streams and bodies tested with every SDK are reproduced byte for byte from the same events, except for ids and
 * times.
 */

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FinishReason, StreamEvent } from '../../../src/core/event.ts'
import { checkResponsesStream } from '../../laws/responses-grammar.ts'
import { checkCompletedResponse } from '../../laws/responses-schema.ts'
import { accept, answered, plain, streamed } from './setting.ts'

const FOLDER = join(import.meta.dir, '../../fixtures/callers/responses')
const golden = (name: string) => readFileSync(join(FOLDER, name), 'utf8')

const text = (...pieces: string[]): StreamEvent[] => pieces.map((piece) => ({ type: 'text', text: piece }))
const call = (index: number, callId: string, name: string, ...pieces: string[]): StreamEvent[] => [
  { type: 'tool-start', index, callId, name },
  ...pieces.map((json) => ({ type: 'tool-delta', index, json }) as const),
]
const rows: readonly (readonly [
  name: string,
  content: readonly StreamEvent[],
  reason: FinishReason,
  input: number,
  output: number,
])[] = [
  ['text', text('Hello', ' world', '!'), 'stop', 9, 3],
  ['tool', call(0, 'call_a1', 'get_weather', '{"ci', 'ty":"Oslo"}'), 'tool-call', 40, 12],
  [
    'parallel',
    [
      ...call(0, 'call_a1', 'get_weather', '{"city":', '"Oslo"}'),
      ...call(1, 'call_b2', 'get_weather', '{"city":', '"Rome"}'),
    ],
    'tool-call',
    40,
    24,
  ],
  [
    'text_tool',
    [...text('Let me', ' check.'), ...call(0, 'call_a1', 'get_weather', '{"city":"Oslo"}')],
    'tool-call',
    40,
    16,
  ],
  ['empty', [], 'stop', 9, 0],
  ['length', text('Once upon'), 'length', 9, 2],
  ['filter', text('I think'), 'content-filter', 9, 2],
  ['noargs', call(0, 'call_a1', 'ping', '{}'), 'tool-call', 20, 4],
  ['compaction', text('Summary', ' text'), 'stop', 120, 30],
]

describe.each(rows)('%s', (name, content, reason, input, output) => {
  const events: StreamEvent[] = [
    { type: 'start' },
    ...content,
    { type: 'finish', reason },
    { type: 'usage', usage: { input, output } },
    { type: 'end' },
  ]
  const body = name === 'compaction' ? [{ role: 'user', content: 'hi' }, { type: 'compaction_trigger' }] : 'hi'

  test('the stream', () => {
    const stream = streamed(accept({ input: body, stream: true }), events)
    expect(plain(stream)).toBe(plain(golden(`${name}.sse`)))
    checkResponsesStream(stream)
  })

  test('the body', () => {
    const whole = answered(accept({ input: body }), events)
    expect(plain(JSON.stringify(whole))).toBe(plain(JSON.stringify(JSON.parse(golden(`${name}.json`)))))
    checkCompletedResponse(whole)
  })
})
