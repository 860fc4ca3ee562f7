/**
 * The members of a JSON object as views of its bytes, so that unchanged members are sent on without a copy. A body with
 * images is large, and would otherwise be held as text, as values and as text again.
 */

import { CallerError } from '../core/caller-error.ts'
import { BACKSLASH, CLOSE, CLOSE_LIST, COLON, COMMA, OPEN, OPEN_LIST, QUOTE } from '../core/json-bytes.ts'

export interface JsonMember {
  readonly name: string
  /** The name, the colon and the value: a view of the object's bytes. */
  readonly bytes: Uint8Array
}

/** Many times the number of fields that any provider has. */
const MEMBERS_MAX = 1024
/** A longer name is that of no field: decoding one of 8 MiB of escapes takes 100 ms. */
const NAME_BYTES_MAX = 1024

/**
 * The members in order; one with a name of more than 1 KiB has none. Of members with the same name only the last
 * counts, as in a parser. `bytes` must be a JSON object that was parsed before. Throws `CallerError` `malformed_body`
 * if there are too many members.
 */
export function membersOf(bytes: Uint8Array): readonly JsonMember[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const members = new Map<string, JsonMember>()
  let at = buffer.indexOf(OPEN) + 1
  for (let count = 0; ; count++) {
    const start = buffer.indexOf(QUOTE, at)
    if (start === -1) break
    if (count === MEMBERS_MAX) {
      throw new CallerError('malformed_body', `The request body holds more than ${MEMBERS_MAX} fields.`)
    }
    const nameEnd = closingQuote(buffer, start) + 1
    const end = valueEnd(buffer, nameEnd)
    const name = nameEnd - start > NAME_BYTES_MAX ? '' : String(JSON.parse(buffer.toString('utf8', start, nameEnd)))
    members.delete(name)
    members.set(name, { name, bytes: buffer.subarray(start, end) })
    if (buffer[end] !== COMMA) break
    at = end + 1
  }
  return [...members.values()]
}

/**
 * The end of the value that begins after `from`: the comma or the closing brace of the object itself. Strings are
 * skipped by native searches.
 */
function valueEnd(buffer: Buffer, from: number): number {
  let depth = 0
  for (let at = from; at < buffer.length; at++) {
    switch (buffer[at]) {
      case QUOTE:
        at = closingQuote(buffer, at)
        break
      case OPEN:
      case OPEN_LIST:
        depth++
        break
      case CLOSE:
      case CLOSE_LIST:
        if (depth-- === 0) return at
        break
      case COMMA:
        if (depth === 0) return at
        break
    }
  }
  throw new Error('the bytes are not a JSON object')
}

function closingQuote(buffer: Buffer, open: number): number {
  const quote = buffer.indexOf(QUOTE, open + 1)
  if (quote !== -1 && buffer[quote - 1] !== BACKSLASH) return quote
  // Byte by byte if there are escapes: a native search for each of many escaped quotes takes 20 times as long.
  for (let at = open + 1; at < buffer.length; at++) {
    if (buffer[at] === BACKSLASH) at++
    else if (buffer[at] === QUOTE) return at
  }
  throw new Error('the bytes are not a JSON object')
}

/** The number of member names, at every depth, in the bytes of JSON or of one member: colons outside strings. */
export function countNames(bytes: Uint8Array): number {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let names = 0
  for (let at = 0; at < buffer.length; at++) {
    if (buffer[at] === QUOTE) at = closingQuote(buffer, at)
    else if (buffer[at] === COLON) names++
  }
  return names
}

/** The bytes of an object with a first member of our own, followed by these members. */
export function writeMembers(
  first: readonly [name: string, value: string],
  members: readonly JsonMember[],
): Uint8Array[] {
  const [name, value] = first
  const pieces: Uint8Array[] = [Buffer.from(`{${JSON.stringify(name)}:${JSON.stringify(value)}`)]
  for (const member of members) pieces.push(Buffer.of(COMMA), member.bytes)
  pieces.push(Buffer.of(CLOSE))
  return pieces
}
