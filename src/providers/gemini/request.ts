/** The canonical request → the body of Gemini's `generateContent`. Cache marks are dropped: its caching is implicit. */

import type { ChatRequest, ImagePart, TextPart, Tool } from '../../core/chat-request.ts'
import type { Endpoint } from '../../core/endpoint.ts'
import { isObject, type JsonObject, type JsonValue } from '../../core/json.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import { CallInputs } from '../call-arguments.ts'
import { EndpointHeaders } from '../endpoint-headers.ts'
import { TargetForms } from '../learned-form.ts'
import { listedModels } from '../listed-models.ts'
import { mediaType } from '../media-type.ts'
import { isSolid, member, onlyText } from '../plain-text.ts'
import type { Dispatch, Target, UpstreamRequest } from '../provider.ts'
import { requestBody } from '../request-body.ts'
import { stopSequences } from '../stop-sequences.ts'
import { NO_SIGNATURE } from '../thought-signature.ts'
import { type NameRule, ToolNames } from '../tool-names.ts'
import { type BlockWriter, contentOf } from '../turn-writer.ts'
import { conversationOf, type EarlierCall, offeredTools, type ToolResult } from '../turns.ts'
import { matchedByOrder } from './call-order.ts'
import type { Signatures } from './signatures.ts'

/** Dots, colons and dashes are legal, but not as the first character. */
const NAMES: NameRule = { legal: /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/, illegal: /[^a-zA-Z0-9_.:-]/g, charsMax: 64 }
/** Gemini 3 and later reject a call of the current turn without a signature; earlier models do not require one. */
const WANTS_SIGNATURES = /gemini-(?:[3-9]|\d\d)/

/** What the requests for one model have in common, at Google's own API or at Vertex AI. */
export interface GeminiForm {
  readonly whole: string
  readonly streamed: string
  readonly headers: UpstreamRequest['headers']
  /** Whether calls and their results carry ids. If not, results are in the order of their calls. */
  readonly callIds: boolean
  readonly wantsSignatures: boolean
}

/** By the model's name. Names such as `gemini-flash-latest` and those of tuned models do not show it. */
export function wantsSignatures(model: string): boolean {
  return WANTS_SIGNATURES.test(model)
}

export const geminiForms = new TargetForms(
  (target): GeminiForm => ({
    whole: urlOf(target, 'generateContent'),
    streamed: urlOf(target, 'streamGenerateContent?alt=sse'),
    headers: headers.of(target.endpoint),
    callIds: true,
    wantsSignatures: wantsSignatures(target.model),
  }),
)

export function contentRequest(request: ChatRequest, form: GeminiForm, signatures: Signatures): UpstreamRequest {
  const names = new ToolNames(request, NAMES)
  const body = geminiBody(request, form, names, signatures)
  return {
    url: request.stream ? form.streamed : form.whole,
    headers: form.headers,
    body: requestBody(body, request.longTexts),
    toolNames: names.restore,
  }
}

/** The JSON of `geminiBody`. A history whose turns must be merged or completed is not plain. */
export function plainContentRequest(request: ChatRequest, form: GeminiForm): UpstreamRequest | undefined {
  let system = ''
  let turns = ''
  let isUsersTurn = true
  for (const message of request.messages) {
    const text = onlyText(message)
    if (text === undefined || !isSolid(text)) return undefined
    const part = `{"text":${JSON.stringify(text)}}`
    if (message.role === 'system') {
      system += system === '' ? part : `,${part}`
    } else {
      if ((message.role === 'user') !== isUsersTurn) return undefined
      turns += `${turns === '' ? '' : ','}{"role":"${isUsersTurn ? 'user' : 'model'}","parts":[${part}]}`
      isUsersTurn = !isUsersTurn
    }
  }
  if (turns === '') return undefined
  const { sampling, maxOutputTokens, stream } = request
  const config =
    `${member('maxOutputTokens', maxOutputTokens)}${member('temperature', sampling.temperature)}` +
    `${member('topP', sampling.topP)}${member('seed', sampling.seed)}`
  const json =
    `{${system === '' ? '' : `"systemInstruction":{"parts":[${system}]},`}"contents":[${turns}]` +
    `${config === '' ? '' : `,"generationConfig":{${config.slice(1)}}`}}`
  return { url: stream ? form.streamed : form.whole, headers: form.headers, body: json }
}

/** The same request for the API's token counter, which requires the model in the body too. */
export function geminiCountRequest(request: ChatRequest, target: Target, signatures: Signatures): UpstreamRequest {
  const { model } = target
  const body = countedContent(request, geminiForms.of(target), signatures)
  const generateContentRequest = { model: model.includes('/') ? model : `models/${model}`, ...body }
  return {
    url: urlOf(target, 'countTokens'),
    headers: headers.of(target.endpoint),
    body: requestBody({ generateContentRequest }, request.longTexts),
  }
}

