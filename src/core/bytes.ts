/**
 * A part of some bytes, from one index to another, and the size of texts in bytes. Most readers take the part in place,
 * because a view of it costs an event of a stream 0.7 µs.
 */

/** A UTF-16 unit takes at most so many bytes of UTF-8. */
const BYTES_A_UNIT = 3

/**
 * True if the text takes at most so many bytes of UTF-8. Measuring it costs 2 µs for a burst of 64 events, so it is
 * measured only if its length leaves that open.
 */
export function isAtMost(text: string, bytes: number): boolean {
  if (text.length > bytes) return false
  return BYTES_A_UNIT * text.length <= bytes || Buffer.byteLength(text) <= bytes
}

/** The text of a part, in UTF-8. Also of bytes that are no `Buffer`: to make one of a body takes 130 ns. */
export function textOf(bytes: Uint8Array, from: number, to: number): string {
  return Buffer.prototype.utf8Slice.call(bytes, from, to)
}

/** The part as bytes of their own length, in the same memory. */
export function partOf(bytes: Uint8Array, from: number, to: number): Uint8Array {
  // `subarray` of a Buffer costs three times as much: 300 ns.
  return to - from === bytes.byteLength ? bytes : new Uint8Array(bytes.buffer, bytes.byteOffset + from, to - from)
}

/** The same bytes as a view, through which several are read at once. */
export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** The text of bytes that must be UTF-8; undefined if they are not. */
export function decodedUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}
