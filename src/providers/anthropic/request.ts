/** The canonical request → the body of Anthropic's Messages API. */

import type { ChatRequest, ToolChoice } from '../../core/chat-request.ts'
import type { Endpoint } from '../../core/endpoint.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { JsonBuilder } from '../../core/json-builder.ts'
import type { OwnFields } from '../../core/own-fields.ts'
import type { ProviderError } from '../../core/provider-error.ts'
import type { EntryThoughts } from '../../core/thoughts.ts'
import { SentMarks } from '../cache-marks.ts'
import {
  keptSampling,
  THINKING,
  THINKING_LESSONS,
  type Thinking,
  type ThinkingForm,
  thinkingLesson,
  thinkingOf,
} from '../claude-thinking.ts'
import { cannotTake, NO_ADDRESSES } from '../documents.ts'
import { claudeThinking } from '../efforts.ts'
import { EndpointHeaders } from '../endpoint-headers.ts'
import { responseError } from '../error-response.ts'
import { jsonMember, member } from '../json-members.ts'
import { type Lesson, TargetForms } from '../learned-form.ts'
import {
  type AnswerReader,
  type Dispatch,
  sseStreamOfDocuments,
  type Target,
  type UpstreamRequest,
} from '../provider.ts'
import { samplingLesson, withoutRejectedSampling } from '../rejected-sampling.ts'
import { SentCallIds } from '../sent-call-ids.ts'
import { stopSequences } from '../stop-sequences.ts'
import { NAMES_OF_128, ToolNames } from '../tool-names.ts'
import { offeredTools, Turns } from '../turns.ts'
import { AnthropicDecoder, anthropicEvents, anthropicPlain, anthropicPlainWithoutOwn } from './events.ts'
import { MessageBodyWriter, type MessageVariant } from './message-body.ts'
import { type BetaForm, betaLesson, withoutRefused } from './refused-betas.ts'
import { STRICT_LESSONS, type StrictForm, strictForm, strictLesson, takesStrict } from './strict-tools.ts'

const PATH = '/v1/messages'
/** Sent as `anthropic-version`. */
const API_VERSION = '2023-06-01'
/** `max_tokens` is required; this is sent if the caller set no limit and the dialect has no default. */
const OUTPUT_TOKENS_DEFAULT = 4096
/** A longer `metadata.user_id` is rejected. */
const USER_CHARS_MAX = 256
/** Around an entry, in bytes. */
const AROUND_ENTRY = 8

/** Sets of betas that an endpoint's headers are kept for: an agent sends the same ones with each request. */
const BETA_SETS_MAX = 64
/** For the same headers and betas always the same object: the transport keeps the head that it has written for it. */
const betaHeaders = new WeakMap<MessageForm['headers'], Map<string, MessageForm['headers']>>()

/** What the requests for one model have in common, at Anthropic's own API, Vertex AI or Bedrock. */
export interface MessageForm extends Omit<MessageVariant, 'takesStrict'>, StrictForm, ThinkingForm, BetaForm {
  /** The first member of the body, and that of a body for the token counter. */
  readonly opening: string
  readonly countOpening: string
  readonly whole: string
  readonly streamed: string
  readonly count: string
  readonly headers: UpstreamRequest['headers']
  /**
   * Not at a cloud: the API takes a service tier, and the caller's betas in a header; and it places the cache marks of
   * a request that has one for all of it, which weir does for the others.
   */
  readonly isOwnApi: boolean
  /** Whether a body states that its answer is streamed: if not, the address does. */
  readonly statesStream: boolean
  /** Reads an answer whose own blocks, members and events pass. */
  readonly passing: AnswerReader
}

export const messageReader: AnswerReader = {
  ...sseStreamOfDocuments,
  decoder: () => new AnthropicDecoder(),
  events: anthropicEvents,
  plain: anthropicPlain,
  responseError,
}

export const passingReader: AnswerReader = {
  ...messageReader,
  decoder: () => new AnthropicDecoder(true),
  events: (body) => anthropicEvents(body, true),
  plain: anthropicPlainWithoutOwn,
}

/** The forms of models at these places. */
export function claudeForms(
  placeOf: (target: Target) => Omit<MessageForm, keyof StrictForm | keyof ThinkingForm | 'wantsThinking'>,
): TargetForms<MessageForm> {
  const make = (target: Target): MessageForm => ({
    ...placeOf(target),
    ...strictForm(target.model),
    wantsThinking: false,
    ...claudeThinking(target.model),
  })
  return new TargetForms<MessageForm>(make, [THINKING, ...THINKING_LESSONS, ...STRICT_LESSONS], betaLesson)
}

export const messageForms = claudeForms(({ endpoint, model }) => {
  const opening = `{"model":${JSON.stringify(model)}`
  const url = endpoint.baseUrl + PATH
  return {
    ...{ opening, countOpening: opening, whole: url, streamed: url, count: `${url}/count_tokens` },
    headers: headers.of(endpoint),
    isOwnApi: true,
    statesStream: true,
    passing: passingReader,
  }
})

