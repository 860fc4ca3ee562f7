/** Parses the data of one frame of a provider's stream, which must be a JSON object, and finds the caller's choice. */

import { exactValue } from '../core/exact-json.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'
import { shapeProblem } from '../wire/json-shape.ts'

/** Shorter frames, which are nearly all, cannot be nested deep enough to do harm. */
const SCANNED_FROM = 4096

const BLANK_CHARS_MAX = 16

/** True for an event without content, by which proxies keep a connection open. */
export function isBlank(data: string): boolean {
  return data.length < BLANK_CHARS_MAX && data.trim() === ''
}

/**
 * Throws `ProviderError` `broken` for anything but a JSON object. Numbers that a double cannot hold keep their text
 * (`core/exact-json.ts`) if `repeatsNumbers` finds that the caller may get some of the frame, which few frames have.
 */
export function parseFrame(data: string, repeatsNumbers: (frame: JsonObject) => boolean = always): JsonObject {
  if (data.length >= SCANNED_FROM && shapeProblem(data) !== undefined) {
    throw new ProviderError('broken', 'an event of the stream is nested too deep, or holds too many values')
  }
  let value: JsonValue
  try {
    value = JSON.parse(data)
    if (!isObject(value) || repeatsNumbers(value)) value = exactValue(data, value)
  } catch (cause) {
    throw new ProviderError('broken', 'an event of the stream is not JSON', { cause })
  }
  if (!isObject(value)) throw new ProviderError('broken', 'an event of the stream is not a JSON object')
  return value
}

/** The choice for the caller: of several, the one with index 0. Azure's first chunk and usage chunks have none. */
export function firstChoice(choices: JsonValue | undefined): JsonObject | undefined {
  if (!isArray(choices)) return undefined
  for (const choice of choices) if (isObject(choice) && (choice['index'] ?? 0) === 0) return choice
  return undefined
}

function always(): boolean {
  return true
}
