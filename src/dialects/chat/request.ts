/**
 * A Chat Completions body → the canonical request. Every part is rebuilt from its known keys, so that unknown ones
 * never reach a provider.
 */

import {
  type ChatRequest,
  type Message,
  NO_HINTS,
  NO_TEXTS,
  NO_TOOLS,
  type Tool,
  type ToolChoice,
} from '../../core/chat-request.ts'
import type { ToolCall } from '../../core/completion.ts'
import { parsedWhenRead } from '../../core/convert-unparsed.ts'
import { isArray, isObject, type JsonObject, type JsonValue, objectOf, stringOf } from '../../core/json.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import { argumentsOrNone } from '../../core/no-arguments.ts'
import { words } from '../../wire/json-cursor.ts'
import type { LargeBody } from '../../wire/long-text-body.ts'
import { cacheMark } from '../cache-mark.ts'
import type { ImageUrls } from '../image-url.ts'
import { invalid, missing } from '../invalid-field.ts'
import { RequestLimits } from '../request-limits.ts'
import { type Reading, refusalOf, textParts, userParts } from './content-parts.ts'
import { type ChatBody, checkChatBody } from './schema.ts'
import { readChatMessages, readChatTools } from './unparsed-chat.ts'

/** The texts are passed on, or read with `LongTexts` alone. */
export const LARGE_BODY: LargeBody = {
  textPlaces: [
    { under: 'messages', depth: 3, name: 'content' },
    { under: 'messages', depth: 5, name: 'text' },
    { under: 'messages', depth: 6, name: 'arguments', holds: 'json' },
    { under: 'tools', depth: 4, name: 'description' },
  ],
  lists: {
    names: words('messages', 'tools'),
    messages: readChatMessages,
    tools: readChatTools,
    placeholders: ['[0]', '[]'],
  },
}

interface AcceptedChat {
  readonly request: ChatRequest
  /** True if the caller asked for the usage chunk. The provider is asked for it in any case. */
  readonly includeUsage: boolean
}

/** Far more tokens than any provider takes. */
const BIAS_ENTRIES_MAX = 1024

/** Before the schema, whose check of 100,000 entries takes 100 ms. */
function checkBias(bias: JsonValue | undefined): void {
  let entries = 0
  if (isObject(bias))
    for (const _ in bias)
      if (++entries > BIAS_ENTRIES_MAX)
        throw invalid('logit_bias', `must not have more than ${BIAS_ENTRIES_MAX} entries`)
}

/** Throws `CallerError` with the path of the invalid field. */
export function acceptChat(body: JsonObject, imageUrls: ImageUrls, longTexts?: LongTexts): AcceptedChat {
  checkBias(body['logit_bias'])
  const chat = checkChatBody(body)
  const limits = new RequestLimits(longTexts?.argumentValues)
  const unparsed = longTexts?.unparsed
  const tools = unparsed?.tools === undefined ? acceptTools(chat.tools, limits) : NO_TOOLS
  const hasTools = tools.length > 0 || unparsed?.tools !== undefined
  const request: ChatRequest = {
    model: chat.model,
    stream: chat.stream === true,
    messages: unparsed?.messages === undefined ? acceptMessages(chat.messages, limits, imageUrls) : [],
    tools,
    toolChoice: hasTools ? acceptToolChoice(body['tool_choice'], limits) : undefined,
    parallelToolCalls: hasTools ? (chat.parallel_tool_calls ?? undefined) : undefined,
    maxOutputTokens: chat.max_completion_tokens ?? chat.max_tokens ?? undefined,
    limitsOutput: false,
    stop: typeof chat.stop === 'string' ? [chat.stop] : (chat.stop ?? NO_TEXTS),
    sampling: acceptSampling(chat, body),
    hints: acceptHints(chat, body),
    cacheStrict: false,
    longTexts,
    unparsed,
  }
  const includeUsage = chat.stream_options?.include_usage === true
  if (longTexts === undefined || unparsed === undefined) return { request, includeUsage }
  const convert = (list: JsonValue) => acceptTools(checkChatBody({ ...body, tools: list }).tools, new RequestLimits())
  return { request: parsedWhenRead(request, longTexts, unparsed, convert), includeUsage }
}

function acceptMessages(messages: readonly unknown[], limits: RequestLimits, imageUrls: ImageUrls): Message[] {
  const accepted: Message[] = []
  for (let i = 0; i < messages.length; i++) {
    const message = messages[i]
    accepted.push(acceptPlain(message) ?? acceptMessage(message, `messages[${i}]`, { limits, imageUrls }))
  }
  return accepted
}

/**
 * A message of one text and no mark, as most are; undefined for any other. It needs no path: making one for each
 * message took a fifth of the time to convert a small body.
 */
function acceptPlain(message: unknown): Message | undefined {
  if (!isObject(message)) return undefined
  const { role, content, cache_control: mark } = message
  if (typeof content !== 'string' || content === '' || (mark !== undefined && mark !== null)) return undefined
  switch (role) {
    case 'system':
    case 'developer':
      return { role: 'system', parts: [{ type: 'text', text: content, cache: undefined }] }
    case 'user':
      return { role, parts: [{ type: 'text', text: content, cache: undefined }] }
    default:
      return undefined
  }
}