const headers = new EndpointHeaders(({ apiKey }) => ({
  'anthropic-version': API_VERSION,
  ...(apiKey === undefined ? undefined : { 'x-api-key': apiKey }),
}))

export function anthropicModels(endpoint: Endpoint, limit: number): Dispatch {
  const url = `${endpoint.baseUrl}/v1/models?limit=${limit}`
  return { method: 'GET', url, headers: headers.of(endpoint), body: '' }
}

export function messageRequest(request: ChatRequest, form: MessageForm): UpstreamRequest {
  return withoutRejectedSampling(request, form, (kept) => sampledRequest(kept, form))
}

function sampledRequest(asked: ChatRequest, form: MessageForm): UpstreamRequest {
  const { request, leftOut } = withoutRefused(asked, form)
  const turns = new Turns(request.conversation)
  const thinking = thinkingOf(request, form, turns, thoughtsOf(request), form.wantsThinking)
  const limit = thinking.maxTokens ?? request.maxOutputTokens ?? OUTPUT_TOKENS_DEFAULT
  const { json, names } = written(request, form, turns, `${form.opening},"max_tokens":${limit}`)
  const ignored: string[] = [...leftOut, ...(thinking.ignored ?? [])]
  json.text(`${settings(request, form, thinking, ignored)}${ownMembers(request, form)}}`)
  return {
    url: request.stream ? form.streamed : form.whole,
    headers: headersFor(request, form),
    body: json.take(),
    toolNames: names.restore,
    reader: request.own && form.passing,
    own: leftOut.length === 0 ? undefined : request.own,
    ignored: ignored.length === 0 ? undefined : ignored,
  }
}

/**
 * The request for a service that fetches nothing, such as Vertex AI and Bedrock. Throws `ProviderError` `rejected` for
 * an image or document by URL.
 */
export function withoutAddresses(request: ChatRequest): ChatRequest {
  const { conversation } = request
  if (conversation.has(Kind.DOCUMENT_URL)) throw cannotTake(NO_ADDRESSES)
  if (!conversation.has(Kind.IMAGE_URL)) return request
  throw cannotTake('This model takes images as base64 data only, not by address.')
}

/** What a rejection shows about how a model takes strict tools, sampling and thinking. */
export function claudeLesson(
  error: ProviderError,
  request: ChatRequest,
  form: MessageForm,
): Lesson<MessageForm> | undefined {
  const known = strictLesson(error, request) ?? samplingLesson(error, request)
  if (known !== undefined || request.reasoning === undefined) return known
  const turns = new Turns(request.conversation)
  return thinkingLesson(error, thinkingOf(request, form, turns, thoughtsOf(request), form.wantsThinking))
}

/** What the caller has sent for this API in the body, and the betas if they have no header. */
function ownMembers({ own }: ChatRequest, { isOwnApi }: MessageForm): string {
  if (own === undefined) return ''
  let text = !isOwnApi && own.betas.length > 0 ? jsonMember('anthropic_beta', own.betas) : ''
  for (const [name, value] of Object.entries(own.members)) text += `,${JSON.stringify(name)}:${JSON.stringify(value)}`
  return text
}

function headersFor({ own }: ChatRequest, { headers: usual, isOwnApi }: MessageForm): MessageForm['headers'] {
  if (own === undefined || !isOwnApi || (own.betas.length === 0 && own.version === undefined)) return usual
  const name = `${own.version} ${own.betas.join()}`
  const sets = betaHeaders.getOrInsertComputed(usual, () => new Map())
  const known = sets.get(name)
  if (known !== undefined) return known
  if (sets.size >= BETA_SETS_MAX) sets.clear()
  const made = withBetas(usual, own)
  sets.set(name, made)
  return made
}

/** The operator's betas stay, before those of the caller. */
function withBetas(usual: MessageForm['headers'], { version, betas }: OwnFields): MessageForm['headers'] {
  const headers: Record<string, string> = {}
  let all = betas
  for (const [field, value] of Object.entries(usual)) {
    if (field.toLowerCase() === 'anthropic-beta') all = [...value.split(',').map((beta) => beta.trim()), ...betas]
    else headers[field] = field === 'anthropic-version' && version !== undefined ? version : value
  }
  if (all.length > 0) headers['anthropic-beta'] = [...new Set(all)].join(',')
  return headers
}

/** The same request for the API's token counter, with the fields that count as input. */
export function countRequest(asked: ChatRequest, form: MessageForm): UpstreamRequest {
  const { request } = withoutRefused(asked, form)
  const { json } = written(request, form, new Turns(request.conversation), form.countOpening)
  json.text(`${ownMembers(request, form)}}`)
  return { url: form.count, headers: headersFor(request, form), body: json.take() }
}

