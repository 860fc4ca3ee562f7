/**
 * The grammar accepts the golden streams and refuses each way of spoiling one: a judge that lets everything pass proves
 * nothing.
 */

import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkMessagesStream } from './messages-grammar.ts'
import { type Edit, eventEdits, eventsOf, joinedEvents, replacing } from './stream-edits.ts'

const FOLDER = join(import.meta.dir, '../fixtures/callers/messages')
const golden = (name: string) => readFileSync(join(FOLDER, name), 'utf8')

describe('golden streams', () => {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith('.sse'))
  test.each(names)('%s', (name) => {
    const reading = checkMessagesStream(golden(name))
    const body = JSON.parse(readFileSync(join(FOLDER, `${name.split('.')[0]}.json`), 'utf8'))
    const blocks = reading.blocks.map(({ type, id, name: tool, content }) =>
      type === 'text' ? { type, text: content } : { type, id, name: tool, input: JSON.parse(content || '{}') },
    )
    expect(blocks).toEqual(body.content)
    expect(reading.stopReason).toBe(body.stop_reason)
    expect(reading.usages[1]).toEqual(body.usage)
  })

  test('pings and comments may stand between events, before the first only comments', () => {
    const [ping, comment] = ['event: ping\ndata: {"type":"ping"}\n\n', ': keep-alive\n\n']
    const [first = '', ...others] = golden('text.sse').split('\n\n').slice(0, -1)
    const rest = others.map((event) => `${ping}${comment}${event}\n\n`).join('')
    expect(checkMessagesStream(`${comment}${first}\n\n${rest}`).blocks).toHaveLength(1)
    expect(() => checkMessagesStream(`${ping}${first}\n\n${rest}`)).toThrow(/ping before message_start/)
  })
})

const { without, twice, swapped } = eventEdits()

