/** The splice and its template: when it is made, what it matches, and which frames must be decoded. */

import { describe, expect, spyOn, test } from 'bun:test'
import type { StreamEvent } from '../../src/core/event.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { byteText, encodedText, isPlain } from '../../src/wire/byte-text.ts'
import { FRAME_CHARS_MAX } from '../../src/wire/frames.ts'
import { Shapes } from '../../src/wire/shapes.ts'
import { Splice } from '../../src/wire/splice.ts'
import { jsonInside } from '../../src/wire/sse.ts'
import { bytesOf } from '../support/bytes.ts'
import { property, type Random } from '../support/random.ts'

/** A decoder that finds the text in `t` of a frame, unless the frame has another member `stop`. */
function read(_event: string, { t, stop, n }: JsonObject): StreamEvent[] {
  if (typeof t !== 'string' || stop !== undefined) return []
  return typeof n === 'number' ? [text(t), { type: 'usage', usage: { output: n } }] : [text(t)]
}

const text = (value: string): StreamEvent => ({ type: 'text', text: value })
const frame = (value: string, more = '') => `{"id":1,"t":${JSON.stringify(value)}${more}}`
const line = (value: string, more = '') => `data: ${frame(value, more)}\n\n`

class Subject {
  readonly insides: string[] = []
  readonly outputs: (number | undefined)[] = []
  readonly splice: Splice

  constructor(shapes = new Shapes(read)) {
    this.splice = new Splice(
      shapes,
      {
        room: Number.POSITIVE_INFINITY,
        texts: (insides, joined) => {
          expect(insides.join('')).toBe(joined)
          this.insides.push(...insides)
        },
        copyTexts: () => 0,
        usage: ({ output }) => void this.outputs.push(output),
      },
      0,
    )
  }

  /** Offers a frame, and decodes it if it is not taken. */
  offer(data: string, event = ''): boolean {
    const isTaken = this.splice.take(event, encodedText(data), false)
    if (!isTaken) this.splice.learn(event, read(event, JSON.parse(data)))
    return isTaken
  }

  /** The rest of the text, which must be decoded. */
  run(stream: string, from = 0, plain = isPlain(bytesOf(stream))): string {
    const bytes = byteText(bytesOf(stream))
    const at = this.splice.run(bytes, from, plain)
    return Buffer.from(bytes.slice(at), 'latin1').toString()
  }
}

function taught(...frames: readonly string[]): Subject {
  const subject = new Subject()
  for (const data of frames) subject.offer(data)
  return subject
}

describe('one frame', () => {
  test('a frame that differs only in its text is taken', () => {
    const subject = taught(frame('hello'))
    expect([subject.offer(frame('world')), subject.offer(frame('a\n"b"')), subject.offer(frame('é'))]).toEqual([
      true,
      true,
      true,
    ])
    expect(subject.insides).toEqual(['world', 'a\\n\\"b\\"', 'é'])
  })

  test('nothing is taken before a frame was learned, and after a frame without a text', () => {
    expect(new Subject().splice.take('', frame('world'), true)).toBe(false)
    const subject = taught(frame('hello'), '{"id":1}')
    expect(subject.splice.take('', frame('world'), true)).toBe(false)
  })

  test.each([
    ['another name', 'x', frame('world')],
    ['another member', '', frame('world', ',"stop":1')],
    ['another beginning', '', frame('world').replace('"id"', '"ID"')],
    ['an empty text', '', frame('')],
    ['a shorter frame', '', '{"id":1,"t":"}'],
    ['an escape that JSON.stringify does not write', '', frame('x').replace('x', '\\u0078')],
    ['an escaped slash', '', frame('x').replace('x', '\\/')],
    ['a line break that is sent as an escape', '', frame('a\u2028b')],
    ['another one', '', frame('a\u0085b')],
    ['a quote that ends the text early', '', '{"id":1,"t":"a","t":"b"}'],
    ['half an escape', '', '{"id":1,"t":"a\\"}'],
  ])('%s must be decoded', (_, event, data) => {
    expect(taught(frame('hello')).splice.take(event, encodedText(data), false)).toBe(false)
  })

  test.each([
    ['the text occurs once', frame('hello'), true],
    ['the text occurs twice', frame('hello', ',"again":"hello"'), true],
    ['the text does not occur as it is', frame('x').replace('x', '\\u0078'), false],
    ['the text is what separates other strings', frame(',', ',"a":["b","c"]'), true],
  ])('%s', (_, data, expected) => {
    expect(taught(data).splice.take('', encodedText(data), true)).toBe(expected)
  })
})

