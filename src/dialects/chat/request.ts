/**
 * A Chat Completions body → the canonical request. Every part is rebuilt from its known keys, so that unknown ones
 * never reach a provider.
 */

import { Arena } from '../../core/arena.ts'
import { type ChatRequest, NO_HINTS, NO_TEXTS, type ToolChoice } from '../../core/chat-request.ts'
import { longInteger, plainNumber } from '../../core/exact-json.ts'
import { isArray, isObject, type JsonObject, type JsonValue, objectOf, stringOf } from '../../core/json.ts'
import { NONE, words } from '../../wire/json-document.ts'
import type { RequestBody, UnparsedMembers } from '../../wire/request-body.ts'
import { refuseForbiddenWithin } from '../forbidden-fields.ts'
import { invalid, missing } from '../invalid-field.ts'
import { chatReasoning } from '../read-reasoning.ts'
import { RequestLimits } from '../request-limits.ts'
import { type ReadOptions, readMessages } from './read-conversation.ts'
import { areTools, readTools } from './read-functions.ts'
import { type ChatBody, checkChatBody } from './schema.ts'

/** The schema is asked about messages and tools only if it may reject them. */
export const UNPARSED: UnparsedMembers = {
  names: words('messages', 'tools'),
  members: [
    {
      placeholder: (document, value) =>
        document.isList(value) && document.firstItem(value) !== NONE ? '[0]' : undefined,
    },
    { placeholder: (document, value) => (areTools(document, value) ? '[]' : undefined) },
  ],
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

/** Throws `CallerError` with the path of the invalid field. `takesReasoning`: whether its thoughts pass. */
export function acceptChat(
  { document, settings, values, bytes }: RequestBody,
  options: Omit<ReadOptions, 'limits'>,
  takesReasoning = false,
): AcceptedChat {
  checkBias(settings['logit_bias'])
  const { seed } = settings
  const chat = checkChatBody(JSON.isRawJSON(seed) ? { ...settings, seed: plainNumber(seed) } : settings)
  const limits = new RequestLimits()
  const arena = new Arena(bytes)
  const tools = readTools(document, arena, values[1] ?? NONE, limits, options.takesFree === true)
  const hasTools = !tools.isEmpty
  const request: ChatRequest = {
    model: chat.model,
    stream: chat.stream === true,
    conversation: readMessages(document, arena, values[0] ?? NONE, {
      limits,
      imageUrls: options.imageUrls,
      takesContent: options.takesContent === true,
      takesThoughts: takesReasoning,
      takesFree: options.takesFree === true,
    }),
    tools,
    toolChoice: hasTools ? acceptToolChoice(settings['tool_choice'], limits, options.takesFree === true) : undefined,
    parallelToolCalls: hasTools ? (chat.parallel_tool_calls ?? undefined) : undefined,
    maxOutputTokens: chat.max_completion_tokens ?? chat.max_tokens ?? undefined,
    limitsOutput: false,
    stop: typeof chat.stop === 'string' ? [chat.stop] : (chat.stop ?? NO_TEXTS),
    sampling: acceptSampling(chat, settings, takesReasoning),
    hints: acceptHints(chat, settings),
    cacheStrict: false,
  }
  return {
    request: takesReasoning ? { ...request, reasoning: chatReasoning(settings) } : request,
    includeUsage: chat.stream_options?.include_usage === true,
  }
}

function acceptSampling(chat: ChatBody, body: JsonObject, takesReasoning: boolean): ChatRequest['sampling'] {
  const { response_format: format } = body
  refuseForbiddenWithin(format, 'response_format')
  return {
    temperature: chat.temperature ?? undefined,
    topP: chat.top_p ?? undefined,
    frequencyPenalty: chat.frequency_penalty ?? undefined,
    presencePenalty: chat.presence_penalty ?? undefined,
    seed: longInteger(body['seed']) ?? chat.seed ?? undefined,
    logitBias: chat.logit_bias ?? undefined,
    logprobs: chat.logprobs ?? undefined,
    topLogprobs: chat.top_logprobs ?? undefined,
    reasoningEffort: takesReasoning ? undefined : (chat.reasoning_effort ?? undefined),
    verbosity: chat.verbosity ?? undefined,
    responseFormat: objectOf(format),
  }
}

function acceptHints(chat: ChatBody, body: JsonObject): ChatRequest['hints'] {
  refuseForbiddenWithin(body['prompt_cache_options'], 'prompt_cache_options')
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

function acceptToolChoice(
  choice: JsonValue | undefined,
  limits: RequestLimits,
  takesFree: boolean,
): ToolChoice | undefined {
  if (choice === undefined || choice === null) return undefined
  if (choice === 'auto' || choice === 'none' || choice === 'required') return { mode: choice }
  const kind = isObject(choice) ? choice['type'] : undefined
  if (isObject(choice) && (kind === 'function' || (kind === 'custom' && takesFree))) {
    const name = stringOf(objectOf(choice[kind])?.['name'])
    if (name === undefined) throw missing(`tool_choice.${kind}.name`)
    return { mode: 'tool', name }
  }
  if (isObject(choice) && choice['type'] === 'allowed_tools')
    return acceptAllowedTools(objectOf(choice['allowed_tools']), limits, takesFree)
  throw invalid('tool_choice', "must be 'none', 'auto', 'required', or an object of type 'function' or 'allowed_tools'")
}

function acceptAllowedTools(allowed: JsonObject | undefined, limits: RequestLimits, takesFree: boolean): ToolChoice {
  const tools = allowed?.['tools']
  if (!isArray(tools)) throw missing('tool_choice.allowed_tools.tools')
  limits.checkTools(tools.length, 'tool_choice.allowed_tools.tools')
  const names = tools.flatMap((tool) => {
    const { function: called, custom } = objectOf(tool) ?? {}
    return stringOf(objectOf(called ?? (takesFree ? custom : undefined))?.['name']) ?? []
  })
  return { mode: 'allowed', names, required: allowed?.['mode'] === 'required' }
}
