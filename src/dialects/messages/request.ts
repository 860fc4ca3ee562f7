/** A Messages body → the canonical request. Fields that are not named here never reach a provider. */

import { CallerError } from '../../core/caller-error.ts'
import {
  type ChatRequest,
  changed,
  type Hints,
  type Message,
  NO_HINTS,
  NO_TEXTS,
  NO_TOOLS,
  type Tool,
  type ToolChoice,
} from '../../core/chat-request.ts'
import { parsedWhenRead } from '../../core/convert-unparsed.ts'
import { isObject, type JsonObject, type JsonValue } from '../../core/json.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import { words } from '../../wire/json-cursor.ts'
import type { LargeBody } from '../../wire/long-text-body.ts'
import { cacheMark } from '../cache-mark.ts'
import { invalid, missing } from '../invalid-field.ts'
import { RequestLimits } from '../request-limits.ts'
import { acceptAssistant, acceptTexts, acceptUser, type ToolResultImages } from './content.ts'
import { checkMessagesBody, type MessagesBody } from './schema.ts'
import { readMessages, readSystem } from './unparsed-messages.ts'
import { readTools } from './unparsed-tools.ts'

/** The texts are passed on, or read with `LongTexts` alone. */
export const LARGE_BODY: LargeBody = {
  textPlaces: [
    { under: 'system', depth: 1, name: 'system' },
    { under: 'system', depth: 3, name: 'text' },
    { under: 'messages', depth: 3, name: 'content' },
    { under: 'messages', depth: 5, name: 'text' },
    { under: 'messages', depth: 5, name: 'content' },
    { under: 'messages', depth: 7, name: 'text' },
    { under: 'messages', depth: 5, name: 'input', holds: 'tree' },
    { under: 'tools', depth: 3, name: 'description' },
  ],
  lists: {
    names: words('messages', 'tools', 'system'),
    messages: readMessages,
    tools: readTools,
    system: readSystem,
    placeholders: ['[{"role":"user","content":""}]', '[]', '[]'],
  },
}

export interface MessagesOptions {
  readonly toolResultImages: ToolResultImages
}

/** Throws `CallerError` with the path of the invalid field. */
export function acceptMessages(body: JsonObject, options: MessagesOptions, longTexts?: LongTexts): ChatRequest {
  const checked = checkMessagesBody(body)
  const limits = new RequestLimits()
  const unparsed = longTexts?.unparsed
  const tools = unparsed?.tools === undefined ? acceptTools(checked, limits) : NO_TOOLS
  const hasTools = tools.length > 0 || unparsed?.tools !== undefined
  const choice = hasTools ? acceptToolChoice(checked.tool_choice) : undefined
  const request: ChatRequest = {
    model: checked.model,
    stream: checked.stream === true,
    messages: unparsed?.messages === undefined ? acceptConversation(checked, options, limits) : [],
    tools,
    toolChoice: choice?.toolChoice,
    parallelToolCalls: choice?.parallelToolCalls,
    maxOutputTokens: outputLimit(checked),
    limitsOutput: true,
    stop: checked.stop_sequences ?? NO_TEXTS,
    sampling: { temperature: checked.temperature ?? undefined, topP: checked.top_p ?? undefined },
    hints: acceptHints(checked),
    cache: cacheMark(checked, ''),
    cacheStrict: false,
    longTexts,
    unparsed,
  }
  refuseThread(checked.thread)
  if (longTexts === undefined || unparsed === undefined) return request
  const convert = (list: JsonValue) => acceptTools(checkMessagesBody({ ...body, tools: list }), new RequestLimits())
  return parsedWhenRead(request, longTexts, unparsed, convert)
}

/** The body of `count_tokens`. Its fields for output and streaming have no effect. */
export function acceptCount(body: JsonObject, options: MessagesOptions, longTexts?: LongTexts): ChatRequest {
  const request = acceptMessages(body, options, longTexts)
  return changed(request, { stream: false, maxOutputTokens: undefined, limitsOutput: false })
}

/** 0 asks newer Anthropic APIs to fill the cache and write nothing. Other providers need at least one token. */
function outputLimit(body: MessagesBody): number | undefined {
  const limit = body.max_tokens ?? undefined
  return limit === undefined ? undefined : Math.max(1, limit)
}

