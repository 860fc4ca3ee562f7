/** A caller's `cache_control` → a cache mark. */

import { CallerError } from '../core/caller-error.ts'
import type { CacheMark } from '../core/chat-request.ts'
import { isObject } from '../core/json.ts'

/**
 * The mark of an object; undefined if `cache_control` is absent or null. Throws `CallerError` `invalid_field` for a
 * type other than `ephemeral` or a TTL other than 5m and 1h. `path` is the path of the object.
 */
export function cacheMark(carrier: { readonly cache_control?: unknown }, path: string): CacheMark | undefined {
  const value = carrier.cache_control
  if (value === undefined || value === null) return undefined
  const param = path === '' ? 'cache_control' : `${path}.cache_control`
  if (!isObject(value)) throw new CallerError('invalid_field', `'${param}' must be an object.`, { param })
  if (value['type'] !== 'ephemeral') {
    throw new CallerError('invalid_field', `'${param}.type' must be 'ephemeral'.`, { param: `${param}.type` })
  }
  const ttl = value['ttl'] ?? undefined
  if (ttl === undefined) return {}
  if (ttl === '5m' || ttl === '1h') return { ttl }
  throw new CallerError('invalid_field', `'${param}.ttl' must be '5m' or '1h'.`, { param: `${param}.ttl` })
}
