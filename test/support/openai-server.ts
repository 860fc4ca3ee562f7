/**
 * A strict simulator of OpenAI's two APIs for chats: it rejects, in OpenAI's words, what breaks a published rule, and
 * what a model takes by the Responses API alone.
 */

import { isArray, isObject, type JsonObject, objectOf } from '../../src/core/json.ts'
import { responsesWriter } from '../providers/openai/responses-writer.ts'
import { openaiWriter } from '../providers/openai/writer.ts'
import { openaiRules } from '../providers/openai-rules.ts'
import { plainLiteral } from '../providers/requests.ts'
import { responsesRules } from '../providers/responses-rules.ts'
import * as does from './scenarios.ts'
import type { Speech } from './speech-writer.ts'
import type { Call, Scenario } from './upstream.ts'

interface OpenaiModel {
  /** What it takes by the Responses API alone. */
  readonly needsResponses: 'nothing' | 'tools with effort' | 'tools' | 'everything'
  /** Whether it thinks; others reject that their thoughts are asked for. */
  readonly thinks?: boolean
  /** It always thinks: an effort of none is rejected. */
  readonly refusesNone?: boolean
  /** A server that has the API but not all of its options. */
  readonly isOlder?: boolean
}

const error = (message: string, param: string | null = null, code: string | null = null): string =>
  JSON.stringify({ error: { message, type: 'invalid_request_error', param, code } })

/** Answers with what `choose` returns. */
export function openaiServer(of: OpenaiModel, choose: (call: Call) => Speech): Scenario {
  return (call) => {
    const isResponses = /\/responses(?:\?|$)/.test(call.path)
    const refused = isResponses ? responsesProblem(call, of) : chatProblem(call, of)
    if (refused !== undefined) return call.answer(refused.status, refused.body)
    const writer = isResponses ? responsesWriter : openaiWriter
    const speech = choose(call)
    if (!writer.streams(call)) return call.answer(200, JSON.stringify(writer.whole(speech)))
    return does.stream(writer.streamed(speech))(call)
  }
}

interface Problem {
  readonly status: number
  readonly body: string
}

function chatProblem({ json, model }: Call, { needsResponses: needs, refusesNone }: OpenaiModel): Problem | undefined {
  if (needs === 'everything') {
    const message = 'This model is only supported in v1/responses and not in v1/chat/completions.'
    return { status: 404, body: error(message, 'model') }
  }
  const { reasoning_effort: effort } = json
  const isExplicit = effort !== undefined && effort !== 'none'
  const isRefused = needs === 'tools' ? effort !== 'none' || refusesNone === true : isExplicit
  if ((needs === 'tools' || needs === 'tools with effort') && 'tools' in json && isRefused) {
    const message =
      `Function tools with reasoning_effort are not supported for ${model} in /v1/chat/completions. ` +
      "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
    return { status: 400, body: error(message, 'reasoning_effort') }
  }
  return brokenRule(openaiRules, json)
}

function responsesProblem({ json, model }: Call, of: OpenaiModel): Problem | undefined {
  const refused = (message: string, param: string, code: string | null = null) => ({
    status: 400,
    body: error(message, param, code),
  })
  const { thinks = true, refusesNone = false, isOlder = false } = of
  if (!thinks && JSON.stringify(json['include'] ?? null).includes('encrypted_content'))
    return refused('Encrypted content is not supported with this model.', 'include')
  if (isOlder && 'stream_options' in json)
    return refused("Unknown parameter: 'stream_options.include_obfuscation'.", 'stream_options', 'unknown_parameter')
  if (refusesNone && objectOf(json['reasoning'])?.['effort'] === 'none') {
    const values = "Supported values are: 'low', 'medium', and 'high'."
    const message = `Unsupported value: 'none' is not supported with the '${model}' model. ${values}`
    return refused(message, 'reasoning.effort', 'unsupported_value')
  }
  const broken = brokenRule(responsesRules, isOlder ? { ...json, stream: false } : json)
  if (broken !== undefined) return broken
  const items = isArray(json['input']) ? json['input'].filter(isObject) : []
  const answered = new Set(items.flatMap(({ type, call_id: id }) => (type === 'function_call_output' ? [id] : [])))
  const open = items.find(({ type, call_id: id }) => type === 'function_call' && !answered.has(id))
  return open && refused(`No tool output found for function call ${open['call_id']}.`, 'input')
}

function brokenRule(rules: typeof openaiRules, json: JsonObject): Problem | undefined {
  try {
    rules(json, plainLiteral({ stream: json['stream'] === true }))
    return undefined
  } catch (broken) {
    return { status: 400, body: error(`Invalid request: ${broken}`) }
  }
}