describe('spoilt streams', () => {
  const rows: readonly (readonly [why: string, stream: string, edit: Edit, reason: RegExp])[] = [
    ['no message_start', 'text.sse', without(0), /at: nothing/],
    ['message_start twice', 'text.sse', twice(0), /at: between blocks/],
    ['no block start', 'text.sse', without(1), /at: between blocks/],
    ['block start twice', 'text.sse', twice(1), /at: in a block/],
    ['a delta before its block', 'text.sse', swapped(1), /at: between blocks/],
    ['no block stop', 'text.sse', without(5), /message_delta while.*in a block/],
    ['block stop twice', 'text.sse', twice(5), /at: between blocks/],
    ['a delta after the stop', 'text.sse', swapped(4), /at: between blocks/],
    ['no message_delta', 'text.sse', without(6), /message_stop while/],
    ['message_delta twice', 'text.sse', twice(6), /at: finished/],
    ['no message_stop', 'text.sse', without(7), /without message_stop/],
    ['message_stop twice', 'text.sse', twice(7), /follows message_stop/],
    ['[DONE]', 'text.sse', (text) => `${text}data: [DONE]\n\n`, /one event and one data line/],
    ['a ping after the end', 'text.sse', (text) => `${text}event: ping\ndata: {"type":"ping"}\n\n`, /follows/],
    ['no block at all', 'empty.sse', (text) => without(1)(without(2)(text)), /without a block/],
    ['an unknown event', 'text.sse', (text) => text.replaceAll('content_block_stop', 'block_stop'), /unknown event/],
    ['an error event', 'text.sse', (text) => `event: error\ndata: {"type":"error"}\n\n${text}`, /unknown event error/],
    ['another type than the name', 'text.sse', replacing('{"type":"message_stop"', '{"type":"stop"'), /with the type/],
    ['no event line', 'text.sse', replacing('event: message_start\n', ''), /one event and one data line/],
    ['two data lines', 'text.sse', replacing(',"message"', ',\ndata: "message"'), /one event and one data line/],
    ['CRLF', 'text.sse', (text) => text.replaceAll('\n', '\r\n'), /not LF/],
    ['a raw U+2028', 'text.sse', replacing('Hello', 'Hel\u2028lo'), /not LF/],
    ['no blank line at the end', 'text.sse', (text) => text.slice(0, -1), /blank line/],
    ['nothing', 'text.sse', () => '', /blank line/],
    ['an id of somebody else', 'text.sse', replacing('msg_01Ab', 'chatcmpl-1'), /message id/],
    ['an empty model', 'text.sse', replacing('acme-large', ''), /model/],
    ['content in message_start', 'text.sse', replacing('"content":[]', '"content":[{}]'), /has content/],
    ['a stop reason in message_start', 'text.sse', replacing('"stop_reason":null', '"stop_reason":"x"'), /stop reason/],
    ['usage outside of the message', 'text.sse', replacing(/,("usage":{[^}]*})}}/, '},$1}'), /keys/],
    ['output in message_start', 'text.sse', replacing('"output_tokens":0', '"output_tokens":1'), /not 0/],
    ['no usage in message_delta', 'text.sse', replacing(/,"usage":{"input_tokens":9[^}]*}/, ''), /keys/],
    ['a negative count', 'text.sse', replacing('"output_tokens":3', '"output_tokens":-3'), /output_tokens -3/],
    ['half the cache figures', 'text.sse', replacing('9,', '9,"cache_read_input_tokens":1,'), /usage keys/],
    [
      'cache figures without a cache',
      'text.sse',
      replacing('9,', '9,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,'),
      /without cache activity/,
    ],
    ['index from 1', 'text.sse', (text) => text.replaceAll('"index":0', '"index":1'), /index 1 for block 0/],
    ['a hole', 'parallel.sse', (text) => text.replaceAll('"index":1', '"index":2'), /index 2 for block 1/],
    [
      'the index of another block',
      'parallel.sse',
      replacing(/"index":1(?=,"delta")/, '"index":0'),
      /not the open block/,
    ],
    [
      'a stop of another block',
      'parallel.sse',
      replacing('block_stop","index":1', 'block_stop","index":0'),
      /not the open/,
    ],
    ['two blocks open', 'parallel.sse', without(4), /at: in a block/],
    ['text in block start', 'text.sse', replacing('"text":""', '"text":"x"'), /starts with text/],
    ['an empty text delta', 'text.sse', replacing('"text":"Hello"', '"text":""'), /empty delta/],
    ['json in a text block', 'text.sse', replacing('"text_delta","text"', '"input_json_delta","partial_json"'), /keys/],
    ['an unknown block', 'text.sse', replacing('{"type":"text",', '{"type":"thinking",'), /type thinking/],
    ['a call without name', 'tool.sse', replacing('"name":"get_weather",', ''), /keys/],
    ['input as a string', 'tool.sse', replacing('"input":{}', '"input":""'), /starts with input/],
    ['an id that is not legal', 'tool.sse', replacing('call_a1', 'call:a1'), /call id/],
    ['one id for two calls', 'parallel.sse', replacing('call_b2', 'call_a1'), /twice/],
    ['broken input', 'tool.sse', replacing('\\"}"', '\\""'), /JSON/],
    ['input that is no object', 'tool.sse', (text) => without(3)(text).replace('"{\\"ci"', '"[]"'), /not an object/],
    ['a call without a delta', 'noargs.sse', without(2), /no delta/],
    ['an empty delta among others', 'tool.sse', replacing('"{\\"ci"', '""'), /after the empty one/],
    [
      'end_turn after a call',
      'tool.sse',
      replacing('"stop_reason":"tool_use"', '"stop_reason":"end_turn"'),
      /after a call/,
    ],
    ['tool_use without a call', 'text.sse', replacing('"end_turn"', '"tool_use"'), /without a call/],
    ['somebody else’s reason', 'text.sse', replacing('"end_turn"', '"stop"'), /stop_reason stop/],
    ['a stop sequence', 'filter.sse', replacing(/"stop_sequence":null}/, '"stop_sequence":"x"}'), /stop_sequence x/],
  ]
  test.each(rows)('%s', (_, stream, edit, reason) => {
    const before = golden(stream)
    const after = edit(before)
    expect(after).not.toBe(before)
    expect(() => checkMessagesStream(after)).toThrow(reason)
  })

  test('an empty text block beside others, and two of text in a row', () => {
    const text = golden('text_tool.sse')
    expect(() => checkMessagesStream(joinedEvents(eventsOf(text).filter((_, at) => at !== 2 && at !== 3)))).toThrow(
      /empty text/,
    )
    const [start = '', stop = ''] = [eventsOf(text)[1], eventsOf(text)[4]]
    const again = [start, eventsOf(text)[2] ?? '', stop].map((event) => event.replace('"index":0', '"index":1'))
    const blocks = eventsOf(golden('text.sse'))
    expect(() => checkMessagesStream(joinedEvents([...blocks.slice(0, 6), ...again, ...blocks.slice(6)]))).toThrow(
      /in a row/,
    )
  })

  test('cut short anywhere', () => {
    for (const name of ['text.sse', 'parallel.sse', 'text_tool.sse']) {
      const text = golden(name)
      for (let cut = 0; cut < text.length; cut++) expect(() => checkMessagesStream(text.slice(0, cut))).toThrow()
    }
  })
})
