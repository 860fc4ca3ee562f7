/** The fields that no caller may set, because routing and credentials are the operator's. */

import { CallerError } from '../core/caller-error.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import { type JsonDocument, NONE, words } from '../wire/json-document.ts'

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
 * `metadata` is one of the names that mean nothing there.
 */
export function refuseForbiddenWithin(value: JsonValue | undefined, path: string): void {
  if (isArray(value)) for (const [index, item] of value.entries()) refuseForbiddenWithin(item, `${path}[${index}]`)
  if (!isObject(value)) return
  refuseForbiddenNamesOf(value, path)
  for (const name in value) refuseForbiddenWithin(value[name], `${path}.${name}`)
}

function refuseForbiddenNamesOf(value: JsonObject, path: string): void {
  for (const name in value) if (name !== 'metadata' && FORBIDDEN_FIELDS.has(name)) throw forbidden(`${path}.${name}`)
}

/** The same for the names of one object alone, which is not parsed. */
export function refuseForbiddenMembers(document: JsonDocument, object: number, path: () => string): void {
  if (!document.isObject(object)) return
  document.select(object, WITHIN_WORDS, found)
  const index = found.findIndex((value) => value !== NONE)
  if (index !== -1) throw forbidden(`${path()}.${WITHIN[index]}`)
}

const WITHIN = [...FORBIDDEN_FIELDS].filter((name) => name !== 'metadata')
const WITHIN_WORDS = words(...WITHIN)
const found = new Int32Array(WITHIN.length)

function forbidden(param: string): CallerError {
  const message = `Forbidden field: '${param}'. The service sets this itself; remove it from the request.`
  return new CallerError('forbidden_field', message, { param })
}
