/**
 * The canonical request → the body of a Responses request, for OpenAI, Azure and servers with this API, and how its
 * answer is read.
 */

import type { ChatRequest, ToolChoice } from '../../core/chat-request.ts'
import type { CacheMark } from '../../core/entry-marks.ts'
import { isArray, type JsonObject, type JsonValue, objectOf } from '../../core/json.ts'
import { JsonBuilder } from '../../core/json-builder.ts'
import type { OwnFields } from '../../core/own-fields.ts'
import type { EntryThoughts } from '../../core/thoughts.ts'
import { SseFramer } from '../../wire/frames.ts'
import { marksInOrder } from '../cache-marks.ts'
import { jsonMember, member } from '../json-members.ts'
import type { AnswerReader, UpstreamRequest } from '../provider.ts'
import { NAMES_OF_64, ToolNames } from '../tool-names.ts'
import { ignoredEffort, responsesEffort } from './effort.ts'
import { openaiResponseError } from './error.ts'
import { hintMembers } from './request.ts'
import { responsesPlain } from './responses-answer.ts'
import { ResponsesBodyWriter } from './responses-body.ts'
import { ResponsesDecoder, responsesEvents } from './responses-events.ts'
import type { ServerForm } from './server-form.ts'
import { keptStop, stoppedReader } from './stop-decoder.ts'

/** Around an entry, in bytes. */
const AROUND_ENTRY = 24
const NO_NAMES: ReadonlySet<string> = new Set()
/** "Expected a value >= 16". */
export const OUTPUT_TOKENS_MIN = 16

/** Throws `ProviderError` `rejected` with `unsent` for what the API has no place for, and weir cannot do itself. */
export function responsesRequest(request: ChatRequest, form: ServerForm): UpstreamRequest {
  const given = { conversation: request.conversation, tools: request.tools, cache: request.cache }
  const { conversation, tools, cache } = marksInOrder(given)
  const names = new ToolNames(request, NAMES_OF_64)
  const json = JsonBuilder.forBody(conversation, AROUND_ENTRY)
  const { responses } = form
  const stop = keptStop(request)
  const { own } = request
  const free = form.rejectsFreeTools === true ? NO_NAMES : tools.freeNames
  const isListed = form.rejectsNamespaces !== true && form.rejectsFreeTools !== true && !names.areChanged
  const passed = isListed ? own : undefined
  const writer = new ResponsesBodyWriter(json, names, responses.hasDeveloper, thoughtsOf(request), free, passed)
  json.text(responses.opening)
  writer.input(conversation)
  // The API rejects tool settings without tools.
  if (!tools.isEmpty || own?.tools.length) {
    json.text(',"tools":')
    if (own?.listed !== undefined && isListed) writer.listed(own.listed, tools.arena)
    else writer.tools(tools, undefined, own?.tools.map(({ json }) => json) ?? [])
    json.text(
      jsonMember('tool_choice', choiceOf(request, names, free)) +
        jsonMember('parallel_tool_calls', request.parallelToolCalls ?? stated(own, 'parallel_tool_calls')) +
        jsonMember('max_tool_calls', own?.members['max_tool_calls']),
    )
  }
  json.text(`${settings(request, form, cache)}}`)
  return {
    url: responses.url,
    headers: form.headers,
    body: json.take(),
    toolNames: names.restore,
    ignored: ignoredOf(request, form),
    reader:
      own !== undefined
        ? passingResponsesReader
        : stop === undefined
          ? responsesReader
          : stoppedReader(responsesReader, stop),
  }
}

function thoughtsOf({ thoughts }: ChatRequest): EntryThoughts | undefined {
  return thoughts?.form === 'responses' ? thoughts : undefined
}

/**
 * Members have one order and absent ones are left out, so that equal beginnings of a conversation are equal bytes.
 */
