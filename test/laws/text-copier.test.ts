/**
 * The law of the copy kernel: it copies the texts that a template finds, one by one, into the same events, and leaves
 * what the template does not match.
 */

import { expect, test } from 'bun:test'
import { byteText, decodedText, isPlain } from '../../src/wire/byte-text.ts'
import { copyKernel, INPUT_BYTES_MAX, OUTPUT, OUTPUT_END } from '../../src/wire/copy-kernel.ts'
import { type Hole, Template } from '../../src/wire/template.ts'
import { type EventOwner, TextCopier, type TextForm } from '../../src/wire/text-copier.ts'
import { property, type Random } from '../support/random.ts'

const CASES = 600
const FRAMES_MAX = 60

const WORDS = [
  'The',
  ' weir',
  ' measures and holds back a flow of water. ',
  'ä',
  '日本語の文章',
  '👩‍👧',
  '\\n',
  '\\"',
  '\\\\',
  '\\"},\\"t\\":\\"',
  'Â',
  'â',
  '\ufeff',
] as const
/** What must be decoded. */
const OTHERS = ['', '\\u0041', '\\/', '\u0085', '\u2028', '\u2029', '\t', '"', '\ufffd', '\\'] as const

function textOf(random: Random): string {
  if (random.chance(0.01)) return random.pick(OTHERS)
  return random.pick(WORDS) + random.list(3, () => random.pick(WORDS)).join('')
}

const LETTERS = 'kQ3vXz9LmT4pWs8RbN2yHc6'
const WRONG = ['"', '\\"', '-1', '1e3', '01', '1.', '123456789', ''] as const

function contentOf(hole: Hole, random: Random): string {
  if (random.chance(0.01)) return random.pick(WRONG)
  switch (hole) {
    case 'text':
      return textOf(random)
    case 'string':
      return LETTERS.slice(0, random.below(LETTERS.length)) + random.pick(['', '', 'é'])
    case 'counter':
      return String(random.below(random.pick([10, 1000, 100_000_000])))
    case 'number':
      return `${random.below(10_000)}${random.pick(['', '.25'])}`
  }
}

/** Frames of one form, of which a few do not fit it; `fixed` has one piece more than there are holes. */
function framesOf(random: Random) {
  const long = 'x'.repeat(random.pick([0, 0, 1, 14, 15, 16, 17, 90]))
  const holes: Hole[] = ['text', ...random.list(3, (): Hole => random.pick(['string', 'number', 'counter']))]
  const quote = (hole: Hole | undefined) => (hole === 'text' || hole === 'string' ? '"' : '')
  const fixed = [...holes, undefined].map((hole, at) => {
    const before = at === 0 ? `{"id":"é${long}"` : quote(holes[at - 1])
    return hole === undefined ? `${before},"end":"${long}"}` : `${before},"m${at}":${quote(hole)}`
  })
  const newline = random.pick(['\n', '\n', '\r\n'])
  const content = (hole: Hole | undefined) => (hole === undefined ? '' : contentOf(hole, random))
  const frame = (pieces: readonly string[]) =>
    `data: ${pieces.map((piece, at) => piece + content(holes[at])).join('')}${newline}${newline}`
  const other = [...fixed.slice(0, -1), `${fixed.at(-1)} `]
  const count = random.between(8, FRAMES_MAX)
  const text = Array.from({ length: count }, () => frame(random.chance(0.01) ? other : fixed)).join('')
  return { holes, fixed: fixed.map((piece) => Buffer.from(piece).toString('latin1')), text: text.slice(0, 16_000) }
}

const FIGURE = [{ name: 'output', constant: 7, addends: [0] }] as const

const FORMS: readonly TextForm[] = [
  { opening: 'data: {"t":"', seam: '"}\n\ndata: {"t":"', closing: '"}\n\n' },
  { opening: 'data: {"t":"', seam: `"}\n\ndata: {"m":"${'mödel'.repeat(30)}","t":"`, closing: '"}\n\n' },
  { opening: 'data: {"n":9,"t":"', seam: '"}\n\ndata: {"n":', number: 9, middle: ',"t":"', closing: '"}\n\n' },
]

/** The events one by one. */
function written({ opening, seam, number, middle = '', closing }: TextForm, insides: readonly string[]): string {
  const next = (at: number) => (number === undefined ? seam : `${seam}${number + at}${middle}`)
  return insides.length === 0
    ? ''
    : opening + insides.map((inside, at) => (at === 0 ? inside : next(at) + inside)).join('') + closing
}

function madeCopier(): TextCopier {
  const kernel = copyKernel()
  if (kernel === undefined) throw new Error('this machine has no WebAssembly with SIMD')
  return new TextCopier(kernel)
}

const copier = madeCopier()
const nobody: EventOwner = { displaced() {} }

/** A byte of a text or of its surroundings is another. */
function damaged(bytes: Uint8Array, random: Random): Uint8Array {
  bytes[random.below(bytes.length)] = random.pick([0x22, 0x5c, 0x00, 0x80, 0xc2, 0xe2, 0xff, 0x30, 0x7d])
  return bytes
}

