/**
 * What Mistral's own API wants otherwise than OpenAI's. It refuses every field that it does not know (422 `extra_forbidden`), and ids of tool
 * calls that are not nine letters and digits (400, code 3280): ids of another provider's, from earlier in the conversation. Models of
 * Mistral's on other servers need none of it.
 */

import { createHash } from 'node:crypto'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../core/json.ts'

/** The fields of its chat completion request that ours can have (Mistral's API reference); it streams usage without being asked. */
const KNOWN_FIELDS: ReadonlySet<string> = new Set([
  ...[
    'model',
    'messages',
    'max_tokens',
    'stop',
    'stream',
    'temperature',
    'top_p',
    'frequency_penalty',
    'presence_penalty',
  ],
  ...['response_format', 'tools', 'tool_choice', 'parallel_tool_calls'],
])
const OWN_ID = /^[A-Za-z0-9]{9}$/

export function isMistral(baseUrl: string): boolean {
  return /^https?:\/\/(?:[^/]+\.)?mistral\.ai(?:[:/]|$)/.test(baseUrl)
}

/** The body of Chat Completions as it takes it. The same id becomes the same one in every turn. */
export function mistralBody(body: JsonObject): JsonObject {
  const known = Object.entries(body).filter(([name]) => KNOWN_FIELDS.has(name))
  const messages = isArray(body['messages']) ? body['messages'] : []
  return {
    ...Object.fromEntries(known),
    messages: messages.map((message, i) =>
      isObject(message) ? mistralMessage(message, i === messages.length - 1) : message,
    ),
    ...narrowed(body),
    random_seed: body['seed'],
  }
}

/** A choice among some of the tools is those tools alone, and the choice's own word. */
function narrowed(body: JsonObject): JsonObject {
  const { tool_choice: choice, tools } = body
  const allowed = isObject(choice) ? choice['allowed_tools'] : undefined
  if (!isObject(allowed) || !isArray(allowed['tools']) || !isArray(tools)) return {}
  const names = new Set(allowed['tools'].map(nameOf))
  return { tool_choice: allowed['mode'], tools: tools.filter((tool) => names.has(nameOf(tool))) }
}

function nameOf(tool: JsonValue): JsonValue | undefined {
  const called = isObject(tool) ? tool['function'] : undefined
  return isObject(called) ? called['name'] : undefined
}

function mistralMessage(message: JsonObject, isLast: boolean): JsonObject {
  const { refusal, tool_calls: calls, tool_call_id: id, content, ...rest } = message
  return {
    ...rest,
    content: content ?? refusal ?? '',
    tool_calls: isArray(calls)
      ? calls.map((call) => (isObject(call) ? { ...call, id: mistralId(call['id']) } : call))
      : undefined,
    tool_call_id: id === undefined ? undefined : mistralId(id),
    // A last message of the assistant's is the beginning of its answer, and must be called one.
    prefix: isLast && message['role'] === 'assistant' && calls === undefined ? true : undefined,
  }
}

function mistralId(id: JsonValue | undefined): JsonValue | undefined {
  if (typeof id !== 'string' || OWN_ID.test(id)) return id
  return createHash('sha256').update(id).digest('hex').slice(0, 9)
}
