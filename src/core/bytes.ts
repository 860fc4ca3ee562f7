/**
 * A part of some bytes, from one index to another. Most readers take the part in place, because a view of it costs an
 * event of a stream 0.7 µs.
 */

/** The part as bytes of their own length, in the same memory. */
export function partOf(bytes: Uint8Array, from: number, to: number): Uint8Array {
  // `subarray` of a Buffer costs three times as much: 300 ns.
  return to - from === bytes.byteLength ? bytes : new Uint8Array(bytes.buffer, bytes.byteOffset + from, to - from)
}
