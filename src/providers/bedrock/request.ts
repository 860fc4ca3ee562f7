/** The canonical request → the body of Converse, and its signature. */

import type { ChatRequest } from '../../core/chat-request.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { isObject, type JsonObject, objectOf, stringOf } from '../../core/json.ts'
import { JsonBuilder } from '../../core/json-builder.ts'
import { takesSchema } from '../../core/structured-output.ts'
import { authorized, bedrockModel } from '../bedrock-access.ts'
import { SentMarks } from '../cache-marks.ts'
import { keptSampling, type ThinkingForm } from '../claude-thinking.ts'
import { jsonMember, member } from '../json-members.ts'
import type { Target, UpstreamRequest } from '../provider.ts'
import { withoutRejectedSampling } from '../rejected-sampling.ts'
import { stopSequences } from '../stop-sequences.ts'
import { NAMES_OF_64, ToolNames } from '../tool-names.ts'
import { offeredTools, Turns } from '../turns.ts'
import { ConverseBodyWriter } from './converse-body.ts'
import { isClaudeModel, type ModelFields, modelFields } from './model-fields.ts'

/** Around an entry, in bytes. */
const AROUND_ENTRY = 16

/** Throws `ProviderError` `rejected` for an image by URL: Converse accepts image data only. */
export function bedrockRequest(request: ChatRequest, target: Target, form: ThinkingForm): UpstreamRequest {
  return withoutRejectedSampling(request, form, (kept) => sampledRequest(kept, target, form))
}

function sampledRequest(request: ChatRequest, target: Target, form: ThinkingForm): UpstreamRequest {
  const { endpoint, model } = target
  const names = new ToolNames(request, NAMES_OF_64)
  const url = `${bedrockModel(target)}/${request.stream ? 'converse-stream' : 'converse'}`
  const ignored: string[] = []
  const body = converseBody(request, { model, form }, names, ignored)
  return {
    ...authorized({ url, body }, endpoint),
    toolNames: names.restore,
    ...(ignored.length > 0 && { ignored }),
  }
}

/**
 * Members have one order and absent ones are left out, so that equal beginnings of a conversation are equal bytes.
 *
 * Converse has no tool choice `none` and rejects calls in the history of a request without tools. A request that offers
 * none describes them in text instead: a model that sees the tools could call them.
 */
function converseBody(
  request: ChatRequest,
  { model, form }: { readonly model: string; readonly form: ThinkingForm },
  names: ToolNames,
  ignored: string[],
): UpstreamRequest['body'] {
  const conversation = request.conversation
  const turns = new Turns(conversation)
  const tools = request.tools
  const offered = request.toolChoice?.mode === 'none' ? tools.only(NONE) : offeredTools(request, tools)
  const inWords = offered.isEmpty && (conversation.has(Kind.CALL_ID) || conversation.has(Kind.RESULT_ID))
  const marks = new SentMarks(turns, offered, request.cache, !inWords)
  const json = JsonBuilder.forBody(conversation, AROUND_ENTRY)
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
  json.text(`${inferenceConfig(request, modelFields(request, model, form, turns), model, ignored)}}`)
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
  const isClaude = isClaudeModel(model)
  const { maxOutputTokens, stop } = request
  ignored.push(...(thinking.ignored ?? []))
  const { temperature, topP } = keptSampling(request, thinking.isOn, ignored)
  const config =
    member('maxTokens', maxOutputTokens) +
    member('temperature', temperature === undefined ? undefined : Math.min(1, Math.max(0, temperature))) +
    member('topP', isClaude && temperature !== undefined ? undefined : topP) +
    jsonMember('stopSequences', stopSequences(stop, { isClaude }))
  const inference = config === '' ? '' : `,"inferenceConfig":{${config.slice(1)}}`
  const takesFormat = takesSchema('bedrock', model) || request.sampling.followsFormat === true
  const output = takesFormat ? jsonMember('outputConfig', outputConfig(request)) : ''
  return inference + output + jsonMember('additionalModelRequestFields', thinking.fields)
}