property('the events are those of the texts that the template finds', CASES, (random) => {
  const { holes, fixed, text } = framesOf(random)
  const bytes = random.chance(0.2) ? damaged(Buffer.from(text), random) : Buffer.from(text)
  const plain = isPlain(bytes)
  const figures = holes.includes('counter') ? FIGURE : []
  const template = new Template('', fixed, holes, figures)
  const whole = byteText(bytes)
  const ends: number[] = []
  const insides: string[] = []
  const usages: unknown[] = []
  for (let at = template.frameEnd(whole, 0, plain); at !== -1; at = template.frameEnd(whole, at, plain)) {
    ends.push(at)
    insides.push(decodedText(template.inside))
    usages.push(template.usageIn(whole))
  }
  if (!template.offer(copier, whole, 0, bytes, plain)) return
  const form = random.pick(FORMS as [TextForm, ...TextForm[]])
  const count = copier.copy(form, 'é: ', nobody)
  const isSound = Buffer.from(decodedText(whole)).equals(bytes) && !insides.some((inside) => inside.includes('\ufffd'))
  if (isSound) expect(count).toBe(insides.length)
  expect(count).toBeLessThanOrEqual(insides.length)
  if (count === 0) return
  expect([copier.next, copier.joined]).toEqual([ends[count - 1] ?? -1, insides.slice(0, count).join('')])
  expect(template.usageCopied(copier)).toEqual(usages[count - 1] as object)
  copier.keep(nobody, form)
  expect(Buffer.from(copier.take('!')).toString()).toBe(`é: ${written(form, insides.slice(0, count))}!`)
})

const template = () => new Template('', ['{"t":"', '"}'], ['text'])
const frames = (count: number) => Buffer.from('data: {"t":"abc"}\n\n'.repeat(count))

function copied(of: TextCopier, count: number, owner = nobody, before = ''): number {
  const bytes = frames(count)
  if (!template().offer(of, byteText(bytes), 0, bytes, true)) throw new Error('nothing was offered')
  const [form] = FORMS
  if (form === undefined) throw new Error('no form')
  const done = of.copy(form, before, owner)
  if (done > 0) of.keep(owner, form)
  return done
}

test('the events of another owner are given back before the memory is used', () => {
  const displaced: string[] = []
  const owner = { displaced: (events: string) => void displaced.push(events) }
  copied(copier, 20, owner, 'é')
  copied(copier, 20, owner, 'more ')
  copied(copier, 10)
  const events = 'data: {"t":"abc"}\n\n'.repeat(20)
  expect(displaced).toEqual([`é${events}more ${events}`])
  expect(Buffer.from(copier.take('')).toString()).toBe('data: {"t":"abc"}\n\n'.repeat(10))
})

test('nothing is written beyond the memory for events: they are written as a text', () => {
  let left = Math.floor((OUTPUT_END - OUTPUT) / frames(1).length)
  for (let done = copied(copier, 500); done > 0; done = copied(copier, 500)) left -= done
  expect(left).toBeGreaterThan(0)
  expect(copier.take('!'.repeat(OUTPUT_END)).at(-1)).toBe(33)
})

test('of a long read, one call takes a part', () => {
  const count = (2 * INPUT_BYTES_MAX) / frames(1).length
  expect(copied(copier, Math.ceil(count))).toBe(Math.floor(count / 2))
  copier.take('')
})

test('what an earlier read has left in the memory is not read', () => {
  const whole = frames(20)
  const size = frames(1).length
  for (let cut = 10 * size; cut <= 12 * size; cut++) {
    copied(copier, 20)
    copier.take('')
    template().offer(copier, byteText(whole), 0, whole.subarray(0, cut), true)
    expect(copier.copy(FORMS[0] as TextForm, '', nobody)).toBe(Math.floor(cut / size))
  }
})

test('a character that is cut into two texts is not copied as one', () => {
  const bytes = Buffer.from('data: {"t":"a"}\n\ndata: {"t":"b"}\n\n'.repeat(8), 'latin1')
  for (let at = bytes.indexOf('a"'); at !== -1; at = bytes.indexOf('a"', at + 1)) bytes[at] = 0xc3
  for (let at = bytes.indexOf('b'); at !== -1; at = bytes.indexOf('b', at + 1)) bytes[at] = 0xa9
  template().offer(copier, byteText(bytes), 0, bytes, false)
  expect(copier.copy(FORMS[0] as TextForm, '', nobody)).toBe(0)
})

test('Bun copies the bytes that it is given', async () => {
  const memory = new Uint8Array(20_000).fill(97)
  const overwrite = () => memory.fill(98)
  await using server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => {
      memory.fill(97)
      return new Response(
        new ReadableStream({
          type: 'direct',
          pull(sink) {
            for (let at = 0; at < 500; at++) {
              memory.fill(97)
              sink.write(memory)
              overwrite()
            }
            sink.flush()
            sink.end()
          },
        }),
      )
    },
  })
  const answer = new Response(memory)
  overwrite()
  expect(/^a+$/.test(await answer.text())).toBe(true)
  const text = await (await fetch(server.url)).text()
  expect([text.length, /^a+$/.test(text)]).toEqual([500 * memory.length, true])
})
