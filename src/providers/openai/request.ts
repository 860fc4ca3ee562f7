/** The canonical request → the body of Chat Completions, for OpenAI, compatible servers and Azure. */

import {
  type CacheMark,
  type ChatRequest,
  type ImagePart,
  type Message,
  NO_HINTS,
  offersTools,
  type TextPart,
  type Tool,
  type ToolChoice,
  type UserPart,
} from '../../core/chat-request.ts'
import type { ToolCall } from '../../core/completion.ts'
import type { JsonObject, JsonValue } from '../../core/json.ts'
import { argumentsOrNone } from '../../core/no-arguments.ts'
import { withMarksInOrder } from '../mark-order.ts'
import { member, onlyText } from '../plain-text.ts'
import type { UpstreamRequest } from '../provider.ts'
import { requestBody } from '../request-body.ts'
import { stopSequences } from '../stop-sequences.ts'
import { NAMES_OF_64, ToolNames } from '../tool-names.ts'
import type { ServerForm } from './server-form.ts'
import { unparsedMessages, unparsedTools } from './unparsed-chat-body.ts'

export function chatRequest(request: ChatRequest, model: string, form: ServerForm): UpstreamRequest {
  const { url, headers, adapt } = form
  // Every message may have to be changed.
  const parsed = adapt === undefined ? request : { ...request, unparsed: undefined }
  const names = new ToolNames(parsed, NAMES_OF_64)
  const body = openaiBody(withMarksInOrder(parsed), model, names, form)
  const adapted = adapt === undefined ? body : adapt(body)
  return { url, headers, body: requestBody(adapted, parsed.longTexts), toolNames: names.restore }
}

/** The JSON of a message up to its content, by its role. */
const MESSAGE_OPENINGS = {
  system: '{"role":"system","content":',
  user: '{"role":"user","content":',
  assistant: '{"role":"assistant","content":',
  tool: '',
} as const

/** The JSON of `openaiBody`. */
export function plainChatRequest(request: ChatRequest, form: ServerForm): UpstreamRequest | undefined {
  if (form.adapt !== undefined) return undefined
  let json = form.opening
  let separator = ''
  for (const message of request.messages) {
    const text = onlyText(message)
    if (text === undefined) return undefined
    json += `${separator}${MESSAGE_OPENINGS[message.role]}${JSON.stringify(text)}}`
    separator = ','
  }
  return { url: form.url, headers: form.headers, body: `${json}]${settings(request, form)}}` }
}

function settings({ sampling, hints, maxOutputTokens, stream }: ChatRequest, form: ServerForm): string {
  let json =
    member(form.limitName, maxOutputTokens) +
    member('temperature', sampling.temperature) +
    member('top_p', sampling.topP) +
    member('frequency_penalty', sampling.frequencyPenalty) +
    member('presence_penalty', sampling.presencePenalty) +
    member('seed', sampling.seed) +
    member('logprobs', sampling.logprobs) +
    member('top_logprobs', sampling.topLogprobs) +
    member('reasoning_effort', sampling.reasoningEffort) +
    member('verbosity', sampling.verbosity)
  if (hints !== NO_HINTS) {
    json +=
      member('user', hints.user) +
      member('safety_identifier', hints.safetyIdentifier) +
      member('service_tier', hints.serviceTier) +
      member('prompt_cache_key', hints.promptCacheKey) +
      member('prompt_cache_retention', hints.promptCacheRetention)
  }
  if (!stream) return json
  if (!form.takesStreamOptions) return `${json},"stream":true`
  const padding = member('include_obfuscation', form.isOpenai ? hints.padStream === true : undefined)
  return `${json},"stream":true,"stream_options":{"include_usage":true${padding}}`
}

/**
 * Keys have one order and absent fields are undefined, which JSON leaves out, so that equal beginnings of a
 * conversation are equal bytes. One literal of one shape: conditional members by spreads took a fifth more time.
 */
function openaiBody(
  request: ChatRequest,
  model: string,
  names: ToolNames,
  { isOpenai, limitName, takesStreamOptions }: ServerForm,
): JsonObject {
  const { sampling, hints, toolChoice, maxOutputTokens } = request
  // The API rejects tool settings without tools.
  const hasTools = offersTools(request)
  return {
    model,
    messages: openaiMessages(request, names),
    tools: hasTools ? openaiTools(request, names) : undefined,
    tool_choice: hasTools && toolChoice !== undefined ? openaiToolChoice(toolChoice, names) : undefined,
    parallel_tool_calls: hasTools ? request.parallelToolCalls : undefined,
    max_completion_tokens: limitName === 'max_completion_tokens' ? maxOutputTokens : undefined,
    max_tokens: limitName === 'max_tokens' ? maxOutputTokens : undefined,
    stop: stopSequences(request.stop, { isClaude: false }),
    temperature: sampling.temperature,
    top_p: sampling.topP,
    frequency_penalty: sampling.frequencyPenalty,
    presence_penalty: sampling.presencePenalty,
    seed: sampling.seed,
    logit_bias: sampling.logitBias,
    logprobs: sampling.logprobs,
    top_logprobs: sampling.topLogprobs,
    reasoning_effort: sampling.reasoningEffort,
    verbosity: sampling.verbosity,
    response_format: sampling.responseFormat,
    user: hints.user,
    safety_identifier: hints.safetyIdentifier,
    service_tier: hints.serviceTier,
    prompt_cache_key: hints.promptCacheKey,
    prompt_cache_retention: hints.promptCacheRetention,
    prompt_cache_options: hints.promptCacheOptions,
    cache_control: request.cache === undefined ? undefined : openaiMark(request.cache),
    stream: request.stream ? true : undefined,
    stream_options: request.stream && takesStreamOptions ? streamOptions(request, isOpenai) : undefined,
  }
}

