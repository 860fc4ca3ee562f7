/** The canonical request → the body of Converse, and its signature. */

import type { ChatRequest } from '../../core/chat-request.ts'
import { CALL_ID, RESULT_ID } from '../../core/conversation.ts'
import type { Endpoint } from '../../core/endpoint.ts'
import { isObject, type JsonObject, objectOf, stringOf } from '../../core/json.ts'
import { JsonBuilder } from '../../core/json-builder.ts'
import { effortOf, lowered } from '../../core/reasoning.ts'
import { takesSchema } from '../../core/structured-output.ts'
import { SentMarks } from '../cache-marks.ts'
import { keptSampling, thinkingOf } from '../claude-thinking.ts'
import { claudeThinking } from '../efforts.ts'
import { EndpointHeaders } from '../endpoint-headers.ts'
import { jsonMember, member } from '../json-members.ts'
import type { Dispatch, Target, UpstreamRequest } from '../provider.ts'
import { stopSequences } from '../stop-sequences.ts'
import { NAMES_OF_64, ToolNames } from '../tool-names.ts'
import { offeredTools, Turns } from '../turns.ts'
import { ConverseBodyWriter } from './converse-body.ts'
import { defaultAwsKeys } from './default-credentials.ts'
import { signatureHeaders } from './sign.ts'

/** Claude's own rules apply to Converse too. */
const CLAUDE = /anthropic|claude/
/** Claude before 3.7 never thinks. */
export function signsThoughts(model: string): boolean {
  const { takesBudget, takesAdaptive } = claudeThinking(model)
  return CLAUDE.test(model) && (takesBudget || takesAdaptive)
}

const JSON_TYPE = { 'content-type': 'application/json' }
const headers = new EndpointHeaders(({ apiKey }): UpstreamRequest['headers'] =>
  apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
)
/** Around an entry, and around all of them, in bytes. */
const AROUND_ENTRY = 16
const AROUND_ALL = 512

/**
 * With `apiKey` (a Bedrock API key) the request carries that key; otherwise it is signed with the endpoint's AWS
 * credentials, or with those of the machine.
 *
 * Throws `ProviderError` `rejected` for an image by URL: Converse accepts image data only.
 */
export function bedrockRequest(request: ChatRequest, target: Target): UpstreamRequest {
  const { endpoint, model } = target
  const names = new ToolNames(request, NAMES_OF_64)
  // Model ids and ARNs contain `:` and `/`, which must stay inside one path segment.
  const method = request.stream ? 'converse-stream' : 'converse'
  const url = `${endpoint.baseUrl}/model/${encodeURIComponent(model)}/${method}`
  const ignored: string[] = []
  const body = converseBody(request, model, names, ignored)
  return {
    ...authorized({ url, body }, endpoint),
    toolNames: names.restore,
    ...(ignored.length > 0 && { ignored }),
  }
}

/** The request with the headers of the endpoint, and a signature unless it has a key. */
export function authorized(request: Pick<Dispatch, 'url' | 'body' | 'method'>, endpoint: Endpoint): Dispatch {
  const { apiKey, aws } = endpoint
  const { url, body, method } = request
  const sign =
    apiKey === undefined && aws !== undefined
      ? async () => {
          const keys = aws.keys ?? (await defaultAwsKeys(endpoint, aws.region))
          return { ...(await signatureHeaders(aws.region, keys, url, JSON_TYPE, body, method)), ...endpoint.headers }
        }
      : undefined
  return { ...request, headers: headers.of(endpoint), sign }
}

/**
 * Members have one order and absent ones are left out, so that equal beginnings of a conversation are equal bytes.
 *
 * Converse has no tool choice `none` and rejects calls in the history of a request without tools. A request that offers
 * none describes them in text instead: a model that sees the tools could call them.
 */
