/** Members of a provider's body as JSON text. */

import type { JsonValue } from '../core/json.ts'

/** A member after another one, as JSON text; '' if there is no value. `name` needs no escapes. */
export function member(name: string, value: string | number | bigint | boolean | undefined): string {
  return value === undefined ? '' : `,"${name}":${typeof value === 'string' ? JSON.stringify(value) : value}`
}

/** A member after another one that is an object or a list, as JSON text; '' if there is none. */
export function jsonMember(name: string, value: JsonValue | undefined): string {
  return value === undefined ? '' : `,"${name}":${JSON.stringify(value)}`
}
