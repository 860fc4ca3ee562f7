/**
 * Streams that providers send although no documentation describes them: nothing of an answer is lost, and nothing
 * invented.
 */

import { describe, expect, test } from 'bun:test'
import type { JsonValue } from '../../src/core/json.ts'
import type { ProviderErrorKind } from '../../src/core/provider-error.ts'
import type { Usage } from '../../src/core/token-usage.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { streamed } from './outcome.ts'

interface Wanted {
  readonly text?: string
  /** Name, JSON and id; '' for an id that weir made. */
  readonly calls?: readonly (readonly [name: string, json: string, id: string])[]
  readonly reason?: 'stop' | 'length' | 'tool-call' | 'content-filter'
  readonly usage?: Usage
  readonly errorKind?: ProviderErrorKind
}

function expectOutcome(outcome: ReturnType<typeof streamed>, wanted: Wanted): void {
  const { text = '', calls = [], reason, usage, errorKind } = wanted
  expect(outcome.errorKind).toBe(errorKind)
  expect(outcome.text).toBe(text)
  expect(outcome.calls.map(({ name, json, id }) => [name, json, id])).toEqual(calls.map((call) => [...call]))
  if (errorKind === undefined) expect(outcome.reason).toBe(reason ?? (calls.length > 0 ? 'tool-call' : 'stop'))
  if (usage !== undefined) expect(outcome.usage).toMatchObject(usage)
}

const bytes = (events: readonly string[]) => [new TextEncoder().encode(events.join(''))]
const frame = (value: JsonValue) => `data: ${JSON.stringify(value)}\n\n`

