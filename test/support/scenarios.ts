/** Behaviour of providers, good and bad, as scenarios for `Upstream`. */

import { gzipSync } from 'node:zlib'
import { bytesOf, textOf } from './bytes.ts'
import type { Call, Scenario } from './upstream.ts'

type Data = string | Uint8Array

/** The frames of a Chat Completions stream: a role chunk, one chunk per piece, finish, usage, `[DONE]`. */
export function chatFrames(pieces: readonly string[], options: { readonly usage?: boolean } = {}): string[] {
  const head = { id: 'chatcmpl-up', object: 'chat.completion.chunk', created: 1, model: 'upstream-model' }
  const chunk = (choices: readonly object[], more: object = {}) =>
    `data: ${JSON.stringify({ ...head, choices, ...more })}\n\n`
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

/** The body of a Chat Completions answer that is not streamed. */
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

/** Answers with the text, streamed or not as requested. */
export function answersText(...pieces: readonly string[]): Scenario {
  return (call) =>
    call.json['stream'] === true ? stream(chatFrames(pieces))(call) : call.answer(200, chatBody(pieces.join('')))
}

/** A JSON answer. */
export function json(status: number, body: Data, fields: Readonly<Record<string, string>> = {}): Scenario {
  return (call) => call.answer(status, body, fields)
}

/** A complete event stream, one chunk and one packet per piece. */
export function stream(pieces: readonly Data[], fields: Readonly<Record<string, string>> = {}): Scenario {
  return async (call) => {
    await begin(call, pieces, fields)
    await call.end()
  }
}

/** Accepts the request and never answers. */
export function silent(): Scenario {
  return () => {}
}

/** Sends headers and pieces, then nothing while the connection stays open. */
export function stalls(pieces: readonly Data[]): Scenario {
  return (call) => begin(call, pieces)
}

/** Sends pieces, waits for the test, then continues with another scenario: the rest of the answer, or a break. */
export function waits(before: readonly Data[], release: Promise<unknown>, then: Scenario): Scenario {
  return async (call) => {
    await begin(call, before)
    await Promise.race([release, call.ended])
    await then(call)
  }
}

/** The rest of a stream whose head was sent. */
export function rest(pieces: readonly Data[]): Scenario {
  return async (call) => {
    for (const piece of pieces) await call.chunk(piece)
    await call.end()
  }
}

/** Resets the connection after the pieces. */
export function resets(pieces: readonly Data[]): Scenario {
  return async (call) => {
    if (pieces.length > 0) await begin(call, pieces)
    await flushed()
    call.reset()
  }
}

/** Closes with a FIN after the pieces, without the terminating chunk. */
export function withoutLastChunk(pieces: readonly Data[]): Scenario {
  return async (call) => {
    await begin(call, pieces)
    call.close()
  }
}

/** Declares more bytes than it sends, then closes with a FIN. */
export function tooShort(pieces: readonly Data[]): Scenario {
  return async (call) => {
    const length = pieces.reduce((sum, piece) => sum + bytesOf(piece).length, 0)
    await call.status(200, { 'content-type': 'text/event-stream', 'content-length': String(length + 100) })
    for (const piece of pieces) await call.write(piece)
    call.close()
  }
}

/** A body without a length, ended by the close: HTTP does not show whether it is complete. */
export function closeDelimited(pieces: readonly Data[]): Scenario {
  return async (call) => {
    await call.status(200, { 'content-type': 'text/event-stream', connection: 'close' })
    for (const piece of pieces) await call.write(piece)
    call.whole()
    call.close()
  }
}

/** One byte per chunk and packet. */
export function byteByByte(pieces: readonly Data[]): Scenario {
  return stream(pieces.flatMap((piece) => [...bytesOf(piece)].map((byte) => Uint8Array.of(byte))))
}

/** Repeats the pieces until the gateway stops reading. `sent` counts the bytes accepted. */
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

/** Sends exactly these bytes (not HTTP, broken chunks, anything), then a FIN unless the connection is to stay open. */
export function raw(data: Data, options: { readonly stay?: boolean } = {}): Scenario {
  return async (call) => {
    await call.write(data)
    if (options.stay !== true) call.close()
  }
}

export function redirects(location: string, status = 307): Scenario {
  return (call) => call.answer(status, '', { location })
}

/** Invalid chunk framing after the pieces. */
export function brokenChunks(pieces: readonly Data[]): Scenario {
  return async (call) => {
    await begin(call, pieces)
    await call.write('zz\r\nnot a chunk\r\n')
    call.close()
  }
}

/** Sends the head, the pieces and `tail` in one packet, so that the gateway reads all of it at once, then a FIN. */
export function inOneBreath(pieces: readonly Data[], tail: string): Scenario {
  const chunks = pieces.map((piece) => `${bytesOf(piece).length.toString(16)}\r\n${textOf(bytesOf(piece))}\r\n`)
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
  return raw(`${head}${chunks.join('')}${tail}`)
}

/** A header field of `bytes` bytes, then a complete stream. */
export function hugeHeader(bytes: number, pieces: readonly Data[]): Scenario {
  return stream(pieces, { 'x-huge': 'h'.repeat(bytes) })
}

/** A complete answer in gzip, even if it was not requested. */
export function gzipped(body: string, contentType = 'application/json'): Scenario {
  return json(200, gzipSync(body), { 'content-type': contentType, 'content-encoding': 'gzip' })
}

/** Uses the scenarios one by one; the last repeats. */
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

/** Waits until the operating system has sent what was written: a reset would discard it. */
function flushed(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
