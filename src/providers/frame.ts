/** The data of one frame of a provider's stream → the JSON object that it must be. */

import { Fault } from '../core/fault.ts'
import { isObject, type JsonObject } from '../core/json.ts'

/** Throws `Fault` `broken` for everything that is not a JSON object. */
export function parseFrame(data: string): JsonObject {
  let value: unknown
  try {
    value = JSON.parse(data)
  } catch (cause) {
    throw new Fault('broken', 'an event of the stream is not JSON', { cause })
  }
  if (!isObject(value)) throw new Fault('broken', 'an event of the stream is not a JSON object')
  return value
}
