/** Whom a caller sends a request for. */

import { isObject, type JsonObject } from '../core/json.ts'

/**
 * The field of a body that names the caller's own user: `user`, `safety_identifier` or `metadata.user_id`, the first of
 * them that is a text.
 */
export function endUserOf({ user, safety_identifier: safety, metadata }: JsonObject): string | undefined {
  const own = isObject(metadata) ? metadata['user_id'] : undefined
  const named = [user, safety, own].find((value) => typeof value === 'string' && value.trim() !== '')
  return typeof named === 'string' ? named : undefined
}
