/** The canonical events of the golden streams and bodies of `test/fixtures/callers`. */

import type { FinishReason, StreamEvent } from '../../src/core/event.ts'

const text = (value: string): StreamEvent => ({ type: 'text', text: value })

function call(index: number, callId: string, name: string, ...pieces: readonly string[]): StreamEvent[] {
  return [
    { type: 'tool-start', index, callId, name },
    ...pieces.map((json): StreamEvent => ({ type: 'tool-delta', index, json })),
  ]
}

function answer(content: readonly StreamEvent[], reason: FinishReason, input: number, output: number): StreamEvent[] {
  return [
    { type: 'start' },
    ...content,
    { type: 'finish', reason },
    { type: 'usage', usage: { input, output } },
    { type: 'end' },
  ]
}

/** By the name of the scenario. */
export const goldenEvents: ReadonlyMap<string, readonly StreamEvent[]> = new Map([
  ['text', answer([text('Hello'), text(' world'), text('!')], 'stop', 9, 3)],
  ['empty', answer([], 'stop', 9, 0)],
  ['length', answer([text('Once upon')], 'length', 9, 2)],
  ['filter', answer([text('I think')], 'content-filter', 9, 2)],
  ['tool', answer(call(0, 'call_a1', 'get_weather', '{"ci', 'ty":"Oslo"}'), 'tool-call', 40, 12)],
  ['noargs', answer(call(0, 'call_a1', 'ping', '{}'), 'tool-call', 20, 4)],
  [
    'text_tool',
    answer(
      [text('Let me'), text(' check.'), ...call(0, 'call_a1', 'get_weather', '{"city":"Oslo"}')],
      'tool-call',
      40,
      16,
    ),
  ],
  [
    'parallel',
    answer(
      [
        ...call(0, 'call_a1', 'get_weather', '{"city":', '"Oslo"}'),
        ...call(1, 'call_b2', 'get_weather', '{"city":', '"Rome"}'),
      ],
      'tool-call',
      40,
      24,
    ),
  ],
])
