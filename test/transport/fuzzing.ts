/**
 * Random responses, most of them damaged, through our parser and through llhttp, the parser of Node, which Bun brings
 * along. Both must see the same response end at the same byte, or refuse it; the ways in which they may differ are in a
 * table. `bun test/transport/fuzzing.ts 1000000` runs a million and prints what came of them.
 */

import { ResponseSyntaxError } from '../../src/transport/response-head.ts'
import { ResponseParser } from '../../src/transport/response-parser.ts'
import { Random } from '../support/random.ts'
import { SEED } from '../support/seed.ts'

/** What a parser made of the bytes. */
interface Reading {
  /** `whole`: all of it came. `partial`: more is needed. Else the rule that was broken. */
  readonly end: 'whole' | 'partial' | `refused: ${string}`
  readonly status: number
  /** Latin-1. */
  readonly body: string
}

/** Why we may refuse what llhttp accepts, by our message. In each of them other parsers read something else. */
const STRICTER: readonly (readonly [message: RegExp, why: string])[] = [
  [/^a header field has no valid name$/, 'llhttp accepts folded lines, and lines that end in LF alone'],
  [/^the value of a header field holds a control character$/, 'llhttp accepts control characters, and LF alone'],
  [/^the status line is not that of HTTP\/1\.1$/, 'llhttp accepts HTTP/0.9 and HTTP/2, any status, and LF alone'],
  [/^it has a length and a transfer encoding$/, 'llhttp accepts both if the coding is not chunked'],
  [/^its transfer encoding is not chunked$/, 'llhttp reads other codings to the end of the connection'],
  [/^its length is not a number$/, 'llhttp accepts lengths over 2^53'],
  [/^the size of a chunk is not a hexadecimal number$/, 'llhttp accepts 16 digits, and control characters after them'],
  [/^a chunk is longer than its size$/, 'llhttp accepts LF alone after a chunk'],
  [/^too many interim responses$/, 'llhttp knows no limit, and stops at 101'],
  [/^it has two different lengths$/, 'llhttp accepts them if no body can follow'],
]

/** What llhttp refuses and we accept, by the code of its error and what the bytes must contain. */
const LOOSER: readonly (readonly [code: string, contains: RegExp, why: string])[] = [
  [
    'HPE_UNEXPECTED_CONTENT_LENGTH',
    /content-length:[ \t]*(\d+)[ \t]*\r\n.*content-length:[ \t]*\1/is,
    'the same length twice is one',
  ],
  [
    'HPE_INVALID_CONTENT_LENGTH',
    /content-length:[ \t]*(\d+)(?:[ \t]*,[ \t]*\1)+[ \t]*(?:\r\n|$)/i,
    'a list of one length is that one',
  ],
  ['HPE_INVALID_CHUNK_SIZE', /\r\n[\da-f]+[ \t]+;/i, 'RFC 9112, 7.1.1 allows white space before an extension'],
  // HTTP/1.0 has no interim responses. One that names this version is skipped as any other.
  ['HPE_CLOSED_CONNECTION', /^HTTP\/1\.0 1\d\d /, 'llhttp ends the connection after an interim response of HTTP/1.0'],
  ['HPE_STRICT', /\r\n[\da-f]+;[^\r\n]*[ \t]/i, 'RFC 9112, 7.1.1 allows white space within one, too'],
]
/** We check a head, a line of a chunk or trailers when all of it has come; llhttp refuses them at the first mistake. */
const LATER = 'we refuse it at the end of the line or head'

/** How many inputs ended in each way. */
export interface FuzzReport {
  readonly inputs: number
  /** Both read the same whole response, or the same beginning of one. */
  agreed: number
  /** Both refused it. */
  refused: number
  /** By the reason in the tables. */
  readonly explained: Record<string, number>
  /** The first few inputs whose difference no table explains. */
  readonly unexplained: string[]
}

export function fuzz(inputs: number, seed = SEED): FuzzReport {
  const random = new Random(seed)
  const report: FuzzReport = { inputs, agreed: 0, refused: 0, explained: {}, unexplained: [] }
  for (let at = 0; at < inputs; at++) {
    const text = random.chance(0.1) ? made(random) : damaged(made(random), random)
    const closes = random.chance(0.5)
    compare(text, closes, random, report)
  }
  return report
}

