/**
 * The input of turns on a socket: what is kept of one, and the body of a turn that continues it. What was read of the
 * input is kept with it, so that such a body has only what is new.
 */

import { CallerError } from '../core/caller-error.ts'
import { beginningOf } from '../core/error-message.ts'
import { LONG_NUMBERS_MAX } from '../core/exact-json.ts'
import { isArray, isObject } from '../core/json.ts'
import { NO_SHARED_BYTES, SharedBytes } from '../core/shared-bytes.ts'
import { type EarlierInput, earlierInput, type ReadInput } from '../dialects/responses/earlier-input.ts'
import { listedTools } from '../dialects/responses/request.ts'
import { VALUES_MAX } from '../wire/json-shape.ts'
import type { RequestBody } from '../wire/request-body.ts'

/** As the body of a `POST`. */
const BODY_BYTES_MAX = 10 * 1024 * 1024
/** A double has all numbers of fewer digits. */
const LONG_NUMBER_DIGITS = 16
const OPEN = Buffer.from('[')
const CLOSE_LIST = Buffer.from(']')

/** The input of a response in JSON, and what was read in it. */
export interface KeptInput {
  readonly bytes: SharedBytes
  /** Where its items are among the bytes: lists of them, joined by commas. From and to of each list in turn. */
  readonly lists: readonly number[]
  /** Absent: it is read again with each turn that continues it. */
  readonly read: EarlierInput | undefined
}

export const NO_INPUT: KeptInput = { bytes: NO_SHARED_BYTES, lists: [], read: undefined }

/** The body of a turn, and where its input is, if it has one. */
export interface TurnBody {
  readonly bytes: Buffer
  /** The items of a list without its brackets, or a text with its quotes. */
  readonly input: { readonly from: number; readonly to: number; readonly isText: boolean } | undefined
  /** The input that it continues and does not repeat. */
  readonly earlier?: KeptInput | undefined
  readonly read?: RequestBody | undefined
}

/** A response that is continued. */
interface Parent {
  readonly input: KeptInput
  /** Its output in JSON, items joined by commas. */
  readonly output: string
}

const COMMA = Buffer.from(',')
/** A text is one message of the user. */
const BEFORE_TEXT = Buffer.from('{"type":"message","role":"user","content":')
const AFTER_TEXT = Buffer.from('}')

/** The items of a list of items, or of a text, as pieces of JSON; none if the list is empty. */
function itemsOf({ bytes, input }: TurnBody): readonly Buffer[] {
  if (input === undefined) return []
  const written = bytes.subarray(input.from, input.to)
  if (input.isText) return [BEFORE_TEXT, written, AFTER_TEXT]
  return isBlank(written) ? [] : [written]
}

/** All items of an input, as pieces of JSON without the comma after the last. */
function allItemsOf({ bytes, lists }: KeptInput): readonly Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0; at < lists.length; at += 2) {
    if (at > 0) pieces.push(COMMA)
    pieces.push(...bytes.pieces(lists[at] ?? 0, lists[at + 1] ?? 0))
  }
  return pieces
}

/** How many bytes those are. */
export function itemBytesOf({ lists }: KeptInput): number {
  let bytes = 0
  for (let at = 0; at < lists.length; at += 2)
    bytes += (lists[at + 1] ?? 0) - (lists[at] ?? 0) + (at > 0 ? COMMA.length : 0)
  return bytes
}

/** The input of a turn for those that continue it. `read`: what its dialect has found in it. */
export function keptInput(body: TurnBody, read: ReadInput | undefined): KeptInput {
  const { input, earlier = NO_INPUT } = body
  const items = itemsOf(body)
  const [first] = items
  if (input === undefined || first === undefined) return { ...earlier, read: undefined }
  const isAlone = earlier.bytes.size === 0 && !input.isText && isMost(first, body.bytes)
  const lastTo = earlier.lists.at(-1)
  const continues = lastTo !== undefined && lastTo === earlier.bytes.size
  const bytes = isAlone ? SharedBytes.of([first]) : earlier.bytes.with(continues ? [COMMA, ...items] : items)
  const from = bytes.size - items.reduce((sum, { length }) => sum + length, 0)
  const lists = continues ? earlier.lists.with(-1, bytes.size) : [...earlier.lists, from, bytes.size]
  const newFrom = input.isText ? from + BEFORE_TEXT.length : from
  const found = read && earlierInput(read, bytes, { from: input.from, to: input.to, newFrom })
  return { bytes: found?.bytes ?? bytes, lists, read: found }
}

/** The rest of a body, such as long instructions, is memory that nothing counts. */
function isMost(items: Buffer, { length }: Buffer): boolean {
  return length - items.length <= items.length / 8
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d)
}

/**
 * The body of a turn that continues a response: with all of its input, or with what is new if the rest was read. Throws
 * `CallerError` if it is too large, or answers a call that the conversation has not.
 */
