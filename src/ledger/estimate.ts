/**
 * Estimates tokens before a provider has counted them: cheap, and rather too high than too low. Reservations use the
 * estimate; charges use it only if the provider reported no figure.
 */

import type { ChatRequest, ToolChoice } from '../core/chat-request.ts'
import type { Conversation, Entries } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import type { ImageRequest } from '../core/image-request.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import type { ToolList } from '../core/tool-list.ts'
import { documentTokens, REMOTE_DOCUMENT_TOKENS } from './document-size.ts'
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

/** The wrapping of a document or sound. */
const TOKENS_A_PART = 5
/** Of a picture, as many as its size is looked for in. */
const IMAGE_CHARACTERS = 131_072

/** A document or sound. Anything else in its place counts as text. */
const BASE64 = /^(?:data:[^,]{0,100},)?[A-Za-z0-9+/_=-]*$/

const IMAGE_TYPE = /^image\//i

/** The input tokens of a request: its messages, images by their size in pixels, and its tools. */
export function estimateInput(request: ChatRequest): number {
  const conversation = request.conversation
  const estimate = new Estimate(conversation.arena.size)
  estimate.messages(conversation)
  estimate.tools(request.tools)
  estimate.json(request.sampling.responseFormat)
  estimate.settings(request)
  for (const tool of request.own?.tools ?? []) estimate.text(tool.json)
  return estimate.total
}

/** How many of them are audio. */
export function estimateAudio({ conversation }: ChatRequest): number {
  if (!conversation.has(Kind.AUDIO)) return 0
  let bytes = 0
  for (let entry = 0; entry < conversation.end; entry = conversation.next(entry)) {
    if (conversation.kindAt(entry) === Kind.AUDIO) bytes += conversation.toAt(entry) - conversation.fromAt(entry)
  }
  return Math.ceil((bytes / BYTES_A_TOKEN_MAX) * SAFETY)
}

/** The input tokens of a text alone. */
export function estimateText(text: string): number {
  const estimate = new Estimate()
  estimate.text(text)
  return estimate.total
}

/** OpenAI's table for gpt-image-1: 1024 × 1024, and the larger of the two oblong sizes. */
const IMAGE_OUTPUT_TOKENS = {
  low: { square: 272, oblong: 408 },
  medium: { square: 1056, oblong: 1584 },
  high: { square: 4160, oblong: 6240 },
} as const

export interface ImageTokens {
  readonly input: number
  readonly output: number
}

/**
 * Of an images request: input is the prompt and the pictures, output all images. A size or quality that the caller left
 * out counts as the most expensive.
 */
export function estimateImages(
  request: Pick<ImageRequest, 'prompt' | 'inputs' | 'images' | 'size' | 'quality'>,
): ImageTokens {
  const { quality, size } = request
  const row = IMAGE_OUTPUT_TOKENS[quality === 'low' || quality === 'medium' ? quality : 'high']
  return {
    input: estimateText(request.prompt) + request.inputs * REMOTE_IMAGE_TOKENS,
    output: request.images * (size === '1024x1024' ? row.square : row.oblong),
  }
}

/** One for each request. */
class Estimate {
  private readonly texts: TextTokens
  /** Everything that is not text, and what a text lacks to its minimum. */
  private tokens = 0
  private images = 0

  /** `expected`: the bytes of all texts. */
  constructor(expected = 0) {
    this.texts = new TextTokens(expected)
  }

  get total(): number {
    return Math.ceil((this.texts.tokens + this.tokens) * SAFETY) + this.images
  }

  text(text: string): void {
    const before = this.texts.tokens
    this.texts.begin()
    this.texts.add(text)
    const counted = this.texts.tokens - before
    this.tokens += Math.max(0, text.length / BYTES_A_TOKEN_MAX - counted)
  }

  messages(conversation: Conversation): void {
    for (let entry = 0; entry < conversation.end; entry = conversation.next(entry)) this.entry(conversation, entry)
  }

