/**
 * How requests to a target are written: by its address and the name of its model, and by what it has rejected. Some
 * servers reject what weir adds to a request, or miss what no caller of weir has, and only their answer shows it.
 */

import type { Conversation } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import type { ProviderError } from '../../core/provider-error.ts'
import type { EntryThoughts } from '../../core/thoughts.ts'
import { type Lesson, makeLesson, rejecting, TargetForms } from '../learned-form.ts'
import type { Rejection, Target } from '../provider.ts'
import { SAMPLING_LESSONS, type SamplingForm, samplingLesson } from '../rejected-sampling.ts'
import { rejectsSignature, SIGNATURE_WORDS } from '../thought-signature.ts'
import { type MessageVariant, USUAL } from './chat-body.ts'
import { type EffortForm, effortForm, effortLessonOf, REASONING_LESSONS } from './effort.ts'
import { azureAddress, azureResponses, openaiAddress, type ProviderAddress } from './endpoints.ts'
import { isMistral, MISTRAL } from './mistral.ts'
import {
  type ApiNeeds,
  apiNeeds,
  mayThink,
  needsResponses,
  type ResponsesForm,
  responsesForm,
  wantsResponses,
} from './responses-form.ts'
import { TOOL_LESSONS, type ToolForm, toolLessonOf } from './tool-lessons.ts'

/**
 * Kimi thinks by default, and then a message with tool calls must have the thoughts that led to them, or Moonshot's own
 * API answers 400 ("reasoning_content is missing in assistant tool call message"). Callers have no thoughts to send
 * back, because no dialect shows them any; a blank one is accepted. Kimi on other servers does not need this.
 */
const MOONSHOT: MessageVariant = { thoughts: 'with calls' }

/**
 * Blank thoughts in every message of the assistant, for models of DeepSeek and Xiaomi. Other models reject them, so
 * only a server that has missed them gets them.
 */
const WITH_THOUGHTS: MessageVariant = { thoughts: 'always' }

/** A signature for the first of parallel calls: for Gemini's Chat Completions endpoint. */
const WITH_SIGNATURES: MessageVariant = { signatures: true }

/** What every request to a target has in common. */
export interface ServerForm extends ProviderAddress, ApiNeeds, EffortForm, ToolForm, SamplingForm {
  /** How its messages differ from OpenAI's. */
  readonly variant: MessageVariant
  readonly limitName: 'max_completion_tokens' | 'max_tokens'
  /** A message may have the thoughts that the server itself has sent in a field of one: OpenAI and Azure show none. */
  readonly takesThoughts: boolean
  /** By Chat Completions, a tool may take a text. */
  readonly takesFreeTools: boolean
  /** By Chat Completions, its model takes no stop sequences: weir ends the text itself. */
  readonly rejectsStop?: boolean | undefined
  /** Without them a server may not report usage, which weir then estimates. */
  readonly takesStreamOptions: boolean
  /** The JSON of a request up to its messages. */
  readonly opening: string
  readonly responses: ResponsesForm
  /** A request by the Responses API asks for the encrypted thoughts of the model. */
  readonly sendsThoughts: boolean
  /** A request by the Responses API may have an option about the padding of its stream. */
  readonly takesPadding: boolean
}

/**
 * Models that reject `max_tokens` and require `max_completion_tokens`; many other servers know only `max_tokens`.
 * Azure's deployments and fine-tuned models have any name.
 */
const COMPLETION_LIMIT = /^(?:.*\/)?(?:o\d|gpt-[5-9])/

/** Models of OpenAI whose tools may take a text: "Custom tools are not supported with model". */
const FREE_TOOLS = /^(?:ft:)?gpt-(?:[5-9]|\d\d)/

/** OpenAI's own API. */
const OPENAI = /^https:\/\/(?:[a-z0-9-]+\.)?api\.openai\.com[:/]/

const AZURE = /^https:\/\/[^/]+\.azure\.(?:com|us|cn)[:/]/

const CHAT_PATH = '/chat/completions'
const RESPONSES_PATH = '/responses'

function formOf(target: Target, address: ProviderAddress, { url }: ProviderAddress): ServerForm {
  const { model } = target
  const { baseUrl } = target.endpoint
  const isOpenai = OPENAI.test(address.url)
  return {
    ...address,
    ...apiNeeds(target, isOpenai, isOpenai || AZURE.test(url)),
    ...effortForm(model, address.url),
    responses: responsesForm(model, url, isOpenai || AZURE.test(url)),
    sendsThoughts: mayThink(model),
    takesPadding: true,
    variant: isMistral(baseUrl) ? MISTRAL : isMoonshot(baseUrl) ? MOONSHOT : USUAL,
    limitName: COMPLETION_LIMIT.test(model) ? 'max_completion_tokens' : 'max_tokens',
    takesThoughts: !isOpenai,
    takesFreeTools: isOpenai && FREE_TOOLS.test(model),
    takesStreamOptions: true,
    opening: `{"model":${JSON.stringify(model)},"messages":`,
  }
}

function isMoonshot(baseUrl: string): boolean {
  return /^https?:\/\/(?:[^/]+\.)?(?:moonshot\.(?:ai|cn)|kimi\.com)(?:[:/]|$)/.test(baseUrl)
}

/** "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead." */
const rejectsLimit = rejecting("'max_tokens' is not supported[^]*'max_completion_tokens'")
/** "Unsupported parameter: 'stop' is not supported with this model." */
const rejectsStop = rejecting('stop')
/** "Unrecognized request argument supplied: stream_options", and other servers in their own words. */
const rejectsOptions = rejecting('stream_options(?:\\.include_usage)?')
/** "The `reasoning_content` in the thinking mode must be passed back to the API." */
const missesThoughts = rejecting('reasoning_content')
/** "property 'reasoning_content' is unsupported", "messages.2.assistant.reasoning: Extra inputs are not permitted". */
const namesThoughts = rejecting('(?:[\\w.]+\\.)?reasoning(?:_content|_details)?')
const UNKNOWN_FIELD =
  /unsupported|not (?:supported|permitted|allowed|recognized)|unexpected|unknown|extra|unrecognized/i