/** The body of a request, for a token counter. */
export function countedContent(request: ChatRequest, form: GeminiForm, signatures: Signatures): JsonObject {
  return geminiBody(request, form, new ToolNames(request, NAMES), signatures)
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

function urlOf({ endpoint, model }: Target, method: string): string {
  return `${endpoint.baseUrl}/v1beta/${resource(model)}:${method}`
}

/** `gemini-…` is short for `models/gemini-…`; tuned models have a collection of their own. */
function resource(model: string): string {
  const path = model.includes('/') ? model : `models/${model}`
  return path.split('/').map(encodeURIComponent).join('/')
}

/** Keys have one order and absent fields are left out, so that equal beginnings of a conversation are equal bytes. */
function geminiBody(request: ChatRequest, form: GeminiForm, names: ToolNames, signatures: Signatures): JsonObject {
  const { system, turns } = conversationOf(request)
  const tools = declarations(request)
  const parts = new Parts(names, signatures, form.wantsSignatures, request.longTexts)
  const written = contentOf(turns, parts)
  const contents = form.callIds ? written : matchedByOrder(written)
  return {
    systemInstruction: system.length > 0 ? { parts: system.map(({ text }) => ({ text })) } : undefined,
    tools: tools.length > 0 ? [{ functionDeclarations: tools.map((tool) => declaration(tool, names)) }] : undefined,
    toolConfig: tools.length > 0 ? toolConfig(request, names) : undefined,
    contents: turns.map(({ role }, index) => ({ role: role === 'user' ? 'user' : 'model', parts: contents[index] })),
    generationConfig: generationConfig(request, tools.length > 0),
  }
}

/** One per request: results name the function that was called. */
class Parts implements BlockWriter {
  /** The function of each call, by the sent id. */
  private readonly called = new Map<string, string>()
  private readonly inputs: CallInputs

  constructor(
    private readonly names: ToolNames,
    private readonly signatures: Signatures,
    private readonly wantsSignatures: boolean,
    longTexts: LongTexts | undefined,
  ) {
    this.inputs = new CallInputs(longTexts)
  }

  part(part: TextPart | ImagePart): readonly JsonObject[] {
    return [dataPart(part)]
  }

  call({ callId, name, json }: EarlierCall, id: string, index: number): readonly JsonObject[] {
    const sent = this.names.sent(name)
    this.called.set(id, sent)
    // Only the first of parallel calls carries a signature.
    const signature = this.signatures.of(callId) ?? (this.wantsSignatures && index === 0 ? NO_SIGNATURE : undefined)
    return [{ functionCall: { id, name: sent, args: this.inputs.of(json) }, thoughtSignature: signature }]
  }

  result({ callId, parts, isError }: ToolResult, id: string): readonly JsonObject[] {
    const text = parts.map((part) => part.text).join('\n')
    const functionResponse = {
      id,
      // A result without a call is rejected by Gemini under any name.
      name: this.called.get(id) ?? this.names.sent(callId),
      response: isError === true ? { error: text } : { result: text },
    }
    return [{ functionResponse }]
  }
}

function dataPart(part: TextPart | ImagePart): JsonObject {
  if (part.type === 'text') return { text: part.text }
  const { source } = part
  if (source.type === 'base64') return { inlineData: { mimeType: mediaType(source.mediaType), data: source.data } }
  return { fileData: { mimeType: typeByName(source.url), fileUri: source.url } }
}

/** The API requires a media type, which a URL does not contain. */
function typeByName(url: string): string {
  const name = /\.(png|webp|gif|heic|heif)(?:[?#]|$)/i.exec(url)?.[1]
  return `image/${name?.toLowerCase() ?? 'jpeg'}`
}

/**
 * The tools to declare. If the caller allows only some, those alone, unless one must be called: then the mode names
 * them.
 */
function declarations(request: ChatRequest): readonly Tool[] {
  return request.toolChoice?.mode === 'allowed' && request.toolChoice.required ? request.tools : offeredTools(request)
}

/** `parametersJsonSchema` takes any JSON Schema; `parameters` would require Gemini's subset of OpenAPI. */
function declaration(tool: Tool, names: ToolNames): JsonObject {
  const { $schema: _, ...schema } = tool.parameters
  return { name: names.sent(tool.name), description: tool.description, parametersJsonSchema: schema }
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
function generationConfig({ sampling, maxOutputTokens, stop }: ChatRequest, hasTools: boolean): JsonObject | undefined {
  const config = {
    maxOutputTokens,
    temperature: sampling.temperature,
    topP: sampling.topP,
    stopSequences: stopSequences(stop, { isClaude: false }),
    seed: sampling.seed,
    // JSON answers and function calling exclude each other.
    ...(hasTools ? undefined : jsonMode(sampling.responseFormat)),
  }
  return Object.values(config).some((value) => value !== undefined) ? config : undefined
}

function jsonMode(format: JsonObject | undefined): JsonObject | undefined {
  const type = format?.['type']
  if (type !== 'json_object' && type !== 'json_schema') return undefined
  const named = format?.['json_schema']
  const schema = isObject(named) ? named['schema'] : undefined
  return { responseMimeType: 'application/json', responseJsonSchema: isObject(schema) ? schema : undefined }
}
