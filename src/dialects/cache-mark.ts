/** `cache_control` as callers write it → a cache mark (wire.md D4). */

import { CallerError } from '../core/caller-error.ts'
import type { CacheMark } from '../core/chat-request.ts'
import { isObject } from '../core/json.ts'

/** Absent or null: no mark. Throws `invalid_field` for a type other than `ephemeral` and a TTL other than 5m and 1h. `path` is that of the object that carries it. */
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
