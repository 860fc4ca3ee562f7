/**
 * Differences of Mistral's own API from OpenAI's. It rejects unknown fields (422 `extra_forbidden`), and ids of tool
 * calls that are not nine letters and digits (400, code 3280), which ids from other providers earlier in the
 * conversation are not. Mistral's models on other servers do not need this.
 */

import { createHash } from 'node:crypto'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../core/json.ts'

/**
 * Those of our fields that Mistral's API reference lists for chat completions; it streams usage without a request for
 * it.
 */
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

/** A Chat Completions body as Mistral accepts it. An id is mapped to the same id in every turn. */
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

/** A choice among some of the tools becomes those tools alone, with the choice's mode. */
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
    // A final assistant message is the beginning of the answer and must be marked as a prefix.
    prefix: isLast && message['role'] === 'assistant' && calls === undefined ? true : undefined,
  }
}

function mistralId(id: JsonValue | undefined): JsonValue | undefined {
  if (typeof id !== 'string' || OWN_ID.test(id)) return id
  return createHash('sha256').update(id).digest('hex').slice(0, 9)
}
