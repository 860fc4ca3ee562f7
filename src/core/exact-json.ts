/**
 * Parses JSON that is written again, with all digits of its integers. A double holds 53 bits: with `JSON.parse` alone,
 * the id 12345678901234567890 in the arguments of a tool call becomes ...567000, and the caller's tool reads another
 * row.
 */

import { isObject, type JsonObject, type JsonValue } from './json.ts'
import { COLON, COMMA, OPEN_LIST } from './json-bytes.ts'

declare global {
  /** What TypeScript's library lacks: numbers that `JSON.stringify` writes as their text. */
  interface JSON {
    rawJSON(text: string): JsonObject & { readonly rawJSON: string }
    isRawJSON(value: unknown): value is { readonly rawJSON: string }
  }
}

/** An integer of fewer digits is below 2^53. */
const LONG_DIGITS = 16
const MINUS = 0x2d
const BLANK = 0x20
const DIGITS = /^-?[0-9]+$/

/**
 * The value of the text. An integer beyond 2^53 becomes an object that `JSON.stringify` writes with the same digits.
 * Throws `SyntaxError`.
 */
export function parseExact(text: string): JsonValue {
  return hasLongInteger(text) ? parseWithDigits(text) : JSON.parse(text)
}

/** The same for a request body, but its own fields stay numbers: `max_tokens` and others are checked as such. */
export function parseExactBody(text: string): JsonValue {
  if (!hasLongInteger(text)) return JSON.parse(text)
  const body = parseWithDigits(text)
  if (!isObject(body)) return body
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [name, plainNumber(value)]))
}

/** The nearest double of an integer that kept its digits; any other value unchanged. */
export function plainNumber<T>(value: T): T | number {
  return JSON.isRawJSON(value) ? Number(value.rawJSON) : value
}

function parseWithDigits(text: string): JsonValue {
  // TypeScript's library does not declare the third argument.
  const revive: (name: string, value: JsonValue) => JsonValue = withDigits
  return JSON.parse(text, revive)
}

function withDigits(_name: string, value: JsonValue, context?: { readonly source?: string }): JsonValue {
  const { source } = context ?? {}
  if (source === undefined || Number.isSafeInteger(value) || !Number.isInteger(value)) return value
  // 1E20 is written as without a long integer beside it.
  return DIGITS.test(source) ? JSON.rawJSON(source) : value
}

/**
 * True for every text with an integer of 16 digits or more, and for some whose strings only look so. Looks at every
 * 16th character: 0.3 us for a text of 2.5 KB, a fifth of the time to parse it; a regular expression takes 4 us.
 */
function hasLongInteger(text: string): boolean {
  for (let at = LONG_DIGITS - 1; at < text.length; at += LONG_DIGITS) {
    if (!isDigit(text, at)) continue
    let start = at
    while (isDigit(text, start - 1)) start--
    let end = at + 1
    while (isDigit(text, end)) end++
    if (end - start >= LONG_DIGITS && canBeNumber(text, start)) return true
    at = end - 1
  }
  return false
}

function isDigit(text: string, at: number): boolean {
  const unit = text.charCodeAt(at)
  return unit >= 0x30 && unit <= 0x39
}

/** Digits after a point are a fraction, and those after a letter part of a string. */
function canBeNumber(text: string, start: number): boolean {
  const unit = text.charCodeAt(text.charCodeAt(start - 1) === MINUS ? start - 2 : start - 1)
  return unit === COLON || unit === COMMA || unit === OPEN_LIST || unit <= BLANK
}
