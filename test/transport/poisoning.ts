/**
 * Many requests at once over few connections, with random aborts, cuts and stray bytes: every answer must be the one to
 * its own request. `bun test/transport/poisoning.ts 1000000` runs a million and prints what came of them.
 */

import type { Socket } from 'node:net'
import { HttpClient } from '../../src/transport/client.ts'
import { HttpExchange } from '../../src/transport/exchange.ts'
import { Random } from '../support/random.ts'
import { SEED } from '../support/seed.ts'
import { RawServer } from './raw-server.ts'

const CONCURRENT = 500

/** How many exchanges ended in each way. */
export interface Tally {
  whole: number
  failed: number
  aborted: number
  /** Bytes of another request's answer, or bytes after the end. */
  mismatches: number
  /** The bodies of the first few of them, with what was expected. */
  readonly seen: string[]
  connections: number
}

/** What the server answers to a nonce. */
function bodyOf(nonce: string): string {
  return `${nonce}:`.repeat(1 + (nonce.length % 7) * 9)
}

export async function poison(exchanges: number, seed = SEED): Promise<Tally> {
  const random = new Random(seed)
  const tally: Tally = { whole: 0, failed: 0, aborted: 0, mismatches: 0, seen: [], connections: 0 }
  await using server = await RawServer.answering((socket, { text }) =>
    answer(socket, text.slice(text.indexOf('\r\n\r\n') + 4), random),
  )
  const client = new HttpClient()
  let next = 0
  const work = async () => {
    while (next < exchanges) await one(client, server.url(), `nonce-${next++}-`, random, tally)
  }
  await Promise.all(Array.from({ length: CONCURRENT }, work))
  tally.connections = server.connections
  return tally
}

function answer(socket: Socket, nonce: string, random: Random): void {
  const body = bodyOf(nonce)
  const isChunked = random.chance(0.5)
  const framing = isChunked ? 'transfer-encoding: chunked' : `content-length: ${body.length}`
  const half = random.below(body.length)
  const chunk = (part: string) => (part === '' ? '' : `${part.length.toString(16)}\r\n${part}\r\n`)
  const framed = isChunked ? `${chunk(body.slice(0, half))}${chunk(body.slice(half))}0\r\n\r\n` : body
  let whole = `HTTP/1.1 200 OK\r\n${framing}\r\n\r\n${framed}`
  // A server that ends in the middle, or answers twice. The second answer leaves with the end of the first: if it came
  // later than the next request on its connection, no client could know whose it is.
  const isCut = random.chance(0.01)
  if (isCut) whole = whole.slice(0, random.below(whole.length))
  const pieces = random.pieces(whole, 3)
  if (!isCut && random.chance(0.01)) pieces.push(`${pieces.pop()}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison`)
  const write = () => {
    const piece = pieces.shift()
    if (piece !== undefined) socket.write(piece)
    if (pieces.length > 0) setTimeout(write, random.below(3))
    else if (isCut) socket.destroy()
  }
  if (random.chance(0.5)) write()
  else setTimeout(write, random.below(5))
}

type When = 'never' | 'at once' | 'at the head' | 'in the body' | 'later'

function one(client: HttpClient, url: string, nonce: string, random: Random, tally: Tally): Promise<void> {
  const when = random.pick<When>(['never', 'never', 'never', 'at once', 'at the head', 'in the body', 'later'])
  const { promise, resolve } = Promise.withResolvers<void>()
  const exchange = new HttpExchange(client)
  const expected = bodyOf(nonce)
  let body = ''
  let isOver = false
  const finish = (way: 'whole' | 'failed' | 'aborted') => {
    if (isOver) tally.mismatches += 1
    isOver = true
    tally[way] += 1
    resolve()
  }
  const abort = () => {
    if (isOver) return
    exchange.abort()
    finish('aborted')
  }
  exchange.send(
    { url, headers: {}, body: nonce },
    {
      head: () => {
        if (isOver) tally.mismatches += 1
        if (when === 'at the head') abort()
      },
      data: (bytes, from, to) => {
        body += Buffer.from(bytes.subarray(from, to)).toString('latin1')
        if (isOver || !expected.startsWith(body)) {
          tally.mismatches += 1
          if (tally.seen.length < 10) tally.seen.push(`${isOver} ${when}: ${body} instead of ${expected}`)
        }
        if (when === 'in the body') abort()
      },
      end: () => {
        if (body !== expected) tally.mismatches += 1
        finish('whole')
      },
      fail: () => finish('failed'),
    },
  )
  if (when === 'at once') abort()
  if (when === 'later') setTimeout(abort, random.below(8))
  return promise
}

if (import.meta.main) console.log(await poison(Number(process.argv[2] ?? 10_000)))
