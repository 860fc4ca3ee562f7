import { describe, expect, test } from 'bun:test'
import { CallerError } from '../../src/core/caller-error.ts'
import {
  boundaryOf,
  type FormPart,
  formText,
  isForm,
  mintBoundary,
  parseForm,
  writeForm,
} from '../../src/wire/multipart.ts'
import { bytesOf, joined, textOf } from '../support/bytes.ts'
import { property } from '../support/random.ts'

const field = (name: string, value: string, more = '') =>
  `--b\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n${value}\r\n`

/** The name, content, file name and type of each part, as far as present. */
function parts(text: string): readonly (readonly string[])[] {
  return parseForm(bytesOf(text), 'b').map(({ name, content, filename, contentType }) =>
    [name, textOf(content), filename, contentType].filter((value) => value !== undefined),
  )
}

function problem(run: () => unknown): string {
  try {
    run()
    return 'none'
  } catch (error) {
    if (!(error instanceof CallerError)) throw error
    expect(error.kind).toBe('malformed_body')
    return error.message
  }
}

describe('valid forms', () => {
  const file = '; filename="a.png"\r\nContent-Type: image/png'
  const rows: readonly (readonly [name: string, text: string, expected: readonly (readonly string[])[]])[] = [
    ['a field', `${field('a', '1')}--b--`, [['a', '1']]],
    ['an empty field', `${field('a', '')}--b--\r\n`, [['a', '']]],
    [
      'fields in order, twice too',
      `${field('a', '1')}${field('a', '2')}--b--`,
      [
        ['a', '1'],
        ['a', '2'],
      ],
    ],
    ['a file', `${field('i', 'PNG', file)}--b--`, [['i', 'PNG', 'a.png', 'image/png']]],
    ['line ends in a content', `${field('a', '\r\n\r\n\r\n')}--b--`, [['a', '\r\n\r\n\r\n']]],
    ['a longer boundary in a content', `${field('a', 'x\r\n--bc\r\ny')}--b--`, [['a', 'x\r\n--bc\r\ny']]],
    ['a boundary that begins no line', `${field('a', 'x--b--y')}--b--`, [['a', 'x--b--y']]],
    ['a boundary after a bare LF', `${field('a', 'x\n--b--\n')}--b--`, [['a', 'x\n--b--\n']]],
    ['what stands around', `hello\r\n${field('a', '1')}--b--\r\nbye`, [['a', '1']]],
    ['blanks after a boundary', `${field('a', '1').replace('--b\r', '--b \t\r')}--b--`, [['a', '1']]],
    ['no part', '--b--', []],
    ['a quote as browsers write it', `${field('a%22b', '1')}--b--`, [['a"b', '1']]],
    ['a quote as curl writes it', `${field('a\\"b', '1')}--b--`, [['a"b', '1']]],
    ['an unquoted name', '--b\r\ncontent-disposition: FORM-DATA; name=a\r\n\r\n1\r\n--b--', [['a', '1']]],
    [
      'a name after a filename',
      '--b\r\nContent-Disposition: form-data; filename="name=x"; name="a"\r\n\r\n1\r\n--b--',
      [['a', '1', 'name=x']],
    ],
  ]
  test.each(rows)('%s', (_, text, expected) => {
    expect(parts(text)).toEqual(expected)
  })

  test('contents are views of the body, not copies', () => {
    const bytes = bytesOf(`${field('a', 'content')}--b--`)
    expect(parseForm(bytes, 'b')[0]?.content.buffer).toBe(bytes.buffer)
  })
})

