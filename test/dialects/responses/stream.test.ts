/** What the golden streams do not cover: interleaved calls, text after calls, copied text, limits. */

import { describe, expect, test } from 'bun:test'
import type { FinishReason, StreamEvent } from '../../../src/core/event.ts'
import { ProviderError } from '../../../src/core/provider-error.ts'
import { readRequestBody } from '../../../src/wire/request-body.ts'
import { jsonInside } from '../../../src/wire/sse.ts'
import { checkResponsesStream } from '../../laws/responses-grammar.ts'
import { Encoding } from '../../support/encoding.ts'
import { atOnce } from '../../support/literal.ts'
import { accept, CALLER, dialect, plain, SERVED, saying, streamed } from './setting.ts'

const start = (index: number, name = 'f'): StreamEvent => ({ type: 'tool-start', index, callId: `call_${index}`, name })
const delta = (index: number, json: string): StreamEvent => ({ type: 'tool-delta', index, json })
const text = (piece: string): StreamEvent => ({ type: 'text', text: piece })
const answer = (events: readonly StreamEvent[], reason: FinishReason): StreamEvent[] => [
  { type: 'start' },
  ...events,
  { type: 'finish', reason },
  { type: 'end' },
]
const whole = (...events: StreamEvent[]) => answer(events, 'stop')
const stream = (...events: StreamEvent[]) => streamed(accept({ input: 'x' }), whole(...events))
/** The events' names without `response.`, and their output index. */
const names = (sse: string) =>
  sse
    .split('\n\n')
    .slice(0, -1)
    .map((block) => {
      const data = JSON.parse(block.slice(block.indexOf('data: ') + 6))
      return `${data.type.replace('response.', '')}${data.output_index === undefined ? '' : ` ${data.output_index}`}`
    })

describe('order', () => {
  test('calls one after another: each is done before the next is added', () => {
    const sse = stream(start(0), delta(0, '{"a":1}'), start(1), delta(1, '{}'))
    expect(checkResponsesStream(sse).openAtOnce).toBe(1)
    expect(names(sse).indexOf('output_item.done 0')).toBeLessThan(names(sse).indexOf('output_item.added 1'))
  })

  test('interleaved calls: no delta waits, and all are done at the finish in order', () => {
    const sse = stream(start(0), delta(0, '{"a"'), start(1), delta(1, '{"b":'), delta(0, ':1}'), delta(1, '2}'))
    const reading = checkResponsesStream(sse)
    expect(reading.openAtOnce).toBe(2)
    expect(reading.output.map((item) => item['arguments'])).toEqual(['{"a":1}', '{"b":2}'])
    expect(names(sse)).toEqual([
      'created',
      'output_item.added 0',
      'function_call_arguments.delta 0',
      'output_item.added 1',
      'function_call_arguments.delta 1',
      'function_call_arguments.delta 0',
      'function_call_arguments.delta 1',
      'function_call_arguments.done 0',
      'output_item.done 0',
      'function_call_arguments.done 1',
      'output_item.done 1',
      'completed',
    ])
  })

  test('a call announced before its arguments arrive', () => {
    const reading = checkResponsesStream(stream(start(0), start(1), delta(0, '{"a":1}'), delta(1, '{}')))
    expect(reading.output.map((item) => item['arguments'])).toEqual(['{"a":1}', '{}'])
  })

  test('braces within strings do not end a call', () => {
    const json = '{"a":"}","b":"\\"}"}'
    const reading = checkResponsesStream(
      stream(start(0), delta(0, '{"a":"}'), start(1), delta(0, json.slice(7)), delta(1, '{}')),
    )
    expect(reading.output[0]?.['arguments']).toBe(json)
  })

  test('text after a call continues the message; done events keep the order of the items', () => {
    const sse = stream(text('a'), start(0), delta(0, '{}'), text('b'), start(1), delta(1, '{}'), text('c'))
    const reading = checkResponsesStream(sse)
    expect(reading.output.map((item) => item['type'])).toEqual(['message', 'function_call', 'function_call'])
    expect(JSON.stringify(reading.output[0])).toContain('"text":"abc"')
    expect(names(sse).filter((name) => name.startsWith('output_item.done'))).toEqual([
      'output_item.done 0',
      'output_item.done 1',
      'output_item.done 2',
    ])
  })

  test('a message that follows a call precedes it in the whole answer, and the call was done at once', () => {
    const sse = stream(start(0), delta(0, '{}'), text('b'), start(1), delta(1, '{}'), text('c'))
    const reading = checkResponsesStream(sse)
    expect(reading.output.map((item) => item['type'])).toEqual(['message', 'function_call', 'function_call'])
    expect(JSON.stringify(reading.output[0])).toContain('"text":"bc"')
    expect(names(sse).indexOf('output_item.done 0')).toBeLessThan(names(sse).indexOf('output_item.added 1'))
    expect(names(sse).filter((name) => name.startsWith('output_item.done'))).toEqual([
      'output_item.done 0',
      'output_item.done 1',
      'output_item.done 2',
    ])
  })

  test('a complete call waits for the one before it', () => {
    const sse = stream(start(0), delta(0, '{"a"'), start(1), delta(1, '{}'), start(2), delta(0, ':1}'), delta(2, '{}'))
    checkResponsesStream(sse)
    expect(names(sse).filter((name) => name.startsWith('output_item.done'))).toEqual([
      'output_item.done 0',
      'output_item.done 1',
      'output_item.done 2',
    ])
  })

  test('text within an incomplete call', () => {
    const reading = checkResponsesStream(
      stream(start(0), delta(0, '{"a"'), text('b'), delta(0, ':1}'), start(1), delta(1, '{}')),
    )
    expect(reading.output.map((item) => item['arguments'])).toEqual([undefined, '{"a":1}', '{}'])
  })

  test('an answer cut by the token limit within arguments', () => {
    const events = answer([start(0), delta(0, '{"a":"Onc')], 'length')
    const reading = checkResponsesStream(streamed(accept({ input: 'x' }), events))
    expect(reading.output[0]?.['arguments']).toBe('{"a":"Onc')
  })

  test('white space after complete arguments is dropped; anything else is a provider error', () => {
    const sse = stream(start(0), delta(0, '{}'), start(1), delta(0, ' \n'), delta(1, '{}'))
    expect(checkResponsesStream(sse).output[0]?.['arguments']).toBe('{}')
    expect(() => stream(start(0), delta(0, '{}'), start(1), delta(0, '{"a":1}'))).toThrow(ProviderError)
  })

  test('a refusal is text', () => {
    const reading = checkResponsesStream(stream({ type: 'refusal', text: 'I ' }, { type: 'refusal', text: 'can not.' }))
    expect(JSON.stringify(reading.output)).toContain('"text":"I can not."')
  })

  test('deltas without text send nothing', () => {
    expect(plain(stream(text(''), text('a'), text('')))).toBe(plain(stream(text('a'))))
    expect(plain(stream(text('')))).toBe(plain(stream()))
  })
})