describe('Chat Completions', () => {
  const chunk = (delta: JsonValue, finish_reason: string | null = null, more: { [key: string]: JsonValue } = {}) =>
    frame({ choices: [{ index: 0, delta, finish_reason }], ...more })
  const piece = (index: number | string | null, id: string | null, name: string | null, json: JsonValue) => ({
    tool_calls: [{ index, id, type: 'function', function: { name, arguments: json } }],
  })
  const done = 'data: [DONE]\n\n'
  const end = chunk({}, 'stop')
  const one = [['f', '{"a":1}', '']] as const

  const rows: Readonly<Record<string, readonly [events: readonly string[], wanted: Wanted]>> = {
    'an id that callers reject, with every delta': [
      [
        chunk(piece(0, 'functions.f:0', 'f', '')),
        chunk(piece(0, 'functions.f:0', 'f', '{"a":')),
        chunk(piece(0, 'functions.f:0', 'f', '1}')),
        end,
      ],
      { calls: one },
    ],
    'an id of 40 characters, the longest that OpenAI accepts in the next request, and one of vLLM': [
      [
        chunk(piece(0, `call_${'a'.repeat(35)}`, 'f', '{"a":1}')),
        chunk(piece(1, `chatcmpl-tool-${'b'.repeat(32)}`, 'f', '{"a":1}')),
        end,
      ],
      { calls: [['f', '{"a":1}', `call_${'a'.repeat(35)}`], ...one] },
    ],
    'the whole call again, without its id': [
      [
        chunk(piece(0, 'a', 'f', '{"a":')),
        chunk(piece(0, null, null, '1}')),
        chunk(piece(0, null, 'f', '{"a":1}')),
        end,
      ],
      { calls: [['f', '{"a":1}', 'a']] },
    ],
    'another call of the same name and number, without an id': [
      [chunk(piece(0, 'a', 'f', '{"a":1}')), chunk(piece(0, null, 'f', '{"a":2}')), end],
      {
        calls: [
          ['f', '{"a":1}', 'a'],
          ['f', '{"a":2}', ''],
        ],
      },
    ],
    'the whole text again after the finish, as a message': [
      [
        chunk({ content: 'Hel' }),
        chunk({ content: 'lo' }, 'stop'),
        frame({ choices: [{ index: 0, message: { content: 'Hello' } }] }),
      ],
      { text: 'Hello' },
    ],
    'a call that never gets a name': [
      Array.from({ length: 80 }, () => chunk(piece(0, 'a', null, ' '.repeat(1024)))),
      { errorKind: 'broken' },
    ],
    'such an id again after the arguments': [
      [chunk(piece(0, 'functions.f:0', 'f', '{"a":1}')), chunk(piece(0, 'functions.f:0', 'f', '')), end],
      { calls: one },
    ],
    'such an id without an index': [
      [chunk(piece(null, 'functions.f:0', 'f', '{"a":')), chunk(piece(null, 'functions.f:0', '', '1}')), end],
      { calls: one },
    ],
    'one id for two calls, with every delta': [
      [
        chunk(piece(0, 'a', 'f', '{"x"')),
        chunk(piece(1, 'a', 'g', '{"y"')),
        chunk(piece(0, 'a', 'f', ':1}')),
        chunk(piece(1, 'a', 'g', ':2}')),
        end,
      ],
      {
        calls: [
          ['f', '{"x":1}', 'a'],
          ['g', '{"y":2}', ''],
        ],
      },
    ],
    'one number and one id for all calls': [
      [
        chunk(piece(0, 'a', 'f', '{"x"')),
        chunk(piece(0, 'a', 'f', ':1}')),
        chunk(piece(0, 'a', 'g', '{"y":2}')),
        chunk(piece(0, 'a', 'g', '')),
        end,
      ],
      {
        calls: [
          ['f', '{"x":1}', 'a'],
          ['g', '{"y":2}', ''],
        ],
      },
    ],
    'a whole call again at the end': [
      [
        chunk(piece(0, 'a', 'f', '{"x"')),
        chunk(piece(0, null, null, ':1}')),
        chunk(piece(0, 'a', 'f', '{ "x": 1 }')),
        end,
      ],
      { calls: [['f', '{"x":1}', 'a']] },
    ],
    'one number and no id for all calls': [
      [chunk(piece(0, null, 'f', '{"x":1}')), chunk(piece(0, null, 'f', '{"y":2}')), end],
      {
        calls: [
          ['f', '{"x":1}', ''],
          ['f', '{"y":2}', ''],
        ],
      },
    ],
    'indexes with holes': [
      [chunk(piece(0, 'a', 'f', '{}')), chunk(piece(5, 'b', 'g', '{}')), end],
      {
        calls: [
          ['f', '{}', 'a'],
          ['g', '{}', 'b'],
        ],
      },
    ],
    'null for no arguments': [[chunk(piece(0, 'a', 'f', 'null')), end], { calls: [['f', '{}', 'a']] }],
    'null in two pieces': [
      [chunk(piece(0, 'a', 'f', 'nu')), chunk(piece(0, null, null, 'll')), end],
      { calls: [['f', '{}', 'a']] },
    ],
    'null for no arguments of each of two calls without ids': [
      [chunk(piece(0, null, 'f', 'null')), chunk(piece(0, null, 'g', 'null')), end],
      {
        calls: [
          ['f', '{}', ''],
          ['g', '{}', ''],
        ],
      },
    ],
    'null for no arguments, and the whole call again': [
      [chunk(piece(0, 'a', 'f', 'null')), chunk(piece(0, 'a', 'f', 'null')), end],
      { calls: [['f', '{}', 'a']] },
    ],
    'a blank for no arguments': [[chunk(piece(0, 'a', 'f', ' ')), end], { calls: [['f', '{}', 'a']] }],
    'a blank before the arguments': [
      [chunk(piece(0, 'a', 'f', ' \n')), chunk(piece(0, null, null, '{"a":1}')), end],
      { calls: [['f', ' \n{"a":1}', 'a']] },
    ],
    'a reason with each call': [
      [chunk(piece(0, 'a', 'f', '{}'), 'tool_calls'), chunk(piece(1, 'b', 'g', '{}'), 'tool_calls')],
      {
        calls: [
          ['f', '{}', 'a'],
          ['g', '{}', 'b'],
        ],
      },
    ],
    'a reason with each text': [[chunk({ content: 'a' }, 'stop'), chunk({ content: 'b' }, 'stop')], { text: 'ab' }],
    'a limit, then a stop': [[chunk({ content: 'a' }, 'length'), end], { text: 'a', reason: 'length' }],
    'usage in the choice': [
      [
        frame({
          choices: [{ index: 0, delta: {}, finish_reason: 'stop', usage: { prompt_tokens: 3, completion_tokens: 2 } }],
        }),
      ],
      { usage: { input: 3, output: 2 } },
    ],
    'blank data between events, by which proxies keep a connection': [
      ['data:\n\n', chunk({ content: 'a' }), 'data: \n\n', 'event: ping\ndata\n\n', 'data:\ndata:\n\n', end],
      { text: 'a' },
    ],
    'tokens written to the cache, as Qwen counts them': [
      [
        chunk({}, 'stop', {
          usage: {
            prompt_tokens: 2000,
            completion_tokens: 2,
            prompt_tokens_details: { cached_tokens: 0, cache_creation_input_tokens: 1889 },
          },
        }),
      ],
      { usage: { input: 2000, cachedInput: 0, cacheWrite5m: 1889, output: 2 } },
    ],
    'cached tokens beside the details': [
      [chunk({}, 'stop', { usage: { prompt_tokens: 19, completion_tokens: 2, cached_tokens: 10 } })],
      { usage: { input: 19, cachedInput: 10, output: 2 } },
    ],
    'usage before the finish': [
      [chunk({ content: 'a' }), frame({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } }), end],
      { text: 'a', usage: { input: 3, output: 2 } },
    ],
    'a full context window': [[chunk({ content: 'a' }, 'model_length')], { text: 'a', reason: 'length' }],
    'a full context window at GLM': [
      [chunk({ content: 'a' }, 'model_context_window_exceeded')],
      { text: 'a', reason: 'length' },
    ],
    'what GLM takes for sensitive': [[chunk({ content: 'a' }, 'sensitive')], { text: 'a', reason: 'content-filter' }],
    'a network error at GLM': [
      [chunk({ content: 'a' }), chunk({}, 'network_error'), done],
      { text: 'a', errorKind: 'failed' },
    ],
    'a limit in capitals': [[chunk({ content: 'a' }, 'MAX_TOKENS')], { text: 'a', reason: 'length' }],
    'a filter with its reason': [
      [chunk({ content: 'a' }, 'content_filter: PROHIBITED_CONTENT')],
      { text: 'a', reason: 'content-filter' },
    ],
    'a call that was removed': [
      [chunk({ content: 'a' }), chunk({}, 'function_call_filter: MALFORMED_FUNCTION_CALL'), done],
      { text: 'a', errorKind: 'broken' },
    ],
    'an engine without resources': [
      [chunk({ content: 'a' }), chunk({}, 'insufficient_system_resource'), done],
      { text: 'a', errorKind: 'overloaded' },
    ],
    'an engine that gave up': [[chunk({ content: 'a' }), chunk({}, 'abort'), done], { text: 'a', errorKind: 'failed' }],
    'a stream that was stopped early': [
      [chunk({ content: 'a' }), frame({ choices: [], x_groq: { id: 'r', error: 'over capacity' } }), done],
      { text: 'a', errorKind: 'failed' },
    ],
  }

  test.each(Object.keys(rows))('%s', (name) => {
    const [events, wanted] = rows[name] ?? [[], {}]
    expectOutcome(streamed(openai, bytes(events)), wanted)
    // The usual end, which changes nothing.
    expectOutcome(streamed(openai, bytes([...events, done])), wanted)
  })
})

