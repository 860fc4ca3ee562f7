/**
 * Estimates tokens before a provider has counted them: cheap, and rather too high than too low. Reservations use the
 * estimate; charges use it only if the provider reported no figure.
 */

import type { ChatRequest, ImagePart, Message, Tool, ToolChoice, UserPart } from '../core/chat-request.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import type { LongTexts } from '../core/long-texts.ts'
import { CALL_ID, RESULT_ID, TOOL, type UnparsedMessages, type UnparsedTools } from '../core/unparsed.ts'
import { imageTokens, REMOTE_IMAGE_TOKENS } from './image-size.ts'
import { sampleOf, TextTokens } from './text-tokens.ts'

/** Claude's tokenizer counts 10 to 20 % more tokens than o200k_base, to which the weights were fitted. */
const SAFETY = 1.15
/** Role and separators: vendors document 3 to 4 tokens. */
const TOKENS_A_MESSAGE = 4
/** The wrapping of one tool definition or one call. */
const TOKENS_A_TOOL = 10
/** The quotes, colons and commas around a value, and around a name. */
const TOKENS_A_VALUE = 1
const TOKENS_A_MEMBER = 1.5
/** A number of many digits. A short number costs no more than its wrapping. */
const TOKENS_A_LONG_NUMBER = 7

/** The least that any text costs, except the data of a picture: a caller that leaves is charged by the estimate. */
const BYTES_A_TOKEN_MAX = 16

/** Fields in which native parts hold a document or sound as base64. Anything else in them counts as text. */
const DATA_FIELDS: ReadonlySet<string> = new Set(['file_data', 'data'])
const BASE64 = /^(?:data:[^,]{0,100},)?[A-Za-z0-9+/_=-]*$/

const IMAGE_TYPE = /^image\//i
const NO_BYTES = new Uint8Array(0)

/** The input tokens of a request: its messages, images by their size in pixels, and its tools. */
export function estimateInput(request: ChatRequest): number {
  const estimate = new Estimate(request.longTexts)
  const { unparsed } = request
  if (unparsed?.messages !== undefined) estimate.unparsed(unparsed.messages)
  else for (const message of request.messages) estimate.message(message)
  if (unparsed?.tools !== undefined) estimate.unparsedTools(unparsed.tools)
  else for (const tool of request.tools) estimate.tool(tool)
  estimate.json(request.sampling.responseFormat)
  estimate.settings(request)
  return estimate.total
}

/** The input tokens of a text alone. */
export function estimateText(text: string): number {
  const estimate = new Estimate()
  estimate.text(text)
  return estimate.total
}

/** One for each request. */
class Estimate {
  private readonly texts: TextTokens
  /** Everything that is not text, and what a text lacks to its minimum. */
  private tokens = 0
  private images = 0

  constructor(private readonly longTexts?: LongTexts) {
    this.texts = new TextTokens(longTexts?.bytes.length)
  }

  get total(): number {
    return Math.ceil((this.texts.tokens + this.tokens) * SAFETY) + this.images
  }

  text(text: string): void {
    const before = this.texts.tokens
    this.texts.begin()
    const length = this.add(text)
    const counted = this.texts.tokens - before
    this.tokens += Math.max(0, length / BYTES_A_TOKEN_MAX - counted)
  }

  /** Returns the length of the text: in characters, for long texts that are still bytes in bytes. */
  private add(text: string): number {
    let length = 0
    let at = 0
    for (let mark = this.longTexts?.markIn(text, 0); mark !== undefined; mark = this.longTexts?.markIn(text, at)) {
      this.texts.add(text.slice(at, mark.start))
      this.texts.addEscaped(this.longTexts?.bytes ?? NO_BYTES, mark.from, mark.to)
      length += mark.start - at + mark.to - mark.from
      at = mark.end
    }
    this.texts.add(at === 0 ? text : text.slice(at))
    return length + text.length - at
  }

  /** As `message`, for each of them. */
  unparsed(messages: UnparsedMessages): void {
    messages.each((kind, from, to) => {
      if (kind <= TOOL) this.tokens += TOKENS_A_MESSAGE
      else if (kind === RESULT_ID) this.tokens += (to - from) / BYTES_A_TOKEN_MAX
      else if (kind === CALL_ID) this.tokens += TOKENS_A_TOOL + (to - from) / BYTES_A_TOKEN_MAX
      else this.bytes(from, to)
    })
  }

  /** As `tool`, for each of them; the JSON of their parameters counts as text. */
  unparsedTools({ from, to, count }: UnparsedTools): void {
    this.tokens += count * TOKENS_A_TOOL
    this.bytes(from, to)
  }

