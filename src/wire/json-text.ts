/** JSON text that is written as a string of JSON, such as the arguments of a tool call. */

import { BACKSLASH, CLOSE, CLOSE_LIST, COLON, COMMA, LETTER_U, OPEN, OPEN_LIST, QUOTE } from '../core/json-bytes.ts'
import { DEPTH_MAX } from './json-shape.ts'
import { STRING_BYTES_MAX, stringKernel } from './string-kernel.ts'

/** A shorter text is read byte by byte sooner than it is copied to the kernel. */
const KERNEL_BYTES_MIN = 96

/**
 * The commas and colons of JSON text that is written within a string, where each of its quotes and backslashes is
 * escaped; -1 if it is too deep, or escapes other characters too, so that it must be read to be counted.
 */
export function valuesWithin(bytes: Uint8Array, start: number, end: number): number {
  const kernel = kernelFor(bytes, start, end)
  return kernel === undefined ? plainValues(bytes, start, end) : kernel.values(end - start)
}

/** Text that was written within a string: the first bytes of a buffer. */
export interface UnescapedText {
  readonly buffer: Buffer
  readonly size: number
}

/**
 * The text that is written within a string; undefined if it has escapes such as `\u0041`, so that it must be read. Its
 * bytes stay the same until the next call. The buffer is nearly always the kernel's: a view of each text, and two more
 * to check it, took longer than to unescape it.
 */
export function unescapedWithin(bytes: Uint8Array, start: number, end: number): UnescapedText | undefined {
  const kernel = kernelFor(bytes, start, end)
  if (kernel === undefined) return plainUnescaped(bytes, start, end)
  const size = kernel.unescape(end - start)
  return size === -1 ? undefined : { buffer: kernel.unescaped, size }
}

/** Absent if there is none, or the text is too long or too short for it. The text is in its memory then. */
function kernelFor(bytes: Uint8Array, start: number, end: number): ReturnType<typeof stringKernel> {
  if (end - start < KERNEL_BYTES_MIN || end - start > STRING_BYTES_MAX) return undefined
  const kernel = stringKernel()
  // A view for `set` would take as long as counting 200 bytes.
  if (kernel !== undefined) Buffer.prototype.copy.call(bytes, kernel.memory, 0, start, end)
  return kernel
}

/** The byte that each escape of two characters stands for, by its second. */
const UNESCAPE = Uint8Array.from({ length: 256 }, (_, code) => code)
for (const [name, code] of Object.entries({ b: 8, f: 12, n: 10, r: 13, t: 9 })) UNESCAPE[name.charCodeAt(0)] = code

/** Of the text that was read last, byte by byte: nearly all of them are short. */
let unescaped = Buffer.alloc(KERNEL_BYTES_MIN)

/** The same as `unescapedWithin`, byte by byte: the reference of the kernel, and its substitute. */
export function plainUnescaped(bytes: Uint8Array, start: number, end: number): UnescapedText | undefined {
  if (end - start > unescaped.length) unescaped = Buffer.alloc(end - start)
  const buffer = unescaped
  let size = 0
  for (let at = start; at < end; at++) {
    let byte = bytes[at] ?? 0
    if (byte === BACKSLASH) {
      byte = bytes[++at] ?? 0
      if (byte === LETTER_U) return undefined
      byte = UNESCAPE[byte] ?? 0
    }
    buffer[size++] = byte
  }
  return { buffer, size }
}

/** The same as `valuesWithin`, byte by byte: the reference of the kernel, and its substitute. */
export function plainValues(bytes: Uint8Array, start: number, end: number): number {
  let [values, depth, inString] = [0, 0, false]
  for (let at = start; at < end; at++) {
    // Within a string only a backslash matters, and most of the bytes, such as those of a file, are within one.
    if (inString) while (at < end && bytes[at] !== BACKSLASH) at++
    switch (bytes[at]) {
      case BACKSLASH: {
        const escaped = bytes[++at]
        if (escaped === LETTER_U) return -1
        if (escaped === QUOTE) inString = !inString
        // A backslash of the inner text: within a string, it escapes the character that follows.
        else if (escaped === BACKSLASH && inString && bytes[++at] === BACKSLASH) at++
        break
      }
      case OPEN:
      case OPEN_LIST:
        if (!inString && ++depth > DEPTH_MAX) return -1
        break
      case CLOSE:
      case CLOSE_LIST:
        if (!inString) depth--
        break
      case COMMA:
      case COLON:
        if (!inString) values++
        break
    }
  }
  return values
}
