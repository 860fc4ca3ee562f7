/** The Messages stream: the golden streams byte for byte, and interleaved calls. */

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FinishReason, StreamEvent } from '../../../src/core/event.ts'
import { ProviderError } from '../../../src/core/provider-error.ts'
import type { Usage } from '../../../src/core/token-usage.ts'
import { HELD_CHARACTERS_MAX, MessagesEncoder } from '../../../src/dialects/messages/stream.ts'
import { jsonInside } from '../../../src/wire/sse.ts'
import { checkMessagesStream } from '../../laws/messages-grammar.ts'
import { Encoding } from '../../support/encoding.ts'
import { goldenEvents } from '../golden.ts'

const FOLDER = join(import.meta.dir, '../../fixtures/callers/messages')
const served = { model: 'acme-large', createdAt: 1763650000 }

const encoding = () => new Encoding((meter) => new MessagesEncoder(served, meter, 'msg_01Ab'))
const encodeAll = (events: readonly StreamEvent[], to = encoding()) => to.addAll(events)

const text = (value: string): StreamEvent => ({ type: 'text', text: value })
const call = (index: number): StreamEvent => ({
  type: 'tool-start',
  index,
  callId: `call_${index}`,
  name: `tool_${index}`,
})
const json = (index: number, piece: string): StreamEvent => ({ type: 'tool-delta', index, json: piece })
const finish = (reason: FinishReason): StreamEvent => ({ type: 'finish', reason })
const usage = (figures: Usage): StreamEvent => ({ type: 'usage', usage: figures })
const end: StreamEvent = { type: 'end' }

/** The blocks of a stream in short: `0 text a`, `1 tool_0 {"x":1}`. */
function blocksOf(stream: string): string[] {
  return checkMessagesStream(stream).blocks.map((block, at) => `${at} ${block.name ?? 'text'} ${block.content}`)
}

describe('golden streams come out byte for byte', () => {
  test.each([...goldenEvents])('%s', (name, events) => {
    expect(encodeAll(events)).toBe(readFileSync(join(FOLDER, `${name}.sse`), 'utf8'))
  })
})

