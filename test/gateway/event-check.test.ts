/** The order law of events and the judgement of tool calls, between a provider's decoder and everything else. */

import { describe, expect, test } from 'bun:test'
import type { FinishReason, StreamEvent } from '../../src/core/event.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { EventCheck } from '../../src/gateway/event-check.ts'
import type { TextCopier } from '../../src/wire/text-copier.ts'

const start: StreamEvent = { type: 'start' }
const text: StreamEvent = { type: 'text', text: 'a' }
const usage: StreamEvent = { type: 'usage', usage: { input: 1 } }
const finish: StreamEvent = { type: 'finish', reason: 'stop' }
const end: StreamEvent = { type: 'end' }
const call = (index: number): StreamEvent => ({ type: 'tool-start', index, callId: `call_${index}`, name: 'sent_name' })
const json = (index: number, piece: string): StreamEvent => ({ type: 'tool-delta', index, json: piece })

/** The events that pass, a copied text as a text event. */
function pass(events: readonly (StreamEvent | string)[], toolNames?: ReadonlyMap<string, string>): StreamEvent[] {
  const passed: StreamEvent[] = []
  const texts = (insides: readonly string[]) => {
    for (const inside of insides) passed.push({ type: 'text', text: inside })
  }
  const check = new EventCheck({ event: (event) => passed.push(event), texts }, toolNames)
  for (const event of events) {
    if (typeof event === 'string') check.texts([event], event, 'text')
    else check.event(event)
  }
  return passed
}

function thrown(events: readonly (StreamEvent | string)[]): Error {
  try {
    pass(events)
  } catch (error) {
    if (error instanceof Error) return error
  }
  throw new Error('nothing was thrown')
}

describe('the order law', () => {
  test('an answer in order passes unchanged', () => {
    const events: readonly (readonly StreamEvent[])[] = [
      [start, finish, end],
      [start, text, finish, end],
      [start, usage, text, { type: 'refusal', text: 'no' }, usage, { type: 'reasoning', text: 'so' }, finish, end],
      [start, finish, usage, usage, end],
    ]
    for (const each of events) expect(pass(each)).toEqual([...each])
  })

  const content: readonly (readonly [string, StreamEvent | string])[] = [
    ['text', text],
    ['refusal', { type: 'refusal', text: 'a' }],
    ['reasoning', { type: 'reasoning', text: 'a' }],
    ['tool-start', call(0)],
    ['tool-delta', json(0, '{}')],
    ['text', 'copied'],
  ]
  const places: readonly (readonly [string, readonly StreamEvent[]])[] = [
    ['before the start', []],
    ['after the finish', [start, finish]],
    ['after the end', [start, finish, end]],
  ]
  test.each(content.flatMap(([type, event]) => places.map(([place, before]) => [type, place, before, event] as const)))(
    '%s %s is a bug of the decoder',
    (type, place, before, event) => {
      const error = thrown([...before, event])
      expect(error).not.toBeInstanceOf(ProviderError)
      expect(error.message).toBe(`order of events: '${type}' ${place}`)
    },
  )

  const broken: readonly (readonly [string, readonly StreamEvent[], string])[] = [
    ['a second start', [start, start], "'start' in the answer"],
    ['a start after the end', [start, finish, end, start], "'start' after the end"],
    ['usage before the start', [usage], "'usage' before the start"],
    ['usage after the end', [start, finish, end, usage], "'usage' after the end"],
    ['a finish before the start', [finish], "'finish' before the start"],
    ['a second finish', [start, finish, finish], "'finish' after the finish"],
    ['an end without a finish', [start, text, end], "'end' in the answer"],
    ['a second end', [start, finish, end, end], "'end' after the end"],
    ['a call that skips an index', [start, call(1)], 'call 1 started as the 0th, counted from 0'],
    ['a call that starts twice', [start, call(0), call(0)], 'call 0 started as the 1th, counted from 0'],
    ['arguments before their call', [start, json(0, '{}')], 'arguments of call 0 before its start'],
    ['a call without a delta', [start, call(0), finish], 'the finish came before any arguments of call 0'],
  ]
  test.each(broken)('%s is a bug of the decoder', (_, events, message) => {
    const error = thrown(events)
    expect(error).not.toBeInstanceOf(ProviderError)
    expect(error.message).toBe(`order of events: ${message}`)
  })
})

