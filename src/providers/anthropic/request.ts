/** The canonical request → the body of Anthropic's Messages API. */

import type { ChatRequest } from '../../core/chat-request.ts'
import type { Endpoint } from '../../core/endpoint.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { CacheMarks } from '../cache-marks.ts'
import { EndpointHeaders } from '../endpoint-headers.ts'
import { PerTarget } from '../per-target.ts'
import { isSolid, member, onlyText } from '../plain-text.ts'
import type { Dispatch, Target, UpstreamRequest } from '../provider.ts'
import { requestBody } from '../request-body.ts'
import { stopSequences } from '../stop-sequences.ts'
import { NAMES_OF_128, ToolNames } from '../tool-names.ts'
import { contentOf } from '../turn-writer.ts'
import { type Conversation, calledNames, conversationOf, offeredTools, withoutTrailingSpace } from '../turns.ts'
import { Blocks, textBlock, toolBlock } from './message-blocks.ts'
import { withThinking } from './thinking.ts'
import { chatTurns } from './unparsed-chat-turns.ts'
import { unparsedToolBlocks } from './unparsed-tool-blocks.ts'
import { unparsedTurns } from './unparsed-turns.ts'

const PATH = '/v1/messages'
/** Sent as `anthropic-version`. */
const API_VERSION = '2023-06-01'
/** `max_tokens` is required; this is sent if the caller set no limit and the dialect has no default. */
const OUTPUT_TOKENS_DEFAULT = 4096
/**
 * Claude 4.5 and later support structured outputs: `output_config.format` and `strict` tools. Earlier models reject the
 * fields.
 */
const STRUCTURED = /claude-[a-z]+-(?:4-[5-9]|4-\d\d(?!\d)|[5-9](?!\d)|\d\d(?!\d))/
/** A longer `metadata.user_id` is rejected. */
const USER_CHARS_MAX = 256

export function anthropicRequest(request: ChatRequest, target: Target): UpstreamRequest {
  const { body, toolNames } = anthropicBody(request, target.model)
  return { ...upstreamRequest(PATH, requestBody(body, request.longTexts), target), toolNames }
}

/** The same for a server that wants thinking back. */
export function thinkingRequest(request: ChatRequest, target: Target): UpstreamRequest {
  // Every turn may have to be changed.
  const { body, toolNames } = anthropicBody({ ...request, unparsed: undefined }, target.model)
  return { ...upstreamRequest(PATH, requestBody(withThinking(body), request.longTexts), target), toolNames }
}

/** What the plain requests for one model have in common, at Anthropic's own API or at Vertex AI. */
export interface PlainForm {
  /** The body up to the number of `max_tokens`. */
  readonly opening: string
  readonly whole: string
  readonly streamed: string
  readonly headers: UpstreamRequest['headers']
  readonly serviceTiers: boolean
}

export function anthropicPlainRequest(request: ChatRequest, target: Target): UpstreamRequest | undefined {
  return plainMessage(request, forms.of(target))
}

/** The JSON of `anthropicBody`. A history whose turns must be merged, completed or trimmed is not plain. */
export function plainMessage(request: ChatRequest, form: PlainForm): UpstreamRequest | undefined {
  let system = ''
  let turns = ''
  let isUsersTurn = true
  for (const message of request.messages) {
    const text = onlyText(message)
    if (text === undefined || !isSolid(text)) return undefined
    const block = `{"type":"text","text":${JSON.stringify(text)}}`
    if (message.role === 'system') {
      system += system === '' ? block : `,${block}`
    } else {
      if ((message.role === 'user') !== isUsersTurn) return undefined
      turns += `${turns === '' ? '' : ','}{"role":"${message.role}","content":[${block}]}`
      isUsersTurn = !isUsersTurn
    }
  }
  // Without a turn of the user at the end.
  if (isUsersTurn) return undefined
  const { temperature, top_p } = sampling(request)
  const user = userOf(request)
  const tier = form.serviceTiers ? serviceTier(request.hints.serviceTier) : undefined
  const json =
    `${form.opening}${request.maxOutputTokens ?? OUTPUT_TOKENS_DEFAULT}` +
    `${system === '' ? '' : `,"system":[${system}]`}` +
    `,"messages":[${turns}]${member('temperature', temperature)}${member('top_p', top_p)}` +
    `${user === undefined ? '' : `,"metadata":{"user_id":${JSON.stringify(user)}}`}` +
    `${member('service_tier', tier)}${request.stream ? ',"stream":true}' : '}'}`
  return { url: request.stream ? form.streamed : form.whole, headers: form.headers, body: json }
}

