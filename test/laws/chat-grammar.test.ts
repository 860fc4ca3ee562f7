/**
 * The grammar accepts the golden streams and refuses each way of spoiling one: a judge that lets everything pass proves
 * nothing.
 */

import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkChatStream } from './chat-grammar.ts'
import { type Edit, eventEdits, eventsOf, replacing } from './stream-edits.ts'

const FOLDER = join(import.meta.dir, '../fixtures/callers/chat')
const golden = (name: string) => readFileSync(join(FOLDER, name), 'utf8')

describe('golden streams', () => {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith('.sse'))
  test.each(names)('%s', (name) => {
    const reading = checkChatStream(golden(name), { includeUsage: !name.includes('no-usage') })
    const body = JSON.parse(readFileSync(join(FOLDER, `${name.split('.')[0]}.json`), 'utf8'))
    const { message, finish_reason } = body.choices[0]
    expect(reading.text).toBe(message.content ?? '')
    expect(
      reading.toolCalls.map((call) => ({
        id: call.id,
        type: 'function',
        function: { name: call.name, arguments: call.arguments },
      })),
    ).toEqual(message.tool_calls ?? [])
    expect(reading.finishReason).toBe(finish_reason)
    if (reading.usage !== undefined) expect(reading.usage).toEqual(body.usage)
  })

  test('comments may stand between events', () => {
    const text = golden('text.sse').replaceAll('\n\n', '\n\n: keep-alive\n\n')
    expect(checkChatStream(text, { includeUsage: true }).text).toBe('Hello world!')
  })
})

const { without, twice, swapped } = eventEdits()

describe('spoilt streams', () => {
  const rows: readonly (readonly [why: string, stream: string, edit: Edit, reason: RegExp])[] = [
    ['no role chunk', 'text.sse', without(0), /no role/],
    ['the role chunk twice', 'text.sse', twice(0), /delta with role/],
    ['role after content', 'text.sse', swapped(0), /no role/],
    ['no [DONE]', 'text.sse', without(6), /without \[DONE\]/],
    ['[DONE] twice', 'text.sse', twice(6), /follows \[DONE\]/],
    ['something after [DONE]', 'text.sse', (text) => `${text}${eventsOf(text)[1]}\n\n`, /follows \[DONE\]/],
    ['no finish', 'text.sse', without(4), /state content/],
    ['finish twice', 'text.sse', twice(4), /state finished/],
    ['text after the finish', 'text.sse', swapped(3), /state finished/],
    ['no usage chunk', 'text.sse', without(5), /\[DONE\] in the state finished/],
    ['usage before the finish', 'text.sse', swapped(4), /state content/],
    ['usage twice', 'text.sse', twice(5), /state usage/],
    ['a usage key missing', 'text.sse', replacing(',"usage":null', ''), /usage.*missing/],
    [
      'usage on a content chunk',
      'text.sse',
      replacing('"usage":null', '"usage":{"prompt_tokens":1}'),
      /outside of the usage chunk/,
    ],
    ['a wrong total', 'text.sse', replacing('"total_tokens":12', '"total_tokens":13'), /not the sum/],
    ['a negative count', 'text.sse', replacing('"completion_tokens":3', '"completion_tokens":-3'), /usage/],
    ['an error key', 'text.sse', replacing('"usage":null', '"usage":null,"error":null'), /error/],
    ['another id', 'text.sse', replacing(/chatcmpl-9f2c(?=[\s\S]*\[DONE\])/, 'chatcmpl-other'), /changed/],
    ['another time', 'text.sse', replacing('1763650000', '1763650001'), /changed/],
    ['an empty model', 'text.sse', (text) => text.replaceAll('acme-large', ''), /model/],
    ['another object', 'text.sse', replacing('chat.completion.chunk', 'chat.completion'), /object/],
    [
      'keys in another order',
      'text.sse',
      replacing(
        /"object":"chat.completion.chunk","created":1763650000/,
        '"created":1763650000,"object":"chat.completion.chunk"',
      ),
      /order/,
    ],
    ['an unknown key', 'text.sse', replacing('"usage":null', '"usage":null,"x":1'), /unknown keys/],
    ['an empty text delta', 'text.sse', replacing('"content":"Hello"', '"content":""'), /empty text/],
    ['a second choice', 'text.sse', replacing('"choices":[{"index":0', '"choices":[{"index":1'), /choice index/],
    ['a finish reason of somebody else', 'text.sse', replacing('"stop"', '"end_turn"'), /finish_reason/],
    ['a finish chunk with text', 'text.sse', replacing('"delta":{}', '"delta":{"content":"x"}'), /finish chunk/],
    ['an event line', 'text.sse', (text) => `event: message\n${text}`, /one `data: ` line/],
    ['two data lines', 'text.sse', replacing(',"choices"', ',\ndata: "choices"'), /one `data: ` line/],
    ['CRLF', 'text.sse', (text) => text.replaceAll('\n', '\r\n'), /not LF/],
    ['a raw U+2028', 'text.sse', replacing('Hello', 'Hel\u2028lo'), /not LF/],
    ['no blank line at the end', 'text.sse', (text) => text.slice(0, -1), /blank line/],
    ['half an event', 'text.sse', (text) => `${text.slice(0, 400)}\n\n`, /JSON/],
    ['nothing', 'text.sse', () => '', /blank line/],
    [
      'a hole in the indexes',
      'parallel.sse',
      (text) => text.replaceAll('"tool_calls":[{"index":1', '"tool_calls":[{"index":2'),
      /hole/,
    ],
    [
      'indexes from 1',
      'tool.sse',
      (text) => text.replaceAll('"tool_calls":[{"index":0', '"tool_calls":[{"index":1'),
      /hole/,
    ],
    ['arguments before the header', 'tool.sse', swapped(1), /header of a call/],
    ['the header twice', 'tool.sse', twice(1), /later delta/],
    [
      'the name twice',
      'tool.sse',
      replacing('"function":{"arguments":"{', '"function":{"name":"get_weather","arguments":"{'),
      /later delta/,
    ],
    ['one id for two calls', 'parallel.sse', replacing('call_b2', 'call_a1'), /twice/],
    ['an id that is not legal', 'tool.sse', replacing('call_a1', 'call:a1'), /call id/],
    ['no type', 'tool.sse', replacing('"type":"function",', ''), /header/],
    [
      'finish stop after calls',
      'tool.sse',
      replacing('"finish_reason":"tool_calls"', '"finish_reason":"stop"'),
      /after tool calls/,
    ],
    [
      'tool_calls without calls',
      'text.sse',
      replacing('"finish_reason":"stop"', '"finish_reason":"tool_calls"'),
      /without a call/,
    ],
    ['a call without arguments', 'noargs.sse', without(2), /empty/],
  ]
  test.each(rows)('%s', (_, stream, edit, reason) => {
    const before = golden(stream)
    const after = edit(before)
    expect(after).not.toBe(before)
    expect(() => checkChatStream(after, { includeUsage: true })).toThrow(reason)
  })

  test('usage that was not asked for', () => {
    expect(() => checkChatStream(golden('text.sse'), { includeUsage: false })).toThrow(/not asked for/)
    expect(() => checkChatStream(golden('text.no-usage.sse'), { includeUsage: true })).toThrow(/missing/)
  })

  test('cut short anywhere', () => {
    for (const name of ['text.sse', 'parallel.sse', 'text_tool.sse']) {
      const text = golden(name)
      for (let cut = 0; cut < text.length; cut++)
        expect(() => checkChatStream(text.slice(0, cut), { includeUsage: true })).toThrow()
    }
  })
})