describe('several frames', () => {
  test('strings and numbers that the decoder does not read are holes', () => {
    const more = (pad: string, time: number) => `,"pad":"${pad}","time":${time}`
    const subject = taught(frame('a', more('x', 1)), frame('b', more('yy', 2)))
    expect(subject.offer(frame('c', more('', 3.25)))).toBe(true)
    expect(subject.offer(frame('d', more('a\\"b', 3)))).toBe(false)
    expect(subject.offer(frame('e', more('zz', 1e21)))).toBe(false)
    expect(subject.offer(frame('f', `${more('z', 1)},"stop":1`))).toBe(false)
  })

  test('counters are read from the last frame', () => {
    const subject = taught(frame('a', ',"n":1'))
    expect(subject.run(line('c', ',"n":3') + line('d', ',"n":12') + line('e', ',"n":-1'))).toBe(line('e', ',"n":-1'))
    expect(subject.offer(frame('f', ',"n":99999999'))).toBe(true)
    expect(subject.offer(frame('g', ',"n":100000000'))).toBe(false)
    expect(subject.offer(frame('h', ',"n":07').replace('07', '7.5'))).toBe(false)
    expect(subject.outputs).toEqual([12, 99_999_999])
  })

  test('after two frames in a row of no known shape, every frame is decoded', () => {
    const strange = (value: string) => `{"t":"${value}","list":[${'"x",'.repeat(99)}"x"]}`
    const subject = taught(strange('a'), strange('b'), frame('c'))
    expect(subject.offer(frame('d'))).toBe(false)
  })

  test('shapes that alternate are looked up twice, and again after eight texts', () => {
    const shapes = new Shapes(read)
    const use = spyOn(shapes, 'use')
    const subject = new Subject(shapes)
    const looked = Array.from({ length: 22 }, (_, at) => {
      const before = use.mock.calls.length
      subject.offer(frame(`w${at}`, at % 2 === 0 ? '' : ',"x":true'))
      return use.mock.calls.length - before
    })
    const waiting = new Array<number>(8).fill(0)
    expect(looked).toEqual([1, 1, ...waiting, 1, ...waiting, 1, ...waiting.slice(0, 2)])
  })

  test('after one that differs, the next is learned', () => {
    const subject = taught(frame('a', ',"x":true'), frame('b'))
    expect(subject.offer(frame('c'))).toBe(true)
  })

  test('what a stream taught holds for the next, after a text of its own', () => {
    let proofs = 0
    const shapes = new Shapes((event, chunk) => {
      proofs++
      return read(event, chunk)
    })
    const more = (pad: string) => `,"pad":"${pad}"`
    const first = new Subject(shapes)
    for (const data of [frame('a', more('x')), frame('b', more('yy')), frame('c', more('z'))]) first.offer(data)
    const made = proofs
    const second = new Subject(shapes)
    const taken = ['xyz', '', 'q'].map((pad) => second.offer(frame('d', more(pad)).replace('"id":1', '"id":2')))
    expect([taken, proofs]).toEqual([[false, true, true], made])
  })
})

