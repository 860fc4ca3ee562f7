/** The canonical request → the body of Converse, and its signature. */

import type { CacheMark, ChatRequest, ImagePart, TextPart, Tool } from '../../core/chat-request.ts'
import type { JsonObject } from '../../core/json.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { CacheMarks } from '../cache-marks.ts'
import { CallInputs } from '../call-arguments.ts'
import { EndpointHeaders } from '../endpoint-headers.ts'
import { mediaType } from '../media-type.ts'
import type { Target, UpstreamRequest } from '../provider.ts'
import { requestBody } from '../request-body.ts'
import { stopSequences } from '../stop-sequences.ts'
import { NAMES_OF_64, ToolNames } from '../tool-names.ts'
import { type BlockWriter, contentOf } from '../turn-writer.ts'
import {
  type Conversation,
  conversationOf,
  type EarlierCall,
  offeredTools,
  solid,
  type ToolResult,
  type Turn,
  withoutTrailingSpace,
} from '../turns.ts'
import { defaultAwsKeys } from './default-credentials.ts'
import { signatureHeaders } from './sign.ts'

/** Claude's own rules apply to Converse too. */
const CLAUDE = /anthropic|claude/
const JSON_TYPE = { 'content-type': 'application/json' }
const headers = new EndpointHeaders(({ apiKey }): UpstreamRequest['headers'] =>
  apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
)
/** A result without text: Converse requires content that is not blank. */
const NO_OUTPUT = '(no output)'

/**
 * With `apiKey` (a Bedrock API key) the request carries that key; otherwise it is signed with the endpoint's AWS
 * credentials, or with those of the machine.
 *
 * Throws `ProviderError` `rejected` for an image by URL: Converse accepts image data only.
 */
export function bedrockRequest(request: ChatRequest, target: Target): UpstreamRequest {
  const { endpoint, model } = target
  const { apiKey, aws } = endpoint
  const names = new ToolNames(request, NAMES_OF_64)
  // Model ids and ARNs contain `:` and `/`, which must stay inside one path segment.
  const method = request.stream ? 'converse-stream' : 'converse'
  const url = `${endpoint.baseUrl}/model/${encodeURIComponent(model)}/${method}`
  const body = requestBody(bedrockBody(request, model, names), request.longTexts)
  const sign =
    apiKey === undefined && aws !== undefined
      ? async () => {
          const keys = aws.keys ?? (await defaultAwsKeys(endpoint, aws.region))
          return { ...(await signatureHeaders(aws.region, keys, url, JSON_TYPE, body)), ...endpoint.headers }
        }
      : undefined
  return { url, headers: headers.of(endpoint), body, toolNames: names.restore, sign }
}

/** Keys have one order and absent fields are left out, so that equal beginnings of a conversation are equal bytes. */
function bedrockBody(request: ChatRequest, model: string, names: ToolNames): JsonObject {
  const claude = CLAUDE.test(model)
  const offered = request.toolChoice?.mode === 'none' ? [] : offeredTools(request)
  const conversation = conversationFor(request, offered)
  const marks = new CacheMarks(offered, conversation)
  // In this order, because marks are counted in it.
  const toolConfig = offered.length > 0 ? toolConfigOf(request, offered, names, marks) : undefined
  const system = conversation.system.flatMap((part) => marked([{ text: part.text }], marks.next(part.cache)))
  const contents = contentOf(conversation.turns, new Blocks(names, marks, request.longTexts))
  return {
    toolConfig,
    system: system.length > 0 ? system : undefined,
    messages: conversation.turns.map(({ role }, index) => ({ role, content: contents[index] })),
    inferenceConfig: inferenceConfig(request, claude),
  }
}

/**
 * Converse has no tool choice `none` and rejects calls in the history of a request without tools. A request that offers
 * none describes them in text instead: a model that sees the tools could call them.
 */
function conversationFor(request: ChatRequest, offered: readonly Tool[]): Conversation {
  const { system, turns } = conversationOf(request)
  const spoken = offered.length === 0 && turns.some(hasCallsOrResults) ? turns.map(inWords) : turns
  return { system, turns: withoutTrailingSpace(spoken) }
}

function hasCallsOrResults(turn: Turn): boolean {
  return turn.role === 'user' ? turn.results.length > 0 : turn.calls.length > 0
}

