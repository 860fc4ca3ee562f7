/**
 * The rules that OpenAI publishes for the body of Chat Completions, as a strict checker that throws at the first
 * violation.
 */

import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import type { Literal } from '../support/literal.ts'
import { must, onlyKeys } from './rule-checks.ts'

const KEYS = [
  ...['model', 'messages', 'tools', 'tool_choice', 'parallel_tool_calls', 'max_tokens', 'max_completion_tokens'],
  ...['stop', 'temperature', 'top_p', 'frequency_penalty', 'presence_penalty', 'seed', 'logit_bias', 'logprobs'],
  ...['top_logprobs', 'reasoning_effort', 'verbosity', 'response_format', 'user', 'safety_identifier'],
  ...['service_tier', 'prompt_cache_key', 'prompt_cache_retention', 'prompt_cache_options', 'cache_control'],
  ...['stream', 'stream_options'],
]
const NAME = /^[a-zA-Z0-9_-]{1,64}$/

function objects(value: JsonValue | undefined, what: string): JsonObject[] {
  must(isArray(value) && value.length > 0 && value.every(isObject), `${what} are objects, and there is one`, value)
  return value.filter(isObject)
}

export function openaiRules(body: JsonObject, request: Literal): void {
  onlyKeys(body, KEYS)
  must(!('max_tokens' in body && 'max_completion_tokens' in body), 'one limit', body)
  for (const limit of ['max_tokens', 'max_completion_tokens'])
    if (limit in body) must(Number.isInteger(body[limit]) && Number(body[limit]) > 0, 'a limit is a number', body)
  if ('stop' in body) {
    const { stop } = body
    must(isArray(stop) && stop.length > 0, 'stop sequences are not empty', stop)
    must(
      stop.every((text) => typeof text === 'string' && text !== ''),
      'that say something',
      stop,
    )
  }
  must((body['stream'] === true) === request.stream, 'streams as requested', body)
  must(request.stream === 'stream_options' in body, 'stream options belong to streams', body)
  if (request.stream) {
    const usage = { include_usage: true }
    const all = { ...usage, include_obfuscation: request.hints.padStream === true }
    const options = body['stream_options']
    must(Bun.deepEquals(options, usage) || Bun.deepEquals(options, all), 'usage is requested', body)
  }
  for (const message of objects(body['messages'], 'messages')) openaiMessage(message)
  openaiTools(body)
}

function openaiMessage(message: JsonObject): void {
  const { role, content } = message
  switch (role) {
    case 'system':
      onlyKeys(message, ['role', 'content'])
      openaiContent(content, ['text'])
      return
    case 'user':
      onlyKeys(message, ['role', 'content'])
      openaiContent(content, ['text', 'image_url', 'input_audio', 'file'])
      return
    case 'tool':
      onlyKeys(message, ['role', 'content', 'tool_call_id'])
      must(typeof message['tool_call_id'] === 'string', 'a result names its call', message)
      openaiContent(content, ['text'])
      return
    case 'assistant':
      onlyKeys(message, ['role', 'content', 'refusal', 'tool_calls'])
      if (content !== null) openaiContent(content, ['text'])
      else must('tool_calls' in message || 'refusal' in message, 'an answer has content', message)
      if ('tool_calls' in message) for (const call of objects(message['tool_calls'], 'calls')) openaiCall(call)
      return
    default:
      must(false, 'a known role', message)
  }
}

function openaiContent(content: JsonValue | undefined, types: readonly string[]): void {
  if (typeof content === 'string') return
  for (const part of objects(content, 'parts')) {
    must(types.includes(String(part['type'])), 'a part that may stand there', part)
    if (part['type'] === 'text') must(typeof part['text'] === 'string', 'text is text', part)
    if (part['type'] === 'image_url')
      must(isObject(part['image_url']) && typeof part['image_url']['url'] === 'string', 'an image has a url', part)
  }
}

function openaiCall(call: JsonObject): void {
  onlyKeys(call, ['id', 'type', 'function'])
  const called = call['function']
  must(isObject(called) && NAME.test(String(called['name'])), 'names are legal', call)
  must(typeof called['arguments'] === 'string' && called['arguments'] !== '', 'arguments are text', call)
}

function openaiTools(body: JsonObject): void {
  if (!('tools' in body)) {
    must(!('tool_choice' in body) && !('parallel_tool_calls' in body), 'no choice without tools', body)
    return
  }
  const names = objects(body['tools'], 'tools').map((tool) => {
    onlyKeys(tool, ['type', 'function', 'cache_control'])
    const offered = tool['function']
    must(isObject(offered) && isObject(offered['parameters']), 'parameters are an object', tool)
    onlyKeys(offered, ['name', 'description', 'parameters', 'strict'])
    must(NAME.test(String(offered['name'])), 'names are legal', tool)
    return String(offered['name'])
  })
  must(new Set(names).size === names.length, 'names are unique', names)
  const choice = body['tool_choice']
  if (!isObject(choice)) {
    must(choice === undefined || /^(?:none|auto|required)$/.test(String(choice)), 'a known choice', choice)
    return
  }
  const allowed = isObject(choice['allowed_tools']) ? choice['allowed_tools']['tools'] : [choice]
  for (const tool of objects(allowed, 'chosen tools'))
    must(isObject(tool['function']) && names.includes(String(tool['function']['name'])), 'the chosen are there', tool)
}