describe('Anthropic', () => {
  const event = (type: string, more: { [key: string]: JsonValue } = {}) => `event: ${type}\n${frame({ type, ...more })}`
  const start = event('message_start', { message: { usage: { input_tokens: 5, output_tokens: 1 } } })
  const begin = (index: number, content_block: JsonValue) => event('content_block_start', { index, content_block })
  const delta = (index: number, json: string) =>
    event('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json: json } })
  const stop = (index: number) => event('content_block_stop', { index })
  const end = event('message_delta', { delta: { stop_reason: 'tool_use' } }) + event('message_stop')
  const tool = (id: string, name: string, input: JsonValue = {}) => ({ type: 'tool_use', id, name, input })

  const rows: Readonly<Record<string, readonly [events: readonly string[], wanted: Wanted]>> = {
    'blank data between events': [
      ['data:\n\n', begin(0, tool('a', 'f')), 'data: \n\n', stop(0)],
      { calls: [['f', '{}', 'a']] },
    ],
    'an id that callers reject': [[begin(0, tool('f:0', 'f')), stop(0)], { calls: [['f', '{}', '']] }],
    'all of the input as text at once': [
      [begin(0, tool('a', 'f', '{"a":1}')), stop(0)],
      { calls: [['f', '{"a":1}', 'a']] },
    ],
    'null as all of the input': [[begin(0, tool('a', 'f', 'null')), stop(0)], { calls: [['f', '{}', 'a']] }],
    'a delta of null': [[begin(0, tool('a', 'f')), delta(0, 'null'), stop(0)], { calls: [['f', '{}', 'a']] }],
    'null in two deltas, of a block that does not end': [
      [begin(0, tool('a', 'f')), delta(0, ' nu'), delta(0, 'll\n')],
      { calls: [['f', '{}', 'a']] },
    ],
    'a blank delta before the input': [
      [begin(0, tool('a', 'f')), delta(0, ' '), delta(0, '{"a":1}'), stop(0)],
      { calls: [['f', ' {"a":1}', 'a']] },
    ],
    'the input at once, and a delta of null': [
      [begin(0, tool('a', 'f', { a: 1 })), delta(0, 'null'), stop(0)],
      { calls: [['f', '{"a":1}', 'a']] },
    ],
    'blocks that interleave': [
      [begin(1, tool('b', 'g')), begin(0, tool('a', 'f')), delta(0, '{"a":1}'), delta(1, '{"b":2}'), stop(1), stop(0)],
      {
        calls: [
          ['g', '{"b":2}', 'b'],
          ['f', '{"a":1}', 'a'],
        ],
      },
    ],
    'a tool that the provider runs, in between': [
      [
        begin(0, { type: 'server_tool_use', id: 's', name: 'web_search', input: {} }),
        delta(0, '{"q":1}'),
        stop(0),
        begin(1, { type: 'web_search_tool_result', tool_use_id: 's', content: [] }),
        stop(1),
        begin(2, tool('a', 'f')),
        stop(2),
      ],
      { calls: [['f', '{}', 'a']] },
    ],
    'no usage at the end': [
      [begin(0, { type: 'text', text: 'Hi' })],
      { text: 'Hi', reason: 'stop', usage: { input: 5 } },
    ],
  }

  test.each(Object.keys(rows))('%s', (name) => {
    const [events, wanted] = rows[name] ?? [[], {}]
    expectOutcome(streamed(anthropic, bytes([start, ...events, end])), wanted)
  })
})

describe('Gemini', () => {
  const chunk = (parts: JsonValue, finishReason?: string) =>
    frame({ candidates: [{ content: { role: 'model', parts }, ...(finishReason && { finishReason }) }] })
  const called = (call: { [key: string]: JsonValue }) => [{ functionCall: { name: 'f', ...call } }]

  const rows: Readonly<Record<string, readonly [events: readonly string[], wanted: Wanted]>> = {
    'a reason with every chunk': [[chunk([{ text: 'a' }], 'STOP'), chunk([{ text: 'b' }], 'STOP')], { text: 'ab' }],
    'a call after the reason': [
      [chunk([{ text: 'a' }], 'STOP'), chunk(called({ id: 'x' }))],
      { text: 'a', calls: [['f', '{}', 'x']] },
    ],
    'a limit after a stop': [
      [chunk([{ text: 'a' }], 'STOP'), chunk([{ text: 'b' }], 'MAX_TOKENS')],
      { text: 'ab', reason: 'length' },
    ],
    'the marker of another API': [[chunk([{ text: 'a' }], 'STOP'), 'data: [DONE]\n\n'], { text: 'a' }],
    'that marker without a reason': [[chunk([{ text: 'a' }]), 'data: [DONE]\n\n'], { text: 'a', errorKind: 'cut' }],
    'arguments as text': [[chunk(called({ id: 'x', args: '{"a":1}' }), 'STOP')], { calls: [['f', '{"a":1}', 'x']] }],
    'arguments that are null': [[chunk(called({ id: 'x', args: null }), 'STOP')], { calls: [['f', '{}', 'x']] }],
    'arguments that are the text null': [
      [chunk(called({ id: 'x', args: 'null' }), 'STOP')],
      { calls: [['f', '{}', 'x']] },
    ],
    'an id that callers reject': [[chunk(called({ id: 'a:b/c' }), 'STOP')], { calls: [['f', '{}', '']] }],
    'code that it ran': [
      [chunk([{ executableCode: { code: '1' } }, { codeExecutionResult: { output: '1' } }, { text: 'a' }], 'STOP')],
      { text: 'a' },
    ],
    'a block after text': [
      [chunk([{ text: 'a' }]), frame({ promptFeedback: { blockReason: 'PROHIBITED_CONTENT' } })],
      { text: 'a', reason: 'content-filter' },
    ],
    'the second candidate first': [
      [
        frame({
          candidates: [
            { index: 1, content: { parts: [{ text: 'no' }] }, finishReason: 'STOP' },
            { index: 0, content: { parts: [{ text: 'a' }] }, finishReason: 'STOP' },
          ],
        }),
      ],
      { text: 'a' },
    ],
  }

  test.each(Object.keys(rows))('%s', (name) => {
    const [events, wanted] = rows[name] ?? [[], {}]
    expectOutcome(streamed(gemini, bytes(events)), wanted)
  })
})

test('arguments of white space alone are sent on and counted', () => {
  const decoder = openai.decoder()
  const blanks = (count: number) =>
    decoder.decode(
      '',
      JSON.stringify({
        choices: [
          {
            index: 0,
            delta: { tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: ' '.repeat(count) } }] },
          },
        ],
      }),
    )
  expect(blanks(10).map(({ type }) => type)).toEqual(['start', 'tool-start'])
  expect(blanks(100)).toEqual([{ type: 'tool-delta', index: 0, json: ' '.repeat(110) }])
  expect(blanks(1)).toEqual([{ type: 'tool-delta', index: 0, json: ' ' }])
})
