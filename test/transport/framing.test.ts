/** What comes of a provider's bytes. */

import { describe, expect, test } from 'bun:test'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { HttpClient } from '../../src/transport/client.ts'
import { Exchanged, type Outcome } from './exchanges.ts'
import { RawServer } from './raw-server.ts'

interface Row {
  readonly what: string
  /** Latin-1. */
  readonly sends: string
  /** The server closes the connection after it. */
  readonly closes?: boolean
  readonly expected: Outcome
}

const ok = 'HTTP/1.1 200 OK\r\n'
const chunked = `${ok}transfer-encoding: chunked\r\n\r\n`
const hello: Outcome = { status: 200, body: 'hello', end: 'end' }
const broken: Outcome = { body: '', end: 'broken' }
const unreachable: Outcome = { body: '', end: 'unreachable' }
const cut: Outcome = { status: 200, body: '', end: 'cut' }
const latin1 = (bytes: Buffer): string => bytes.toString('latin1')
const coded = (coding: string, bytes: Buffer): string =>
  `${ok}content-encoding: ${coding}\r\ncontent-length: ${bytes.length}\r\n\r\n${latin1(bytes)}`

const ROWS: readonly Row[] = [
  { what: 'a length', sends: `${ok}content-length: 5\r\n\r\nhello`, expected: hello },
  { what: 'a length of 0', sends: `${ok}content-length: 0\r\n\r\n`, expected: { ...hello, body: '' } },
  { what: 'the same length twice', sends: `${ok}content-length: 5\r\ncontent-length: 5\r\n\r\nhello`, expected: hello },
  { what: 'chunks', sends: `${chunked}2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n`, expected: hello },
  {
    what: 'chunks with extensions, leading zeros and trailers',
    sends: `${chunked}2;a="b"\r\nhe\r\n0003;x\r\nllo\r\n0\r\nA: b\r\n\r\n`,
    expected: hello,
  },
  { what: 'the end of the connection', sends: `${ok}\r\nhello`, closes: true, expected: hello },
  { what: 'the end of an HTTP/1.0 connection', sends: 'HTTP/1.0 200 OK\r\n\r\nhello', closes: true, expected: hello },
  { what: '204', sends: 'HTTP/1.1 204 No Content\r\n\r\n', expected: { status: 204, body: '', end: 'end' } },
  {
    what: '304 with a length',
    sends: 'HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n',
    expected: { status: 304, body: '', end: 'end' },
  },
  {
    what: 'a redirect',
    sends: 'HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n',
    expected: { status: 302, body: '', end: 'end' },
  },
  {
    what: 'interim responses',
    sends: `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n${ok}content-length: 5\r\n\r\nhello`,
    expected: hello,
  },
  { what: 'no reason phrase', sends: 'HTTP/1.1 200\r\ncontent-length: 5\r\n\r\nhello', expected: hello },
  { what: 'gzip', sends: coded('gzip', gzipSync('hello')), expected: hello },
  { what: 'deflate', sends: coded('deflate', deflateSync('hello')), expected: hello },
  { what: 'br', sends: coded('br', brotliCompressSync('hello')), expected: hello },
  { what: 'zstd', sends: coded('zstd', zstdCompressSync('hello')), expected: hello },
  { what: 'a coding that is a lie', sends: coded('gzip', Buffer.from('hello')), expected: cut },
  { what: 'half of gzip', sends: coded('gzip', gzipSync('hello').subarray(0, 10)), expected: cut },
  { what: 'nothing', sends: '', closes: true, expected: unreachable },
  { what: 'half a head', sends: `${ok}content-`, closes: true, expected: unreachable },
  {
    what: 'a body that is too short',
    sends: `${ok}content-length: 9\r\n\r\nhello`,
    closes: true,
    expected: { ...cut, body: 'hello' },
  },
  {
    what: 'chunks without an end',
    sends: `${chunked}5\r\nhello\r\n`,
    closes: true,
    expected: { ...cut, body: 'hello' },
  },
  { what: 'half a chunk', sends: `${chunked}9\r\nhello`, closes: true, expected: { ...cut, body: 'hello' } },
  { what: 'another protocol', sends: 'SSH-2.0-OpenSSH\r\n', expected: broken },
  { what: 'HTTP/2', sends: 'HTTP/2 200 OK\r\n\r\n', expected: broken },
  { what: 'bare line feeds', sends: 'HTTP/1.1 200 OK\ncontent-length: 5\n\nhello', expected: broken },
  { what: 'a folded line', sends: `${ok}x: a\r\n b\r\ncontent-length: 5\r\n\r\nhello`, expected: broken },
  { what: 'a space before the colon', sends: `${ok}content-length : 5\r\n\r\nhello`, expected: broken },
  { what: 'a NUL in a value', sends: `${ok}x: a\0b\r\ncontent-length: 5\r\n\r\nhello`, expected: broken },
  {
    what: 'a length and chunks',
    sends: `${ok}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
    expected: broken,
  },
  { what: 'two lengths', sends: `${ok}content-length: 5\r\ncontent-length: 6\r\n\r\nhello!`, expected: broken },
  { what: 'a length with a sign', sends: `${ok}content-length: +5\r\n\r\nhello`, expected: broken },
  {
    what: 'another transfer coding',
    sends: `${ok}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
    expected: broken,
  },
  {
    what: 'chunks of HTTP/1.0',
    sends: 'HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
    expected: broken,
  },
  {
    what: 'another protocol by 101',
    sends: 'HTTP/1.1 101 Switching Protocols\r\n\r\n',
    closes: true,
    expected: broken,
  },
  { what: 'a chunk size that is no number', sends: `${chunked}zz\r\nhello\r\n0\r\n\r\n`, expected: cut },
  {
    what: 'a chunk that is longer than its size',
    sends: `${chunked}4\r\nhello\r\n0\r\n\r\n`,
    expected: { ...cut, body: 'hell' },
  },
  {
    what: 'a head of 65 KiB',
    sends: `${ok}x: ${'y'.repeat(65 * 1024)}\r\ncontent-length: 5\r\n\r\nhello`,
    expected: broken,
  },
  {
    what: '201 fields',
    sends: `${ok}${'x: y\r\n'.repeat(200)}content-length: 5\r\n\r\nhello`,
    expected: broken,
  },
]

describe('a response with', () => {
  const seen = async (row: Row, pieces: (text: string) => readonly string[]): Promise<Outcome> => {
    await using server = await RawServer.answering((socket) => {
      for (const piece of pieces(row.sends)) socket.write(piece, 'latin1')
      if (row.closes === true) socket.end()
    })
    const client = new HttpClient()
    return await new Exchanged(client, server.url()).done
  }
  const expectAsInTable = (row: Row, outcome: Outcome): void => {
    const { expected } = row
    // Bytes that came right before the cut may be dropped.
    const body = expected.end === 'cut' ? outcome.body : expected.body
    expect(outcome).toEqual({ ...expected, body })
    expect(expected.body).toStartWith(body)
  }

  test.each(ROWS.map((row) => [row.what, row] as const))('%s', async (_, row) => {
    expectAsInTable(row, await seen(row, (text) => [text]))
    if (row.sends.length < 300) expectAsInTable(row, await seen(row, (text) => [...text]))
  })
})