function acceptSampling(chat: ChatBody, body: JsonObject): ChatRequest['sampling'] {
  return {
    temperature: chat.temperature ?? undefined,
    topP: chat.top_p ?? undefined,
    frequencyPenalty: chat.frequency_penalty ?? undefined,
    presencePenalty: chat.presence_penalty ?? undefined,
    seed: chat.seed ?? undefined,
    logitBias: chat.logit_bias ?? undefined,
    logprobs: chat.logprobs ?? undefined,
    topLogprobs: chat.top_logprobs ?? undefined,
    reasoningEffort: chat.reasoning_effort ?? undefined,
    verbosity: chat.verbosity ?? undefined,
    responseFormat: objectOf(body['response_format']),
  }
}

function acceptHints(chat: ChatBody, body: JsonObject): ChatRequest['hints'] {
  const {
    user,
    safety_identifier: identifier,
    service_tier: tier,
    prompt_cache_key: key,
    stream_options: options,
  } = chat
  const { prompt_cache_retention: retention } = chat
  const any = user ?? identifier ?? tier ?? key ?? options ?? retention ?? body['prompt_cache_options'] ?? undefined
  if (any === undefined) return NO_HINTS
  return {
    user: chat.user ?? undefined,
    safetyIdentifier: chat.safety_identifier ?? undefined,
    serviceTier: chat.service_tier ?? undefined,
    promptCacheKey: chat.prompt_cache_key ?? undefined,
    promptCacheRetention: chat.prompt_cache_retention ?? undefined,
    promptCacheOptions: objectOf(body['prompt_cache_options']),
    padStream: chat.stream_options?.include_obfuscation === true || undefined,
  }
}

/** Tools of other types than `function` are left out, because most providers have no counterpart. */
function acceptTools(list: ChatBody['tools'], limits: RequestLimits): readonly Tool[] {
  if (list === undefined || list === null) return NO_TOOLS
  limits.checkTools(list.length, 'tools')
  const tools: Tool[] = []
  for (const [index, tool] of list.entries()) {
    if (tool.type !== 'function') continue
    const path = `tools[${index}]`
    if (tool.function === undefined || tool.function === null) throw missing(`${path}.function`)
    const { name, description, parameters, strict } = tool.function
    tools.push({
      name,
      description: description ?? undefined,
      parameters: objectOf(parameters) ?? { type: 'object', properties: {} },
      strict: strict ?? undefined,
      cache: cacheMark(tool, path),
    })
  }
  return tools
}

function acceptToolChoice(choice: JsonValue | undefined, limits: RequestLimits): ToolChoice | undefined {
  if (choice === undefined || choice === null) return undefined
  if (choice === 'auto' || choice === 'none' || choice === 'required') return { mode: choice }
  if (isObject(choice) && choice['type'] === 'function') {
    const name = stringOf(objectOf(choice['function'])?.['name'])
    if (name === undefined) throw missing('tool_choice.function.name')
    return { mode: 'tool', name }
  }
  if (isObject(choice) && choice['type'] === 'allowed_tools')
    return acceptAllowedTools(objectOf(choice['allowed_tools']), limits)
  throw invalid('tool_choice', "must be 'none', 'auto', 'required', or an object of type 'function' or 'allowed_tools'")
}

function acceptAllowedTools(allowed: JsonObject | undefined, limits: RequestLimits): ToolChoice {
  const tools = allowed?.['tools']
  if (!isArray(tools)) throw missing('tool_choice.allowed_tools.tools')
  limits.checkTools(tools.length, 'tool_choice.allowed_tools.tools')
  const names = tools.flatMap((tool) => stringOf(objectOf(objectOf(tool)?.['function'])?.['name']) ?? [])
  return { mode: 'allowed', names, required: allowed?.['mode'] === 'required' }
}

function acceptMessage(message: unknown, path: string, reading: Reading): Message {
  const { limits } = reading
  if (!isObject(message)) throw invalid(path, 'must be an object')
  const role = message['role']
  switch (role) {
    case 'system':
    case 'developer':
      return { role: 'system', parts: textParts(message, path) }
    case 'user':
      return { role: 'user', parts: userParts(message, path, reading) }
    case 'assistant':
      return acceptAssistant(message, path, limits)
    case 'tool': {
      const callId = message['tool_call_id']
      if (typeof callId !== 'string') throw missing(`${path}.tool_call_id`)
      limits.countResult(path)
      return { role: 'tool', callId, parts: textParts(message, path) }
    }
    default:
      if (role === undefined || role === null) throw missing(`${path}.role`)
      throw invalid(`${path}.role`, "must be one of 'system', 'developer', 'user', 'assistant' and 'tool'")
  }
}

function acceptAssistant(message: JsonObject, path: string, limits: RequestLimits): Message {
  const parts = textParts(message, path)
  const calls = message['tool_calls'] ?? []
  if (!isArray(calls)) throw invalid(`${path}.tool_calls`, 'must be an array')
  return {
    role: 'assistant',
    parts,
    refusal: stringOf(message['refusal']) ?? refusalOf(message['content']),
    toolCalls: calls.map((call, index) => acceptToolCall(call, `${path}.tool_calls[${index}]`, limits)),
  }
}

function acceptToolCall(call: JsonValue, path: string, limits: RequestLimits): ToolCall {
  limits.countCall(path)
  if (!isObject(call)) throw invalid(path, 'must be an object')
  const callId = call['id']
  if (typeof callId !== 'string') throw missing(`${path}.id`)
  const called = call['function']
  if (!isObject(called)) throw missing(`${path}.function`)
  const name = called['name']
  if (typeof name !== 'string') throw missing(`${path}.function.name`)
  const written = called['arguments'] ?? ''
  const json = argumentsOrNone(typeof written === 'string' ? written : JSON.stringify(written))
  limits.addCallJson(json, `${path}.function.arguments`)
  return { callId, name, json }
}
