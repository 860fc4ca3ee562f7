/** JSON text that is written as a string of JSON, such as the arguments of a tool call. */

import { BACKSLASH, CLOSE, CLOSE_LIST, COLON, COMMA, LETTER_U, OPEN, OPEN_LIST, QUOTE } from '../core/json-bytes.ts'
import { DEPTH_MAX } from './json-shape.ts'

/**
 * The commas and colons of JSON text that is written within a string, where each of its quotes and backslashes is
 * escaped; -1 if it is too deep, or escapes other characters too, so that it must be read to be counted.
 */
export function valuesWithin(bytes: Uint8Array, start: number, end: number): number {
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
