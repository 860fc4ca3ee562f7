/** Compaction: the trigger, the one item that answers it, and the summary restored, for the same organisation only. */

import { describe, expect, test } from 'bun:test'
import type { StreamEvent } from '../../../src/core/event.ts'
import type { JsonObject } from '../../../src/core/json.ts'
import { ProviderError } from '../../../src/core/provider-error.ts'
import { SUMMARY_CHARS_MAX, SUMMARY_INSTRUCTION } from '../../../src/dialects/responses/compaction.ts'
import { responses } from '../../../src/dialects/responses/responses.ts'
import { Sealer } from '../../../src/items/sealer.ts'
import { checkResponsesStream } from '../../laws/responses-grammar.ts'
import { checkCompletedResponse } from '../../laws/responses-schema.ts'
import { Encoding } from '../../support/encoding.ts'
import { readAtOnce, readBody, type Seen } from '../../support/literal.ts'
import {
  accept,
  acceptLater,
  answered,
  CALLER,
  dialect,
  failureOf,
  keyOf,
  SERVED,
  saying,
  sealer,
  streamed,
} from './setting.ts'

const TRIGGER = { type: 'compaction_trigger' }
const hi = { role: 'user', content: 'hi' }

/** The item that answers a compaction with this text. */
function itemOf(summary: string, organization = 'acme'): JsonObject {
  const body = answered(accept({ input: [hi, TRIGGER] }, organization), saying(summary)) as { output: JsonObject[] }
  expect(body.output).toHaveLength(1)
  return body.output[0] ?? {}
}

/** The texts of a body's conversation, with their roles. */
function linesIn(input: JsonObject[], more: JsonObject = {}): string[] {
  return linesOf(accept({ input, ...more }))
}

function linesOf({ request }: Seen): string[] {
  return request.messages.map((message) => {
    return `${message.role}: ${message.parts.map((part) => (part.type === 'text' ? part.text : '')).join()}`
  })
}

describe('the trigger', () => {
  test.each([
    ['last', [hi, TRIGGER]],
    ['first', [TRIGGER, hi]],
    ['alone', [TRIGGER]],
  ])('%s: the instruction is the last message, and tools are not sent', (_, input) => {
    const { request } = accept({
      input,
      tools: [{ type: 'function', name: 'f' }],
      tool_choice: 'required',
      stream: true,
    })
    expect(request.messages.at(-1)).toEqual({ role: 'user', parts: [{ type: 'text', text: SUMMARY_INSTRUCTION }] })
    expect(request.messages).toHaveLength(input.length)
    expect(request.tools).toEqual([])
    expect(request.toolChoice).toBeUndefined()
    expect(request.stream).toBe(true)
    const exchange = accept({ input, tools: [{ type: 'function', name: 'f' }] })
    expect(answered(exchange, saying('x'))['tools']).toEqual([])
  })

  test('a summary is answered with exactly one item', () => {
    const events = saying('All is well.')
    const exchange = accept({ input: [hi, TRIGGER], tools: [{ type: 'function', name: 'f' }] })
    const body = answered(exchange, events)
    checkCompletedResponse(body)
    const reading = checkResponsesStream(streamed(exchange, events))
    for (const output of [body['output'], reading.output]) {
      expect(output).toEqual([
        { id: expect.stringMatching(/^cmp_/), type: 'compaction', encrypted_content: expect.stringMatching(/^gw1\./) },
      ])
    }
  })

  const silent: readonly (readonly [string, readonly StreamEvent[]])[] = [
    ['nothing', [{ type: 'start' }, { type: 'finish', reason: 'stop' }, { type: 'end' }]],
    ['a filter', [{ type: 'start' }, { type: 'finish', reason: 'content-filter' }, { type: 'end' }]],
    [
      'what a filter left',
      [
        { type: 'start' },
        { type: 'text', text: 'The user wan' },
        { type: 'finish', reason: 'content-filter' },
        { type: 'end' },
      ],
    ],
    [
      'a refusal',
      [{ type: 'start' }, { type: 'refusal', text: 'No.' }, { type: 'finish', reason: 'stop' }, { type: 'end' }],
    ],
    [
      'a refusal after a text',
      [
        { type: 'start' },
        { type: 'text', text: 'The user' },
        { type: 'refusal', text: 'No.' },
        { type: 'finish', reason: 'stop' },
        { type: 'end' },
      ],
    ],
    [
      'tool calls alone',
      [
        { type: 'start' },
        { type: 'tool-start', index: 0, callId: 'call_1', name: 'f' },
        { type: 'tool-delta', index: 0, json: '{}' },
        { type: 'finish', reason: 'tool-call' },
        { type: 'end' },
      ],
    ],
  ]
  test.each(silent)(
    '%s is no summary, and a provider error: the caller would replace its conversation with it',
    (_, events) => {
      const exchange = accept({ input: [hi, TRIGGER], tools: [{ type: 'function', name: 'f' }] })
      expect(() => answered(exchange, events)).toThrow(ProviderError)
      expect(() => streamed(exchange, events)).toThrow(ProviderError)
    },
  )

  test('streamed and whole contain the same summary', () => {
    const words = 'Zusammenfassung \u2028 "quoted" \ud83d'
    const exchange = accept({ input: [hi, TRIGGER] })
    const reading = checkResponsesStream(streamed(exchange, saying(words)))
    expect(linesIn([...reading.output])).toEqual(linesIn([itemOf(words)]))
    expect(linesIn([...reading.output])[0]).toContain(words)
  })

  test('no part of the summary is sent early or unencrypted', () => {
    const encoding = Encoding.of(accept({ input: [TRIGGER] }), SERVED)
    const [start, content, ...ending] = saying('the secret plan')
    expect(encoding.addAll(start === undefined ? [] : [start])).toContain('event: response.in_progress')
    expect(encoding.addAll(content === undefined ? [] : [content])).toBe('')
    expect(encoding.copy(['more', 'and more'])).toBe('')
    expect(encoding.addAll(ending)).not.toContain('secret')
  })

  test('a summary beyond the limit is cut there, streamed and whole', () => {
    const text = 'x'.repeat(SUMMARY_CHARS_MAX + 10)
    const exchange = accept({ input: [TRIGGER] })
    const { output } = checkResponsesStream(streamed(exchange, saying(text)))
    for (const items of [[...output], [itemOf(text)]]) {
      expect(linesIn(items)[0]?.match(/x+/g)?.sort().at(-1)?.length).toBe(SUMMARY_CHARS_MAX)
    }
  })

  test('the longest summary in its longest form can be sent back', () => {
    const text = '\u0001'.repeat(SUMMARY_CHARS_MAX)
    expect(linesIn([itemOf(text)])[0]).toContain(text)
  })
})

