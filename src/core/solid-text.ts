/** The part of a text, written inside a JSON string, that no trimming touches. */

import { BACKSLASH, hasBackslash, LETTER_U } from './json-bytes.ts'

/** How far from the ends of a text its first and last solid characters are looked for. */
const SOLID_WITHIN = 256
/** The longest escape, `\u0041`. */
const ESCAPE_BYTES = 6

/** The index of the first character that is certainly not blank; -1 if the text does not begin with one soon. */
export function solidStart(bytes: Uint8Array, start: number, end: number): number {
  const last = Math.min(end, start + SOLID_WITHIN)
  for (let at = start; at < last; ) {
    const byte = bytes[at] ?? 0
    if (byte === BACKSLASH) at += bytes[at + 1] === LETTER_U ? ESCAPE_BYTES : 2
    else if (isSolid(byte)) return at
    else at++
  }
  return -1
}

/** The index after the last character that is certainly neither blank nor part of an escape; -1 if there is none. */
export function solidEnd(bytes: Uint8Array, start: number, end: number): number {
  const first = Math.max(start + ESCAPE_BYTES, end - SOLID_WITHIN)
  for (let at = end; at > first; at--) {
    if (isContinuation(bytes[at] ?? 0)) continue
    let lead = at - 1
    while (isContinuation(bytes[lead] ?? 0)) lead--
    if (isSolid(bytes[lead] ?? 0) && !hasBackslash(bytes, at - ESCAPE_BYTES, at)) return at
  }
  return -1
}

/**
 * True for the first byte of a character that is not blank: printable ASCII, and sequences of UTF-8 except for those
 * that begin like a blank (U+0085, U+00A0, U+1680, U+2000 to U+205F, U+3000, U+FEFF).
 */
function isSolid(byte: number): boolean {
  if (byte < 0x80) return byte > 0x20 && byte !== 0x7f && byte !== BACKSLASH
  return byte >= 0xc3 && byte !== 0xe1 && byte !== 0xe2 && byte !== 0xe3 && byte !== 0xef
}

function isContinuation(byte: number): boolean {
  return byte >= 0x80 && byte < 0xc0
}
