/**
 * Parses JSON that is written again, with numbers that are the same after it. A double holds 53 bits and 308 digits
 * before the point, and `JSON.stringify` writes -0 as 0: with `JSON.parse` alone, the id 12345678901234567890 in the
 * arguments of a tool call becomes ...567000, so that the caller's tool reads another row, and 1e400 becomes null.
 */

import { isObject, type JsonObject, type JsonValue } from './json.ts'
import { BACKSLASH, COLON, isDigit, isEscaped, isInNumber, MINUS, QUOTE, ZERO } from './json-bytes.ts'

declare global {
  /** What TypeScript's library lacks: numbers that `JSON.stringify` writes as their text. */
  interface JSON {
    rawJSON(text: string): JsonObject & { readonly rawJSON: string }
    isRawJSON(value: unknown): value is { readonly rawJSON: string }
  }
}

/**
 * How many numbers of a caller's request may keep their text. Each takes 1 µs to parse and as long to write: 240,000 of
 * them held the event loop for 280 ms.
 */
export const LONG_NUMBERS_MAX = 10_000
/** A double has at most 309 digits before the point, and 767 that count. One of 8 MiB takes 100 ms to read. */
export const NUMBER_CHARS_MAX = 1024

/** How many more numbers may keep their text, in all texts that are parsed with it. */
export interface LongNumbersLeft {
  left: number
}

/** A text has more of them, or one that is too long. */
export class LongNumbersError extends Error {
  constructor(problem = `more than ${LONG_NUMBERS_MAX} numbers with more digits than a double has`) {
    super(`it holds ${problem}`)
    this.name = 'LongNumbersError'
  }
}

const UNLIMITED: LongNumbersLeft = { left: Number.POSITIVE_INFINITY }

/**
 * The value of the text. A number that a double cannot hold becomes an object that `JSON.stringify` writes as the text
 * of the number. Throws `SyntaxError`, and `LongNumbersError`.
 */
export function parseExact(text: string, longNumbers?: LongNumbersLeft): JsonValue {
  return hasInexact(text) ? parseWithTexts(text, longNumbers) : JSON.parse(text)
}

/**
 * What `parseExact` returns, after `JSON.parse` has made `value` of the text: for a reader that finds in the value
 * whether numbers of it are written again. Searching the text for them takes 0.2 us for an answer of 340 bytes.
 */
export function exactValue(text: string, value: JsonValue): JsonValue {
  return hasInexact(text) ? parseWithTexts(text) : value
}

/**
 * The same for a caller's body, but its own fields stay numbers: `max_tokens` and others are checked as such. A seed is
 * only passed on, and callers send any of 64 bits.
 */
export function parseExactBody(text: string): JsonValue {
  if (!hasInexact(text)) return JSON.parse(text)
  const body = parseWithTexts(text, { left: LONG_NUMBERS_MAX })
  if (!isObject(body)) return body
  return Object.fromEntries(
    Object.entries(body).map(([name, value]) => [name, name === 'seed' ? value : plainNumber(value)]),
  )
}

/** The nearest double of a number that kept its text; any other value unchanged. */
export function plainNumber<T>(value: T): T | number {
  return JSON.isRawJSON(value) ? Number(value.rawJSON) : value
}

/** An integer that kept its text because a double does not hold it; undefined for any other value. */
export function longInteger(value: JsonValue | undefined): bigint | undefined {
  if (!JSON.isRawJSON(value) || !INTEGER.test(value.rawJSON)) return undefined
  return Number.isSafeInteger(Number(value.rawJSON)) ? undefined : BigInt(value.rawJSON)
}

/**
 * Parses the text with a placeholder, a string, for each number that is not exact, and then puts the numbers into the
 * value. A reviver of `JSON.parse` would be called for every value of the text: with 240,000 of them, one such number
 * took 90 ms.
 */
function parseWithTexts(text: string, longNumbers = UNLIMITED): JsonValue {
  const places = inexactPlaces(text, longNumbers.left)
  longNumbers.left -= places.length / 2
  const numbers: JsonValue[] = []
  // No caller can guess it.
  const prefix = `#${crypto.randomUUID()}:`
  let replaced = ''
  let at = 0
  for (let place = 0; place < places.length; place += 2) {
    const [start = 0, end = 0] = [places[place], places[place + 1]]
    const number = text.slice(start, end)
    // A string in the place of a name, or of what is no number, would hide the mistake.
    if (!NUMBER.test(number) || isName(text, end)) return JSON.parse(text)
    replaced += `${text.slice(at, start)}"${prefix}${numbers.length}"`
    numbers.push(JSON.rawJSON(number))
    at = end
  }
  let value: JsonValue
  try {
    value = JSON.parse(replaced + text.slice(at))
  } catch {
    // Its error names the place in the text as it is.
    return JSON.parse(text)
  }
  const numberOf = (found: string) =>
    found.startsWith(prefix) ? numbers[Number(found.slice(prefix.length))] : undefined
  return typeof value === 'string' ? (numberOf(value) ?? value) : withNumbers(value, numberOf)
}

/** The same value with numbers in place of their placeholders. */
function withNumbers(root: JsonValue, numberOf: (found: string) => JsonValue | undefined): JsonValue {
  const waiting: JsonValue[] = [root]
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (Array.isArray(node)) {
      for (let index = 0; index < node.length; index++) {
        const value = node[index]
        if (typeof value === 'string') node[index] = numberOf(value) ?? value
        else if (typeof value === 'object' && value !== null) waiting.push(value)
      }
    } else if (typeof node === 'object' && node !== null) {
      const members = node as Record<string, JsonValue>
      for (const name of Object.keys(members)) {
        const value = members[name]
        // All of them are own members, also one that is called `__proto__`.
        if (typeof value === 'string') members[name] = numberOf(value) ?? value
        else if (typeof value === 'object' && value !== null) waiting.push(value)
      }
    }
  }
  return root
}

