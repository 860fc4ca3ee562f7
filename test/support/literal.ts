/**
 * Canonical requests as tests write and read them: messages and tools as objects. weir itself has entries over bytes
 * (`core/conversation.ts`).
 */

import { Arena } from '../../src/core/arena.ts'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import type { ToolCall } from '../../src/core/completion.ts'
import { Conversation, DETAILED, DETAILS, FAILED, type ImageDetail, OF_OBJECT } from '../../src/core/conversation.ts'
import * as Kind from '../../src/core/entry-kinds.ts'
import { type CacheMark, indexOfMark, MARKED } from '../../src/core/entry-marks.ts'
import { EntryWriter } from '../../src/core/entry-writer.ts'
import { isObject, type JsonObject, objectOf, stringOf } from '../../src/core/json.ts'
import { Later } from '../../src/core/later.ts'
import { isNoArguments } from '../../src/core/no-arguments.ts'
import { ToolList } from '../../src/core/tool-list.ts'
import type { Caller, Dialect, Exchange } from '../../src/dialects/dialect.ts'
import { readRequestBody } from '../../src/wire/request-body.ts'

export interface TextPart {
  readonly type: 'text'
  readonly text: string
  readonly cache?: CacheMark | undefined
}

export interface ImagePart {
  readonly type: 'image'
  /** Inline bytes, or a URL that the provider fetches. weir never fetches it. */
  readonly source:
    | { readonly type: 'base64'; readonly mediaType: string; readonly data: string }
    | { readonly type: 'url'; readonly url: string }
  readonly detail?: ImageDetail | undefined
  readonly cache?: CacheMark | undefined
}

/**
 * A Chat Completions part that only providers of that API understand (`input_audio`, `file` with data); other adapters
 * reject it.
 */
interface NativePart {
  readonly type: 'native'
  readonly json: JsonObject
}

export type UserPart = TextPart | ImagePart | NativePart

export type Message =
  | { readonly role: 'system'; readonly parts: readonly TextPart[] }
  | { readonly role: 'user'; readonly parts: readonly UserPart[] }
  | {
      readonly role: 'assistant'
      readonly parts: readonly TextPart[]
      readonly refusal?: string | undefined
      readonly toolCalls: readonly (ToolCall & { readonly cache?: CacheMark | undefined })[]
    }
  | {
      readonly role: 'tool'
      readonly callId: string
      readonly parts: readonly TextPart[]
      readonly isError?: boolean | undefined
      readonly cache?: CacheMark | undefined
    }

export interface Tool {
  readonly name: string
  readonly description?: string | undefined
  /** A JSON Schema of type object. */
  readonly parameters: JsonObject
  readonly strict?: boolean | undefined
  readonly cache?: CacheMark | undefined
}

/** A request with objects in place of entries. */
export interface Literal extends Omit<ChatRequest, 'conversation' | 'tools'> {
  readonly messages: readonly Message[]
  readonly tools: readonly Tool[]
}

/** The request with entries. */
export function chatRequest({ messages, tools, ...rest }: Literal): ChatRequest {
  return { ...rest, conversation: new Maker().conversation(messages), tools: new Maker().tools(tools) }
}

/** The request with objects, without the bytes that they came in. */
export function visible({ conversation, tools, ...rest }: ChatRequest): Literal {
  return { ...rest, messages: messagesOf(conversation), tools: toolsOf(tools) }
}

/** The same as JSON, for comparison. */
export function requestJson(request: ChatRequest): string {
  return JSON.stringify(visible(request))
}

/** An exchange, whose request has objects. */
export type Seen = Omit<Exchange, 'request'> & { readonly request: Literal }

/** What a dialect makes of a body. */
export function readBody(
  { read, unparsed }: Pick<Dialect, 'read' | 'unparsed'>,
  body: JsonObject,
  caller: Caller = { organization: 'acme' },
): Seen | Promise<Seen> {
  const exchange = read(readRequestBody(Buffer.from(JSON.stringify(body)), unparsed), caller)
  return exchange instanceof Later ? exchange.then(seen) : seen(exchange)
}

