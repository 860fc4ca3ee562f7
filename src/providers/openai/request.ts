/** The canonical request → the body of Chat Completions, for OpenAI, compatible servers and Azure. */

import { type ChatRequest, NO_HINTS, type ToolChoice } from '../../core/chat-request.ts'
import * as Kind from '../../core/entry-kinds.ts'
import type { CacheMark } from '../../core/entry-marks.ts'
import type { JsonValue } from '../../core/json.ts'
import { JsonBuilder } from '../../core/json-builder.ts'
import { marksInOrder } from '../cache-marks.ts'
import { jsonMember, member } from '../json-members.ts'
import type { UpstreamRequest } from '../provider.ts'
import { stopSequences } from '../stop-sequences.ts'
import { NAMES_OF_64, ToolNames } from '../tool-names.ts'
import { ChatBodyWriter } from './chat-body.ts'
import { chatEffort, ignoredEffort } from './effort.ts'
import { allowedBy, mistralSettings, narrowedChoice } from './mistral.ts'
import type { ServerForm } from './server-form.ts'

/** Around an entry, in bytes. */
const AROUND_ENTRY = 8

export function chatRequest(request: ChatRequest, form: ServerForm): UpstreamRequest {
  const { conversation, tools, cache } = marksInOrder(request)
  const names = new ToolNames(request, NAMES_OF_64)
  const json = JsonBuilder.forBody(conversation, AROUND_ENTRY)
  const takesFree = form.takesFreeTools && form.rejectsFreeTools !== true
  const free = takesFree && tools.has(Kind.FREE_FORM) ? tools.freeNames : undefined
  const writer = new ChatBodyWriter(
    json,
    names,
    form.variant,
    request.thoughts?.form === 'chat' && form.takesThoughts ? request.thoughts : undefined,
    free,
  )
  json.text(form.opening)
  writer.messages(conversation)
  // The API rejects tool settings without tools.
  if (!tools.isEmpty) {
    const allowed = form.variant.isMistral === true ? allowedBy(request.toolChoice, names) : undefined
    json.text(',"tools":')
    writer.tools(tools, allowed)
    json.text(toolSettings(request, names, allowed !== undefined, free))
  }
  json.text(
    `${form.variant.isMistral === true ? mistralSettings(request, form.limitName) : settings(request, form, cache)}}`,
  )
  const asksUsage = request.stream && form.takesStreamOptions
  const left = ignoredEffort(request, form)
  const ignored = left.length === 0 ? undefined : left
  return { url: form.url, headers: form.headers, body: json.take(), toolNames: names.restore, asksUsage, ignored }
}

function toolSettings(
  { toolChoice, parallelToolCalls }: ChatRequest,
  names: ToolNames,
  isNarrowed: boolean,
  free: ReadonlySet<string> | undefined,
): string {
  const choice =
    toolChoice === undefined
      ? undefined
      : isNarrowed
        ? narrowedChoice(toolChoice)
        : openaiToolChoice(toolChoice, names, free)
  return jsonMember('tool_choice', choice) + member('parallel_tool_calls', parallelToolCalls)
}

/**
 * Members have one order and absent ones are left out, so that equal beginnings of a conversation are equal bytes.
 */
function settings(request: ChatRequest, form: ServerForm, cache: CacheMark | undefined): string {
  const { sampling, hints, maxOutputTokens, stream } = request
  let text =
    member(form.limitName, maxOutputTokens) +
    jsonMember('stop', form.rejectsStop === true ? undefined : stopSequences(request.stop, { isClaude: false })) +
    member('temperature', sampling.temperature) +
    member('top_p', sampling.topP) +
    member('frequency_penalty', sampling.frequencyPenalty) +
    member('presence_penalty', sampling.presencePenalty) +
    member('seed', sampling.seed) +
    jsonMember('logit_bias', sampling.logitBias) +
    member('logprobs', sampling.logprobs) +
    member('top_logprobs', sampling.topLogprobs) +
    chatEffort(request, form) +
    member('verbosity', sampling.verbosity) +
    jsonMember('response_format', sampling.responseFormat)
  text += hintMembers(hints, cache)
  if (!stream) return text
  if (!form.takesStreamOptions) return `${text},"stream":true`
  // OpenAI pads every event of a stream with up to 16 random characters, a fifth of its bytes, unless asked not to.
  // Other servers may reject the option.
  const padding = member('include_obfuscation', form.isOpenai ? hints.padStream === true : undefined)
  return `${text},"stream":true,"stream_options":{"include_usage":true${padding}}`
}

/** The members of the hints and of the request's own cache mark, of which most requests have none. */
export function hintMembers(hints: ChatRequest['hints'], cache: CacheMark | undefined): string {
  // The form of OpenRouter and LiteLLM; marks that the model does not support were removed before.
  const mark = cache === undefined ? '' : jsonMember('cache_control', { type: 'ephemeral', ttl: cache.ttl })
  if (hints === NO_HINTS) return mark
  return (
    member('user', hints.user) +
    member('safety_identifier', hints.safetyIdentifier) +
    member('service_tier', hints.serviceTier) +
    member('prompt_cache_key', hints.promptCacheKey) +
    member('prompt_cache_retention', hints.promptCacheRetention) +
    jsonMember('prompt_cache_options', hints.promptCacheOptions) +
    mark
  )
}

function openaiToolChoice(choice: ToolChoice, names: ToolNames, free: ReadonlySet<string> | undefined): JsonValue {
  const named = (name: string) => {
    const type = free?.has(name) === true ? 'custom' : 'function'
    return { type, [type]: { name: names.sent(name) } }
  }
  switch (choice.mode) {
    case 'tool':
      return named(choice.name)
    case 'allowed': {
      const tools = choice.names.map(named)
      return { type: 'allowed_tools', allowed_tools: { mode: choice.required ? 'required' : 'auto', tools } }
    }
    default:
      return choice.mode
  }
}