/** The same request for the API's token counter, with the fields that count as input. */
export function anthropicCountRequest(request: ChatRequest, target: Target): UpstreamRequest {
  const body = requestBody(countedInput(request, target.model), request.longTexts)
  return upstreamRequest(`${PATH}/count_tokens`, body, target)
}

/** The fields of a body that a token counter takes. */
export function countedInput(request: ChatRequest, name: string): JsonObject {
  const { model, tools, tool_choice, system, messages } = anthropicBody(request, name).body
  return { model, tools, tool_choice, system, messages }
}

const forms = new PerTarget(
  ({ endpoint, model }): PlainForm => ({
    opening: `{"model":${JSON.stringify(model)},"max_tokens":`,
    whole: endpoint.baseUrl + PATH,
    streamed: endpoint.baseUrl + PATH,
    headers: headers.of(endpoint),
    serviceTiers: true,
  }),
)

const headers = new EndpointHeaders(({ apiKey }) => ({
  'anthropic-version': API_VERSION,
  ...(apiKey === undefined ? undefined : { 'x-api-key': apiKey }),
}))

export function anthropicModels(endpoint: Endpoint, limit: number): Dispatch {
  const url = `${endpoint.baseUrl}/v1/models?limit=${limit}`
  return { method: 'GET', url, headers: headers.of(endpoint), body: '' }
}

function upstreamRequest(path: string, body: UpstreamRequest['body'], { endpoint }: Target): UpstreamRequest {
  return { url: endpoint.baseUrl + path, headers: headers.of(endpoint), body }
}

/** Keys have one order and absent fields are left out, so that equal beginnings of a conversation are equal bytes. */
export function anthropicBody(
  request: ChatRequest,
  model: string,
): { readonly body: JsonObject; readonly toolNames: UpstreamRequest['toolNames'] } {
  const names = new ToolNames(request, NAMES_OF_128)
  const structured = STRUCTURED.test(model)
  const { system, messages, ...tools } =
    unparsedParts(request, structured, names) ??
    chatParts(request, structured, names) ??
    partsOf(request, structured, names)
  const body = {
    model,
    max_tokens: request.maxOutputTokens ?? OUTPUT_TOKENS_DEFAULT,
    ...tools,
    system,
    messages,
    stop_sequences: stopSequences(request.stop, { isClaude: true }),
    ...sampling(request),
    output_config: structured ? outputConfig(request) : undefined,
    metadata: metadata(request),
    service_tier: serviceTier(request.hints.serviceTier),
    stream: request.stream ? true : undefined,
  }
  return { body, toolNames: names.restore }
}

/** The members that the conversation and its tools make. */
function partsOf(request: ChatRequest, structured: boolean, names: ToolNames): JsonObject {
  const { system, turns } = conversationOf(request)
  const conversation: Conversation = { system, turns: withoutTrailingSpace(turns) }
  const offered = offeredTools(request)
  const marks = new CacheMarks(offered, conversation)
  // In this order, because marks are counted in it.
  const tools = offered.map((tool) => toolBlock(tool, structured, names, marks))
  const blocks = system.map((part) => textBlock(part, marks))
  const contents = contentOf(conversation.turns, new Blocks(names, marks, request.longTexts))
  return {
    ...toolFields(request, tools, conversation, names),
    system: blocks.length > 0 ? blocks : undefined,
    messages: conversation.turns.map(({ role }, index) => ({ role, content: contents[index] })),
  }
}

/** The same without converting messages that came as Chat Completions and were not parsed; undefined if they were. */
function chatParts(request: ChatRequest, structured: boolean, names: ToolNames): JsonObject | undefined {
  const turns = chatTurns(request)
  if (turns === undefined) return undefined
  const { system, messages } = turns
  const unparsed = unparsedTools(request, structured)
  if (unparsed !== undefined) return { tools: unparsed, tool_choice: toolChoice(request, names), system, messages }
  const offered = offeredTools(request)
  if (turns.hasCalls && offered.length === 0) return undefined
  const marks = new CacheMarks(offered, NO_TURNS)
  const tools = offered.map((tool) => toolBlock(tool, structured, names, marks))
  return { ...toolFields(request, tools, NO_TURNS, names), system, messages }
}