/** The same if nothing has to be looked up. */
export function readAtOnce(dialect: Pick<Dialect, 'read' | 'unparsed'>, body: JsonObject, caller?: Caller): Seen {
  const exchange = readBody(dialect, body, caller)
  if (exchange instanceof Promise) throw new Error('nothing has to be looked up')
  return exchange
}

/** What is there without a look-up. */
export function atOnce<T>(result: T | Later<T>): T {
  if (result instanceof Later) throw new Error('nothing has to be looked up')
  return result
}

/** The request that a dialect makes of a body. */
export function requestIn({ read, unparsed }: Pick<Dialect, 'read' | 'unparsed'>, body: JsonObject): ChatRequest {
  return atOnce(read(readRequestBody(Buffer.from(JSON.stringify(body)), unparsed), { organization: 'acme' })).request
}

function seen(exchange: Exchange): Seen {
  const request = visible(exchange.request)
  return Object.defineProperty(Object.create(exchange), 'request', { value: request })
}

const NO_BYTES = new Uint8Array(0)
const ROLES = { system: Kind.SYSTEM, user: Kind.USER, assistant: Kind.ASSISTANT, tool: Kind.TOOL } as const

type Cached = Pick<TextPart, 'cache'>

class Maker {
  private readonly arena = new Arena(NO_BYTES)
  private readonly entries = new EntryWriter()
  private readonly paths = new Map<number, string>()

  conversation(messages: readonly Message[]): Conversation {
    for (const message of messages) this.message(message)
    return new Conversation(this.arena, this.entries.take(), 'chat', this.paths.size > 0 ? this.paths : undefined)
  }

  tools(tools: readonly Tool[]): ToolList {
    for (const tool of tools) {
      this.text(Kind.NAME, tool.name, tool)
      if (tool.description !== undefined) this.text(Kind.TEXT, tool.description)
      this.json(tool.parameters['type'] === 'object' ? Kind.INPUT + OF_OBJECT : Kind.INPUT, tool.parameters)
      if (tool.strict !== undefined) this.json(Kind.STRICT, tool.strict)
    }
    return new ToolList(this.arena, this.entries.take(), 'chat')
  }

  private message(message: Message): void {
    this.entries.add(ROLES[message.role], 0, 0)
    if (message.role === 'tool')
      this.text(Kind.RESULT_ID + (message.isError === true ? FAILED : 0), message.callId, message)
    for (const part of message.parts) this.part(part)
    if (message.role !== 'assistant') return
    if (message.refusal !== undefined) this.text(Kind.REFUSAL, message.refusal)
    for (const call of message.toolCalls) {
      this.text(Kind.CALL_ID, call.callId, call)
      this.text(Kind.NAME, call.name)
      this.text(Kind.ARGUMENTS, isNoArguments(call.json) ? '{}' : call.json)
    }
  }

  private part(part: UserPart): void {
    if (part.type === 'text') this.text(Kind.TEXT, part.text, part)
    else if (part.type === 'image') this.image(part)
    else this.native(part.json)
  }

  private image({ source, detail, cache }: ImagePart): void {
    const detailed = DETAILS.indexOf(detail) * DETAILED
    if (source.type === 'url') return this.text(Kind.IMAGE_URL + detailed, source.url, { cache })
    this.text(Kind.IMAGE + detailed, source.data, { cache })
    this.text(Kind.MEDIA_TYPE, source.mediaType)
  }

  private native({ input_audio: audio, file }: JsonObject): void {
    if (isObject(audio)) {
      this.text(Kind.AUDIO, stringOf(audio['data']) ?? '')
      const format = stringOf(audio['format'])
      if (format !== undefined) this.text(Kind.FORMAT, format)
    } else if (isObject(file)) {
      this.text(Kind.FILE, stringOf(file['file_data']) ?? '')
      const name = stringOf(file['filename'])
      if (name !== undefined) this.text(Kind.FILE_NAME, name)
    }
  }

  private text(kind: number, text: string, { cache }: Cached = {}): void {
    if (cache?.path !== undefined) this.paths.set(this.arena.end, cache.path)
    this.json(kind + indexOfMark(cache) * MARKED, text)
  }

  /** A string without its quotes. */
  private json(kind: number, value: string | boolean | JsonObject): void {
    const written = JSON.stringify(value)
    const from = this.arena.addJson(typeof value === 'string' ? written.slice(1, -1) : written)
    this.entries.add(kind, from, this.arena.end)
  }
}