describe('the restored summary', () => {
  const item = itemOf('Alice wants tea.')

  test('is moved to the start, as a user message marked as a summary', () => {
    const lines = linesIn([hi, { role: 'assistant', content: 'ho' }, item])
    expect(lines).toHaveLength(3)
    expect(lines[0]).toMatch(
      /^user: .*summary[\s\S]*<conversation_summary>\nAlice wants tea.\n<\/conversation_summary>$/,
    )
    expect(lines.slice(1)).toEqual(['user: hi', 'assistant: ho'])
  })

  test('after instructions and the leading system messages', () => {
    const lines = linesIn([{ role: 'developer', content: 'd' }, hi, { role: 'system', content: 'late' }, item], {
      instructions: 'i',
    })
    expect(lines.map((line) => line.slice(0, 12))).toEqual([
      'system: i',
      'system: d',
      'user: This i',
      'user: hi',
      'system: late',
    ])
  })

  test('several stay in their order', () => {
    const lines = linesIn([item, itemOf('Bob wants milk.'), hi])
    expect(lines[0]).toContain('Alice')
    expect(lines[1]).toContain('Bob')
  })

  test('is a conversation by itself', () => {
    expect(linesIn([item])).toHaveLength(1)
  })

  test('an empty one is none: the answer is a provider error', () => {
    expect(() => itemOf(' ')).toThrow(ProviderError)
  })

  test("is accepted under the item's earlier name", () => {
    expect(linesIn([{ ...item, type: 'compaction_summary' }])).toEqual(linesIn([item]))
  })

  test('is found by id, if it is stored', async () => {
    const reference = { type: 'item_reference', id: item['id'] }
    expect(linesOf(await acceptLater({ input: [reference, hi] }))).toEqual(linesIn([item, hi]))
  })

  test('is part of the next compaction', () => {
    const lines = linesIn([item, hi, TRIGGER])
    expect(lines[0]).toContain('Alice')
    expect(lines.at(-1)).toBe(`user: ${SUMMARY_INSTRUCTION}`)
  })
})

