/** The template of the splice: when it is made, what it matches, and which frames must be decoded. */

import { describe, expect, test } from 'bun:test'
import { Splice } from '../../src/wire/splice.ts'
import { jsonInside } from '../../src/wire/sse.ts'
import { property, type Random } from '../support/random.ts'

/** A decoder that finds the text in `t` of a frame, unless the frame has another member `stop`. */
function decode(_event: string, data: string): string | undefined {
  const { t, stop } = JSON.parse(data)
  return typeof t === 'string' && stop === undefined ? t : undefined
}

const frame = (text: string, more = '') => `{"id":1,"t":${JSON.stringify(text)}${more}}`
const line = (text: string, more = '') => `data: ${frame(text, more)}\n\n`

function taught(first = 'hello', more = ''): Splice {
  const splice = new Splice(decode)
  splice.learn('', frame(first, more), first)
  return splice
}

/** The texts that `run` copies, and the rest, which must be decoded. */
function run(splice: Splice, text: string, from = 0): { readonly insides: readonly string[]; readonly rest: string } {
  const insides: string[] = []
  const at = splice.run(text, from, (found) => void insides.push(...found))
  return { insides, rest: text.slice(at) }
}

describe('match', () => {
  test('a frame that differs only in its text', () => {
    expect(taught().match('', frame('world'))).toBe('world')
    expect(taught().match('', frame('a\n"b"'))).toBe('a\\n\\"b\\"')
  })

  test('nothing before a frame was learned, and nothing after `forget`', () => {
    expect(new Splice(decode).match('', frame('world'))).toBeUndefined()
    const splice = taught()
    splice.forget()
    expect(splice.match('', frame('world'))).toBeUndefined()
  })

  test.each([
    ['another name', 'x', frame('world')],
    ['another member', '', frame('world', ',"stop":1')],
    ['another beginning', '', frame('world').replace('"id":1', '"id":2')],
    ['an empty text', '', frame('')],
    ['a shorter frame', '', '{"id":1,"t":"}'],
    ['an escape that JSON.stringify does not write', '', frame('x').replace('x', '\\u0078')],
    ['an escaped slash', '', frame('x').replace('x', '\\/')],
    ['a line break that is sent as an escape', '', frame('a\u2028b')],
    ['half a pair', '', '{"id":1,"t":"\ud83d"}'],
    ['a quote that ends the text early', '', '{"id":1,"t":"a","t":"b"}'],
  ])('%s must be decoded', (_, event, data) => {
    expect(taught().match(event, data)).toBeUndefined()
  })
})

describe('learn', () => {
  const learns = (data: string, text: string) => {
    const splice = new Splice(decode)
    splice.learn('', data, text)
    return splice.match('', data) !== undefined
  }

  test.each([
    ['the text occurs once', frame('hello'), 'hello', true],
    ['the text occurs twice', frame('hello', ',"again":"hello"'), 'hello', false],
    ['the text does not occur as it is', frame('x').replace('x', '\\u0078'), 'x', false],
    ['another place decides', '{"t":"a","u":"b"}', 'b', false],
  ])('%s', (_, data, text, expected) => {
    expect(learns(data, text)).toBe(expected)
  })
})

describe('run', () => {
  test('copies frames up to the first that differs', () => {
    const text = line('a') + line('b') + line('c', ',"stop":1') + line('d')
    expect(run(taught(), text)).toEqual({ insides: ['a', 'b'], rest: line('c', ',"stop":1') + line('d') })
  })

  test('leaves an incomplete frame', () => {
    expect(run(taught(), `${line('a')}data: {"id":1,"t":"b`)).toEqual({
      insides: ['a'],
      rest: 'data: {"id":1,"t":"b',
    })
  })

  test('starts in the middle of a text', () => {
    expect(run(taught(), `xx${line('a')}`, 2)).toEqual({ insides: ['a'], rest: '' })
  })

  test('leaves everything before a frame was learned', () => {
    expect(run(new Splice(decode), line('a'))).toEqual({ insides: [], rest: line('a') })
  })
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
  const text = frames.map(([word, more]) => line(word, more)).join('')
  const { insides, rest } = run(taught(), text)
  const copied = insides.map((inside) => JSON.parse(`"${inside}"`))
  expect(copied).toEqual(frames.slice(0, insides.length).map(([word]) => word))
  expect(insides).toEqual(copied.map((word) => jsonInside(word)))
  expect(rest).toBe(
    frames
      .slice(insides.length)
      .map(([word, more]) => line(word, more))
      .join(''),
  )
  const first = frames[insides.length]
  if (first !== undefined) {
    // Every frame left over needs decoding.
    const [word, more] = first
    expect(
      word === '' ||
        more !== '' ||
        jsonInside(word) !== JSON.stringify(word).slice(1, -1) ||
        /[\ud800-\udfff]/.test(word),
    ).toBe(true)
  }
})
