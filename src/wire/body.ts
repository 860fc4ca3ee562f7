/**
 * A caller's request body → a JSON object. Limits the bytes while reading, then checks UTF-8, depth, JSON and that it
 * is an object.
 */

import { CallerError } from '../core/caller-error.ts'
import { LongNumbersError, parseExactBody } from '../core/exact-json.ts'
import { GrowingBytes } from '../core/growing-bytes.ts'
import { isObject, type JsonObject } from '../core/json.ts'
import { byteText, isPlain } from './byte-text.ts'
import { DEPTH_MAX, shapeProblem, VALUES_MAX } from './json-shape.ts'

/** 10 MiB of UTF-8. */
const BODY_BYTES_MAX = 10 * 1024 * 1024
/**
 * A smaller chunk of an undeclared body counts as so many bytes, because a read of any size takes 1.2 µs: without it,
 * 10 MiB in chunks of one byte took 1.6 s of CPU.
 */
const CHUNK_BYTES_MIN = 256
/** What all chunks may count: 49,152 reads. More than the bytes, because the network cuts chunks, too. */
const COUNT_MAX = 12 * 1024 * 1024

/** Gets a body: one call of `body` or `failed`, neither of which may throw. */
export interface BodyReceiver {
  /** Reserves memory; throws if there is none. */
  take(bytes: number): void
  body(bytes: Uint8Array): void
  /** What `take` has thrown, or `CallerError` `too_large`, or `malformed_body` if the caller left half-way. */
  failed(error: unknown): void
}

/**
 * Reads the body, at most `BODY_BYTES_MAX` bytes. A declared length over that is rejected before a byte is read, an
 * undeclared one as soon as the count exceeds it. Memory is taken before the first byte for a declared length, read by
 * read for an undeclared one. What fails before the first byte is thrown: what `take` throws, and `CallerError`
 * `too_large`.
 */
export function readBody(request: Request, receiver: BodyReceiver): void {
  const declared = request.headers.get('content-length')
  if (declared !== null) {
    const length = Number(declared)
    if (length > BODY_BYTES_MAX) throw tooLarge()
    receiver.take(length)
    readDeclared(request, receiver)
  } else if (request.body !== null) {
    readUndeclared(request.body, receiver)
  } else {
    queueMicrotask(() => receiver.body(new Uint8Array(0)))
  }
}

function readDeclared(request: Request, receiver: BodyReceiver): void {
  request.bytes().then(
    (bytes) => receiver.body(bytes),
    (cause: unknown) => receiver.failed(brokenOff(cause)),
  )
}

function readUndeclared(body: ReadableStream<Uint8Array>, receiver: BodyReceiver): void {
  let counted = 0
  const take = (bytes: number, size: number) => {
    counted += Math.max(bytes, CHUNK_BYTES_MIN)
    if (size > BODY_BYTES_MAX) throw tooLarge()
    if (counted > COUNT_MAX) throw inTooManyChunks()
    receiver.take(bytes)
  }
  readCounted(body, take).then(
    (bytes) => receiver.body(bytes),
    (error: unknown) => receiver.failed(error),
  )
}

/**
 * All bytes of a body. `take` gets the bytes of each read before they are kept, and of all so far; what it throws ends
 * the reading. Rejects with `CallerError` `malformed_body` if the caller leaves half-way.
 *
 * Each chunk is a read of its own, because each ends the read that waits. With a turn of the event loop between reads
 * the runtime would join the chunks of that turn, which takes less time for each, but they could not be counted.
 */
export async function readCounted(
  body: ReadableStream<Uint8Array>,
  take: (bytes: number, size: number) => void,
): Promise<Uint8Array> {
  const whole = new GrowingBytes()
  const reader = body.getReader()
  for (;;) {
    let part: Awaited<ReturnType<typeof reader.read>>
    try {
      part = await reader.read()
    } catch (cause) {
      throw brokenOff(cause)
    }
    const { value, done } = part
    if (done) return whole.take()
    try {
      take(value.byteLength, whole.byteLength + value.byteLength)
    } catch (error) {
      // The rest stays unread, and the connection is closed after the answer.
      reader.cancel().catch(() => undefined)
      throw error
    }
    whole.add(value)
  }
}

/** Bytes → the object they spell. Throws `CallerError` `malformed_body`. */
export function parseBody(bytes: Uint8Array): JsonObject {
  const text = decode(bytes)
  checkShape(text)
  let value: unknown
  try {
    value = parseExactBody(text)
  } catch (error) {
    if (error instanceof LongNumbersError) throw malformed(`The request body cannot be read: ${error.message}.`)
    throw malformed(`The request body is not valid JSON${error instanceof Error ? `: ${error.message}` : ''}.`)
  }
  if (!isObject(value)) throw malformed('The request body must be a JSON object.')
  return value
}

function decode(bytes: Uint8Array): string {
  // A decoder's text is parsed more slowly: of a small body both take 0.9 us, and so 0.7.
  if (isPlain(bytes)) return byteText(bytes)
  const text = utf8(bytes)
  // RFC 8259, section 8.1: JSON has no byte order mark. A reader that skips one reads another text than one that does
  // not.
  if (text.startsWith('\ufeff')) throw malformed('The request body begins with a byte order mark; send it without.')
  return text
}

function newDecoder(): TextDecoder {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
}

let decoder = newDecoder()

function utf8(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes)
  } catch {
    // One that threw keeps half a character.
    decoder = newDecoder()
    throw malformed('The request body is not valid UTF-8.')
  }
}

/** Checked on the text, because a parser would build all values before they could be counted. */
function checkShape(text: string): void {
  const problem = shapeProblem(text)
  if (problem === 'deep') throw malformed(`The request body is nested more than ${DEPTH_MAX} levels deep.`)
  if (problem === 'full') throw malformed(`The request body holds more than ${VALUES_MAX} values.`)
}

function brokenOff(cause: unknown): CallerError {
  return new CallerError('malformed_body', 'The request body ended before its declared length.', { cause })
}

function malformed(message: string): CallerError {
  return new CallerError('malformed_body', message)
}

function inTooManyChunks(): CallerError {
  const message =
    `The request body comes in too many small chunks: each counts as at least ${CHUNK_BYTES_MIN} bytes, and all ` +
    `together may count as ${COUNT_MAX} bytes (12 MiB). Send it with a Content-Length, or in larger chunks.`
  return new CallerError('too_large', message)
}

export function tooLarge(): CallerError {
  return new CallerError('too_large', `The request body is larger than ${BODY_BYTES_MAX} bytes (10 MiB).`)
}
