/** What a request needs, what a model lacks for it, and the request fitted to a model. */

import { CallerError } from '../core/caller-error.ts'
import {
  type CacheMark,
  type ChatRequest,
  changed,
  type Hints,
  type Message,
  offersTools,
} from '../core/chat-request.ts'
import { withMessages } from '../core/convert-unparsed.ts'
import type { Ttl } from '../core/model-config.ts'
import { kindOf, type Model } from './catalog.ts'

/** The cache marks of a request. */
interface Marks {
  /** The TTLs that cache marks request. */
  readonly ttls: readonly Ttl[]
  /** Whether the request carries any cache mark, so that its input may be written to the provider's cache. */
  readonly isMarked: boolean
}

export interface Needs extends Marks {
  /** Whether any message holds an image. */
  readonly images: boolean
  readonly tools: boolean
  /** Our estimate of the input. Together with the output limit it must fit into the context window. */
  readonly inputTokens: number
  readonly maxOutputTokens: number | undefined
  readonly limitsOutput: boolean
  /** Whether a cache mark that the model cannot honour is an error. */
  readonly cache: boolean
}

/** The needs of a request for images, and those that `explain` starts from. */
export const noNeeds: Needs = {
  images: false,
  tools: false,
  inputTokens: 0,
  maxOutputTokens: undefined,
  limitsOutput: false,
  cache: false,
  ttls: [],
  isMarked: false,
}

/** Reads the whole history, once a request. `inputTokens` is the estimate that the ledger reserves, too. */
export function needsOf(request: ChatRequest, inputTokens: number): Needs {
  const marks = hasMark(request) ? marksOf(request) : UNMARKED
  return {
    images: hasImage(request),
    tools: offersTools(request),
    inputTokens,
    maxOutputTokens: request.maxOutputTokens,
    limitsOutput: request.limitsOutput,
    cache: request.cacheStrict && marks.isMarked,
    ttls: marks.ttls,
    isMarked: marks.isMarked,
  }
}

/** What is unparsed has none. */
function hasImage(request: ChatRequest): boolean {
  if (request.unparsed?.messages !== undefined) return false
  for (const { role, parts } of request.messages) {
    if (role === 'user') for (const { type } of parts) if (type === 'image') return true
  }
  return false
}

/** Why a model of another kind serves no chat request. */
const NOT_FOR_CHAT = { image: 'makes images only', embedding: 'makes embeddings only' } as const

/** Why a chat model cannot serve a request, in words that follow its name (`takes no images`); undefined if it can. */
export function lacks(model: Model, needs: Needs): string | undefined {
  const kind = kindOf(model)
  if (kind !== 'chat') return NOT_FOR_CHAT[kind]
  if (needs.images && !model.supports.has('images')) return 'takes no images'
  if (needs.tools && !model.supports.has('tools')) return 'takes no tools'
  return lacksRoom(model, needs) ?? lacksCache(model, needs)
}

function lacksRoom(model: Model, needs: Needs): string | undefined {
  const output = outputLimit(model, needs) ?? 0
  if (model.contextWindow === undefined || needs.inputTokens + output <= model.contextWindow) return undefined
  const needed = `an estimated ${needs.inputTokens} of input and ${output} of output`
  return `has a context window of ${model.contextWindow} tokens, too few for ${needed}`
}

function lacksCache(model: Model, needs: Needs): string | undefined {
  if (needs.cache && !model.promptCache.explicit) return 'does not support cache_control'
  const ttl = needs.ttls.find((wanted) => !model.promptCache.explicit || !model.promptCache.ttls.has(wanted))
  return ttl === undefined ? undefined : `does not support a cache TTL of ${ttl}`
}

/**
 * The most output tokens that a model is asked for: the caller's limit, or the model's default if the dialect has one,
 * lowered to the model's maximum. Undefined if neither is set; then the model's own limit applies.
 */
export function outputLimit(
  model: Model,
  asked: { readonly maxOutputTokens?: number | undefined; readonly limitsOutput: boolean },
): number | undefined {
  const wanted = asked.maxOutputTokens ?? (asked.limitsOutput ? model.defaultOutputTokens : undefined)
  if (wanted === undefined || model.maxOutputTokens === undefined) return wanted
  return Math.min(wanted, model.maxOutputTokens)
}

/**
 * The output limit under a strict spend limit. If the caller sets none, it is the model's maximum, lowered to what the
 * context window leaves after the input.
 */
export function strictOutputLimit(
  model: Model,
  asked: { readonly maxOutputTokens?: number | undefined; readonly limitsOutput: boolean },
  inputTokens: number,
): number | undefined {
  const set = outputLimit(model, asked)
  if (set !== undefined || model.maxOutputTokens === undefined) return set
  const room = (model.contextWindow ?? Number.POSITIVE_INFINITY) - inputTokens
  return room >= 1 ? Math.min(model.maxOutputTokens, room) : model.maxOutputTokens
}

/**
 * The request fitted to a model: the output limit resolved and lowered, cache keys and marks that the model does not
 * support removed. A mark with an unsupported TTL keeps its place and gets the provider's default TTL. Returns the same
 * object if nothing changes. `marks` are those that `needsOf` has read: once a request, not once a model.
 *
 * Throws `CallerError` `unsupported_cache` if the dialect is strict about marks.
 */
export function fit(request: ChatRequest, model: Model, marks: Marks): ChatRequest {
  const maxOutputTokens = outputLimit(model, request)
  const hints = model.promptCache.key ? request.hints : withoutCacheKey(request.hints)
  const change = marks.isMarked ? markChange(request, model, marks) : undefined
  const limited =
    maxOutputTokens === request.maxOutputTokens && hints === request.hints
      ? request
      : changed(request, { maxOutputTokens, hints })
  return change === undefined ? limited : remark(limited, change)
}

