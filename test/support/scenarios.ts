/** What providers do, good and bad, as scenarios for `Upstream`: one function a fault. */

import { gzipSync } from 'node:zlib'
import { bytesOf, textOf } from './bytes.ts'
import type { Call, Scenario } from './upstream.ts'

type Data = string | Uint8Array

/** The frames of a plain Chat Completions stream: a role chunk, one chunk a piece, finish, usage, `[DONE]`. */
export function chatFrames(pieces: readonly string[], options: { readonly usage?: boolean } = {}): string[] {
  const chunk = (choices: readonly object[], more: object = {}) =>
    `data: ${JSON.stringify({ id: 'chatcmpl-up', object: 'chat.completion.chunk', created: 1, model: 'upstream-model', choices, ...more })}\n\n`
  const delta = (delta: object, finish_reason: string | null = null) => chunk([{ index: 0, delta, finish_reason }])
  const usage = { prompt_tokens: 9, completion_tokens: pieces.length, total_tokens: 9 + pieces.length }
  return [
    delta({ role: 'assistant', content: '' }),
    ...pieces.map((content) => delta({ content })),
    delta({}, 'stop'),
    ...(options.usage === false ? [] : [chunk([], { usage })]),
    'data: [DONE]\n\n',
  ]
}

/** The body of a whole Chat Completions answer. */
export function chatBody(content: string): string {
  return JSON.stringify({
    id: 'chatcmpl-up',
    object: 'chat.completion',
    created: 1,
    model: 'upstream-model',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 },
  })
}

/** Answers streamed or whole, as the request asks. */
export function answersText(...pieces: readonly string[]): Scenario {
  return (call) =>
    call.json['stream'] === true ? stream(chatFrames(pieces))(call) : call.answer(200, chatBody(pieces.join('')))
}

/** A whole JSON answer. */
export function json(status: number, body: Data, fields: Readonly<Record<string, string>> = {}): Scenario {
  return (call) => call.answer(status, body, fields)
}

/** A whole event stream, one chunk and one packet a piece. */
export function stream(pieces: readonly Data[], fields: Readonly<Record<string, string>> = {}): Scenario {
  return async (call) => {
    await begin(call, pieces, fields)
    await call.end()
  }
}

/** Accepts the request and never says a word. */
export function silent(): Scenario {
  return () => {}
}

/** Sends headers and pieces, and then nothing more while the connection stays open. */
export function stalls(pieces: readonly Data[]): Scenario {
  return (call) => begin(call, pieces)
}

/** Sends pieces, then waits until the test says so, and then does something else: the rest of an answer, or a break. */
export function waits(before: readonly Data[], release: Promise<unknown>, then: Scenario): Scenario {
  return async (call) => {
    await begin(call, before)
    await Promise.race([release, call.ended])
    await then(call)
  }
}

/** The rest of a stream that has begun. */
export function rest(pieces: readonly Data[]): Scenario {
  return async (call) => {
    for (const piece of pieces) await call.chunk(piece)
    await call.end()
  }
}

/** RST after the pieces. */
export function resets(pieces: readonly Data[]): Scenario {
  return async (call) => {
    if (pieces.length > 0) await begin(call, pieces)
    await flushed()
    call.reset()
  }
}

/** FIN after the pieces, without the terminating chunk. */
export function withoutLastChunk(pieces: readonly Data[]): Scenario {
  return async (call) => {
    await begin(call, pieces)
    call.close()
  }
}

/** Declares more bytes than it sends, then FIN. */
export function tooShort(pieces: readonly Data[]): Scenario {
  return async (call) => {
    const length = pieces.reduce((sum, piece) => sum + bytesOf(piece).length, 0)
    await call.status(200, { 'content-type': 'text/event-stream', 'content-length': String(length + 100) })
    for (const piece of pieces) await call.write(piece)
    call.close()
  }
}

/** A body that only the close ends: whether it is whole cannot be seen from HTTP. */
export function closeDelimited(pieces: readonly Data[]): Scenario {
  return async (call) => {
    await call.status(200, { 'content-type': 'text/event-stream', connection: 'close' })
    for (const piece of pieces) await call.write(piece)
    call.whole()
    call.close()
  }
}

/** One byte a chunk and a packet. */
export function byteByByte(pieces: readonly Data[]): Scenario {
  return stream(pieces.flatMap((piece) => [...bytesOf(piece)].map((byte) => Uint8Array.of(byte))))
}

/** Pieces over and over until the gateway has enough. `sent` counts the bytes that it took. */
export function endless(first: readonly Data[], again: Data, sent: (bytes: number) => void = () => {}): Scenario {
  const size = bytesOf(again).length
  return async (call) => {
    await begin(call, first)
    for (let total = 0; await call.chunk(again); ) {
      total += size
      sent(total)
      await flushed()
    }
  }
}

/** Answers with exactly these bytes: not HTTP, broken chunks, anything. Then FIN unless it is to stay open. */
export function raw(data: Data, options: { readonly stay?: boolean } = {}): Scenario {
  return async (call) => {
    await call.write(data)
    if (options.stay !== true) call.close()
  }
}

export function redirects(location: string, status = 307): Scenario {
  return (call) => call.answer(status, '', { location })
}

/** Chunk framing that breaks after the pieces. */
export function brokenChunks(pieces: readonly Data[]): Scenario {
  return async (call) => {
    await begin(call, pieces)
    await call.write('zz\r\nnot a chunk\r\n')
    call.close()
  }
}

/** Head, pieces and whatever is put behind them in one packet, so that the gateway reads all of it in one turn. Then FIN. */
export function inOneBreath(pieces: readonly Data[], tail: string): Scenario {
  const chunks = pieces.map((piece) => `${bytesOf(piece).length.toString(16)}\r\n${textOf(bytesOf(piece))}\r\n`)
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
  return raw(`${head}${chunks.join('')}${tail}`)
}

/** A header field of so many bytes before a good stream. */
export function hugeHeader(bytes: number, pieces: readonly Data[]): Scenario {
  return stream(pieces, { 'x-huge': 'h'.repeat(bytes) })
}

/** A good answer in gzip, asked for or not. */
export function gzipped(body: string, contentType = 'application/json'): Scenario {
  return json(200, gzipSync(body), { 'content-type': contentType, 'content-encoding': 'gzip' })
}

/** Takes the scenarios one by one; the last stays. */
export function inTurn(...scenarios: readonly [Scenario, ...Scenario[]]): Scenario {
  let turn = 0
  return (call) => {
    const scenario = scenarios[Math.min(turn, scenarios.length - 1)] ?? scenarios[0]
    turn++
    return scenario(call)
  }
}

async function begin(
  call: Call,
  pieces: readonly Data[],
  fields: Readonly<Record<string, string>> = {},
): Promise<void> {
  await call.head200(fields)
  for (const piece of pieces) if (!(await call.chunk(piece))) return
}

/** Lets what was written leave the process before a reset throws it away. */
function flushed(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
