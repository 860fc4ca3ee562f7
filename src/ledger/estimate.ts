/**
 * How many tokens something will take, before a provider has counted it: cheap, and on the safe side within reason. What is held
 * rests on it; what is charged does so only where the provider gave no figure.
 *
 * No tokenizer: each vendor has another, and one that is exact for one of them costs 30 to 100 ns a character. The weights below were
 * fitted to o200k_base on prose, code, JSON, logs and a dozen scripts: within 15 % on all of the first four.
 */

import { isArray, isObject, type JsonValue } from '../core/json.ts'
import type { ChatRequest, Message, Tool, UserPart } from '../core/request.ts'
import { imageTokens, REMOTE_IMAGE_TOKENS } from './image-size.ts'

/** Claude's tokenizer gives a tenth to a fifth more than o200k_base; the rest is the safe side. */
const SAFETY = 1.15
/** Role, separators and the like, as vendors document them (3 to 4). */
const TOKENS_A_MESSAGE = 4
/** The wrapping of one tool definition or one call. */
const TOKENS_A_TOOL = 10

/** Longer texts are sampled: 16 windows of 128 characters, evenly spaced. So no text costs more than about 4 µs. */
const SAMPLED_FROM = 2048
const WINDOW = 128

/** Base64 of a document or of sound: about 3,000 tokens for 100 KB of PDF, 32 a second of 128 kbit/s sound. */
const FILE_CHARACTERS_A_TOKEN = 44
const AUDIO_CHARACTERS_A_TOKEN = 660
/** A string without spaces that is longer than this and is legal base64 is taken for encoded bytes. */
const ENCODED_FROM = 1024

const OTHER = 0
const LOWER = 1
const UPPER = 2
const DIGIT = 3
const SPACE = 4
const INDENT = 5
const LINE = 6
const ACCENTED = 7
const GREEK_CYRILLIC = 8
const MIDDLE = 9
const SYMBOL = 10
const WIDE = 11
const CLASSES = 12

const ASCII = Uint8Array.from({ length: 128 }, (_, code) => asciiClass(code))

function asciiClass(code: number): number {
  if (code >= 97 && code <= 122) return LOWER
  if (code >= 65 && code <= 90) return UPPER
  if (code >= 48 && code <= 57) return DIGIT
  if (code === 32 || code === 9) return SPACE
  return code === 10 || code === 13 ? LINE : OTHER
}

/** Scripts by code unit: Latin with accents, Greek and Cyrillic, Hebrew to Southeast Asian, symbols, then CJK, Hangul and emoji halves. */
function otherClass(code: number): number {
  if (code < 0x250) return ACCENTED
  if (code < 0x530) return GREEK_CYRILLIC
  if (code < 0x2000) return MIDDLE
  return code < 0x2e80 ? SYMBOL : WIDE
}

/** Tokens for a character of a class (second) that follows one of another (first). */
const COST = costs()

function costs(): Float64Array {
  const begins = [0.75, 0.84, 0.95, 0.95, 0, 1, 0.55, 0.6, 0.4, 0.6, 1.1, 1]
  const goesOn = [0.3, 0.04, 0.4, 0.32, 0, 0, 0, 0.6, 0.4, 0.6, 1.1, 1]
  const table = new Float64Array(CLASSES * CLASSES)
  for (let first = 0; first < CLASSES; first++) {
    for (let second = 0; second < CLASSES; second++) {
      table[first * CLASSES + second] = (first === second ? goesOn : begins)[second] ?? 0
    }
  }
  table[UPPER * CLASSES + LOWER] = 0.05
  table[SPACE * CLASSES + DIGIT] = 1.95
  return table
}

function scan(text: string, from: number, to: number): number {
  let tokens = 0
  let last = SPACE
  for (let i = from; i < to; i++) {
    const code = text.charCodeAt(i)
    let kind = code < 128 ? (ASCII[code] ?? OTHER) : otherClass(code)
    if (kind === SPACE && i > from && (last === SPACE || last === INDENT)) kind = INDENT
    tokens += COST[last * CLASSES + kind] ?? 0
    last = kind
  }
  return tokens
}