  /** As `text`, for bytes of the request. */
  private bytes(from: number, to: number): void {
    // As most texts of a long request.
    if (this.texts.pass(to - from)) {
      this.tokens += (to - from) / BYTES_A_TOKEN_MAX
      return
    }
    const before = this.texts.tokens
    this.texts.begin()
    this.texts.addEscaped(this.longTexts?.bytes ?? NO_BYTES, from, to)
    const counted = this.texts.tokens - before
    this.tokens += Math.max(0, (to - from) / BYTES_A_TOKEN_MAX - counted)
  }

  message(message: Message): void {
    this.tokens += TOKENS_A_MESSAGE
    for (const part of message.parts) this.part(part)
    if (message.role === 'tool') this.unread(message.callId)
    if (message.role !== 'assistant') return
    if (message.refusal !== undefined) this.text(message.refusal)
    for (const call of message.toolCalls) {
      this.tokens += TOKENS_A_TOOL
      this.unread(call.callId)
      this.text(call.name)
      this.text(call.json)
    }
  }

  tool({ name, description, parameters }: Tool): void {
    this.tokens += TOKENS_A_TOOL
    this.text(name)
    if (description !== undefined) this.text(description)
    this.json(parameters)
  }

  /** A value as a model reads it. `native`: it may hold the bytes of a document or of sound as base64. */
  json(value: JsonValue | undefined, native = false): void {
    if (value === undefined) return
    this.tokens += TOKENS_A_VALUE
    if (typeof value === 'string') {
      this.text(value)
    } else if (typeof value === 'number') {
      this.tokens += Number.isInteger(value) && Math.abs(value) < 1000 ? 0 : TOKENS_A_LONG_NUMBER
    } else if (isArray(value)) {
      for (const item of value) this.json(item, native)
    } else if (isObject(value)) {
      this.members(value, native)
    }
  }

  /** Fields that the provider receives and the model does not read as text. */
  settings({ stop, hints, sampling, toolChoice }: ChatRequest): void {
    this.json(hints.promptCacheOptions)
    this.unread(hints.user)
    this.unread(hints.safetyIdentifier)
    this.unread(hints.serviceTier)
    this.unread(hints.promptCacheKey)
    this.unread(hints.promptCacheRetention)
    for (const text of stop) this.unread(text)
    if (toolChoice !== undefined) for (const name of namesOf(toolChoice)) this.unread(name)
    this.unread(sampling.reasoningEffort)
    this.unread(sampling.verbosity)
    for (const token in sampling.logitBias) this.unread(token)
  }

  private part(part: UserPart): void {
    if (part.type === 'text') this.text(part.text)
    else if (part.type === 'native') this.json(part.json, true)
    else this.image(part)
  }

  private image({ source, detail }: ImagePart): void {
    if (source.type === 'url') {
      this.images += REMOTE_IMAGE_TOKENS
      this.unread(source.url)
    } else {
      // Some providers accept documents in place of pictures and read all of them.
      if (IMAGE_TYPE.test(source.mediaType)) this.images += imageTokens(source.data, detail)
      else this.unread(source.data)
      this.unread(source.mediaType)
    }
  }

  private members(value: JsonObject, native: boolean): void {
    for (const name in value) {
      this.tokens += TOKENS_A_MEMBER - TOKENS_A_VALUE
      this.text(name)
      const member = value[name]
      if (native && DATA_FIELDS.has(name) && typeof member === 'string' && isEncoded(member)) this.unread(member)
      else this.json(member, native)
    }
  }

  private unread(text: string | undefined): void {
    if (text !== undefined) this.tokens += Buffer.byteLength(text) / BYTES_A_TOKEN_MAX
  }
}

function isEncoded(text: string): boolean {
  return BASE64.test(sampleOf(text))
}

function namesOf(choice: ToolChoice | undefined): readonly string[] {
  if (choice?.mode === 'tool') return [choice.name]
  return choice?.mode === 'allowed' ? choice.names : []
}

/**
 * Counts what a model has written, piece by piece or all at once, with the same result. Without a margin, because it is
 * charged when a stream breaks off before the provider reports its own figure.
 */
export class OutputCount {
  private readonly text = new TextTokens()
  /** The arguments of each call: pieces of several calls may alternate. Made with the first call, like `names`. */
  private calls: TextTokens[] | undefined
  private callTokens = 0
  private names: TextTokens | undefined

  /** A piece of text or of a refusal. */
  addText(text: string): void {
    this.text.add(text)
  }

  addName(name: string): void {
    this.names ??= new TextTokens()
    this.names.begin()
    this.names.add(name)
  }

  /** A piece of the arguments of a call. */
  addArguments(call: number, json: string): void {
    this.calls ??= []
    let count = this.calls[call]
    if (count === undefined) {
      count = new TextTokens()
      this.calls[call] = count
    }
    const before = count.tokens
    count.add(json)
    this.callTokens += count.tokens - before
  }

  /** Whole tokens so far; at least 1 once anything came. */
  get tokens(): number {
    return Math.ceil(this.text.tokens + (this.names?.tokens ?? 0) + this.callTokens)
  }
}