describe.each([true, false])('run, the text known as ASCII: %p', (plain) => {
  test('copies frames up to the first that differs', () => {
    const subject = taught(frame('hello'))
    const rest = line('c', ',"stop":1') + line('d')
    expect([subject.run(line('a') + line('b') + rest, 0, plain), subject.insides]).toEqual([rest, ['a', 'b']])
  })

  test('leaves an incomplete frame', () => {
    const subject = taught(frame('hello'))
    expect(subject.run(`${line('a')}data: {"id":1,"t":"b`, 0, plain)).toBe('data: {"id":1,"t":"b')
  })

  test('starts in the middle of a text', () => {
    const subject = taught(frame('hello'))
    expect([subject.run(`xx${line('a')}`, 2, plain), subject.insides]).toEqual(['', ['a']])
  })

  test('leaves everything before a frame was learned', () => {
    expect(new Subject().run(line('a'), 0, plain)).toBe(line('a'))
  })

  test('frames with line ends CRLF', () => {
    const subject = taught(frame('hello'))
    expect(subject.run((line('a') + line('b')).replaceAll('\n', '\r\n'), 0, plain)).toBe('')
  })

  test('escapes are copied, and a text that needs decoding is left', () => {
    const subject = taught(frame('hello'))
    const rest = line('A').replace('A', '\\u0041') + line('e')
    expect(subject.run(line('a') + line('\n"') + line('\\') + line('d') + rest, 0, plain)).toBe(rest)
    expect(subject.insides).toEqual(['a', '\\n\\"', '\\\\', 'd'])
  })

  test('an empty text is left', () => {
    const subject = taught(frame('hello'))
    const rest = line('') + line('c')
    expect([subject.run(line('a') + line('b') + rest, 0, plain), subject.insides]).toEqual([rest, ['a', 'b']])
  })

  test('a text longer than a frame may be is left', () => {
    const subject = taught(frame('hello'))
    const rest = line('x'.repeat(FRAME_CHARS_MAX)) + line('c')
    expect([subject.run(line('a') + rest, 0, plain) === rest, subject.insides]).toEqual([true, ['a']])
  })
})

test.each([
  [20, [...new Array<boolean>(9).fill(false), true]],
  [40, [false, true, true, true, true]],
])('a stream of %d frames in one piece is learned at once if it is long', (count, taken) => {
  const splice = new Splice(new Shapes(read), { room: 99, texts() {}, copyTexts: () => 0, usage() {} })
  const stream = line('a').repeat(count)
  const offers = taken.map((_, at) => {
    splice.run(stream, at * line('a').length, true)
    const isTaken = splice.take('', frame('a'), true)
    if (!isTaken) splice.learn('', read('', JSON.parse(frame('a'))))
    return isTaken
  })
  expect(offers).toEqual(taken)
})

const WORDS = [
  'a',
  'hello',
  ' ',
  '"',
  '\\',
  '\n',
  '\u2028',
  '\u0085',
  'é',
  '👩‍🚀',
  '\ud83d',
  '}\n\ndata: ',
  '"}',
] as const
const randomText = (random: Random) => random.list(6, () => random.pick(WORDS)).join('')

property('the copied texts and the frames that are left are those of the decoder', 500, (random) => {
  const frames = random.list(8, () => [randomText(random), random.chance(0.1) ? ',"stop":1' : ''] as const)
  const subject = taught(frame('hello'))
  const rest = subject.run(frames.map(([word, more]) => line(word, more)).join(''))
  const { insides } = subject
  const copied = insides.map((inside) => JSON.parse(`"${inside}"`))
  expect(copied).toEqual(frames.slice(0, insides.length).map(([word]) => word))
  expect(insides).toEqual(copied.map((word) => jsonInside(word)))
  const left = frames.slice(insides.length)
  expect(rest).toBe(left.map(([word, more]) => line(word, more)).join(''))
  const [first] = left
  if (first === undefined) return
  // Every frame left over needs decoding.
  const [word, more] = first
  expect(
    word === '' ||
      more !== '' ||
      jsonInside(word) !== JSON.stringify(word).slice(1, -1) ||
      /\\u/.test(jsonInside(word)),
  ).toBe(true)
})