/** Tokens of a text, without the safety margin; not rounded. */
function textTokens(text: string): number {
  const length = text.length
  if (length <= SAMPLED_FROM) return scan(text, 0, length)
  const windows = SAMPLED_FROM / WINDOW
  let tokens = 0
  for (let i = 0; i < windows; i++) {
    const from = Math.floor((i * (length - WINDOW)) / (windows - 1))
    tokens += scan(text, from, from + WINDOW)
  }
  return (tokens * length) / SAMPLED_FROM
}

/** Tokens of a JSON value as a model reads it. Encoded bytes within it count by their size. */
function jsonTokens(value: JsonValue | undefined, charactersAToken: number): number {
  if (typeof value === 'string') {
    return isEncoded(value) ? value.length / charactersAToken : textTokens(value) + 1
  }
  if (isArray(value)) {
    let tokens = 1
    for (const item of value) tokens += jsonTokens(item, charactersAToken)
    return tokens
  }
  if (!isObject(value)) return 1.5
  let tokens = 1
  for (const key in value)
    tokens += 1.5 + scan(key, 0, Math.min(key.length, WINDOW)) + jsonTokens(value[key], charactersAToken)
  return tokens
}

const BASE64 = /^(?:data:[^,]{0,100},)?[A-Za-z0-9+/_=-]+$/

function isEncoded(text: string): boolean {
  return text.length >= ENCODED_FROM && BASE64.test(text.slice(0, ENCODED_FROM))
}

/** The input tokens of a request: its messages, images by their size in pixels, and its tools. */
export function estimateInput(request: ChatRequest): number {
  let tokens = 0
  let images = 0
  for (const message of request.messages) {
    tokens += TOKENS_A_MESSAGE + messageTokens(message)
    if (message.role === 'user') images += message.parts.reduce((sum, part) => sum + partImageTokens(part), 0)
  }
  for (const tool of request.tools) tokens += toolTokens(tool)
  if (request.sampling.responseFormat !== undefined) {
    tokens += jsonTokens(request.sampling.responseFormat, FILE_CHARACTERS_A_TOKEN)
  }
  return Math.ceil(tokens * SAFETY) + images
}

function messageTokens(message: Message): number {
  let tokens = 0
  for (const part of message.parts) {
    if (part.type === 'text') tokens += textTokens(part.text)
    if (part.type === 'native') tokens += nativeTokens(part)
  }
  if (message.role !== 'assistant') return tokens
  if (message.refusal !== undefined) tokens += textTokens(message.refusal)
  for (const call of message.toolCalls) tokens += TOKENS_A_TOOL + textTokens(call.name) + textTokens(call.json)
  return tokens
}

function nativeTokens(part: Extract<UserPart, { type: 'native' }>): number {
  return jsonTokens(part.json, 'input_audio' in part.json ? AUDIO_CHARACTERS_A_TOKEN : FILE_CHARACTERS_A_TOKEN)
}

function partImageTokens(part: UserPart): number {
  if (part.type !== 'image') return 0
  return part.source.type === 'url' ? REMOTE_IMAGE_TOKENS : imageTokens(part.source.data, part.detail)
}

function toolTokens(tool: Tool): number {
  const description = tool.description === undefined ? 0 : textTokens(tool.description)
  return TOKENS_A_TOOL + textTokens(tool.name) + description + jsonTokens(tool.parameters, FILE_CHARACTERS_A_TOKEN)
}

/** Deltas up to this length are classed by one character: a delta is a token or a few. */
const SHORT_DELTA = 24

/**
 * Counts what a model has written, from the pieces as they come. An unbiased guess, without a margin: it is charged where a stream
 * breaks off before the provider's own figure. A piece of a few characters costs some 5 ns.
 */
export class OutputCount {
  private narrow = 0
  private wide = 0
  private scanned = 0

  /** A piece of text, of a refusal or of a tool call's arguments or name. */
  addText(text: string): void {
    const length = text.length
    if (length > SHORT_DELTA) this.scanned += textTokens(text)
    else if (length > 0 && text.charCodeAt(length - 1) >= 0x2e80) this.wide += length
    else this.narrow += length
  }

  /** The same piece as the inside of a JSON string, where it was copied and never parsed. */
  addInside(inside: string): void {
    if (inside.startsWith('\\u')) this.wide += Math.ceil(inside.length / 6)
    else this.addText(inside)
  }

  /** Whole tokens so far; at least 1 once anything came. */
  get tokens(): number {
    return Math.ceil(this.narrow / 4 + this.wide * 0.8 + this.scanned)
  }
}
