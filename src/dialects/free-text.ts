/**
 * Free-form tools, whose calls have a text instead of arguments. For a model such a tool is a function of
 * one text, `{"input": "…"}`: here is its schema, and its text as it is read from the arguments.
 */

import type { AnswerCall } from '../core/completion.ts'
import { isObject, type JsonObject, type JsonValue, objectOf } from '../core/json.ts'
import { jsonInside, lineOf } from '../wire/sse.ts'
import { invalid, missing } from './invalid-field.ts'

export const TEXT_PARAMETERS =
  '{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}'

const SYNTAXES: readonly unknown[] = ['lark', 'regex']

/** Throws `CallerError` for a format that is neither a text nor a grammar. `member`: what holds the grammar, if any. */
export function checkFormat(format: JsonValue | undefined, path: string, member?: 'grammar'): void {
  if (!isObject(format)) throw invalid(path, 'must be an object')
  if (format['type'] === 'text') return
  if (format['type'] !== 'grammar') throw invalid(`${path}.type`, "must be 'text' or 'grammar'")
  const at = member === undefined ? path : `${path}.${member}`
  const { syntax, definition } = (member === undefined ? format : objectOf(format[member])) ?? {}
  if (!SYNTAXES.includes(syntax)) throw invalid(`${at}.syntax`, "must be 'lark' or 'regex'")
  if (typeof definition !== 'string' || definition === '') throw missing(`${at}.definition`)
}

/** What a model that gets no grammar reads of it. '' for nothing. */
export function freeDescription(description: string, { syntax, definition }: JsonObject = {}): string {
  const words = description === '' ? [] : [description]
  if (typeof definition === 'string') words.push(`The input must match this grammar (${syntax}):\n${definition}`)
  return words.join('\n\n')
}

const OPENING = /^\s*\{\s*"input"\s*:\s*"/
/** Arguments that begin in another way are read once they are whole. */
const OPENING_CHARS_MAX = 64
/** Models write line ends into JSON as they are. */
const CONTROL = /[\x00-\x1f]/g
/** An escape, or a backslash that begins none, or the quote after one that lacks digits. */
const ESCAPE_OR_STRAY = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|["\\]/g

/** Reads the text of one call as its arguments come. Takes and returns pieces of JSON. */
export class FreeText {
  private state: 'before' | 'inside' | 'after' | 'odd' = 'before'
  private held = ''

  /** The next piece of the text, as the inside of a JSON string. */
  add(json: string, isLast: boolean): string {
    this.held += json
    if (this.state === 'before') this.begin(isLast)
    if (this.state === 'inside') return this.inside(isLast)
    if (this.state !== 'odd' || !isLast) return ''
    this.state = 'after'
    return jsonInside(textOf(this.held))
  }

  private begin(isLast: boolean): void {
    const opening = OPENING.exec(this.held)
    if (opening !== null) {
      this.state = 'inside'
      this.held = this.held.slice(opening[0].length)
    } else if (isLast || this.held.length > OPENING_CHARS_MAX) this.state = 'odd'
  }

  private inside(isLast: boolean): string {
    const { held } = this
    let end = 0
    while (end < held.length && held[end] !== '"') {
      const next = end + sizeAt(held, end)
      if (next > held.length && !isLast) break
      end = next
    }
    const isWhole = held[end] === '"'
    if (isWhole) this.state = 'after'
    this.held = isWhole ? '' : held.slice(end)
    return safe(held.slice(0, end))
  }
}

/** How long the character is that begins here, or would be with what is still to come: an escape, or a pair of them. */
function sizeAt(json: string, at: number): number {
  const next = json[at + 1]
  if (json[at] !== '\\') return isFirstHalf(json.charCodeAt(at)) && !(next !== undefined && next < '\udc00') ? 2 : 1
  if (next !== 'u') return 2
  const isOfPair = isFirstHalf(Number.parseInt(json.slice(at + 2, at + 6), 16))
  const isEscaped = json[at + 6] === undefined || json.slice(at + 6, at + 8) === '\\u'.slice(0, json.length - at - 6)
  return isOfPair && isEscaped ? 12 : 6
}

/** Of a character beyond U+FFFF. */
function isFirstHalf(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00
}

/**
 * The text of a call of a whole answer. Of a call that the output limit or a filter cut, what a stream has of it: the
 * arguments themselves would show the caller the object around its text.
 */
export function callText({ json, isWhole }: Pick<AnswerCall, 'json' | 'isWhole'>): string {
  return isWhole ? textOf(json) : JSON.parse(`"${new FreeText().add(json, false)}"`)
}

/** The text of a call whose arguments are whole; the arguments themselves if they have none. */
export function textOf(json: string): string {
  try {
    const value: unknown = JSON.parse(json)
    if (!isObject(value)) return json
    const { input = Object.keys(value).length === 0 ? '' : json } = value
    return typeof input === 'string' ? input : json
  } catch (error) {
    if (error instanceof SyntaxError) return json
    throw error
  }
}

/** The text as valid JSON on one line. Nothing has parsed the arguments of a call that is cut. */
function safe(inside: string): string {
  const escaped = inside.replace(ESCAPE_OR_STRAY, (found) => (found.length === 1 ? `\\${found}` : found))
  return lineOf(escaped.replace(CONTROL, (unit) => `\\u00${unit.charCodeAt(0).toString(16).padStart(2, '0')}`))
}