function withoutCacheKey(hints: Hints): Hints {
  const { promptCacheKey: key, promptCacheRetention: retention, promptCacheOptions: options } = hints
  if (key === undefined && retention === undefined && options === undefined) return hints
  return { ...hints, promptCacheKey: undefined, promptCacheRetention: undefined, promptCacheOptions: undefined }
}

/** What replaces a cache mark; undefined removes it. */
type MarkChange = (mark: CacheMark) => CacheMark | undefined

/** Undefined if every mark may stay as it is. */
function markChange(request: ChatRequest, model: Model, marks: Marks): MarkChange | undefined {
  const { explicit, ttls } = model.promptCache
  const refused = marks.ttls.find((ttl) => !ttls.has(ttl))
  if (explicit && refused === undefined) return undefined
  if (request.cacheStrict) throw unsupported(request, model, explicit ? refused : undefined)
  return explicit ? (mark) => (mark.ttl === undefined || ttls.has(mark.ttl) ? mark : {}) : () => undefined
}

/** `ttl`: the unsupported one; undefined if the model supports no marks at all. */
function unsupported(request: ChatRequest, model: Model, ttl: Ttl | undefined): CallerError {
  const paths: string[] = []
  forEachMark(request, ({ ttl: wanted, path }) => {
    if (path !== undefined && (ttl === undefined || ttl === wanted)) paths.push(path)
  })
  const [param] = paths
  if (ttl === undefined) {
    const message = `The model '${model.name}' does not support cache_control; leave it out.`
    return new CallerError('unsupported_cache', message, { param })
  }
  const others = [...model.promptCache.ttls].map((known) => `'${known}'`)
  const known = others.length === 0 ? 'It takes no ttl' : `It takes ${others.join(' and ')}, or none`
  const message = `The model '${model.name}' does not support a cache ttl of '${ttl}'. ${known}.`
  return new CallerError('unsupported_cache', message, { param: param && `${param}.ttl` })
}

const UNMARKED: Marks = { isMarked: false, ttls: [] }

function marksOf(request: ChatRequest): Marks {
  let [is5m, is1h] = [false, false]
  forEachMark(request, ({ ttl }) => {
    is5m ||= ttl === '5m'
    is1h ||= ttl === '1h'
  })
  const ttls: Ttl[] = []
  if (is5m) ttls.push('5m')
  if (is1h) ttls.push('1h')
  return { isMarked: true, ttls }
}

/** Whether any mark would be visited. A loop without a visitor: nearly all requests have none. */
function hasMark(request: ChatRequest): boolean {
  const { cache, unparsed } = request
  if (cache !== undefined || hasMarkedTool(request)) return true
  if (unparsed?.messages !== undefined) return unparsed.messages.marks.length > 0
  for (const message of request.messages) {
    if (message.role === 'tool' && message.cache !== undefined) return true
    if (message.role === 'assistant') for (const call of message.toolCalls) if (call.cache !== undefined) return true
    for (const part of message.parts) if (part.type !== 'native' && part.cache !== undefined) return true
  }
  return false
}

function hasMarkedTool(request: ChatRequest): boolean {
  const unparsed = request.unparsed?.tools
  if (unparsed !== undefined) return unparsed.marks.length > 0
  for (const tool of request.tools) if (tool.cache !== undefined) return true
  return false
}

/** Calls `visit` for each cache mark of the request. */
function forEachMark(request: ChatRequest, visit: (mark: CacheMark) => void): void {
  const { unparsed } = request
  see(request, visit)
  if (unparsed?.tools !== undefined) unparsed.tools.marks.forEach(visit)
  else for (const tool of request.tools) see(tool, visit)
  if (unparsed?.messages !== undefined) return unparsed.messages.marks.forEach(visit)
  for (const message of request.messages) {
    if (message.role === 'tool') see(message, visit)
    if (message.role === 'assistant') for (const call of message.toolCalls) see(call, visit)
    for (const part of message.parts) if (part.type !== 'native') see(part, visit)
  }
}

function see({ cache }: { readonly cache?: CacheMark | undefined }, visit: (mark: CacheMark) => void): void {
  if (cache !== undefined) visit(cache)
}

/** A copy with every mark changed. Whatever carries no mark stays the same object, so that its bytes do not move. */
function remark(request: ChatRequest, change: MarkChange): ChatRequest {
  const messages = request.unparsed?.messages
  if (messages !== undefined && !hasMarkedTool(request))
    return withMessages(changed(request, { cache: request.cache && change(request.cache) }), messages.remarked(change))
  return {
    ...marked(request, change),
    tools: request.tools.map((tool) => marked(tool, change)),
    messages: request.messages.map((message) => remarkMessage(message, change)),
    unparsed: undefined,
  }
}

function remarkMessage(message: Message, change: MarkChange): Message {
  const parts = <T extends { readonly cache?: CacheMark | undefined }>(list: readonly T[]): readonly T[] =>
    list.map((item) => marked(item, change))
  switch (message.role) {
    case 'system':
      return { ...message, parts: parts(message.parts) }
    case 'user':
      return {
        ...message,
        parts: message.parts.map((part) => (part.type === 'native' ? part : marked(part, change))),
      }
    case 'assistant':
      return { ...message, parts: parts(message.parts), toolCalls: parts(message.toolCalls) }
    case 'tool':
      return { ...marked(message, change), parts: parts(message.parts) }
  }
}

function marked<T extends { readonly cache?: CacheMark | undefined }>(item: T, change: MarkChange): T {
  return item.cache === undefined ? item : { ...item, cache: change(item.cache) }
}