describe('text', () => {
  const HARD = ['"\\', '\u2028\u2029\u0085', '\ud83d', '\ude00', '\u0000', '\n\n', 'event: x\ndata: {}\n\n']

  test('copied JSON text gives the bytes that decoded text gives', () => {
    const encoding = Encoding.of(accept({ input: 'x' }), SERVED)
    const whole = HARD.filter((each) => each.isWellFormed())
    const insides = encoding.add({ type: 'start' }) + encoding.copy(whole.map(jsonInside))
    const ending = encoding.addAll([{ type: 'finish', reason: 'stop' }, { type: 'end' }])
    expect(plain(insides + ending)).toBe(plain(stream(...whole.map(text))))
  })

  test('the done events equal the deltas, halves of surrogate pairs too', () => {
    const reading = checkResponsesStream(stream(...HARD.map(text)))
    expect(reading.output[0]).toMatchObject({ content: [{ text: HARD.join('') }] })
  })

  test('an endless answer is cut, not buffered', () => {
    const encoding = Encoding.of(accept({ input: 'x' }), SERVED)
    encoding.add({ type: 'start' })
    const piece = 'x'.repeat(1024 * 1024)
    for (let mebibytes = 0; mebibytes < 16; mebibytes++) encoding.copy([piece])
    expect(() => encoding.copy(['x'])).toThrow(ProviderError)
  })
})

test('no final event is written without an end', () => {
  const events = whole(text('a')).slice(0, -1)
  const sse = streamed(accept({ input: 'x' }), events)
  expect(sse).not.toContain('response.completed')
  expect(() => checkResponsesStream(sse)).toThrow(/without response.completed/)
})

test('the keep-alive is a comment', () => {
  for (const input of [[{ role: 'user', content: 'x' }], [{ type: 'compaction_trigger' }]]) {
    expect(Encoding.of(accept({ input }), SERVED).encoder.keepAlive).toBe(': keep-alive\n\n')
  }
})

test('of each usage figure the last one counts', () => {
  const events: StreamEvent[] = [
    { type: 'start' },
    { type: 'usage', usage: { input: 100, cachedInput: 40, cacheWrite5m: 5, cacheWrite1h: 6, output: 1 } },
    ...saying('x').slice(1, 3),
    { type: 'usage', usage: { output: 30, reasoning: 20 } },
    { type: 'end' },
  ]
  expect(checkResponsesStream(streamed(accept({ input: 'x' }), events)).response['usage']).toEqual({
    input_tokens: 100,
    input_tokens_details: { cached_tokens: 40, cache_write_tokens: 11 },
    output_tokens: 30,
    output_tokens_details: { reasoning_tokens: 20 },
    total_tokens: 130,
  })
})

test('a turn on a socket hears of all items, also of those without an id', () => {
  const made: string[] = []
  const turn = {
    ...{ previousResponseId: null, earlier: undefined, read() {}, encodes() {} },
    made: (items: readonly { readonly json: string }[]) => made.push(...items.map(({ json }) => json)),
  }
  const bytes = Buffer.from(JSON.stringify({ model: 'm', input: 'hi' }))
  const exchange = atOnce(dialect.readTurn(readRequestBody(bytes, dialect.unparsed), CALLER, turn))
  const encoder = exchange.encoder(SERVED, { soFar: { input: 1, output: 1 } })
  const value = { type: 'web_search_call', status: 'completed' }
  encoder.start()
  encoder.own?.({ type: 'own', part: 'block', value, index: 0 }, false)
  encoder.own?.({ type: 'own', part: 'stop', value, index: 0 }, false)
  encoder.end('stop', { input: 1, output: 1 })
  expect(made).toEqual([JSON.stringify(value)])
})