/** What a server that rejected a request with this error is to get; undefined if the error shows nothing about that. */
export function lessonOf({ error, request }: Rejection, form: ServerForm): Lesson<ServerForm> | undefined {
  const { kind, detail } = error
  if (needsResponses(request, form)) {
    const lesson = responsesLesson(error) ?? toolLessonOf(error, request, { tool: 1, call: 0 })
    return lesson ?? samplingLesson(error, request) ?? effortLessonOf(error, request, form)
  }
  const wanted = form.api === 'auto' ? wantsResponses(error, request) : undefined
  if (wanted !== undefined) return wanted === 'tools' ? LESSONS.apiWithTools : LESSONS.api
  if (kind !== 'rejected') return undefined
  const { variant } = form
  const { thoughts } = request
  if (thoughts?.form === 'chat' && namesThoughts(error) && UNKNOWN_FIELD.test(error.message))
    return { ...LESSONS.noReasoning, own: ownWords(request.conversation, thoughts) }
  if (rejectsLimit(error)) return LESSONS.otherLimit
  if (detail.param === 'stream_options' || rejectsOptions(error)) return LESSONS.noOptions
  const tools = toolLessonOf(error, request, { tool: 2, call: 2 })
  if (tools !== undefined) return tools
  const sampling = samplingLesson(error, request)
  if (sampling !== undefined) return sampling
  if (request.stop.length > 0 && rejectsStop(error) && UNKNOWN_FIELD.test(error.message)) return LESSONS.noStop
  const effort = effortLessonOf(error, request, form)
  if (effort !== undefined && !missesThoughts(error)) return effort
  const lesson = missesThoughts(error) ? LESSONS.thoughts : rejectsSignature(error) ? LESSONS.signatures : undefined
  return variant === USUAL || variant === lesson?.change.variant ? lesson : undefined
}

/** How often the thoughts that weir has written, into messages with calls, have the words of the lesson. */
function ownWords(conversation: Conversation, thoughts: EntryThoughts): number {
  let own = 0
  for (let message = 0; message < conversation.end; message = conversation.endOfMessage(message)) {
    const end = conversation.endOfMessage(message)
    let entry = conversation.next(message)
    while (entry < end && conversation.kindAt(entry) !== Kind.CALL_ID) entry = conversation.next(entry)
    if (entry < end) own += thoughts.with(message)?.match(LESSONS.noReasoning.words)?.length ?? 0
  }
  return own
}

/** "Encrypted content is not supported with this model." */
const rejectsThoughts = rejecting('include(?:\\[\\d+\\]|\\.\\d+)?|(?:reasoning\\.)?encrypted[_ ]content')
const rejectsPadding = rejecting('(?:stream_options\\.)?include_obfuscation|stream_options')

/** The same of a request by the Responses API. */
function responsesLesson(error: ProviderError): Lesson<ServerForm> | undefined {
  const { kind, detail, message } = error
  if (kind !== 'rejected') return undefined
  const { param = '' } = detail
  if (param.startsWith('stream_options') || rejectsPadding(error)) return LESSONS.noPadding
  const isInclude = /^include\b/.test(param) || rejectsThoughts(error)
  const isOther = message.includes('logprobs') && !/encrypted[_ ]content/i.test(message)
  return isInclude && !isOther ? LESSONS.noThoughts : undefined
}

const lesson = makeLesson<ServerForm>
const LESSONS = {
  otherLimit: lesson('max_completion_tokens', { limitName: 'max_completion_tokens' }, /max_completion_tokens/gi, 0),
  noOptions: {
    ...lesson('stream_options', { takesStreamOptions: false }, /stream_options/gi, 1),
    givesUpUsage: true,
  },
  thoughts: lesson('reasoning_content', { variant: WITH_THOUGHTS }, /reasoning_content/gi, 0),
  noReasoning: lesson('reasoning', { takesThoughts: false }, /reasoning(?!_effort)/gi, 0),
  signatures: lesson('thought_signature', { variant: WITH_SIGNATURES }, SIGNATURE_WORDS, 0),
  api: lesson('api', { takesResponsesAlone: true }, /v1\/responses/gi, 0),
  apiWithTools: lesson('api with tools', { takesToolsByResponses: true }, /v1\/responses/gi, 0),
  noStop: lesson('stop', { rejectsStop: true }, /"stop"/gi, 1),
  noThoughts: lesson('include', { sendsThoughts: false }, /encrypted[_ ]content/gi, 1),
  noPadding: lesson('stream_options.include_obfuscation', { takesPadding: false }, /include_obfuscation/gi, 1),
}
const ALL_LESSONS: readonly Lesson<ServerForm>[] = [
  ...Object.values(LESSONS),
  ...REASONING_LESSONS,
  ...TOOL_LESSONS,
  ...SAMPLING_LESSONS,
]

export const openaiForms = new TargetForms<ServerForm>(
  (target) => formOf(target, openaiAddress(target, CHAT_PATH), openaiAddress(target, RESPONSES_PATH)),
  ALL_LESSONS,
)
export const azureForms = new TargetForms<ServerForm>(
  (target) => ({ ...formOf(target, azureAddress(target, CHAT_PATH), azureResponses(target)), takesThoughts: false }),
  ALL_LESSONS,
)