function converseBody(
  request: ChatRequest,
  model: string,
  names: ToolNames,
  ignored: string[],
): UpstreamRequest['body'] {
  const conversation = request.conversation
  const turns = new Turns(conversation)
  const tools = request.tools
  const offered = request.toolChoice?.mode === 'none' ? tools.only(NONE) : offeredTools(request, tools)
  const inWords = offered.isEmpty && (conversation.has(CALL_ID) || conversation.has(RESULT_ID))
  const marks = new SentMarks(turns, offered, request.cache, !inWords)
  const expected = conversation.arena.end + AROUND_ENTRY * conversation.end + AROUND_ALL
  const json = new JsonBuilder(conversation.arena, expected)
  const thoughts = request.thoughts?.form === 'converse' ? request.thoughts : undefined
  const writer = new ConverseBodyWriter(json, names, turns, marks, inWords, thoughts)
  json.text('{')
  if (!offered.isEmpty) {
    json.text('"toolConfig":{')
    writer.tools()
    json.text(`${jsonMember('toolChoice', toolChoice(request, names))}},`)
  }
  writer.system()
  writer.messages()
  json.text(`${inferenceConfig(request, thinkingFor(request, model, turns), model, ignored)}}`)
  return json.take()
}

const NONE: ReadonlySet<string> = new Set()

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

/** What the models of a maker take in addition to Converse's own fields. */
interface ModelFields {
  readonly fields?: JsonObject | undefined
  /** The model thinks, so that some settings are rejected. */
  readonly isOn: boolean
  readonly ignored?: readonly string[] | undefined
}

function thinkingFor(request: ChatRequest, model: string, turns: Turns): ModelFields {
  const { reasoning } = request
  if (reasoning === undefined) return { isOn: false }
  if (CLAUDE.test(model)) {
    const { thinking, effort, isOn, ignored } = thinkingOf(request, claudeThinking(model), turns, request.thoughts)
    const fields = { thinking, output_config: effort === undefined ? undefined : { effort } }
    return { fields: thinking === undefined && effort === undefined ? undefined : fields, isOn, ignored }
  }
  const effort = effortOf(reasoning)
  if (effort === undefined) return { isOn: false }
  const word = lowered(effort, OTHER_EFFORTS)
  if (/nova-2/.test(model)) {
    const config = effort === 'none' ? { type: 'disabled' } : { type: 'enabled', maxReasoningEffort: word }
    return { fields: { reasoningConfig: config }, isOn: false }
  }
  if (/gpt-oss/.test(model)) return { fields: { reasoning_effort: word }, isOn: false }
  return { isOn: false, ignored: [reasoning.field] }
}

const OTHER_EFFORTS = ['low', 'medium', 'high'] as const

/** Converse takes the schema as a text. Plain JSON mode has no counterpart. */
function outputConfig({ sampling: { responseFormat, passesFormat } }: ChatRequest): JsonObject | undefined {
  const named = responseFormat?.['type'] === 'json_schema' ? objectOf(responseFormat['json_schema']) : undefined
  if (passesFormat !== true || !isObject(named?.['schema'])) return undefined
  const { name, description, schema } = named
  const jsonSchema = { schema: JSON.stringify(schema), name: stringOf(name), description: stringOf(description) }
  return { textFormat: { type: 'json_schema', structure: { jsonSchema } } }
}

/** The API's temperature range is 0 to 1; newer Claude models reject temperature together with `topP`. */
function inferenceConfig(request: ChatRequest, thinking: ModelFields, model: string, ignored: string[]): string {
  const isClaude = CLAUDE.test(model)
  const { maxOutputTokens, stop } = request
  ignored.push(...(thinking.ignored ?? []))
  const { temperature, topP } = keptSampling(request, thinking.isOn, ignored)
  const config =
    member('maxTokens', maxOutputTokens) +
    member('temperature', temperature === undefined ? undefined : Math.min(1, Math.max(0, temperature))) +
    member('topP', isClaude && temperature !== undefined ? undefined : topP) +
    jsonMember('stopSequences', stopSequences(stop, { isClaude }))
  const inference = config === '' ? '' : `,"inferenceConfig":{${config.slice(1)}}`
  const output = takesSchema('bedrock', model) ? jsonMember('outputConfig', outputConfig(request)) : ''
  return inference + output + jsonMember('additionalModelRequestFields', thinking.fields)
}