function compare(text: string, closes: boolean, random: Random, report: FuzzReport): void {
  const { reading: ours, taken } = readByUs(random.pieces(text, 4), closes)
  // What follows the end of a response is another matter: theirs goes on with it.
  const theirs = readByThem(random.pieces(text.slice(0, taken), 4), closes)
  const why = difference(text, ours, theirs)
  if (why === 'agreed' || why === 'refused') report[why] += 1
  else if (why !== undefined) report.explained[why] = (report.explained[why] ?? 0) + 1
  else if (report.unexplained.length < 10) report.unexplained.push(JSON.stringify({ text, closes, ours, theirs }))
  // It ended neither earlier.
  if (ours.end !== 'whole' || why !== 'agreed' || taken === 0) return
  const before = readByThem([text.slice(0, taken - 1)], false)
  if (before.end === 'whole' && !closes) report.unexplained.push(JSON.stringify({ text, taken, before }))
}

/** The reason from the tables; undefined if there is none. */
function difference(text: string, ours: Reading, theirs: Reading): string | undefined {
  const isRefused = ours.end.startsWith('refused')
  if (isRefused && theirs.end.startsWith('refused')) return 'refused'
  if (isRefused) return STRICTER.find(([pattern]) => pattern.test(messageOf(ours)))?.[1]
  if (theirs.end.startsWith('refused')) {
    const looser = LOOSER.find(([code, contains]) => code === messageOf(theirs) && contains.test(text))
    if (looser !== undefined) return looser[2]
    const completed = readByUs([`${text}\r\n\r\n`], false).reading
    return ours.end === 'partial' && completed.end.startsWith('refused') ? LATER : undefined
  }
  const isSame = ours.end === theirs.end && ours.status === theirs.status && ours.body === theirs.body
  return isSame ? 'agreed' : undefined
}

function messageOf({ end }: Reading): string {
  return end.slice('refused: '.length)
}

function readByUs(pieces: readonly string[], closes: boolean): { reading: Reading; taken: number } {
  const parser = new ResponseParser()
  let status = 0
  let body = ''
  let taken = 0
  parser.begin({
    head: (head) => {
      status = head.status
    },
    data: (bytes, from, to) => {
      body += Buffer.from(bytes.subarray(from, to)).toString('latin1')
    },
    takesText: false,
    text: () => undefined,
  })
  try {
    for (const piece of pieces) {
      taken += parser.push(Buffer.from(piece, 'latin1'))
      if (parser.isDone) break
    }
    const isWhole = parser.isDone || (closes && parser.close())
    return { reading: { end: isWhole ? 'whole' : 'partial', status, body }, taken }
  } catch (error) {
    if (!(error instanceof ResponseSyntaxError)) throw error
    const whole = pieces.reduce((sum, piece) => sum + piece.length, 0)
    return { reading: { end: `refused: ${error.message}`, status, body }, taken: whole }
  }
}

interface HttpParser {
  initialize(type: number, resource: object): void
  execute(bytes: Buffer): number | (Error & { code: string })
  finish(): undefined | number | (Error & { code: string })
  [event: number]: unknown
}

interface HttpParserClass {
  new (): HttpParser
  readonly RESPONSE: number
  readonly kOnHeadersComplete: number
  readonly kOnBody: number
  readonly kOnMessageComplete: number
}

const { HTTPParser } = (process as unknown as { binding(name: string): { HTTPParser: HttpParserClass } }).binding(
  'http_parser',
)

function readByThem(pieces: readonly string[], closes: boolean): Reading {
  const parser = new HTTPParser()
  let status = 0
  let body = ''
  let isWhole = false
  parser.initialize(HTTPParser.RESPONSE, {})
  parser[HTTPParser.kOnHeadersComplete] = (...values: unknown[]) => {
    // (major, minor, headers, method, url, status, …)
    if (!isWhole) status = Number(values[5])
    return 0
  }
  parser[HTTPParser.kOnBody] = (bytes: Buffer) => {
    if (!isWhole) body += bytes.toString('latin1')
  }
  parser[HTTPParser.kOnMessageComplete] = () => {
    if (status >= 200) isWhole = true
    else status = 0
  }
  const outcome = (result: unknown): Reading | undefined =>
    result instanceof Error && !isWhole
      ? { end: `refused: ${(result as Error & { code: string }).code}`, status, body }
      : undefined
  for (const piece of pieces) {
    const refused = outcome(parser.execute(Buffer.from(piece, 'latin1')))
    if (refused !== undefined) return refused
    if (isWhole) break
  }
  if (closes && !isWhole) {
    const result = parser.finish()
    // The end of the connection in the middle of a response.
    if (result instanceof Error) return { end: 'partial', status, body }
  }
  return { end: isWhole ? 'whole' : 'partial', status, body }
}