/** RFC 8259, section 6. */
export const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** Whether a colon follows. */
function isName(text: string, end: number): boolean {
  let at = end
  while (BLANK.has(text.charCodeAt(at))) at++
  return text.charCodeAt(at) === COLON
}

const BLANK: ReadonlySet<number> = new Set([0x20, 0x0a, 0x0d, 0x09])

/**
 * The begin and end of each number outside strings that is not exact. Throws `LongNumbersError` if there are more than
 * `most`, or if one is too long; not without a limit.
 */
function inexactPlaces(text: string, most: number): readonly number[] {
  const places: number[] = []
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) at = endOfString(text, at + 1)
    else if (unit === MINUS || isDigit(unit)) {
      const end = endOfNumber(text, at)
      if (most < Number.POSITIVE_INFINITY && end - at > NUMBER_CHARS_MAX)
        throw new LongNumbersError(`a number of more than ${NUMBER_CHARS_MAX} characters`)
      if (!isExactAt(text, at, end)) {
        places.push(at, end)
        if (places.length > 2 * most) throw new LongNumbersError()
      }
      at = end - 1
    }
  }
  return places
}

/** Doubles of a usual size keep 15 digits, and are written with 17 at most. */
const KEPT_CHARS_MAX = 15
const WRITTEN_DIGITS_MAX = 17
const USUAL_MIN = 1e-300
const POINT = 0x2e

/** Whether the value is written as the same number. */
function isExact(source: string, value: number): boolean {
  if (!Number.isFinite(value)) return false
  if (source.length <= KEPT_CHARS_MAX && Math.abs(value) > USUAL_MIN) return true
  // An integer stays an integer: 10000000000000000000000 would be written as 1e+22, which some readers take for a
  // fraction.
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && INTEGER.test(source)) return false
  const digits = digitsOf(source)
  if (digits.length > WRITTEN_DIGITS_MAX) return false
  const written = `${value}`
  // The two differ by less than a factor of 10, so that the same digits have the same exponent.
  return written === source || (!(value === 0 && source.startsWith('-')) && digits === digitsOf(written))
}

const INTEGER = /^-?[0-9]+$/

/** The digits before an exponent, without a point, and without zeros at both ends. */
function digitsOf(number: string): string {
  let [first, last, point] = [-1, -1, -1]
  for (let at = 0; at < number.length; at++) {
    const unit = number.charCodeAt(at)
    if (unit === POINT) point = at
    else if (isDigit(unit)) {
      if (unit === ZERO) continue
      if (first === -1) first = at
      last = at
    } else if (unit !== MINUS) break
  }
  const digits = number.slice(first, last + 1)
  return first < point && point < last ? digits.replace('.', '') : digits
}

/**
 * The beginning of every number that may not be exact, after a character that may precede a number: -0, 16 characters,
 * or an exponent of three digits.
 */
const CANDIDATE = /[:,[ \n\r\t](?:-0|-?[0-9](?:[0-9.]{15}|[0-9.]*[eE][-+0-9][0-9]{2}))/g
/** The strings of a longer text are skipped: of base64 the regular expression searches 1 KB in 1 us. */
const SEARCHED_CHARS_MAX = 64 * 1024

/**
 * True for every text with a number that is not exact, and for some whose strings only look so. Takes 0.3 us for a text
 * of 2.5 KB, a fifth of the time to parse it.
 */
function hasInexact(text: string): boolean {
  return text.length > SEARCHED_CHARS_MAX ? hasInexactBetweenStrings(text) : searchInexact(text)
}

function searchInexact(text: string): boolean {
  // The text may be a number.
  if (isInNumber(text.charCodeAt(0))) return !isExactAt(text, 0, endOfNumber(text, 0))
  CANDIDATE.lastIndex = 0
  while (CANDIDATE.test(text)) {
    const end = endOfNumber(text, CANDIDATE.lastIndex)
    let start = CANDIDATE.lastIndex
    while (isInNumber(text.charCodeAt(start - 1))) start--
    if (!isExactAt(text, start, end)) return true
    CANDIDATE.lastIndex = end
  }
  return false
}

function hasInexactBetweenStrings(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) at = endOfString(text, at + 1)
    else if (unit === MINUS || isDigit(unit)) {
      const end = endOfNumber(text, at)
      if (!isExactAt(text, at, end)) return true
      at = end - 1
    }
  }
  return false
}

/**
 * The index of the quote that ends a string, or of the end of the text. From an escaped quote on, character by
 * character: a native search for each of many takes 4 times as long.
 */
function endOfString(text: string, from: number): number {
  const quote = text.indexOf('"', from)
  if (quote === -1) return text.length
  if (!isEscaped(text, quote)) return quote
  for (let at = quote + 1; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === BACKSLASH) at++
    else if (unit === QUOTE) return at
  }
  return text.length
}

function endOfNumber(text: string, from: number): number {
  let end = from
  while (isInNumber(text.charCodeAt(end))) end++
  return end
}

/** Too long a number is none that is read as it is. */
function isExactAt(text: string, start: number, end: number): boolean {
  return end - start <= NUMBER_CHARS_MAX && isExactNumber(text.slice(start, end))
}

/** Whether a number, as it was written, is the same number when it was read as a double and written again. */
export function isExactNumber(source: string): boolean {
  return isExact(source, Number(source))
}
