/**
 * The rules that OpenAI publishes for the body of a Responses request, as a strict checker that throws at the first
 * violation.
 */

import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import type { Literal } from '../support/literal.ts'
import { must, onlyKeys } from './rule-checks.ts'

const KEYS = [
  ...['model', 'input', 'tools', 'tool_choice', 'parallel_tool_calls', 'max_output_tokens', 'temperature', 'top_p'],
  ...['top_logprobs', 'reasoning', 'text', 'user', 'safety_identifier', 'service_tier', 'prompt_cache_key'],
  ...['prompt_cache_retention', 'prompt_cache_options', 'cache_control', 'store', 'include', 'stream'],
  'stream_options',
]
const NAME = /^[a-zA-Z0-9_-]{1,64}$/

function objects(value: JsonValue | undefined, what: string): JsonObject[] {
  must(isArray(value) && value.length > 0 && value.every(isObject), `${what} are objects, and there is one`, value)
  return value.filter(isObject)
}

export function responsesRules(body: JsonObject, request: Literal): void {
  onlyKeys(body, KEYS)
  must(body['store'] === false, 'nothing is stored', body)
  const limit = body['max_output_tokens']
  must(limit === undefined || (Number.isInteger(limit) && Number(limit) >= 16), 'a limit of 16 or more', limit)
  must((body['stream'] === true) === request.stream, 'streams as requested', body)
  must(request.stream === 'stream_options' in body, 'stream options belong to streams', body)
  if (request.stream)
    must(
      Bun.deepEquals(body['stream_options'], { include_obfuscation: request.hints.padStream === true }),
      'padding as requested',
      body,
    )
  const calls = new Set<string>()
  const items = objects(body['input'], 'items')
  for (const item of items) checkItem(item, calls)
  for (const [at, item] of items.entries()) if (item['type'] === 'reasoning') mustBeFollowed(item, items.slice(at + 1))
  checkTools(body)
  if (isObject(body['text'])) {
    onlyKeys(body['text'], ['format', 'verbosity'])
    const { format } = body['text']
    if (isObject(format)) must(!('json_schema' in format), 'a format is flat', format)
  }
}

/** "Item 'rs_…' of type 'reasoning' was provided without its required following item." */
function mustBeFollowed(item: JsonObject, after: readonly JsonObject[]): void {
  const next = after.find(({ type }) => type !== 'reasoning')
  const isOfModel = next?.['type'] === 'function_call' || next?.['role'] === 'assistant'
  must(isOfModel, 'reasoning stands before an item of the model', item)
}

function checkItem(item: JsonObject, calls: Set<string>): void {
  switch (item['type']) {
    case 'reasoning':
      onlyKeys(item, ['type', 'id', 'summary', 'encrypted_content'])
      must(typeof item['encrypted_content'] === 'string', 'reasoning is encrypted', item)
      must(Array.isArray(item['summary']), 'reasoning has a summary', item)
      return
    case 'function_call':
      onlyKeys(item, ['type', 'call_id', 'name', 'arguments'])
      must(NAME.test(String(item['name'])), 'names are legal', item)
      must(NAME.test(String(item['call_id'])), 'ids are legal', item)
      must(!calls.has(String(item['call_id'])), 'ids are unique', item)
      must(typeof item['arguments'] === 'string' && item['arguments'] !== '', 'arguments are text', item)
      calls.add(String(item['call_id']))
      return
    case 'function_call_output':
      onlyKeys(item, ['type', 'call_id', 'output'])
      must(calls.has(String(item['call_id'])), 'an output answers an earlier call', item)
      checkContent(item['output'], ['input_text', 'input_image', 'input_file'])
      return
    default:
      onlyKeys(item, item['role'] === 'assistant' ? ['role', 'content', 'phase'] : ['role', 'content'])
      must(/^(?:user|assistant|system|developer)$/.test(String(item['role'])), 'a known role', item)
      checkContent(
        item['content'],
        item['role'] === 'assistant' ? ['output_text', 'refusal'] : ['input_text', 'input_image', 'input_file'],
      )
  }
}

const PART_KEYS: Readonly<Record<string, readonly string[]>> = {
  input_text: ['type', 'text', 'cache_control'],
  output_text: ['type', 'text', 'cache_control'],
  refusal: ['type', 'refusal', 'cache_control'],
  input_image: ['type', 'image_url', 'detail', 'cache_control'],
  input_file: ['type', 'filename', 'file_data'],
}

function checkContent(content: JsonValue | undefined, types: readonly string[]): void {
  if (typeof content === 'string') return
  for (const part of objects(content, 'parts')) {
    const type = String(part['type'])
    must(types.includes(type), 'a part that may stand there', part)
    onlyKeys(part, PART_KEYS[type] ?? [])
    if (type === 'input_image') {
      must(/^(?:auto|low|high)$/.test(String(part['detail'])), 'an image has a detail', part)
      must(typeof part['image_url'] === 'string', 'its address is a text', part)
    }
  }
}

function checkTools(body: JsonObject): void {
  if (!('tools' in body)) {
    must(!('tool_choice' in body) && !('parallel_tool_calls' in body), 'no choice without tools', body)
    return
  }
  const names = objects(body['tools'], 'tools').map((tool) => {
    onlyKeys(tool, ['type', 'name', 'description', 'parameters', 'strict', 'cache_control'])
    must(tool['type'] === 'function' && isObject(tool['parameters']), 'parameters are an object', tool)
    must(typeof tool['strict'] === 'boolean', 'strictness is given', tool)
    must(NAME.test(String(tool['name'])), 'names are legal', tool)
    return String(tool['name'])
  })
  must(new Set(names).size === names.length, 'names are unique', names)
  const choice = body['tool_choice']
  if (!isObject(choice)) {
    must(choice === undefined || /^(?:none|auto|required)$/.test(String(choice)), 'a known choice', choice)
    return
  }
  onlyKeys(choice, choice['type'] === 'allowed_tools' ? ['type', 'mode', 'tools'] : ['type', 'name'])
  for (const tool of choice['type'] === 'allowed_tools' ? objects(choice['tools'], 'chosen tools') : [choice])
    must(names.includes(String(tool['name'])), 'the chosen are there', tool)
}
