/**
 * The grammar accepts the golden streams and refuses each way of spoiling one: a judge that lets everything pass proves
 * nothing.
 */

import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkResponsesStream } from './responses-grammar.ts'
import { checkCompletedResponse } from './responses-schema.ts'
import { type Edit, eventEdits, eventsOf, replacing } from './stream-edits.ts'

const FOLDER = join(import.meta.dir, '../fixtures/callers/responses')
const golden = (name: string) => readFileSync(join(FOLDER, name), 'utf8')

describe('golden streams', () => {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith('.sse'))
  test.each(names)('%s', (name) => {
    const reading = checkResponsesStream(golden(name))
    const body = JSON.parse(readFileSync(join(FOLDER, name.replace('.sse', '.json')), 'utf8'))
    checkCompletedResponse(body)
    expect(reading.response).toEqual(body)
    expect(reading.output).toEqual(body.output)
    // A message is open to the end, beside the calls that follow it.
    expect(reading.openAtOnce).toBe(name === 'text_tool.sse' ? 2 : 1)
  })

  test('comments may stand between events', () => {
    checkResponsesStream(golden('text.sse').replaceAll('\n\n', '\n\n: keep-alive\n\n'))
  })
})

/** Events as a stream with sequence numbers that are right: what is wrong is only what was edited. */
const renumbered = (blocks: readonly string[]) =>
  blocks.map((block, at) => `${block.replace(/"sequence_number":\d+/, `"sequence_number":${at}`)}\n\n`).join('')
const { without, twice, swapped } = eventEdits(renumbered)
const lastOf =
  (from: string, to: string): Edit =>
  (text) => {
    const at = text.lastIndexOf(from)
    return text.slice(0, at) + to + text.slice(at + from.length)
  }