/**
 * A body up to its messages. Members have one order and absent ones are left out, so that equal beginnings of a
 * conversation are equal bytes.
 */
function written(request: ChatRequest, form: MessageForm, turns: Turns, opening: string) {
  const { conversation } = request
  const names = new ToolNames(request, NAMES_OF_128)
  const { own } = request
  const leavesMarks = own !== undefined && form.isOwnApi
  const marks = new SentMarks(turns, offeredTools(request, request.tools), leavesMarks ? undefined : request.cache)
  const json = JsonBuilder.forBody(conversation, AROUND_ENTRY)
  const writer = new MessageBodyWriter(
    json,
    names,
    turns,
    marks,
    new SentCallIds(turns),
    { wantsThinking: form.wantsThinking, takesStrict: takesStrict(request, form) },
    thoughtsOf(request),
    own,
  )
  json.text(opening)
  if (leavesMarks && request.cache !== undefined)
    json.text(jsonMember('cache_control', { type: 'ephemeral', ...request.cache }))
  if (marks.tools.isEmpty && !own?.tools.length) json.text(calledTools(turns, names))
  else {
    json.text(',"tools":')
    writer.tools()
    json.text(jsonMember('tool_choice', toolChoice(request, names)))
  }
  writer.messages()
  return { json, names }
}

function thoughtsOf({ thoughts }: ChatRequest): EntryThoughts | undefined {
  return thoughts?.form === 'messages' ? thoughts : undefined
}

/**
 * The API rejects a history with calls if there are no tools. If the request offers none, the called tools are named
 * again with choice `none`: the history stays the same and the model cannot call them.
 */
function calledTools(turns: Turns, names: ToolNames): string {
  const called = [...turns.calledNames()]
  if (called.length === 0) return ''
  const named = called.map((name) => ({ name: names.sent(name), input_schema: { type: 'object' } }))
  return `,"tools":${JSON.stringify(named)},"tool_choice":{"type":"none"}`
}

const CHOICES = { none: 'none', required: 'any', tool: 'tool', auto: 'auto' } as const

function toolChoice({ toolChoice: choice, parallelToolCalls }: ChatRequest, names: ToolNames): JsonObject | undefined {
  const single = parallelToolCalls === false ? true : undefined
  if (choice === undefined && single === undefined) return undefined
  const type = typeOf(choice)
  const name = choice?.mode === 'tool' ? names.sent(choice.name) : undefined
  return { type, name, disable_parallel_tool_use: type === 'none' ? undefined : single }
}

function typeOf(choice: ToolChoice = { mode: 'auto' }): string {
  return choice.mode === 'allowed' ? (choice.required ? 'any' : 'auto') : CHOICES[choice.mode]
}

/**
 * The range of the API's temperature is 0 to 1, and newer models reject it together with `top_p`: the temperature is
 * kept, because more callers mean it.
 */
function settings(request: ChatRequest, form: MessageForm, thinking: Thinking, ignored: string[]): string {
  const { hints, stop, stream } = request
  const { temperature, topP } = keptSampling(request, thinking.isOn, ignored)
  const user = userOf(request)
  const kept =
    temperature === undefined ? member('top_p', topP) : member('temperature', Math.min(1, Math.max(0, temperature)))
  let text = jsonMember('stop_sequences', stopSequences(stop, { isClaude: true })) + kept
  text += jsonMember('thinking', thinking.thinking) + jsonMember('output_config', outputConfig(request, form, thinking))
  if (user !== undefined) text += jsonMember('metadata', { user_id: user })
  if (form.isOwnApi) text += member('service_tier', serviceTier(hints.serviceTier))
  return stream && form.statesStream ? `${text},"stream":true` : text
}

/** The caller's JSON schema for the answer; plain JSON mode has no counterpart. */
function outputConfig(
  { sampling: { responseFormat, passesFormat, followsFormat } }: ChatRequest,
  form: MessageForm,
  { effort }: Thinking,
): JsonObject | undefined {
  const takesFormat = form.takesStrict || (passesFormat === true && followsFormat === true)
  const named = takesFormat && responseFormat?.['type'] === 'json_schema' ? responseFormat['json_schema'] : undefined
  const schema = isObject(named) ? named['schema'] : undefined
  if (!isObject(schema) && effort === undefined) return undefined
  return { effort, format: isObject(schema) ? { type: 'json_schema', schema } : undefined }
}

function userOf({ hints }: ChatRequest): string | undefined {
  const user = hints.safetyIdentifier ?? hints.user
  return user === undefined || user === '' || user.length > USER_CHARS_MAX ? undefined : user
}

/** Only `auto` means the same here as in the other dialects. */
function serviceTier(tier: string | undefined): string | undefined {
  return tier === 'auto' || tier === 'standard_only' ? tier : undefined
}