/** The messages of a conversation. */
export function messagesOf(conversation: Conversation): readonly Message[] {
  const messages: Message[] = []
  for (let at = 0; at < conversation.end; at = conversation.endOfMessage(at))
    messages.push(new MessageOf(conversation).of(at))
  return messages
}

class MessageOf {
  private readonly parts: UserPart[] = []
  private readonly calls: (ToolCall & { readonly cache?: CacheMark | undefined })[] = []
  private readonly refusals: string[] = []
  private result = { callId: '', isError: undefined as true | undefined, cache: undefined as CacheMark | undefined }

  constructor(private readonly from: Conversation) {}

  of(message: number): Message {
    const { from, parts, calls: toolCalls, refusals } = this
    const end = from.endOfMessage(message)
    for (let entry = from.next(message); entry < end; entry = from.next(entry)) this.add(entry)
    const texts = parts.flatMap((part) => (part.type === 'text' ? part : []))
    switch (from.kindAt(message)) {
      case Kind.SYSTEM:
        return { role: 'system', parts: texts }
      case Kind.USER:
        return { role: 'user', parts }
      case Kind.TOOL:
        return { role: 'tool', ...this.result, parts: texts }
      default: {
        const refusal = refusals.length > 0 ? refusals.join('') : undefined
        return { role: 'assistant', parts: texts, refusal, toolCalls }
      }
    }
  }

  private add(entry: number): void {
    const { from } = this
    const next = from.next(entry)
    const cache = from.markAt(entry)
    switch (from.kindAt(entry)) {
      case Kind.TEXT:
        this.parts.push({ type: 'text', text: from.textAt(entry), cache })
        break
      case Kind.RESULT_ID:
        this.result = { callId: from.textAt(entry), isError: from.isFailed(entry) || undefined, cache }
        break
      case Kind.CALL_ID: {
        const input = from.next(next)
        const json =
          from.kindAt(input) === Kind.INPUT
            ? from.arena.jsonAt(from.fromAt(input), from.toAt(input))
            : from.textAt(input)
        this.calls.push({ callId: from.textAt(entry), name: from.textAt(next), json, cache })
        break
      }
      case Kind.REFUSAL:
        this.refusals.push(from.textAt(entry))
        break
      case Kind.IMAGE: {
        const source = { type: 'base64', mediaType: from.textAt(next), data: from.textAt(entry) } as const
        this.parts.push({ type: 'image', source, detail: from.detailAt(entry), cache })
        break
      }
      case Kind.IMAGE_URL:
        this.parts.push({
          type: 'image',
          source: { type: 'url', url: from.textAt(entry) },
          detail: from.detailAt(entry),
          cache,
        })
        break
      case Kind.AUDIO: {
        const data = from.textAt(entry)
        const audio = from.kindAt(next) === Kind.FORMAT ? { data, format: from.textAt(next) } : { data }
        this.parts.push({ type: 'native', json: { type: 'input_audio', input_audio: audio } })
        break
      }
      case Kind.FILE: {
        const data = from.textAt(entry)
        const file =
          from.kindAt(next) === Kind.FILE_NAME ? { filename: from.textAt(next), file_data: data } : { file_data: data }
        this.parts.push({ type: 'native', json: { type: 'file', file } })
        break
      }
    }
  }
}

/** The tools of a list. */
export function toolsOf(list: ToolList): readonly Tool[] {
  const tools: Tool[] = []
  const { arena } = list
  for (let tool = 0; tool < list.end; tool = list.endOfTool(tool)) {
    const description = list.memberOf(tool, Kind.TEXT)
    const strict = list.memberOf(tool, Kind.STRICT)
    const schema = list.memberOf(tool, Kind.INPUT)
    tools.push({
      name: list.textAt(tool),
      description: description === -1 ? undefined : list.textAt(description),
      parameters: objectOf(arena.valueAt(list.fromAt(schema), list.toAt(schema))) ?? {},
      strict: strict === -1 ? undefined : arena.writtenAt(list.fromAt(strict), list.toAt(strict)) === 'true',
      cache: list.markAt(tool),
    })
  }
  return tools
}
