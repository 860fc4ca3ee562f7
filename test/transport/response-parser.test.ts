import { describe, expect, test } from 'bun:test'
import { ResponseSyntaxError } from '../../src/transport/response-head.ts'
import { ResponseParser } from '../../src/transport/response-parser.ts'
import { property } from '../support/random.ts'

interface Read {
  status?: number
  /** The values of these fields. */
  fields?: (string | null)[]
  body: string
  ended: boolean
  error?: string
  /** Bytes after the end. */
  stray: number
  reusable: boolean
}

const NAMES = ['content-length', 'content-type', 'transfer-encoding', 'x', 'link', 'connection', 'ength']

/** A response read in pieces of these sizes, the last of which repeats; `closes`: then the connection ends. */
function read(text: string, sizes: readonly number[], closes = false): Read {
  const parser = new ResponseParser()
  const result: Read = { body: '', ended: false, stray: 0, reusable: false }
  parser.begin({
    head(head) {
      result.status = head.status
      result.fields = NAMES.map((name) => head.get(name))
      expect(NAMES.map((name) => head.has(name))).toEqual(result.fields.map((value) => value !== null))
    },
    data(bytes, from, to) {
      expect(to).toBeGreaterThan(from)
      result.body += Buffer.from(bytes.subarray(from, to)).toString('latin1')
    },
    takesText: false,
    text: () => undefined,
  })
  const bytes = Buffer.from(text, 'latin1')
  try {
    let at = 0
    for (let turn = 0; at < bytes.length; turn++) {
      const size = sizes[Math.min(turn, sizes.length - 1)] ?? 1
      const piece = Buffer.from(bytes.subarray(at, at + size))
      result.stray += piece.length - parser.push(piece)
      at += size
    }
    if (closes && !parser.close()) result.error = 'the connection ended before the response'
    result.ended = parser.isDone
  } catch (error) {
    if (!(error instanceof ResponseSyntaxError)) throw error
    result.error = error.message
  }
  result.reusable = parser.isReusable
  return result
}

