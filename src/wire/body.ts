/** A caller's body → a JSON object: the byte cap while reading, UTF-8, depth, JSON, object. Every way of being wrong is one `Failure`. */

import { Failure } from '../core/error.ts'
import { isObject, type JsonObject } from '../core/json.ts'

/** inference-api.md 8: 10 MiB, counted in bytes of UTF-8. */
export const BODY_BYTES_MAX = 10 * 1024 * 1024
/** Deeper nesting than any request needs; `JSON.stringify` and recursive walkers would give way at about 100,000. */
const DEPTH_MAX = 128
/** 10 MiB of `{"a":{}}` are 2.3 million values and block the loop for 110 ms; an agent's longest history has some 100,000. */
const VALUES_MAX = 1_000_000

const QUOTE = 0x22
const BACKSLASH = 0x5c

/**
 * Reads the body, at most `BODY_BYTES_MAX` bytes of it. A declared length over the cap is refused before a byte is read; an undeclared
 * one as soon as the count passes. Throws `Failure` `too_large`, or `malformed_body` where the caller left half-way.
 */
export function readBody(request: Request): Promise<Uint8Array> {
  const declared = request.headers.get('content-length')
  if (declared !== null) {
    if (Number(declared) > BODY_BYTES_MAX) throw tooLarge()
    const bytes = request.bytes()
    // What came with the head is there at once, and stays so: whoever waits with a clock need not.
    return Bun.peek.status(bytes) === 'fulfilled' ? bytes : bytes.catch(brokenOff)
  }
  return request.body === null ? Promise.resolve(new Uint8Array(0)) : readCounted(request.body)
}

async function readCounted(body: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  const reader = body.getReader()
  for (;;) {
    const { value, done } = await reader.read().catch(brokenOff)
    if (done) break
    size += value.byteLength
    if (size > BODY_BYTES_MAX) {
      // The rest is left unread; the connection is closed behind the answer.
      reader.cancel().catch(() => undefined)
      throw tooLarge()
    }
    chunks.push(value)
  }
  return Buffer.concat(chunks, size)
}

/** Bytes → the object they spell. Throws `Failure` `malformed_body`. */
export function parseBody(bytes: Uint8Array): JsonObject {
  const text = decode(bytes)
  checkShape(text)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw malformed(`The request body is not valid JSON${error instanceof Error ? `: ${error.message}` : ''}.`)
  }
  if (!isObject(value)) throw malformed('The request body must be a JSON object.')
  return value
}

function decode(bytes: Uint8Array): string {
  try {
    // One a call: a fatal decoder that threw keeps half a character.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw malformed('The request body is not valid UTF-8.')
  }
}

/** Depth and number of values, from the text alone: a parser would have to build them first. Strings are skipped with native searches. */
function checkShape(text: string): void {
  let depth = 0
  let values = 0
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = closingQuote(text, at)
        if (at === -1) return
        break
      case 0x5b:
      case 0x7b:
        if (++depth > DEPTH_MAX) throw malformed(`The request body is nested more than ${DEPTH_MAX} levels deep.`)
        break
      case 0x5d:
      case 0x7d:
        depth--
        break
      case 0x2c:
      case 0x3a:
        if (++values > VALUES_MAX) throw malformed(`The request body holds more than ${VALUES_MAX} values.`)
        break
    }
  }
}

/** Where the string that opens at `open` closes, or -1 where it never does (the parser says so better). */
function closingQuote(text: string, open: number): number {
  for (let at = text.indexOf('"', open + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let before = at - 1
    while (text.charCodeAt(before) === BACKSLASH) before--
    if ((at - before) % 2 === 1) return at
  }
  return -1
}

function brokenOff(cause: unknown): never {
  throw new Failure('malformed_body', 'The request body ended before its declared length.', { cause })
}

function malformed(message: string): Failure {
  return new Failure('malformed_body', message)
}

function tooLarge(): Failure {
  return new Failure('too_large', `The request body is larger than ${BODY_BYTES_MAX} bytes (10 MiB).`)
}