  private entry(conversation: Conversation, entry: number): void {
    switch (conversation.kindAt(entry)) {
      case Kind.TEXT:
      case Kind.REFUSAL:
      case Kind.NAME:
      case Kind.ARGUMENTS:
      case Kind.INPUT:
      case Kind.FORMAT:
      case Kind.FILE_NAME:
      case Kind.CONTEXT:
      case Kind.OWN_BLOCK:
        return this.span(conversation, entry)
      case Kind.CALL_ID:
        this.tokens += TOKENS_A_TOOL
        return this.unreadSpan(conversation, entry)
      case Kind.IMAGE:
        return this.image(conversation, entry)
      case Kind.IMAGE_URL:
        this.images += REMOTE_IMAGE_TOKENS
        return this.unreadSpan(conversation, entry)
      case Kind.AUDIO:
      case Kind.FILE:
        this.tokens += TOKENS_A_PART
        return this.data(conversation, entry)
      case Kind.DOCUMENT:
        this.tokens += TOKENS_A_PART
        this.images += documentTokens(conversation, entry)
        return this.unreadSpan(conversation, entry)
      case Kind.DOCUMENT_TEXT:
        this.tokens += TOKENS_A_PART
        return this.span(conversation, entry)
      case Kind.DOCUMENT_URL:
        this.images += REMOTE_DOCUMENT_TOKENS
        return this.unreadSpan(conversation, entry)
      case Kind.DOCUMENT_PARTS:
        this.tokens += TOKENS_A_PART
        return
      case Kind.DOCUMENT_END:
        return
      case Kind.RESULT_ID:
      case Kind.MEDIA_TYPE:
        return this.unreadSpan(conversation, entry)
      default:
        this.tokens += TOKENS_A_MESSAGE
    }
  }

  /** Some providers accept documents in place of pictures and read all of them. */
  private image(conversation: Conversation, entry: number): void {
    const type = conversation.next(entry)
    if (!IMAGE_TYPE.test(conversation.textAt(type))) return this.unreadSpan(conversation, entry)
    const from = conversation.fromAt(entry)
    const to = Math.min(conversation.toAt(entry), from + IMAGE_CHARACTERS)
    this.images += imageTokens(conversation.arena.stringAt(from, to), conversation.detailAt(entry))
  }

  /** Base64 is read by no model as text; anything else in its place may be. */
  private data(conversation: Conversation, entry: number): void {
    if (isEncoded(conversation.textAt(entry))) this.unreadSpan(conversation, entry)
    else this.span(conversation, entry)
  }

  /** The JSON of their parameters counts as text. */
  tools(tools: ToolList): void {
    for (let entry = 0; entry < tools.end; entry = tools.next(entry)) {
      const kind = tools.kindAt(entry)
      if (kind === Kind.NAME) this.tokens += TOKENS_A_TOOL
      if (kind !== Kind.STRICT && kind !== Kind.FREE_FORM) this.span(tools, entry)
    }
  }

  private unreadSpan(entries: Entries, entry: number): void {
    this.tokens += (entries.toAt(entry) - entries.fromAt(entry)) / BYTES_A_TOKEN_MAX
  }

  /** As `text`, for the bytes of an entry. */
  private span(entries: Entries, entry: number): void {
    const from = entries.fromAt(entry)
    const to = entries.toAt(entry)
    // As most texts of a long request.
    if (this.texts.pass(to - from)) {
      this.tokens += (to - from) / BYTES_A_TOKEN_MAX
      return
    }
    const { arena } = entries
    const before = this.texts.tokens
    this.texts.begin()
    this.texts.add(arena.bufferAt(from), arena.indexAt(from), arena.indexAt(from, to))
    const counted = this.texts.tokens - before
    this.tokens += Math.max(0, (to - from) / BYTES_A_TOKEN_MAX - counted)
  }

  /** A value as a model reads it. */
  json(value: JsonValue | undefined): void {
    if (value === undefined) return
    this.tokens += TOKENS_A_VALUE
    if (typeof value === 'string') {
      this.text(value)
    } else if (typeof value === 'number') {
      this.tokens += Number.isInteger(value) && Math.abs(value) < 1000 ? 0 : TOKENS_A_LONG_NUMBER
    } else if (isArray(value)) {
      for (const item of value) this.json(item)
    } else if (isObject(value)) {
      this.members(value)
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

  private members(value: JsonObject): void {
    for (const name in value) {
      this.tokens += TOKENS_A_MEMBER - TOKENS_A_VALUE
      this.text(name)
      this.json(value[name])
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
