/**
 * Fields of each dialect that weir accepts and ignores. The log line of a request names those that would have had an
 * effect elsewhere, so that an operator can explain to a caller why a setting does nothing.
 */

import { isArray, isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import type { DialectName } from './dialect.ts'

/** True if a value, neither absent nor null, would have an effect. */
type Matters = (value: JsonValue) => boolean

const always: Matters = () => true
const is =
  (wanted: JsonValue): Matters =>
  (value) =>
    value === wanted
const isNot =
  (...defaults: readonly JsonValue[]): Matters =>
  (value) =>
    !defaults.includes(value)
const moreThan =
  (least: number): Matters =>
  (value) =>
    typeof value === 'number' && value > least

/** A non-empty text or array, or an object with a member that is not null. */
const isFilled: Matters = (value) => {
  if (isArray(value) || typeof value === 'string') return value.length > 0
  return isObject(value) ? Object.values(value).some((member) => member !== null) : true
}

/** An object with a member that differs from its default. Members that are not listed have no default. */
const differsFrom =
  (defaults: JsonObject): Matters =>
  (value) =>
    isObject(value) &&
    Object.entries(value).some(
      ([name, member]) => member !== null && member !== defaults[name] && isFilled(member ?? null),
    )

/** By path: a field, or a member of a field. */
export const IGNORED_FIELDS: Readonly<Record<DialectName, Readonly<Record<string, Matters>>>> = {
  chat: {
    n: moreThan(1),
    store: is(true),
    modalities: (value) => isArray(value) && value.some((kind) => kind !== 'text'),
    audio: isFilled,
    prediction: isFilled,
    web_search_options: always,
    moderation: isFilled,
    functions: isFilled,
    function_call: isNot('auto'),
  },
  responses: {
    reasoning: isFilled,
    'text.format': differsFrom({ type: 'text' }),
    'text.verbosity': isNot('medium'),
    truncation: isNot('disabled'),
    parallel_tool_calls: is(false),
    user: isFilled,
    tool_choice: isNot('auto', 'none', 'required'),
    previous_response_id: isFilled,
    conversation: isFilled,
    background: is(true),
    prompt: isFilled,
    include: isFilled,
    context_management: isFilled,
    max_tool_calls: always,
    top_logprobs: moreThan(0),
    safety_identifier: isFilled,
    prompt_cache_options: isFilled,
    stop: isFilled,
  },
  messages: {
    top_k: always,
    thinking: (value) => isObject(value) && value['type'] !== 'disabled',
    metadata: isFilled,
    output_config: differsFrom({ effort: 'high' }),
    output_format: isFilled,
    context_management: differsFrom({}),
    container: isFilled,
    mcp_servers: isFilled,
    speed: isNot('standard'),
    inference_geo: isFilled,
    thread: isFilled,
  },
}

/**
 * The paths of the fields of a body that have no effect. Defaults and nulls are left out, because they ask for nothing.
 */
export function ignoredFields(dialect: DialectName, body: JsonObject): readonly string[] {
  const { list, names } = LISTS[dialect]
  if (!hasAny(body, names)) return NONE
  const found: string[] = []
  for (const [path, matters] of list) {
    const value = valueAt(body, path)
    if (value !== undefined && value !== null && matters(value)) found.push(path.join('.'))
  }
  return found
}

const NONE: readonly string[] = []

/** Most bodies have none of these fields, and fewer fields than the list. */
function hasAny(body: JsonObject, names: ReadonlySet<string>): boolean {
  for (const name in body) if (names.has(name)) return true
  return false
}

interface List {
  readonly list: readonly (readonly [path: readonly [string, string?], matters: Matters])[]
  /** The fields of the body that the paths begin with. */
  readonly names: ReadonlySet<string>
}

const LISTS: Readonly<Record<DialectName, List>> = {
  chat: listOf(IGNORED_FIELDS.chat),
  responses: listOf(IGNORED_FIELDS.responses),
  messages: listOf(IGNORED_FIELDS.messages),
}

function listOf(fields: Readonly<Record<string, Matters>>): List {
  const list = Object.entries(fields).map(([path, matters]): List['list'][number] => {
    const [field = '', member] = path.split('.')
    return [member === undefined ? [field] : [field, member], matters]
  })
  return { list, names: new Set(list.map(([[field]]) => field)) }
}

function valueAt(body: JsonObject, [field, member]: readonly [string, string?]): JsonValue | undefined {
  const value = Object.hasOwn(body, field) ? body[field] : undefined
  if (member === undefined) return value
  return isObject(value) && Object.hasOwn(value, member) ? value[member] : undefined
}