const ok = 'HTTP/1.1 200 OK\r\n'
const whole = [
  `${ok}Content-Length: 5\r\n\r\nhello`,
  `${ok}content-length: 0\r\n\r\n`,
  'HTTP/1.1 204 No Content\r\n\r\n',
  'HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n',
  `${ok}content-length: 5, 5\r\n\r\nhello`,
  `${ok}content-length: 5\r\nContent-Length: 5\r\n\r\nhello`,
  `${ok}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
  `${ok}Transfer-Encoding: Chunked\r\n\r\n1;a="b c"\r\nh\r\n0004 ; x\r\nello\r\n000\r\nA: b\r\nC:\r\n\r\n`,
  `${ok}transfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n${ok}content-length: 2\r\n\r\nok`,
  'HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok',
  'HTTP/1.1 500 \r\nx:  \t padded \t \r\ncontent-length: 2\r\n\r\nno',
  'HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok',
]

describe('a response', () => {
  test.each(whole)('is the same wherever its bytes are cut: %j', (text) => {
    const at = read(text, [text.length])
    expect(at).toMatchObject({ ended: true, stray: 0, reusable: true })
    expect(at.error).toBeUndefined()
    expect(read(text, [1])).toEqual(at)
    for (let cut = 1; cut < text.length; cut++) expect(read(text, [cut, text.length])).toEqual(at)
  })

  test.each(whole)('is not whole before its last byte: %j', (text) => {
    for (let cut = 0; cut < text.length; cut++) {
      const part = read(text.slice(0, cut), [cut], true)
      expect(part.ended).toBe(false)
      expect(part.error).toBeDefined()
      expect(part.reusable).toBe(false)
    }
  })

  test.each(whole)('leaves the bytes after it: %j', (text) => {
    for (const size of [1, 7, text.length + 9])
      expect(read(`${text}HTTP/1.1 `, [size])).toMatchObject({ ended: true, stray: 9 })
  })

  test('without a length or chunks ends with the connection', () => {
    for (const size of [1, 3, 999])
      expect(read('HTTP/1.1 200 OK\r\nx: y\r\n\r\nall of it', [size], true)).toMatchObject({
        body: 'all of it',
        ended: true,
        reusable: false,
      })
  })

  test.each([
    [`${ok}connection: close\r\ncontent-length: 2\r\n\r\nok`],
    [`${ok}Connection: Foo , CLOSE\r\ncontent-length: 2\r\n\r\nok`],
    ['HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok'],
  ])('ends its connection if the server asks for that: %j', (text) => {
    expect(read(text, [5])).toMatchObject({ ended: true, body: 'ok', reusable: false })
  })
})

const many = (count: number) => Array.from({ length: count }, (_, at) => `x${at}: y\r\n`).join('')
const broken: readonly (readonly [what: string, text: string])[] = [
  ['no HTTP at all', 'SSH-2.0-OpenSSH\r\n\r\n'],
  ['another version', 'HTTP/2 200 OK\r\n\r\n'],
  ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n'],
  ['a status below 100', 'HTTP/1.1 099 OK\r\n\r\n'],
  ['bare line feeds', 'HTTP/1.1 200 OK\ncontent-length: 2\n\nok\r\n\r\n'],
  ['a bare carriage return', `${ok}x: a\rb\r\n\r\n`],
  ['a folded line', `${ok}x: a\r\n b\r\n\r\n`],
  ['a folded first line', `${ok} x: a\r\n\r\n`],
  ['a space before the colon', `${ok}content-length : 2\r\n\r\nok`],
  ['a field without a name', `${ok}: 2\r\n\r\n`],
  ['a field without a colon', `${ok}content-length\r\n\r\n`],
  ['a NUL in a value', `${ok}x: a\0b\r\n\r\n`],
  ['a length and chunks', `${ok}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['two different lengths', `${ok}content-length: 5\r\ncontent-length: 6\r\n\r\nhello!`],
  ['two different lengths in one field', `${ok}content-length: 5, 6\r\n\r\nhello!`],
  ['a negative length', `${ok}content-length: -1\r\n\r\n`],
  ['a length with a sign', `${ok}content-length: +5\r\n\r\nhello`],
  ['a length that is not exact', `${ok}content-length: 9007199254740993\r\n\r\n`],
  ['an empty length', `${ok}content-length:\r\n\r\n`],
  ['another coding', `${ok}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
  ['chunked twice', `${ok}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['chunks of HTTP/1.0', 'HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['a protocol that nobody asked for', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
  ['interim responses without an end', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(17)],
  ['a chunk size with a sign', `${ok}transfer-encoding: chunked\r\n\r\n-5\r\nhello\r\n`],
  ['a chunk size with 0x', `${ok}transfer-encoding: chunked\r\n\r\n0x5\r\nhello\r\n`],
  ['an empty chunk size', `${ok}transfer-encoding: chunked\r\n\r\n\r\nhello\r\n`],
  ['a chunk size of 14 digits', `${ok}transfer-encoding: chunked\r\n\r\n00000000000005\r\nhello\r\n`],
  ['a chunk size with a space before it', `${ok}transfer-encoding: chunked\r\n\r\n 5\r\nhello\r\n`],
  ['a chunk that is longer than its size', `${ok}transfer-encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n`],
  ['a chunk with half a line end', `${ok}transfer-encoding: chunked\r\n\r\n5\r\nhello\r_0\r\n\r\n`],
  ['a chunk with the other half', `${ok}transfer-encoding: chunked\r\n\r\n5\r\nhello_\n0\r\n\r\n`],
  ['a bare line feed after a chunk size', `${ok}transfer-encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n`],
  ['trailers that are no fields', `${ok}transfer-encoding: chunked\r\n\r\n0\r\nHTTP/1.1 200 OK\r\n\r\n`],
  ['a head of 65 KiB', `${ok}x: ${'y'.repeat(65 * 1024)}\r\n\r\n`],
  ['201 fields', `${ok}${many(201)}\r\n`],
  ['trailers of 65 KiB', `${ok}transfer-encoding: chunked\r\n\r\n0\r\nx: ${'y'.repeat(65 * 1024)}\r\n\r\n`],
  [
    'a chunk extension of 5 KiB',
    `${ok}transfer-encoding: chunked\r\n\r\n5;${'y'.repeat(5 * 1024)}\r\nhello\r\n0\r\n\r\n`,
  ],
]

describe('what is not HTTP in one way only is refused', () => {
  test.each(broken)('%s', (_, text) => {
    for (const size of [1, 13, text.length]) {
      const result = read(text, [size])
      expect(result.error).toBeDefined()
      expect(result.ended).toBe(false)
      expect(result.reusable).toBe(false)
    }
  })

  test('and 200 fields are allowed', () => {
    expect(read(`${ok}${many(199)}content-length: 0\r\n\r\n`, [999])).toMatchObject({ ended: true })
  })
})

/** The body by `text`, or by `data` and a decoder; and how often `text` was called. */
function textOf(bytes: Buffer, sizes: readonly number[], takesText: boolean) {
  const parser = new ResponseParser()
  const pieces: Buffer[] = []
  let calls = 0
  parser.begin({
    head() {},
    data: (bytes, from, to) => pieces.push(Buffer.from(bytes.subarray(from, to))),
    takesText,
    text(text, size) {
      calls += 1
      pieces.push(Buffer.from(text))
      expect(size).toBe(bytes.length - bytes.indexOf('\r\n\r\n') - 4)
    },
  })
  let at = 0
  for (const size of sizes) {
    parser.push(Buffer.from(bytes.subarray(at, at + size)))
    at += size
  }
  expect(parser.isDone).toBe(true)
  return { text: new TextDecoder('utf-8', { ignoreBOM: true }).decode(Buffer.concat(pieces)), calls }
}

property('a body that is whole in one push is the same text without a view of its bytes', 2000, (random) => {
  const parts = ['plain ', 'é', '€', '😀', '\ufeff', '\0'].map((text) => Buffer.from(text))
  const broken = [[0xff], [0xc3], [0xe2, 0x82], [0xf0, 0x9f], [0xed, 0xa0, 0x80], [0xc0, 0x80]].map(Buffer.from)
  const body = Buffer.concat(
    Array.from({ length: random.between(1, 8) }, () => {
      const from = random.below(3) === 0 ? broken : parts
      return from[random.below(from.length)] ?? Buffer.alloc(0)
    }),
  )
  const head = Buffer.from(`${ok}content-length: ${body.length}\r\n\r\n`)
  const bytes = Buffer.concat([head, body])
  const expected = textOf(bytes, [bytes.length], false)
  expect(expected.calls).toBe(0)
  expect(textOf(bytes, [bytes.length], true)).toEqual({ ...expected, calls: 1 })
  // The head alone, then the body.
  expect(textOf(bytes, [head.length, body.length], true)).toEqual({ ...expected, calls: 1 })
  const cut = head.length + 1
  expect(textOf(bytes, [cut, bytes.length - cut], true)).toEqual({ ...expected, calls: body.length > 1 ? 0 : 1 })
})