describe('invalid forms', () => {
  const many = `${field('a', '').repeat(129)}--b--`
  test.each([
    ['nothing', '', 'ends before'],
    ['no closing boundary', field('a', '1'), 'ends before'],
    ['cut in a content', '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1', 'ends before'],
    ['another boundary', `${field('a', '1')}--b--`.replaceAll('--b', '--c'), 'ends before'],
    ['no blank line', '--b\r\nContent-Disposition: form-data; name="a"\r\n--b--', 'no end of its header'],
    ['endless header lines', `--b\r\nX: ${'x'.repeat(9000)}\r\n\r\n--b--`, 'no end of its header'],
    ['no disposition', '--b\r\nContent-Type: a/b\r\n\r\n1\r\n--b--', 'no name'],
    ['no name', '--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--', 'no name'],
    ['an attachment', '--b\r\nContent-Disposition: attachment; name="a"\r\n\r\n1\r\n--b--', 'no name'],
    ['two dispositions', `${field('a', '1', '\r\nContent-Disposition: form-data; name="b"')}--b--`, 'header line'],
    ['base64', `${field('a', 'MQ==', '\r\nContent-Transfer-Encoding: base64')}--b--`, 'Content-Transfer-Encoding'],
    ['too many parts', many, 'more than 128'],
  ])('%s', (_, text, message) => {
    expect(problem(() => parts(text))).toContain(message)
  })

  test('a name and a field that are not UTF-8', () => {
    const bytes = bytesOf(`${field('a~', '~')}--b--`).map((byte) => (byte === 0x7e ? 0xff : byte))
    expect(problem(() => parseForm(bytes, 'b'))).toContain('UTF-8')
    expect(problem(() => formText(Uint8Array.of(0xff)))).toContain('UTF-8')
  })
})

test.each([
  ['multipart/form-data; boundary=abc', 'abc'],
  ['Multipart/Form-Data; charset=utf-8; BOUNDARY="a b:c"', 'a b:c'],
  ['multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW', '----WebKitFormBoundary7MA4YWxkTrZu0gW'],
  ['multipart/form-data', undefined],
  ['multipart/form-data; boundary=', undefined],
  ['multipart/form-data; boundary="a "', undefined],
  [`multipart/form-data; boundary=${'x'.repeat(71)}`, undefined],
])('the boundary of %s', (type, boundary) => {
  expect(isForm(type)).toBe(true)
  if (boundary === undefined) expect(problem(() => boundaryOf(type))).toContain('boundary')
  else expect(boundaryOf(type)).toBe(boundary)
})

test('other content types are not forms', () => {
  expect([null, '', 'application/json', 'multipart/form-data2', 'x multipart/form-data'].filter(isForm)).toEqual([])
})

property(
  'what is written reads back the same, here and with the runtime, whatever names and contents hold',
  200,
  async (random) => {
    const pieces = ['a', '"', '\\', ';', ' ', '\r\n', '--b', '%', 'ü', '日', '\n', '='] as const
    const text = () => random.list(12, () => random.pick(pieces)).join('')
    const written: FormPart[] = random.list(5, () => ({
      name: `n${text()}`,
      filename: random.chance(0.5) ? `f${text()}` : undefined,
      content: bytesOf(text()),
    }))
    const boundary = mintBoundary()
    const bytes = joined(writeForm(written, boundary))
    const read = parseForm(bytes, boundary)
    const contents = written.map(({ content }) => textOf(content))
    expect(read.map(({ content }) => textOf(content))).toEqual(contents)
    const names = (list: readonly FormPart[]) => list.map(({ name, filename }) => [name, filename ?? null].map(undone))
    expect(names(read)).toEqual(names(written))
    if (written.length === 0) return
    const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` }
    const runtime = [...(await new Request('http://a', { method: 'POST', headers, body: bytes }).formData())]
    const texts = runtime.map(([, value]) => (typeof value === 'string' ? value : value.text()))
    expect(await Promise.all(texts)).toEqual(contents)
  },
)

/** A name without the characters that the HTML standard cannot write. */
function undone(name: string | null): string | null {
  return name === null ? null : name.replace(/%(?:0D|0A|5C)|[\r\n\\]/g, '').trim()
}

test('a name cannot add header lines', () => {
  const name = 'a"\r\nX-Evil: 1\r\n\r\n'
  const text = textOf(joined(writeForm([{ name, contentType: 'a/b\r\nX-Evil: 1', content: bytesOf('1') }], 'b')))
  expect(text.split('\r\n').filter((line) => line.startsWith('X-Evil'))).toEqual([])
})