describe('spoilt streams', () => {
  const rows: readonly (readonly [why: string, stream: string, edit: Edit, reason: RegExp])[] = [
    ['no created', 'text.sse', without(0), /not the first/],
    ['created twice', 'text.sse', twice(0), /not the first/],
    ['no item added', 'text.sse', without(1), /no item at/],
    ['item added twice', 'text.sse', twice(1), /an item within/],
    ['no part added', 'text.sse', without(2), /in the step part/],
    ['part added twice', 'text.sse', twice(2), /in the step deltas/],
    ['a delta missing', 'text.sse', without(4), /not (?:that|those) of the deltas/],
    ['deltas in another order', 'text.sse', swapped(3), /not (?:that|those) of the deltas/],
    ['no text done', 'text.sse', without(6), /part.done in the step deltas/],
    ['a delta after text done', 'text.sse', swapped(5), /not (?:that|those) of the deltas/],
    ['no part done', 'text.sse', without(7), /done in the step part done/],
    ['no item done', 'text.sse', without(8), /are not done/],
    ['item done twice', 'text.sse', twice(8), /done in the step done/],
    ['no completed', 'text.sse', without(9), /without response.completed/],
    ['completed twice', 'text.sse', twice(9), /something follows/],
    ['completed before the item is done', 'text.sse', swapped(8), /are not done/],
    [
      'an unknown event',
      'text.sse',
      (text) => text.replaceAll('response.output_text.done', 'response.output_text.end'),
      /keys/,
    ],
    [
      'another name than type',
      'text.sse',
      replacing('event: response.created', 'event: response.completed'),
      /in an event named/,
    ],
    ['[DONE]', 'text.sse', (text) => `${text}data: [DONE]\n\n`, /not an event/],
    [
      'in_progress without a compaction',
      'text.sse',
      (text) => {
        const blocks = eventsOf(text)
        const first = blocks[0] ?? ''
        return renumbered([first, first.replaceAll('response.created', 'response.in_progress'), ...blocks.slice(1)])
      },
      /items message/,
    ],
    ['a compaction without in_progress', 'compaction.sse', without(1), /items compaction/],
    [
      'a sequence number twice',
      'text.sse',
      replacing('"sequence_number":4', '"sequence_number":3'),
      /sequence_number 3, not 4/,
    ],
    [
      'sequence numbers from 1',
      'text.sse',
      (text) => text.replace(/"sequence_number":(\d+)/g, (_, n) => `"sequence_number":${Number(n) + 1}`),
      /sequence_number 1, not 0/,
    ],
    ['another response id at the end', 'text.sse', lastOf('resp_68af', 'resp_68ae'), /id changed/],
    ['another model at the end', 'text.sse', lastOf('acme-large', 'acme-small'), /model changed/],
    ['a resource without a field', 'text.sse', replacing('"store":false,', ''), /store/],
    ['a resource with another field', 'text.sse', replacing('"store":false', '"store":false,"user":null'), /user/],
    [
      'a status that is not ours',
      'text.sse',
      replacing('"status":"completed","background"', '"status":"incomplete","background"'),
      /status/,
    ],
    ['usage at the start', 'text.sse', replacing('"usage":null', '"usage":{}'), /usage/],
    [
      'usage without details',
      'text.sse',
      replacing('"output_tokens_details":{"reasoning_tokens":0},', ''),
      /output_tokens_details/,
    ],
    ['a wrong total', 'text.sse', replacing('"total_tokens":12', '"total_tokens":13'), /sum/],
    ['output at the start', 'text.sse', replacing('"output":[]', '"output":[{}]'), /output/],
    [
      'no output at the end',
      'text.sse',
      replacing(/"output":\[\{.*?\}\],"parallel/, '"output":[],"parallel'),
      /output/,
    ],
    ['another text at the end', 'text.sse', lastOf('Hello world!', 'Hello world'), /output is not/],
    [
      'another item id within',
      'text.sse',
      replacing(
        '"item_id":"msg_68b0","output_index":0,"content_index":0,"delta":" world"',
        '"item_id":"msg_68b1","output_index":0,"content_index":0,"delta":" world"',
      ),
      /item id/,
    ],
    ['a call id as item id', 'tool.sse', replacing('"item_id":"fc_68c0"', '"item_id":"call_a1"'), /item id/],
    [
      'a hole in the indexes',
      'parallel.sse',
      (text) => text.replaceAll('"output_index":1', '"output_index":2'),
      /output_index 2, not 1/,
    ],
    ['one item id for two items', 'parallel.sse', (text) => text.replaceAll('fc_68c1', 'fc_68c0'), /twice/],
    [
      'one call id for two calls',
      'parallel.sse',
      (text) => text.replaceAll('call_b2', 'call_a1'),
      /call_id call_a1 twice/,
    ],
    ['an empty delta', 'text.sse', replacing('"delta":"Hello"', '"delta":""'), /empty delta/],
    ['logprobs', 'text.sse', replacing('"delta":"Hello","logprobs":[]', '"delta":"Hello","logprobs":[1]'), /logprobs/],
    [
      'another content index',
      'text.sse',
      replacing('"content_index":0,"delta"', '"content_index":1,"delta"'),
      /content_index/,
    ],
    [
      'a message that begins with content',
      'text.sse',
      replacing('"content":[]', '"content":[{}]'),
      /begins with content/,
    ],
    [
      'a message that begins completed',
      'text.sse',
      replacing('"status":"in_progress","role"', '"status":"completed","role"'),
      /does not begin/,
    ],
    ['a call that begins with arguments', 'tool.sse', replacing('"arguments":""', '"arguments":"{"'), /does not begin/],
    ['a call without an id', 'tool.sse', replacing('{"id":"fc_68c0","type"', '{"type"'), /no id/],
    [
      'empty arguments',
      'noargs.sse',
      (text) => renumbered(eventsOf(text.replaceAll('"arguments":"{}"', '"arguments":""')).filter((_, at) => at !== 2)),
      /empty arguments/,
    ],
    [
      'other arguments',
      'tool.sse',
      replacing(/"name":"get_weather","arguments":"[^}]*}"/, '"name":"get_weather","arguments":"{}"'),
      /not (?:that|those) of the deltas/,
    ],
    [
      'an empty message beside a call',
      'text_tool.sse',
      (text) => renumbered(eventsOf(text.replaceAll('Let me check.', '')).filter((_, at) => at !== 3 && at !== 4)),
      /empty message beside/,
    ],
    [
      'two compactions',
      'compaction.sse',
      (text) => {
        const [a = '', b = '', added = '', done = '', end = ''] = eventsOf(text)
        const other = (block: string) =>
          block.replace('cmp_68d0', 'cmp_68d1').replace('"output_index":0', '"output_index":1')
        const both = end.replace(
          /"output":\[(.*?)\]/,
          (_, item) => `"output":[${item},${item.replace('cmp_68d0', 'cmp_68d1')}]`,
        )
        return renumbered([a, b, added, done, other(added), other(done), both])
      },
      /items compaction,compaction/,
    ],
    ['a data line alone', 'text.sse', replacing('event: response.created\n', ''), /not an event/],
    ['CRLF', 'text.sse', (text) => text.replaceAll('\n', '\r\n'), /not LF/],
    ['a raw U+2028', 'text.sse', replacing('"delta":"Hello"', '"delta":"Hel\u2028lo"'), /not LF/],
    ['no blank line at the end', 'text.sse', (text) => text.slice(0, -1), /blank line/],
    ['nothing', 'text.sse', () => '', /blank line/],
  ]
  test.each(rows)('%s', (_, stream, edit, reason) => {
    const before = golden(stream)
    const after = edit(before)
    expect(after).not.toBe(before)
    expect(() => checkResponsesStream(after)).toThrow(reason)
  })

  test('cut short anywhere', () => {
    for (const name of ['text.sse', 'parallel.sse', 'compaction.sse']) {
      const text = golden(name)
      for (let cut = 0; cut < text.length; cut += 3) expect(() => checkResponsesStream(text.slice(0, cut))).toThrow()
    }
  })
})
