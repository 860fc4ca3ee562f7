/** The canonical request → the body of Gemini's `generateContent`. Cache marks are dropped: its caching is implicit. */

import type { ChatRequest } from '../../core/chat-request.ts'
import type { Endpoint } from '../../core/endpoint.ts'
import { isObject, type JsonObject, type JsonValue, objectOf } from '../../core/json.ts'
import { JsonBuilder } from '../../core/json-builder.ts'
import { isStructuredBesideTools } from '../../core/structured-output.ts'
import type { EntryThoughts } from '../../core/thoughts.ts'
import type { ToolList } from '../../core/tool-list.ts'
import { geminiThinking } from '../efforts.ts'
import { EndpointHeaders } from '../endpoint-headers.ts'
import { jsonMember, member } from '../json-members.ts'
import { makeLesson, TargetForms } from '../learned-form.ts'
import { listedModels } from '../listed-models.ts'
import type { Dispatch, Target, UpstreamRequest } from '../provider.ts'
import { stopSequences } from '../stop-sequences.ts'
import { SIGNATURE_WORDS } from '../thought-signature.ts'
import { type NameRule, ToolNames } from '../tool-names.ts'
import { offeredTools, Turns } from '../turns.ts'
import { ContentBodyWriter, type ContentVariant } from './content-body.ts'
import {
  budgetLesson,
  ignoredThinking,
  THINKING_LESSONS,
  type ThinkingForm,
  thinkingConfig,
} from './thinking-config.ts'

/** Dots, colons and dashes are legal, but not as the first character. */
const NAMES: NameRule = { legal: /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/, illegal: /[^a-zA-Z0-9_.:-]/g, charsMax: 64 }
/** Gemini 3 and later reject a call of the current turn without a signature; earlier models do not require one. */
const WANTS_SIGNATURES = /gemini-(?:[3-9]|\d\d)/
/** Around an entry, in bytes. */
const AROUND_ENTRY = 16

/** What the requests for one model have in common, at Google's own API or at Vertex AI. */
export interface GeminiForm extends ContentVariant, ThinkingForm {
  readonly whole: string
  readonly streamed: string
  /** The address of the token counter. */
  readonly count: string
  /** The model that the counter wants in its body, with the whole request; if absent, only what counts as input. */
  readonly countedModel?: string
  /** JSON answers together with tools. */
  readonly takesBoth: boolean
  readonly headers: UpstreamRequest['headers']
}

/** Each call wants a signature, its own or the replacement. */
export const SIGNATURES = makeLesson<GeminiForm>('thoughtSignature', { wantsSignatures: true }, SIGNATURE_WORDS, 0)

interface ModelPlace extends Pick<GeminiForm, 'countedModel' | 'headers' | 'callIds'> {
  /** The address of the model, to which a method is appended. */
  readonly url: string
}

/** The forms of models at these places. Names such as `gemini-flash-latest` and those of tuned models show little. */
export function contentForms(placeOf: (target: Target) => ModelPlace): TargetForms<GeminiForm> {
  const make = (target: Target): GeminiForm => {
    const { url, ...place } = placeOf(target)
    return {
      ...place,
      whole: `${url}:generateContent`,
      streamed: `${url}:streamGenerateContent?alt=sse`,
      count: `${url}:countTokens`,
      wantsSignatures: WANTS_SIGNATURES.test(target.model),
      takesBoth: isStructuredBesideTools(target.model),
      ...geminiThinking(target.model),
    }
  }
  return new TargetForms<GeminiForm>(make, [SIGNATURES, ...THINKING_LESSONS], budgetLesson)
}

export const geminiForms = contentForms(({ endpoint, model }) => {
  const countedModel = withCollection(model)
  const resource = countedModel.split('/').map(encodeURIComponent).join('/')
  const url = `${endpoint.baseUrl}/v1beta/${resource}`
  return { url, countedModel, headers: headers.of(endpoint), callIds: true }
})

export function contentRequest(request: ChatRequest, form: GeminiForm): UpstreamRequest {
  const names = new ToolNames(request, NAMES)
  const json = written(request, form, names, { opening: '{', isWhole: true })
  json.text('}')
  return {
    url: request.stream ? form.streamed : form.whole,
    headers: form.headers,
    body: json.take(),
    toolNames: names.restore,
    ignored: ignoredThinking(request, form),
  }
}

/** The same request for the API's token counter. */
export function contentCountRequest(request: ChatRequest, form: GeminiForm): UpstreamRequest {
  const { countedModel: model } = form
  const isWhole = model !== undefined
  const opening = isWhole ? `{"generateContentRequest":{"model":${JSON.stringify(model)},` : '{'
  const json = written(request, form, new ToolNames(request, NAMES), { opening, isWhole })
  json.text(isWhole ? '}}' : '}')
  return { url: form.count, headers: form.headers, body: json.take() }
}

