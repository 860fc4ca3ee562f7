/**
 * Parses JSON that is written again, with all digits of its integers. A double holds 53 bits: with `JSON.parse` alone,
 * the id 12345678901234567890 in the arguments of a tool call becomes ...567000, and the caller's tool reads another
 * row.
 */

import { isObject, type JsonObject, type JsonValue } from './json.ts'

declare global {
  /** What TypeScript's library lacks: numbers that `JSON.stringify` writes as their text. */
  interface JSON {
    rawJSON(text: string): JsonObject & { readonly rawJSON: string }
    isRawJSON(value: unknown): value is { readonly rawJSON: string }
  }
}

/** Finds every integer of 16 digits or more, and some texts like one. Takes a tenth of the time of parsing. */
const LONG_INTEGER = /[:,[\s]-?[0-9]{16}/
const DIGITS = /^-?[0-9]+$/

/**
 * The value of the text. An integer beyond 2^53 becomes an object that `JSON.stringify` writes with the same digits.
 * Throws `SyntaxError`.
 */
export function parseExact(text: string): JsonValue {
  return LONG_INTEGER.test(text) ? parseWithDigits(text) : JSON.parse(text)
}

/** The same for a request body, but its own fields stay numbers: `max_tokens` and others are checked as such. */
export function parseExactBody(text: string): JsonValue {
  if (!LONG_INTEGER.test(text)) return JSON.parse(text)
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
