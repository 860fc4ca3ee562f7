/** Whether bytes are the JSON of an object, checked by their structure: a parser would make its values, too. */

import { OPEN } from '../core/json-bytes.ts'
import { isBlank, JsonCursor, Unusual } from './json-cursor.ts'
import { structureFinder } from './json-structure.ts'

/**
 * The first `size` bytes must be UTF-8. False also for an object that is too deep, or that a parser would write in
 * another way, but for blanks and escapes.
 */
export function isObjectJson(bytes: Uint8Array, size: number): boolean {
  const finder = structureFinder()
  const found = finder.find(bytes, size)
  if (found === -1) return false
  const cursor = new JsonCursor(bytes, finder.positions, found)
  try {
    if (!cursor.isNext(OPEN)) return false
    cursor.value(0)
  } catch (error) {
    if (error instanceof Unusual) return false
    throw error
  }
  if (cursor.isRewritten) return false
  for (let at = cursor.offset; at < size; at++) if (!isBlank(bytes[at])) return false
  return true
}
