/** The fields that no caller may set, because routing and credentials are the operator's. */

import { CallerError } from '../core/caller-error.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import { type JsonDocument, NONE, type Words, words } from '../wire/json-document.ts'

export const FORBIDDEN_FIELDS: ReadonlySet<string> = new Set([
  'api_key',
  'api_base',
  'api_version',
  'base_url',
  'custom_llm_provider',
  'fallbacks',
  'context_window_fallbacks',
  'content_policy_fallbacks',
  'router_settings_override',
  'num_retries',
  'max_retries',
  'retry_policy',
  'allowed_fails',
  'cooldown_time',
  'timeout',
  'request_timeout',
  'metadata',
])

/** Whether `metadata` is one of the forbidden fields on a path. */
export type MetadataRule = 'accepted' | 'forbidden'

/**
 * Throws `CallerError` `forbidden_field` if the top level of a body has a forbidden name, whatever its value. Messages
 * accepts `metadata`, and so do all paths in native mode.
 */
export function refuseForbidden(body: JsonObject, metadata: MetadataRule): void {
  for (const name in body) {
    if (FORBIDDEN_FIELDS.has(name)) return refuseForbiddenNames(Object.keys(body), metadata)
  }
}

/** The same for the names of form fields. */
export function refuseForbiddenNames(names: readonly string[], metadata: MetadataRule): void {
  const found = names.filter((name) => FORBIDDEN_FIELDS.has(name) && !(name === 'metadata' && metadata === 'accepted'))
  if (found.length === 0) return
  const listed = found.map((name) => `'${name}'`).join(', ')
  const fields = found.length > 1 ? 'fields' : 'field'
  const message = `Forbidden ${fields}: ${listed}. The service sets these itself; remove them from the request.`
  throw new CallerError('forbidden_field', message, { param: found[0] })
}

/**
 * Throws `CallerError` `forbidden_field` for a forbidden name anywhere in a value that is passed on as it came;
 * `metadata` is one of the names that mean nothing there. Below members such as `input` and `input_schema`, names are
 * the caller's own.
 */
export function refuseForbiddenWithin(value: JsonValue | undefined, path: string): void {
  if (isArray(value)) for (const [index, item] of value.entries()) refuseForbiddenWithin(item, `${path}[${index}]`)
  if (!isObject(value)) return
  refuseForbiddenNamesOf(value, path)
  for (const name in value) if (!OWN_NAMES.has(name)) refuseForbiddenWithin(value[name], `${path}.${name}`)
}

function refuseForbiddenNamesOf(value: JsonObject, path: string): void {
  for (const name in value) if (name !== 'metadata' && FORBIDDEN_FIELDS.has(name)) throw forbidden(`${path}.${name}`)
}

/**
 * The same of a value that is not parsed. `skipped`: members of the value itself that are looked at elsewhere.
 */
export function refuseForbiddenMembers(
  document: JsonDocument,
  value: number,
  path: () => string,
  skipped: Words = NOTHING,
): void {
  const found = forbiddenIn(document, value, skipped)
  if (found !== undefined) throw forbidden(path() + found)
}

/** The path to a forbidden name, from the value on. */
function forbiddenIn(document: JsonDocument, value: number, skipped: Words = NOTHING): string | undefined {
  if (document.isList(value)) {
    let index = 0
    for (let item = document.firstItem(value); item !== NONE; item = document.nextItem(item), index++) {
      const found = forbiddenIn(document, item)
      if (found !== undefined) return `[${index}]${found}`
    }
  }
  if (!document.isObject(value)) return undefined
  for (let name = document.firstName(value); name !== NONE; name = document.nextName(name)) {
    const index = document.word(name, WITHIN_WORDS)
    if (index !== NONE) return `.${WITHIN[index]}`
    const member = document.valueOf(name)
    const isHolder = document.isObject(member) || document.isList(member)
    if (!isHolder || document.word(name, OWN_NAME_WORDS) !== NONE || document.word(name, skipped) !== NONE) continue
    const found = forbiddenIn(document, member)
    if (found !== undefined) return `.${document.text(name)}${found}`
  }
  return undefined
}

const NOTHING: Words = []
const WITHIN = [...FORBIDDEN_FIELDS].filter((name) => name !== 'metadata')
const WITHIN_WORDS = words(...WITHIN)
const OWN_NAMES: ReadonlySet<string> = new Set([
  ...['input', 'input_schema', 'input_examples', 'output_schema', 'parameters', 'arguments', 'schema', 'env'],
])
const OWN_NAME_WORDS = words(...OWN_NAMES)

function forbidden(param: string): CallerError {
  const message = `Forbidden field: '${param}'. The service sets this itself; remove it from the request.`
  return new CallerError('forbidden_field', message, { param })
}