function inWords(turn: Turn): Turn {
  if (turn.role === 'assistant') {
    const calls = turn.calls.map(({ name, json, cache }) => text(`[called ${name} with ${json || '{}'}]`, cache))
    return { role: 'assistant', parts: [...turn.parts, ...calls], calls: [] }
  }
  const results = turn.results.map(({ parts, isError, cache }) =>
    text(`[${isError === true ? 'error' : 'result'}: ${parts.map((part) => part.text).join('\n')}]`, cache),
  )
  return { role: 'user', results: [], parts: [...results, ...turn.parts] }
}

function text(words: string, cache: CacheMark | undefined): TextPart {
  return { type: 'text', text: words, cache }
}

/** Writes a cache point after each block with a mark. One per request. */
class Blocks implements BlockWriter {
  private readonly inputs: CallInputs

  constructor(
    private readonly names: ToolNames,
    private readonly marks: CacheMarks,
    longTexts: LongTexts | undefined,
  ) {
    this.inputs = new CallInputs(longTexts)
  }

  part(part: TextPart | ImagePart): readonly JsonObject[] {
    return marked([part.type === 'text' ? { text: part.text } : imageBlock(part)], this.marks.next(part.cache))
  }

  call(call: EarlierCall, id: string): readonly JsonObject[] {
    const toolUse = { toolUseId: id, name: this.names.sent(call.name), input: this.inputs.of(call.json) }
    return marked([{ toolUse }], this.marks.next(call.cache))
  }

  /** Cache points are not allowed inside a result: a mark on its text becomes a cache point after it. */
  result(result: ToolResult, id: string): readonly JsonObject[] {
    const parts = solid(result.parts)
    const content = parts.length > 0 ? parts.map((part) => ({ text: part.text })) : [{ text: NO_OUTPUT }]
    const inside = parts.map((part) => this.marks.next(part.cache)).findLast((mark) => mark !== undefined)
    const toolResult = { toolUseId: id, content, status: result.isError === true ? 'error' : undefined }
    return marked([{ toolResult }], this.marks.next(result.cache) ?? inside)
  }
}

/** A mark becomes a block of its own after the content that it ends. */
function marked(blocks: JsonObject[], mark: CacheMark | undefined): JsonObject[] {
  return mark === undefined ? blocks : [...blocks, { cachePoint: { type: 'default', ttl: mark.ttl } }]
}

function imageBlock({ source }: ImagePart): JsonObject {
  if (source.type === 'url') {
    throw new ProviderError('rejected', 'This model takes images as base64 data only, not by address.', {
      unsent: true,
    })
  }
  const format = mediaType(source.mediaType).replace(/^image\//, '')
  return { image: { format, source: { bytes: source.data } } }
}

function toolConfigOf(request: ChatRequest, offered: readonly Tool[], names: ToolNames, marks: CacheMarks): JsonObject {
  return {
    tools: offered.flatMap((tool) => marked([toolSpec(tool, names)], marks.next(tool.cache))),
    toolChoice: toolChoice(request, names),
  }
}

function toolSpec(tool: Tool, names: ToolNames): JsonObject {
  const { parameters, description } = tool
  return {
    toolSpec: {
      name: names.sent(tool.name),
      // Converse rejects an empty description.
      description: description === '' ? undefined : description,
      inputSchema: { json: parameters['type'] === 'object' ? parameters : { ...parameters, type: 'object' } },
    },
  }
}

function toolChoice({ toolChoice: choice }: ChatRequest, names: ToolNames): JsonObject | undefined {
  switch (choice?.mode) {
    case 'required':
      return { any: {} }
    case 'tool':
      return { tool: { name: names.sent(choice.name) } }
    case 'allowed':
      return choice.required ? { any: {} } : { auto: {} }
    case 'auto':
      return { auto: {} }
    case 'none':
    case undefined:
      return undefined
  }
}

/** The API's temperature range is 0 to 1; newer Claude models reject temperature together with `topP`. */
function inferenceConfig({ sampling, maxOutputTokens, stop }: ChatRequest, claude: boolean): JsonObject | undefined {
  const { temperature, topP } = sampling
  const config = {
    maxTokens: maxOutputTokens,
    temperature: temperature === undefined ? undefined : Math.min(1, Math.max(0, temperature)),
    topP: claude && temperature !== undefined ? undefined : topP,
    stopSequences: stopSequences(stop, { isClaude: claude }),
  }
  return Object.values(config).some((value) => value !== undefined) ? config : undefined
}
