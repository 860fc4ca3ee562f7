/** The fields that no caller may set: routing and credentials are the operator's (inference-api.md 4.1, rules 7 and 8). */

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

/** Refuses a body whose top level has a forbidden name, whatever its value. `metadata` passes where the dialect accepts it (Messages). */
export function refuseForbidden(body: JsonObject, metadata: 'accepted' | 'forbidden'): void {
  refuseForbiddenNames(Object.keys(body), metadata)
}

/** The same for the names of form fields. */
export function refuseForbiddenNames(names: readonly string[], metadata: 'accepted' | 'forbidden'): void {
  const found = names.filter((name) => FORBIDDEN_FIELDS.has(name) && !(name === 'metadata' && metadata === 'accepted'))
  if (found.length === 0) return
  const listed = found.map((name) => `'${name}'`).join(', ')
  const message = `Forbidden field${found.length > 1 ? 's' : ''}: ${listed}. The service sets these itself; remove them from the request.`
  throw new CallerError('forbidden_field', message, { param: found[0] })
}
