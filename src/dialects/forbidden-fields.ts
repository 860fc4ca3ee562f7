/** The fields that no caller may set, because routing and credentials are the operator's. */

import { CallerError } from '../core/caller-error.ts'
import type { JsonObject } from '../core/json.ts'

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