/**
 * OpenAI pads every event of a stream with up to 16 random characters, a fifth of its bytes, unless asked not to. Other
 * servers may reject the option.
 */
function streamOptions({ hints }: ChatRequest, isOpenai: boolean): JsonObject {
  return { include_usage: true, include_obfuscation: isOpenai ? hints.padStream === true : undefined }
}

/** Names of unparsed calls and tools are legal, and sent as they are. */
function openaiMessages(request: ChatRequest, names: ToolNames): JsonValue {
  const { longTexts, unparsed } = request
  if (longTexts !== undefined && unparsed?.messages !== undefined) {
    if (unparsed.messages.form !== 'chat') return unparsedMessages(unparsed.messages, longTexts)
    const write = (index: number) => request.messages.slice(index, index + 1).map((each) => openaiMessage(each, names))
    return unparsed.messages.written((from, to) => longTexts.markOfValue(from, to), write)
  }
  const written: JsonValue[] = []
  for (const message of request.messages) written.push(openaiMessage(message, names))
  return written
}

function openaiMessage(message: Message, names: ToolNames): JsonObject {
  switch (message.role) {
    case 'system':
      return { role: 'system', content: openaiText(message.parts, '\n') }
    case 'user':
      return { role: 'user', content: openaiParts(message.parts) }
    case 'tool':
      return { role: 'tool', tool_call_id: message.callId, content: openaiText(message.parts, '\n', message.cache) }
    case 'assistant':
      return {
        role: 'assistant',
        content:
          message.parts.length > 0
            ? openaiText(message.parts, '')
            : message.toolCalls.length > 0 || message.refusal !== undefined
              ? null
              : '',
        refusal: message.refusal,
        tool_calls: message.toolCalls.length === 0 ? undefined : openaiCalls(message.toolCalls, names),
      }
  }
}

function openaiCalls(calls: readonly ToolCall[], names: ToolNames): JsonObject[] {
  return calls.map((call) => ({
    id: call.callId,
    type: 'function',
    function: { name: names.sent(call.name), arguments: argumentsOrNone(call.json) },
  }))
}

/**
 * One string, which every server accepts. Parts only to carry cache marks, and then split only after a mark: in the
 * next turn the mark has moved, and the text before it must be the same bytes. `mark`: a mark on the whole text.
 */
function openaiText(parts: readonly TextPart[], separator: string, mark?: CacheMark): JsonValue {
  const [first] = parts
  if (first === undefined) return ''
  if (parts.length === 1 && (mark ?? first.cache) === undefined) return first.text
  const pieces: TextPart[] = []
  for (const [index, { text, cache }] of parts.entries()) {
    const before = pieces.at(-1)
    const end = index === parts.length - 1 ? (mark ?? cache) : cache
    const joined = index === 0 ? text : separator + text
    if (before === undefined || before.cache !== undefined) pieces.push({ type: 'text', text: joined, cache: end })
    else pieces[pieces.length - 1] = { type: 'text', text: before.text + joined, cache: end }
  }
  const [only] = pieces
  return pieces.length === 1 && only?.cache === undefined ? (only?.text ?? '') : pieces.map(openaiTextPart)
}

/** No parts are sent as an empty text, because an empty list is rejected. */
function openaiParts(parts: readonly UserPart[]): JsonValue {
  const [only] = parts
  if (only === undefined) return ''
  if (parts.length === 1 && only.type === 'text' && only.cache === undefined) return only.text
  return parts.map(openaiPart)
}

function openaiPart(part: UserPart): JsonObject {
  switch (part.type) {
    case 'text':
      return openaiTextPart(part)
    case 'image':
      return openaiImage(part)
    case 'native':
      return part.json
  }
}

function openaiTextPart(part: TextPart): JsonObject {
  return { type: 'text', text: part.text, cache_control: part.cache === undefined ? undefined : openaiMark(part.cache) }
}

function openaiImage(part: ImagePart): JsonObject {
  const { source } = part
  const url = source.type === 'url' ? source.url : `data:${source.mediaType};base64,${source.data}`
  return {
    type: 'image_url',
    image_url: { url, detail: part.detail },
    cache_control: part.cache === undefined ? undefined : openaiMark(part.cache),
  }
}

/** The form of OpenRouter and LiteLLM; marks that the model does not support were removed before. */
function openaiMark(mark: CacheMark): JsonObject {
  return { type: 'ephemeral', ttl: mark.ttl }
}

function openaiTools(request: ChatRequest, names: ToolNames): JsonValue {
  const { longTexts, unparsed } = request
  const tools = unparsed?.tools
  if (longTexts !== undefined && tools !== undefined) {
    return tools.form === 'chat' ? longTexts.markOfValue(tools.from, tools.to) : unparsedTools(tools, longTexts)
  }
  return request.tools.map((tool) => openaiTool(tool, names))
}

function openaiTool(tool: Tool, names: ToolNames): JsonObject {
  return {
    type: 'function',
    function: {
      name: names.sent(tool.name),
      description: tool.description,
      parameters: tool.parameters,
      strict: tool.strict,
    },
    cache_control: tool.cache === undefined ? undefined : openaiMark(tool.cache),
  }
}

function openaiToolChoice(choice: ToolChoice, names: ToolNames): JsonValue {
  switch (choice.mode) {
    case 'tool':
      return { type: 'function', function: { name: names.sent(choice.name) } }
    case 'allowed': {
      const tools = choice.names.map((name) => ({ type: 'function', function: { name: names.sent(name) } }))
      return { type: 'allowed_tools', allowed_tools: { mode: choice.required ? 'required' : 'auto', tools } }
    }
    default:
      return choice.mode
  }
}
