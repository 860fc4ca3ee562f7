/** Bytes of server-sent events → frames, compared with a line parser that sees the whole text at once. */

import { describe, expect, test } from 'bun:test'
import { ProviderError } from '../../src/core/provider-error.ts'
import { FRAME_CHARS_MAX, type Shortcut, SseFramer } from '../../src/wire/frames.ts'
import { bytesOf } from '../support/bytes.ts'
import { property } from '../support/random.ts'
import { cuts } from '../support/streams.ts'

type Frame = readonly [event: string, data: string]

function framesOf(chunks: readonly Uint8Array[], shortcut?: Shortcut): Frame[] {
  const frames: Frame[] = []
  const sink = (event: string, data: string) => void frames.push([event, data])
  const framer = new SseFramer(shortcut)
  for (const chunk of chunks) framer.push(chunk, sink)
  framer.close(sink)
  return frames
}

const of = (text: string) => framesOf([bytesOf(text)])

describe('frames', () => {
  const rows: readonly (readonly [name: string, text: string, frames: readonly Frame[]])[] = [
    ['nothing', '', []],
    ['one event', 'data: a\n\n', [['', 'a']]],
    ['a named event', 'event: x\ndata: a\n\n', [['x', 'a']]],
    ['no space after the colon', 'event:x\ndata:a\n\n', [['x', 'a']]],
    ['one space only is dropped', 'data:  a\n\n', [['', ' a']]],
    ['several data lines', 'data: a\ndata: b\ndata\n\n', [['', 'a\nb\n']]],
    ['a field without a colon', 'data\n\n', [['', '']]],
    ['a name without data', 'event: x\n\ndata: a\n\n', [['', 'a']]],
    ['comments and unknown fields', ': c\nid: 1\nretry: 5\nfoo: b\ndata: a\n\n', [['', 'a']]],
    ['CRLF', 'event: x\r\ndata: a\r\n\r\n', [['x', 'a']]],
    ['CR', 'event: x\rdata: a\r\r', [['x', 'a']]],
    [
      'mixed line ends',
      'event: x\r\ndata: a\n\rdata: b\r\r\n',
      [
        ['x', 'a'],
        ['', 'b'],
      ],
    ],
    ['a byte order mark', '\ufeffdata: a\n\n', [['', 'a']]],
    [
      'no blank line at the end',
      'data: a\n\ndata: b',
      [
        ['', 'a'],
        ['', 'b'],
      ],
    ],
    ['no blank line after a line end', 'data: b\n', [['', 'b']]],
    ['line breaks of Unicode are text', 'data: a\u2028b\u0085c\n\n', [['', 'a\u2028b\u0085c']]],
  ]
  test.each(rows)('%s', (_, text, frames) => {
    expect(of(text)).toEqual([...frames])
  })
})

/**
 * The lines of the whole text in order, by the rules of the WHATWG standard, except that an event at the end counts.
 */
function model(text: string): Frame[] {
  const frames: Frame[] = []
  let event = ''
  let data: string[] = []
  for (const line of [...text.replace(/^\ufeff/, '').split(/\r\n|\n|\r/), '']) {
    const [, field = line, value = ''] = /^([^:]*): ?(.*)$/s.exec(line) ?? []
    if (line === '') {
      if (data.length > 0) frames.push([event, data.join('\n')])
      event = ''
      data = []
    } else if (field === 'event') event = value
    else if (field === 'data') data.push(value)
  }
  return frames
}

const PARTS = ['data: ', 'data:', 'data', 'event: ', ': ', 'id: 1', 'a', 'é', '🚀', ' ', '{"x":1}', '\u2028'] as const
const ENDS = ['\n', '\n\n', '\r\n', '\r\n\r\n', '\r', '\r\r'] as const

property('every text in every cutting gives the frames of the model', 300, (random) => {
  const text = random.list(12, () => random.pick(PARTS) + random.pick(PARTS) + random.pick(ENDS)).join('')
  const expected = model(text)
  for (const { name, chunks } of cuts(bytesOf(text), random, 200)) {
    expect([name, text, framesOf(chunks)]).toEqual([name, text, expected])
  }
})

describe('limits', () => {
  const exactly = 'a'.repeat(FRAME_CHARS_MAX)

  test('an event of the largest size passes', () => {
    expect(of(`data: ${exactly}\n\n`)[0]?.[1].length).toBe(FRAME_CHARS_MAX)
  })

  test.each([
    ['one line', `data: ${exactly}a\n\n`],
    ['several lines', `data: ${exactly}\ndata: a\n\n`],
    ['a line that does not end', `data: ${exactly}aaaaaa`],
  ])('a longer event is an error of the provider: %s', (_, text) => {
    expect(() => of(text)).toThrow(ProviderError)
    const pieces = Array.from({ length: Math.ceil(text.length / 65_536) }, (_each, index) =>
      bytesOf(text.slice(index * 65_536, (index + 1) * 65_536)),
    )
    expect(() => framesOf(pieces)).toThrow(ProviderError)
  })

  test('an event that may hold a document is passed whole up to 16 MiB', () => {
    const piece = bytesOf('a'.repeat(1024 * 1024))
    const lengthOf = (megabytes: number) => {
      const framer = new SseFramer(undefined, 'hold documents')
      let length = 0
      const sink = (_: string, data: string) => {
        length = data.length
      }
      framer.push(bytesOf('data: '), sink)
      for (let i = 0; i < megabytes; i++) framer.push(piece, sink)
      framer.push(bytesOf('\n\n'), sink)
      return length
    }
    expect(lengthOf(15)).toBe(15 * 1024 * 1024)
    expect(() => lengthOf(17)).toThrow(ProviderError)
  })
})

test('the fast path gets the text only at the start of a frame, and the rest is split as usual', () => {
  const seen: string[] = []
  const shortcut: Shortcut = {
    run(text, from) {
      seen.push(text.slice(from, from + 8))
      return text.startsWith('data: b\n\n', from) ? from + 9 : from
    },
    take: () => false,
  }
  const frames = framesOf([bytesOf('data: a\n\ndata: b\n\nda'), bytesOf('ta: c\n\n')], shortcut)
  expect(frames).toEqual([
    ['', 'a'],
    ['', 'c'],
  ])
  for (const text of seen) expect(text).toMatch(/^(?:data: [ab]|da|$)/)
})

test('the same bytes in one chunk and byte by byte', () => {
  const bytes = bytesOf('event: x\r\ndata: \u{1f600}\r\n\r\n')
  const single = [...bytes].map((byte) => Uint8Array.of(byte))
  expect(framesOf(single)).toEqual(framesOf([bytes]))
})