describe('every unreadable summary gets the same 400', () => {
  const content = String(itemOf('Alice wants tea.')['encrypted_content'])
  const bytes = Buffer.from(content.slice(4), 'base64url')
  const changed = (at: number) => {
    const copy = Buffer.from(bytes)
    copy[at] = (copy[at] ?? 0) ^ 1
    return `gw1.${copy.toString('base64url')}`
  }
  const cases: readonly (readonly [string, unknown])[] = [
    ['not a string', 7],
    ['absent', undefined],
    ['empty', ''],
    ['the prefix alone', 'gw1.'],
    ['in the clear', 'SUMMARY: dev'],
    ['another prefix', content.replace('gw1.', 'gw2.')],
    ['no prefix', content.slice(4)],
    ['another version', changed(0)],
    ['another key id', changed(1)],
    ['another salt', changed(5)],
    ['another text', changed(30)],
    ['another tag', changed(bytes.length - 1)],
    ['truncated', content.slice(0, -8)],
    ['truncated to the head', `gw1.${bytes.subarray(0, 37).toString('base64url')}`],
    ['longer', `${content}AAAA`],
    ['white space at the end', `${content}\n`],
    ['padding', `${content}=`],
    ['the other base64', `gw1.${bytes.toString('base64')}`],
    ['of another organisation', itemOf('x', 'evil')['encrypted_content']],
    ['sealed for something else', `gw1.${sealer.seal('item', 'acme', '{"summary":"x"}').toString('base64url')}`],
    [
      'under an unknown key',
      `gw1.${new Sealer([keyOf(9)]).seal('compaction', 'acme', '{"summary":"x"}').toString('base64url')}`,
    ],
    ['too large', `gw1.${'A'.repeat(9 * SUMMARY_CHARS_MAX)}`],
  ]
  test.each(cases)('%s', (_, value) => {
    const items = [hi, { type: 'compaction', id: 'cmp_1', encrypted_content: value as string }]
    const failure = failureOf(() => accept({ input: items }))
    expect(failure.kind).toBe('invalid_field')
    expect(failure.detail.param).toBe('input[1].encrypted_content')
    expect(failure.message).toBe(
      "'input[1].encrypted_content' could not be read. " +
        'Send the item back unchanged, or start from the original conversation.',
    )
  })

  test('every bit is authenticated', () => {
    for (let at = 0; at < bytes.length; at++) {
      expect(() => accept({ input: [{ type: 'compaction', encrypted_content: changed(at) }] })).toThrow(
        'could not be read',
      )
    }
  })
})

describe('keys', () => {
  const opens = (by: Sealer, item: JsonObject) =>
    readBody(responses({ sealer: by }), { model: 'm', input: [item] }, CALLER)
  const sealedBy = (by: Sealer) => {
    const exchange = readBody(responses({ sealer: by }), { model: 'm', input: [TRIGGER] }, CALLER)
    if (exchange instanceof Promise) throw new Error('a promise')
    return (answered(exchange, saying('tea')) as { output: JsonObject[] }).output[0] ?? {}
  }
  const old = new Sealer([keyOf(1)])
  const rotated = new Sealer([keyOf(2), keyOf(1)])
  const fresh = new Sealer([keyOf(2)])

  test('the first encrypts, all decrypt', () => {
    expect(opens(rotated, sealedBy(old))).toBeDefined()
    expect(opens(rotated, sealedBy(rotated))).toBeDefined()
    expect(opens(fresh, sealedBy(rotated))).toBeDefined()
    expect(() => opens(old, sealedBy(rotated))).toThrow('could not be read')
    expect(() => opens(fresh, sealedBy(old))).toThrow('could not be read')
  })

  test('the same text is never encrypted to the same bytes', () => {
    const sealed = Array.from({ length: 50 }, () => sealer.seal('compaction', 'acme', 'x').toString('hex'))
    expect(new Set(sealed).size).toBe(50)
  })

  test.each([[[]], [['']], [[Buffer.alloc(31).toString('base64')]], [[keyOf(1), 'c2hvcnQ=']]])(
    '%j are no keys',
    (keys) => {
      expect(() => new Sealer(keys)).toThrow()
    },
  )

  test('organisations whose names could be confused when joined stay apart', () => {
    const sealed = sealer.seal('compaction', 'a|b', 'x')
    expect(sealer.open('compaction', 'a|b', sealed)).toBe('x')
    for (const other of ['a', 'b', 'a|', 'a|b|', '']) expect(sealer.open('compaction', other, sealed)).toBeUndefined()
  })
})

describe('POST /v1/responses/compact', () => {
  test('as Codex sends it: without a trigger, never streamed', () => {
    const body = {
      model: 'gpt',
      instructions: 'You are Codex.',
      input: [hi],
      tools: [],
      parallel_tool_calls: true,
      stream: true,
    }
    const exchange = compacted(body)
    expect(exchange.request.stream).toBe(false)
    expect(exchange.request.messages.map((message) => message.role)).toEqual(['system', 'user', 'user'])
    const answer = answered(exchange, saying('tea'))
    expect(answer['object']).toBe('response.compaction')
    checkCompletedResponse({ ...answer, object: 'response' })
    const { output } = answer as { output: JsonObject[] }
    expect(linesIn(output)[0]).toContain('tea')
  })

  test('a string as input, and a redundant trigger', () => {
    const counts = ['hi', [hi, TRIGGER]].map((input) => {
      return compacted({ model: 'gpt', input }).request.messages.length
    })
    expect(counts).toEqual([2, 2])
  })

  test('a trigger on the other path leaves the object a response', () => {
    expect(answered(accept({ input: [hi, TRIGGER] }), saying('tea'))['object']).toBe('response')
  })

  test('errors are those of the other path', () => {
    for (const body of [{ model: 'gpt' }, { model: 'gpt', input: [] }, { model: 'gpt', input: 7 }]) {
      expect(failureOf(() => compacted(body)).detail.param).toBe('input')
    }
  })
})

function compacted(body: JsonObject): Seen {
  return readAtOnce({ ...dialect, read: dialect.readCompact }, body, CALLER)
}