const NAMES = ['x', 'content-type', 'Server', 'x-request-id', 'keep-alive', 'date', 'connection'] as const
const VALUES = ['', 'a', 'application/json', 'timeout=5', 'close', 'keep-alive', 'a, b', 'é', ' y '] as const

/** A response that is right. */
function made(random: Random): string {
  const interim = random.chance(0.1) ? 'HTTP/1.1 100 Continue\r\n\r\n' : ''
  const status = random.pick(['200 OK', '200 OK', '200 OK', '204 No Content', '304', '404 Not Found', '500 '])
  const version = random.pick(['1', '1', '1', '1', '0'])
  const fields = random.list(4, () => `${random.pick(NAMES)}:${random.pick(['', ' '])}${random.pick(VALUES)}\r\n`)
  const body = random.pick(['', 'hello', '{"a":1}', 'a\r\n\r\nb', '0\r\n\r\n', 'HTTP/1.1 200 OK\r\n\r\n'])
  const [framing, framed] = framedBody(body, random)
  const at = random.below(fields.length + 1)
  const head = [...fields.slice(0, at), framing, ...fields.slice(at)].join('')
  return `${interim}HTTP/1.${version} ${status}\r\n${head}\r\n${framed}`
}

function framedBody(body: string, random: Random): readonly [field: string, body: string] {
  const kind = random.pick(['length', 'chunks', 'chunks', 'close'])
  if (kind === 'close') return ['', body]
  if (kind === 'length') {
    const field = `${random.pick(['Content-Length', 'content-length'])}: ${body.length}\r\n`
    return [random.chance(0.05) ? field + field : field, body]
  }
  const chunks = random
    .pieces(body, 3)
    .map((piece) => `${piece.length.toString(16)}${random.pick(['', '', ';a', ';a="b"', ' ;c=d'])}\r\n${piece}\r\n`)
  const trailers = random.chance(0.2) ? 'a: b\r\n' : ''
  return ['Transfer-Encoding: chunked\r\n', `${chunks.join('')}0\r\n${trailers}\r\n`]
}

const SPECIAL = ['\r', '\n', '\r\n', '\0', ' ', '\t', ':', ';', ',', '0', '9', 'a', 'f', '-', '+', '\x7f', 'é'] as const
const LINES = [
  'content-length: 3\r\n',
  'content-length: 5, 5\r\n',
  'content-length: 99999999999999999999\r\n',
  'transfer-encoding: chunked\r\n',
  'transfer-encoding: gzip\r\n',
  'Transfer-Encoding: identity\r\n',
  ' folded\r\n',
  'x : y\r\n',
] as const

/** The text with a few mistakes. */
function damaged(text: string, random: Random): string {
  let result = text
  for (let count = random.between(1, 3); count > 0; count--) {
    const at = random.below(result.length + 1)
    const end = Math.min(result.length, at + random.between(0, 3))
    const part = result.slice(at, end)
    switch (random.below(6)) {
      case 0:
        result = result.slice(0, at) + random.pick(SPECIAL) + result.slice(at)
        break
      case 1:
        result = result.slice(0, at) + result.slice(end)
        break
      case 2:
        result = result.slice(0, at) + random.pick(SPECIAL) + result.slice(end)
        break
      case 3:
        result = result.slice(0, end) + part + result.slice(end)
        break
      case 4:
        result = result.slice(0, at)
        break
      default: {
        const line = result.indexOf('\r\n') + 2
        result = result.slice(0, line) + random.pick(LINES) + result.slice(line)
      }
    }
  }
  return result
}

if (import.meta.main) console.log(fuzz(Number(process.argv[2] ?? 10_000), Number(process.argv[3] ?? SEED)))