describe('blocks one after another', () => {
  const rows: readonly (readonly [what: string, events: readonly StreamEvent[], blocks: readonly string[]])[] = [
    ['text, then a call', [text('a'), text('b'), call(0), json(0, '{"x":1}')], ['0 text ab', '1 tool_0 {"x":1}']],
    ['text after a call', [call(0), json(0, '{"x":1}'), text('b')], ['0 tool_0 {"x":1}', '1 text b']],
    [
      'text around calls',
      [text('a'), call(0), json(0, '{"x":1}'), text('b'), call(1), json(1, '{"y":2}'), text('c')],
      ['0 text a', '1 tool_0 {"x":1}', '2 text b', '3 tool_1 {"y":2}', '4 text c'],
    ],
    [
      'two calls that take turns',
      [call(0), call(1), json(0, '{"x"'), json(1, '{"y"'), json(0, ':1}'), json(1, ':2}')],
      ['0 tool_0 {"x":1}', '1 tool_1 {"y":2}'],
    ],
    [
      'a later call that is whole first',
      [call(0), json(0, '{"x":'), call(1), json(1, '{"y":2}'), json(0, '1}')],
      ['0 tool_0 {"x":1}', '1 tool_1 {"y":2}'],
    ],
    [
      'three calls, the middle one last',
      [call(0), call(1), call(2), json(2, '{"z":3}'), json(0, '{"x":1}'), json(1, '{"y":2}')],
      ['0 tool_0 {"x":1}', '1 tool_1 {"y":2}', '2 tool_2 {"z":3}'],
    ],
    [
      'text in the middle of a call waits for it',
      [call(0), json(0, '{"x":'), text('a'), text('b'), json(0, '1}'), text('c')],
      ['0 tool_0 {"x":1}', '1 text abc'],
    ],
    [
      'text between calls that take turns stays between them',
      [call(0), text('a'), call(1), text('b'), json(1, '{}'), json(0, '{"x":1}'), text('c')],
      ['0 tool_0 {"x":1}', '1 text a', '2 tool_1 ', '3 text bc'],
    ],
    [
      'braces in strings end nothing',
      [call(0), json(0, '{"x":"}\\"}'), call(1), json(0, '"}'), json(1, '{}')],
      ['0 tool_0 {"x":"}\\"}"}', '1 tool_1 '],
    ],
    [
      'inner objects end nothing',
      [call(0), json(0, '{"x":{},"y":[{'), call(1), json(1, '{}'), json(0, '}]}')],
      ['0 tool_0 {"x":{},"y":[{}]}', '1 tool_1 '],
    ],
    [
      'an inner {} alone is no call without arguments',
      [call(0), json(0, '{"x":'), json(0, '{}'), json(0, '}')],
      ['0 tool_0 {"x":{}}'],
    ],
    [
      'whitespace after a call does not count',
      [call(0), json(0, ' {"x":1} '), call(1), json(0, '\n'), json(1, '{}')],
      ['0 tool_0  {"x":1}', '1 tool_1 '],
    ],
    ['a call without arguments in pieces', [call(0), json(0, '{'), json(0, '}')], ['0 tool_0 {}']],
  ]
  test.each(rows)('%s', (_, events, blocks) => {
    const reason = 'tool-call'
    expect(
      blocksOf(encodeAll([{ type: 'start' }, ...events, finish(reason), usage({ input: 1, output: 1 }), end])),
    ).toEqual([...blocks])
  })

  test('an open call is streamed; only later blocks wait', () => {
    const one = encoding()
    encodeAll([{ type: 'start' }, call(0), call(1), text('late')], one)
    expect(one.add(json(0, '{"x":'))).toContain(
      '"index":0,"delta":{"type":"input_json_delta","partial_json":"{\\"x\\":"',
    )
    expect(one.add(json(1, '{}'))).toBe('')
    const released = one.add(json(0, '1}'))
    expect(
      [...released.matchAll(/"type":"(content_block_\w+)","index":(\d)/g)].map(([, type, at]) => `${type} ${at}`),
    ).toEqual(
      ['delta 0', 'stop 0', 'start 1', 'delta 1', 'stop 1', 'start 2', 'delta 2'].map(
        (each) => `content_block_${each}`,
      ),
    )
  })

  test('calls cut by the token limit are sent in order', () => {
    const events = [call(0), json(0, '{"x":'), call(1), json(1, '{"y'), text('t'), finish('length'), end]
    expect(blocksOf(encodeAll(events))).toEqual(['0 tool_0 {"x":', '1 tool_1 {"y', '2 text t'])
  })

  test('arguments that are not an object never end a stream for the caller to execute', () => {
    const calls = [call(0), json(0, '[1]'), call(1), json(1, '{}')]
    expect(() => encodeAll([...calls, finish('tool-call')])).toThrow(ProviderError)
    const cut = encodeAll([...calls, finish('length'), end])
    expect(cut).toContain('"partial_json":"[1]"')
    expect(checkMessagesStream(cut).stopReason).toBe('max_tokens')
  })

  test('text after the arguments of a call breaks the stream rather than the call', () => {
    const piece = (first: string, then: string) => () => encodeAll([call(0), json(0, first), json(0, then)])
    expect(piece('{}', '{"x":1}')).toThrow(ProviderError)
    expect(piece('{"x":1}x', '')).toThrow(ProviderError)
    expect(() => encodeAll([call(0), json(0, '{}'), call(1), json(0, '}')])).toThrow(ProviderError)
  })

  test('waiting blocks are accepted up to a limit; beyond it the stream breaks', () => {
    const start = (to = encoding()) => {
      encodeAll([call(0), json(0, '{"x":'), call(1)], to)
      return to
    }
    const headroom = 256 + 'call_1tool_1'.length
    const most = `{"y":"${'y'.repeat(HELD_CHARACTERS_MAX - headroom - 8)}"}`
    const full = start()
    expect(full.add(json(1, most))).toBe('')
    expect(encodeAll([json(0, '1}')], full)).toContain(jsonInside(most))
    // Sent blocks do not count any more.
    expect(encodeAll([call(2), json(2, '{"z":'), text('y'.repeat(HELD_CHARACTERS_MAX - 256))], full)).toContain(
      'tool_2',
    )
    expect(() => full.add(text('y'))).toThrow(ProviderError)
    expect(() => start().add(json(1, `${most} and`))).toThrow(/continues after/)
    expect(() => encodeAll([json(1, most.slice(0, -1)), text('')], start())).not.toThrow()
    expect(() => encodeAll([json(1, most), text('y')], start())).toThrow(/later blocks/)
  })

  test('many empty blocks that wait reach the limit, too', () => {
    const starts = Array.from({ length: 2000 }, (_, index) => call(index))
    expect(() => encodeAll(starts)).toThrow(ProviderError)
  })
})