/** The tools that came in another form and need not be converted. Their names are legal. */
function unparsedTools({ unparsed, longTexts, toolChoice }: ChatRequest, structured: boolean): string | undefined {
  const tools = unparsed?.tools
  // Some of them may not be offered, or have a cache mark.
  if (longTexts === undefined || tools === undefined || tools.form === 'messages') return undefined
  return toolChoice?.mode === 'allowed' ? undefined : unparsedToolBlocks(tools, longTexts, structured)
}

/** Stands for a conversation without marks, whose calls are not asked for. */
const NO_TURNS: Conversation = { system: [], turns: [] }

/** The same without converting what was not parsed; undefined if some of it must be changed together with the rest. */
function unparsedParts(request: ChatRequest, structured: boolean, names: ToolNames): JsonObject | undefined {
  const written = unparsedTurns(request, structured, names)
  if (written === undefined) return undefined
  const { tools, system, messages } = written
  return { tools, tool_choice: tools === undefined ? undefined : toolChoice(request, names), system, messages }
}

/**
 * The API rejects a history with calls if there are no tools. If the request offers none, the called tools are named
 * again with choice `none`: the history stays the same and the model cannot call them.
 */
function toolFields(
  request: ChatRequest,
  tools: readonly JsonObject[],
  { turns }: Conversation,
  names: ToolNames,
): JsonObject {
  if (tools.length > 0) return { tools, tool_choice: toolChoice(request, names) }
  const called = calledNames(turns)
  if (called.length === 0) return {}
  const named = called.map((name) => ({ name: names.sent(name), input_schema: { type: 'object' } }))
  return { tools: named, tool_choice: { type: 'none' } }
}

function toolChoice(request: ChatRequest, names: ToolNames): JsonObject | undefined {
  const { toolChoice: choice, parallelToolCalls } = request
  const single = parallelToolCalls === false ? true : undefined
  switch (choice?.mode) {
    case 'none':
      return { type: 'none' }
    case 'required':
      return { type: 'any', disable_parallel_tool_use: single }
    case 'tool':
      return { type: 'tool', name: names.sent(choice.name), disable_parallel_tool_use: single }
    case 'allowed':
      return { type: choice.required ? 'any' : 'auto', disable_parallel_tool_use: single }
    case 'auto':
      return { type: 'auto', disable_parallel_tool_use: single }
    case undefined:
      return single ? { type: 'auto', disable_parallel_tool_use: single } : undefined
  }
}

/**
 * The API's range is 0 to 1, and newer models reject both together: the temperature is kept, because more callers mean
 * it.
 */
function sampling({ sampling: { temperature, topP } }: ChatRequest): {
  temperature?: number
  top_p?: number | undefined
} {
  if (temperature !== undefined) return { temperature: Math.min(1, Math.max(0, temperature)) }
  return { top_p: topP }
}

/** The caller's JSON schema for the answer; plain JSON mode has no counterpart. */
function outputConfig({ sampling: { responseFormat } }: ChatRequest): JsonObject | undefined {
  const named = responseFormat?.['type'] === 'json_schema' ? responseFormat['json_schema'] : undefined
  const schema = isObject(named) ? named['schema'] : undefined
  return isObject(schema) ? { format: { type: 'json_schema', schema } } : undefined
}

function metadata(request: ChatRequest): JsonObject | undefined {
  const user = userOf(request)
  return user === undefined ? undefined : { user_id: user }
}

function userOf({ hints }: ChatRequest): string | undefined {
  const user = hints.safetyIdentifier ?? hints.user
  return user === undefined || user === '' || user.length > USER_CHARS_MAX ? undefined : user
}

/** Only `auto` means the same here as in the other dialects. */
function serviceTier(tier: string | undefined): string | undefined {
  return tier === 'auto' || tier === 'standard_only' ? tier : undefined
}