function settings(request: ChatRequest, form: ServerForm, cache: CacheMark | undefined): string {
  const { sampling, hints, maxOutputTokens: limit, stream } = request
  let text =
    member('max_output_tokens', limit === undefined ? undefined : Math.max(limit, OUTPUT_TOKENS_MIN)) +
    member('temperature', sampling.temperature) +
    member('top_p', sampling.topP) +
    member('top_logprobs', sampling.logprobs === true ? (sampling.topLogprobs ?? 0) : undefined) +
    responsesEffort(request, form) +
    jsonMember('text', textSettings(request))
  text += hintMembers(hints, cache)
  const wanted = request.own?.members['include']
  const include = [
    ...(isArray(wanted) ? wanted : []),
    ...(form.sendsThoughts ? ['reasoning.encrypted_content'] : []),
    ...(sampling.logprobs === true ? ['message.output_text.logprobs'] : []),
  ]
  text += `,"store":false${include.length === 0 ? '' : `,"include":${JSON.stringify(include)}`}`
  if (!stream) return text
  // OpenAI pads every event of a stream with up to 16 random characters unless asked not to.
  const options = form.takesPadding ? `,"stream_options":{"include_obfuscation":${hints.padStream === true}}` : ''
  return `${text},"stream":true${options}`
}

/** What a caller of the same API has stated. */
function stated(own: OwnFields | undefined, name: string): JsonValue | undefined {
  return own?.members[name] ?? own?.defaults?.[name]
}

function textSettings({ sampling, own }: ChatRequest): JsonObject | undefined {
  const { responseFormat, verbosity = stated(own, 'text.verbosity') } = sampling
  if (responseFormat === undefined && verbosity === undefined) return undefined
  return { format: responseFormat && textFormat(responseFormat), verbosity }
}

/** Chat Completions has the members of a schema within another object. */
function textFormat(format: JsonObject): JsonObject {
  const { type, json_schema: named } = format
  if (type !== 'json_schema') return { type }
  const { name, description, schema, strict } = objectOf(named) ?? {}
  return { type, name, description: description ?? undefined, schema, strict }
}

/** Of the API's own tools as it came. */
function choiceOf(
  { own, toolChoice }: ChatRequest,
  names: ToolNames,
  free: ReadonlySet<string>,
): JsonValue | undefined {
  return stated(own, 'tool_choice') ?? (toolChoice && sentChoice(toolChoice, names, free))
}

function sentChoice(choice: ToolChoice, names: ToolNames, free: ReadonlySet<string>): JsonValue {
  const named = (name: string) => ({ type: free.has(name) ? 'custom' : 'function', name: names.sent(name) })
  switch (choice.mode) {
    case 'tool':
      return named(choice.name)
    case 'allowed': {
      const tools = choice.names.map(named)
      return { type: 'allowed_tools', mode: choice.required ? 'required' : 'auto', tools }
    }
    default:
      return choice.mode
  }
}

/** The caller's fields that only Chat Completions has, and that would have had an effect. */
function ignoredOf(request: ChatRequest, form: ServerForm): readonly string[] | undefined {
  const { seed, frequencyPenalty, presencePenalty, logitBias } = request.sampling
  const effort = ignoredEffort(request, form)
  const isNone = seed === undefined && !frequencyPenalty && !presencePenalty && logitBias === undefined
  if (isNone) return effort.length === 0 ? undefined : effort
  const ignored: string[] = [...effort]
  if (seed !== undefined) ignored.push('seed')
  if (frequencyPenalty) ignored.push('frequency_penalty')
  if (presencePenalty) ignored.push('presence_penalty')
  if (logitBias !== undefined) ignored.push('logit_bias')
  return ignored
}

export const responsesReader: AnswerReader = {
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut, 'repeat'),
  decoder: () => new ResponsesDecoder(),
  events: responsesEvents,
  plain: responsesPlain,
  responseError: openaiResponseError,
}

/** The same for an answer whose own items and events pass. One of nothing but text is read like others. */
const passingResponsesReader: AnswerReader = {
  ...responsesReader,
  decoder: () => new ResponsesDecoder(true),
  events: (body) => responsesEvents(body, true),
  plain: undefined,
}