export function continuedBody({ bytes, input, read }: TurnBody, parent: Parent, rights: string): TurnBody {
  // Its error is that of a `POST`.
  if (input === undefined) return { bytes, input }
  checkOutputs(bytes, input, parent)
  const added = [parent.output === '' ? [] : [Buffer.from(parent.output)], itemsOf({ bytes, input })]
  const isRead = added.some(({ length }) => length > 0) && isReadAlike(parent, rights, read)
  const lists = (isRead ? added : [allItemsOf(parent.input), ...added]).filter(({ length }) => length > 0)
  const list = lists.flatMap((pieces, index) => (index === 0 ? pieces : [COMMA, ...pieces]))
  const [from, to] = input.isText ? [input.from, input.to] : [input.from - 1, input.to + 1]
  const whole = Buffer.concat([bytes.subarray(0, from), OPEN, ...list, CLOSE_LIST, bytes.subarray(to)])
  const earlier = isRead ? parent.input : undefined
  const others = earlier === undefined ? 0 : itemBytesOf(earlier) + COMMA.length
  if (whole.length + others > BODY_BYTES_MAX) {
    throw new CallerError('too_large', 'The conversation is larger than 10 MiB: shorten it.')
  }
  const end = whole.length - (bytes.length - to) - CLOSE_LIST.length
  return { bytes: whole, input: { from: from + OPEN.length, to: end, isText: false }, earlier }
}

/** Whether what was read is what would be read of it now, in a body that exceeds no limit of its structure. */
function isReadAlike({ input, output }: Parent, rights: string, read: RequestBody | undefined): boolean {
  const { state, rights: before, tools } = input.read ?? {}
  if (state === undefined || tools === undefined || read === undefined || before !== rights) return false
  const { document } = read
  const longNumbers = state.longNumbers + document.longNumbers + output.length / LONG_NUMBER_DIGITS
  if (longNumbers > LONG_NUMBERS_MAX || state.structure + document.structure + output.length > VALUES_MAX) return false
  if (!state.hasLifted) return true
  const { buffer, byteOffset, length } = read.bytes
  const hasMore = Buffer.from(buffer, byteOffset, length).includes(MORE_TOOLS)
  return document.isValid && Buffer.compare(listedTools(read), tools) === 0 && !hasMore
}

/** Of an item with tools. */
const MORE_TOOLS = 'additional_tools'

/** The type of a result, unless a letter of it is escaped. */
const OUTPUT = 'call_output"'
/** That of a letter, as every escape of one begins. */
const ESCAPED = '\\u00'

/** A result of a tool must answer a call that the conversation has. */
function checkOutputs(bytes: Buffer, input: NonNullable<TurnBody['input']>, parent: Parent): void {
  if (input.isText || !(bytes.includes(OUTPUT) || bytes.includes(ESCAPED))) return
  const items: unknown = JSON.parse(`[${bytes.toString('utf8', input.from, input.to)}]`)
  if (!isArray(items)) return
  const known = new Set<string>()
  const unread = earlierCalls(parent)
  for (const [index, item] of items.entries()) {
    if (!isObject(item) || typeof item['call_id'] !== 'string') continue
    const { type, call_id: id } = item
    if (type === 'function_call_output') {
      for (let ids = unread.next(); ids.done !== true && !known.has(id); ids = unread.next())
        for (const one of ids.value) known.add(one)
      if (!known.has(id)) {
        const message = `No tool call found for function call output with call_id '${beginningOf(id, ID_CHARS_MAX)}'.`
        throw new CallerError('invalid_field', message, { param: `input[${index}].call_id` })
      }
    }
    known.add(id)
  }
}

const CALL_ID = /"call_id"\s*:\s*("(?:[^"\\]|\\.)*")/g

/**
 * The ids of calls, the output's first: nearly always it has the call. In JSON, a name stands in quotes that are not
 * escaped, so that it is found without parsing what was sent before, unless a letter of it is escaped.
 */
function* earlierCalls({ input, output }: Parent): Generator<readonly string[], undefined> {
  yield namedIn(output)
  const texts = allItemsOf(input).map(String)
  for (const text of texts) yield namedIn(text)
  if (texts.some((text) => text.includes(ESCAPED))) yield parsedIn(texts.join(''))
  return undefined
}

function namedIn(text: string): readonly string[] {
  return Array.from(text.matchAll(CALL_ID), ([, id = '""']) => JSON.parse(id))
}

function parsedIn(items: string): readonly string[] {
  const ids: string[] = []
  JSON.parse(`[${items}]`, (name, value) => {
    if (name === 'call_id' && typeof value === 'string') ids.push(value)
    return value
  })
  return ids
}

/** Characters of an id that an error shows. */
export const ID_CHARS_MAX = 100
