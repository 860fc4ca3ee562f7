/** Parses the data of one frame of a provider's stream, which must be a JSON object. */

import { parseExact } from '../core/exact-json.ts'
import { isObject, type JsonObject } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'
import { shapeProblem } from '../wire/json-shape.ts'

/** Shorter frames, which are nearly all, cannot be nested deep enough to do harm. */
const SCANNED_FROM = 4096

const BLANK_CHARS_MAX = 16

/** True for an event without content, by which proxies keep a connection open. */
export function isBlank(data: string): boolean {
  return data.length < BLANK_CHARS_MAX && data.trim() === ''
}

/** Throws `ProviderError` `broken` for anything but a JSON object. */
export function parseFrame(data: string): JsonObject {
  if (data.length >= SCANNED_FROM && shapeProblem(data) !== undefined) {
    throw new ProviderError('broken', 'an event of the stream is nested too deep, or holds too many values')
  }
  let value: unknown
  try {
    value = parseExact(data)
  } catch (cause) {
    throw new ProviderError('broken', 'an event of the stream is not JSON', { cause })
  }
  if (!isObject(value)) throw new ProviderError('broken', 'an event of the stream is not a JSON object')
  return value
}