describe('the arguments of calls', () => {
  /** The arguments of each call, in pieces; the reason; whether the answer may pass. */
  const rows: readonly (readonly [string, readonly (readonly string[])[], FinishReason, 'passes' | 'fails'])[] = [
    ['no call', [], 'stop', 'passes'],
    ['an object', [['{"a":1}']], 'tool-call', 'passes'],
    ['an object in pieces', [['{"a"', ':1', '}']], 'tool-call', 'passes'],
    ['without arguments', [['{}']], 'tool-call', 'passes'],
    ['two objects', [['{}'], ['{"b":[2]}']], 'tool-call', 'passes'],
    ['braces within strings', [['{"a":"}', '","b":"\\"}"}']], 'tool-call', 'passes'],
    ['half an object', [['{"a"']], 'tool-call', 'fails'],
    ['half an object after a whole one', [['{}'], ['{"a":']], 'tool-call', 'fails'],
    ['no JSON', [['not json']], 'tool-call', 'fails'],
    ['no JSON between braces', [['{a}']], 'tool-call', 'fails'],
    ['an array', [['[1]']], 'tool-call', 'fails'],
    ['a text', [['"x"']], 'stop', 'fails'],
    ['null', [['null']], 'stop', 'fails'],
    ['blanks', [[' \n']], 'stop', 'fails'],
    ['half an object at the limit', [['{"a"']], 'length', 'passes'],
    ['half an object before a filter', [['{"a"']], 'content-filter', 'passes'],
  ]
  test.each(rows)('%s', (_, calls, reason, outcome) => {
    const pieces = calls.flatMap((all, index) => [call(index), ...all.map((piece) => json(index, piece))])
    const events: StreamEvent[] = [start, ...pieces, { type: 'finish', reason }]
    if (outcome === 'passes') expect(pass(events)).toHaveLength(events.length)
    else expect(thrown(events)).toBeInstanceOf(ProviderError)
  })

  test('the delta that completes the object is marked, and no other', () => {
    const pieces = (events: readonly StreamEvent[]) =>
      pass([start, ...events]).flatMap((event) => (event.type === 'tool-delta' ? [[event.json, event.isLast]] : []))
    expect(pieces([call(0), json(0, '{"a":'), json(0, '1}')])).toEqual([
      ['{"a":', undefined],
      ['1}', true],
    ])
    expect(pieces([call(0), json(0, '{"a"'), call(1), json(1, '{}'), json(0, ':1')])).toEqual([
      ['{"a"', undefined],
      ['{}', true],
      [':1', undefined],
    ])
    expect(pieces([call(0), json(0, '[1]')])).toEqual([['[1]', undefined]])
  })

  test('blanks after the object are dropped', () => {
    expect(pass([start, call(0), json(0, ' {"a":1} \n'), json(0, '\t')]).slice(2)).toEqual([
      { type: 'tool-delta', index: 0, json: ' {"a":1}', isLast: true },
    ])
  })

  const overruns = [['{}', '{"x":1}'], ['{"x":1}x'], ['{"x":1}{'], ['{}', '}']]
  test.each(overruns.map((pieces) => ({ pieces })))(
    'text after the object ends the answer at once: %j',
    ({ pieces }) => {
      const error = thrown([start, call(0), ...pieces.map((piece) => json(0, piece))])
      expect(error).toBeInstanceOf(ProviderError)
      expect(error.message).toBe('a tool call continues after its arguments')
    },
  )

  test('arguments that are too deep or too many end the answer at once', () => {
    expect(thrown([start, call(0), json(0, '{"a":'.repeat(200))])).toBeInstanceOf(ProviderError)
    const half = `{"a":[${'1,'.repeat(200_000)}1]}`
    expect(thrown([start, call(0), json(0, half), call(1), json(1, half)])).toBeInstanceOf(ProviderError)
  })
})

test('a tool gets back the name that the caller gave it', () => {
  const named = { ...call(0), name: 'own.name' }
  expect(pass([start, call(0)], new Map([['sent_name', 'own.name']]))[1]).toEqual(named)
})

describe('a character that a provider splits over two events', () => {
  const [first, second] = ['\ud83d', '\ude00']
  const textOf = (words: string): StreamEvent => ({ type: 'text', text: words })
  const refuses = (words: string): StreamEvent => ({ type: 'refusal', text: words })
  const rows: Readonly<Record<string, readonly [events: readonly (StreamEvent | string)[], passed: StreamEvent[]]>> = {
    'in a text': [
      [textOf(`a${first}`), textOf(`${second}b`)],
      [textOf('a'), textOf('😀b')],
    ],
    'alone in its texts, with figures and thoughts between them': [
      [textOf(first), usage, { type: 'reasoning', text: 'so' }, textOf(second)],
      [usage, { type: 'reasoning', text: 'so' }, textOf('😀')],
    ],
    'three times in a row': [
      [textOf(first), textOf(second + first), textOf(second + first), textOf(second)],
      [textOf('😀'), textOf('😀'), textOf('😀')],
    ],
    'in a refusal': [[refuses(first), refuses(second)], [refuses('😀')]],
    'in arguments': [
      [call(0), json(0, `{"a":"${first}`), json(0, `${second}"}`)],
      [call(0), json(0, '{"a":"'), { type: 'tool-delta', index: 0, json: '😀"}', isLast: true }],
    ],
    'with log probabilities, which stay with their texts': [
      [
        { type: 'text', text: first, logprobs: [1] },
        { type: 'text', text: second, logprobs: [2] },
      ],
      [
        { type: 'text', text: '', logprobs: [1] },
        { type: 'text', text: '😀', logprobs: [2] },
      ],
    ],
    'whose second half does not come, before another text': [
      [textOf(first), textOf('b')],
      [textOf(first), textOf('b')],
    ],
    'whose second half does not come, before a copied text': [
      [textOf(first), 'b'],
      [textOf(first), textOf('b')],
    ],
    'whose second half does not come, before a call': [
      [textOf(first), call(0), json(0, '{}')],
      [textOf(first), call(0), { type: 'tool-delta', index: 0, json: '{}', isLast: true }],
    ],
    'whose second half does not come, at the end': [[textOf(first)], [textOf(first)]],
  }

  test.each(Object.entries(rows))('%s', (_, [events, passed]) => {
    expect(pass([start, ...events, finish, end])).toEqual([start, ...passed, finish, end])
  })

  test('is not overtaken by texts that could be copied', () => {
    let offered = 0
    const copyTexts = () => ++offered
    const check = new EventCheck({ event: () => {}, texts: () => {}, copyTexts }, undefined)
    const copier: TextCopier = Object.create(null)
    check.event(start)
    check.event(textOf(first))
    expect(check.copyTexts(copier, 'text')).toBe(0)
    check.event(textOf(second))
    expect(check.copyTexts(copier, 'text')).toBe(1)
  })
})