describe('message_start and the end', () => {
  const startUsage = (events: readonly StreamEvent[]) => checkMessagesStream(encodeAll(events)).usages[0]

  test('nothing is sent before the first content', () => {
    const one = encoding()
    expect(encodeAll([{ type: 'start' }, usage({ input: 5 }), text('')], one)).toBe('')
    expect(one.add(text('a'))).toStartWith('event: message_start\n')
  })

  test('usage received before is in message_start, with 0 output tokens', () => {
    const rest = [text('a'), finish('stop'), end] as const
    expect(startUsage([{ type: 'start' }, usage({ input: 10, cachedInput: 4, output: 1 }), ...rest])).toEqual({
      input_tokens: 6,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 4,
      output_tokens: 0,
    })
    expect(startUsage([{ type: 'start' }, ...rest])).toEqual({ input_tokens: 0, output_tokens: 0 })
  })

  test('message_delta has the last usage, whenever it arrived', () => {
    const events = [
      usage({ input: 10, output: 1 }),
      text('a'),
      usage({ output: 2 }),
      finish('stop'),
      usage({ output: 3 }),
      end,
    ]
    expect(checkMessagesStream(encodeAll(events)).usages[1]).toEqual({ input_tokens: 10, output_tokens: 3 })
  })

  test('without an end event, neither message_delta nor message_stop is sent', () => {
    const stream = encodeAll([{ type: 'start' }, text('a'), finish('stop'), usage({ input: 1, output: 1 })])
    expect(stream).toContain('content_block_delta')
    expect(stream).not.toContain('message_delta')
    expect(stream).not.toContain('message_stop')
  })

  const reasons: readonly (readonly [reason: FinishReason, called: boolean, stop: string])[] = [
    ['stop', false, 'end_turn'],
    ['stop', true, 'tool_use'],
    ['tool-call', true, 'tool_use'],
    ['tool-call', false, 'end_turn'],
    ['length', false, 'max_tokens'],
    ['length', true, 'max_tokens'],
    ['content-filter', false, 'stop_sequence'],
    ['content-filter', true, 'stop_sequence'],
  ]
  test.each(reasons)('%s, with a call: %p → %s', (reason, called, stop) => {
    const content = called ? [call(0), json(0, '{}')] : [text('a')]
    expect(checkMessagesStream(encodeAll([...content, finish(reason), end])).stopReason).toBe(stop)
  })

  test('a refusal is text', () => {
    const events: StreamEvent[] = [
      { type: 'refusal', text: 'I ' },
      { type: 'refusal', text: 'won’t' },
      finish('stop'),
      end,
    ]
    expect(blocksOf(encodeAll(events))).toEqual(['0 text I won’t'])
  })
})

test('the keep-alive is a ping after the start of the stream, a comment before', () => {
  const one = encoding()
  expect(one.encoder.keepAlive).toBe(': keep-alive\n\n')
  const stream =
    one.encoder.keepAlive + one.add(text('a')) + one.encoder.keepAlive + encodeAll([finish('stop'), end], one)
  expect(one.encoder.keepAlive).toBe('event: ping\ndata: {"type":"ping"}\n\n')
  expect(checkMessagesStream(stream).blocks).toHaveLength(1)
})

test('every stream has its own id', () => {
  const id = () =>
    /"id":"(msg_[A-Za-z0-9_-]{24})"/.exec(
      new MessagesEncoder(served, { soFar: {} }).encode({ type: 'text', text: 'a' }),
    )?.[1]
  expect(id()).toBeString()
  expect(id()).not.toBe(id())
})

test('an empty text among copied ones sends nothing', () => {
  const one = encoding()
  const stream = one.copy(['', 'a', '']) + one.copy(['b', '', 'c'])
  expect(stream).toBe(encodeAll([text('a'), text('b'), text('c')]))
  expect(encoding().copy([''])).toBe('')
})