function acceptHints(body: MessagesBody): Hints {
  const { service_tier: tier, prompt_cache_key: key, prompt_cache_retention: retention } = body
  if ((tier ?? key ?? retention ?? undefined) === undefined) return NO_HINTS
  return {
    serviceTier: tier ?? undefined,
    promptCacheKey: key ?? undefined,
    promptCacheRetention: retention ?? undefined,
  }
}

function acceptConversation(
  { system, messages }: MessagesBody,
  { toolResultImages }: MessagesOptions,
  limits: RequestLimits,
): Message[] {
  const accepted: Message[] = []
  const parts = acceptTexts(system ?? '', 'system')
  if (parts.length > 0) accepted.push({ role: 'system', parts })
  for (const [index, { role, content }] of messages.entries()) {
    if (typeof content === 'string') accepted.push(acceptText(role, content))
    else if (role === 'assistant') accepted.push(acceptAssistant(content, `messages[${index}].content`, limits))
    else accepted.push(...acceptUser(content, `messages[${index}].content`, { toolResultImages, limits }))
  }
  return accepted
}

/** A message whose content is one text. An assistant's empty text is left out, because Anthropic rejects it. */
function acceptText(role: string, text: string): Message {
  if (role !== 'assistant') return { role: 'user', parts: [{ type: 'text', text, cache: undefined }] }
  return { role, parts: text === '' ? [] : [{ type: 'text', text, cache: undefined }], toolCalls: [] }
}

/**
 * Tools that Anthropic itself runs (`web_search_20250305`, …) are left out, because other providers have no
 * counterpart.
 */
function acceptTools(body: MessagesBody, limits: RequestLimits): readonly Tool[] {
  if (body.tools === undefined || body.tools === null) return NO_TOOLS
  limits.checkTools(body.tools.length, 'tools')
  return body.tools.flatMap((tool, index) => {
    const path = `tools[${index}]`
    if (!isObject(tool)) throw invalid(path, 'must be an object')
    const type = tool['type'] ?? 'custom'
    return type === 'custom' ? acceptTool(tool, path) : []
  })
}

function acceptTool(tool: JsonObject, path: string): Tool {
  const { name, strict } = tool
  if (typeof name !== 'string' || name === '') throw missing(`${path}.name`)
  const description = tool['description'] ?? undefined
  if (description !== undefined && typeof description !== 'string')
    throw invalid(`${path}.description`, 'must be a string')
  const parameters = tool['input_schema'] ?? { type: 'object', properties: {} }
  if (!isObject(parameters)) throw invalid(`${path}.input_schema`, 'must be an object')
  return {
    name,
    description,
    parameters,
    strict: typeof strict === 'boolean' ? strict : undefined,
    cache: cacheMark(tool, path),
  }
}

interface AcceptedChoice {
  readonly toolChoice: ToolChoice
  readonly parallelToolCalls: false | undefined
}

function acceptToolChoice(choice: unknown): AcceptedChoice | undefined {
  if (choice === undefined || choice === null) return undefined
  if (!isObject(choice)) throw invalid('tool_choice', 'must be an object')
  const parallelToolCalls = choice['disable_parallel_tool_use'] === true ? false : undefined
  switch (choice['type']) {
    case 'auto':
      return { toolChoice: { mode: 'auto' }, parallelToolCalls }
    case 'any':
      return { toolChoice: { mode: 'required' }, parallelToolCalls }
    case 'none':
      return { toolChoice: { mode: 'none' }, parallelToolCalls: undefined }
    case 'tool': {
      const name = choice['name']
      if (typeof name !== 'string' || name === '') throw missing('tool_choice.name')
      return { toolChoice: { mode: 'tool', name }, parallelToolCalls }
    }
    case undefined:
    case null:
      throw missing('tool_choice.type')
    default:
      throw invalid('tool_choice.type', "must be one of 'auto', 'any', 'tool' and 'none'")
  }
}

/**
 * Newer Anthropic SDKs let the service store the conversation as a thread. weir stores none. A request that creates a
 * thread is served; one that continues a thread holds only the newest messages, and this error code makes the SDK send
 * the whole history.
 */
function refuseThread(thread: unknown): void {
  if (!isObject(thread) || thread['type'] !== 'continue') return
  throw new CallerError(
    'thread_not_found',
    'No such thread: this service keeps no conversations. Send the whole history.',
    {
      param: 'thread',
      details: { error_code: 'thread_not_found' },
    },
  )
}