const headers = new EndpointHeaders(({ apiKey }): UpstreamRequest['headers'] =>
  apiKey === undefined ? {} : { 'x-goog-api-key': apiKey },
)

export function geminiModels(endpoint: Endpoint, limit: number): Dispatch {
  const url = `${endpoint.baseUrl}/v1beta/models?pageSize=${limit}`
  return { method: 'GET', url, headers: headers.of(endpoint), body: '' }
}

/** Of models that answer: others make images or embeddings, for which weir does not call this API. */
export function geminiNames(body: JsonValue): readonly string[] {
  return listedModels(body, 'models').flatMap(({ name, supportedGenerationMethods: methods }) => {
    const answers = !Array.isArray(methods) || methods.includes('generateContent')
    return typeof name === 'string' && answers ? [name.replace(/^models\//, '')] : []
  })
}

/** `gemini-…` is short for `models/gemini-…`; tuned models have a collection of their own. */
function withCollection(model: string): string {
  return model.includes('/') ? model : `models/${model}`
}

/**
 * A body up to its last brace. Members have one order and absent ones are left out, so that equal beginnings of a
 * conversation are equal bytes. `isWhole`: with what does not count as input, too.
 */
function written(
  request: ChatRequest,
  form: GeminiForm,
  names: ToolNames,
  { opening, isWhole }: { readonly opening: string; readonly isWhole: boolean },
): JsonBuilder {
  const conversation = request.conversation
  const tools = declared(request, request.tools)
  const json = JsonBuilder.forBody(conversation, AROUND_ENTRY)
  const writer = new ContentBodyWriter(json, names, new Turns(conversation), form, thoughtsOf(request))
  json.text(opening)
  writer.system()
  writer.tools(tools)
  const config = isWhole && !tools.isEmpty ? toolConfig(request, names) : undefined
  if (config !== undefined) json.text(`"toolConfig":${JSON.stringify(config)},`)
  writer.contents()
  if (isWhole) json.text(generationConfig(request, form, !tools.isEmpty))
  return json
}

function thoughtsOf({ thoughts }: ChatRequest): EntryThoughts | undefined {
  return thoughts?.form === 'gemini' ? thoughts : undefined
}

/** Whether a model may sign its thoughts: those before Gemini 2.5 never do. */
export function mayThink(model: string): boolean {
  return !/gemini-(?:1|2\.0)/.test(model)
}

/**
 * The tools to declare. If the caller allows only some, those alone, unless one must be called: then the mode names
 * them.
 */
function declared(request: ChatRequest, tools: ToolList): ToolList {
  return request.toolChoice?.mode === 'allowed' && request.toolChoice.required ? tools : offeredTools(request, tools)
}

function toolConfig({ toolChoice }: ChatRequest, names: ToolNames): JsonObject | undefined {
  const config = (mode: string, allowed?: readonly string[]): JsonObject => ({
    functionCallingConfig: { mode, allowedFunctionNames: allowed?.map((name) => names.sent(name)) },
  })
  switch (toolChoice?.mode) {
    case 'none':
      return config('NONE')
    case 'required':
      return config('ANY')
    case 'tool':
      return config('ANY', [toolChoice.name])
    case 'allowed':
      return toolChoice.required ? config('ANY', toolChoice.names) : config('AUTO')
    case 'auto':
      return config('AUTO')
    case undefined:
      return undefined
  }
}

/** Penalties are left out: most models reject them. */
function generationConfig(request: ChatRequest, form: GeminiForm, hasTools: boolean): string {
  const { sampling, maxOutputTokens, stop } = request
  const config =
    member('maxOutputTokens', maxOutputTokens) +
    member('temperature', sampling.temperature) +
    member('topP', sampling.topP) +
    jsonMember('stopSequences', stopSequences(stop, { isClaude: false })) +
    member('seed', sampling.seed) +
    jsonMember('thinkingConfig', thinkingConfig(request, form)) +
    // With earlier models, JSON answers and function calling exclude each other.
    (hasTools && !(form.takesBoth && sampling.passesFormat === true) ? '' : jsonMode(sampling.responseFormat))
  return config === '' ? '' : `,"generationConfig":{${config.slice(1)}}`
}

function jsonMode(format: JsonObject | undefined): string {
  const type = format?.['type']
  if (type !== 'json_object' && type !== 'json_schema') return ''
  const named = format?.['json_schema']
  const schema = isObject(named) ? objectOf(named['schema']) : undefined
  return member('responseMimeType', 'application/json') + jsonMember('responseJsonSchema', schema)
}
