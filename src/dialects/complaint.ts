/** What is wrong with a field that the conversion, not the schema, finds at fault. All are body validation. */

import { Failure } from '../core/error.ts'

/** `param` is the field as a path: `messages[3].content[0].type`. */
export function missing(param: string): Failure {
  return new Failure('missing_field', `Missing required field: '${param}'.`, { param })
}

/** `what` follows the field's name: `must be a string`. */
export function invalid(param: string, what: string): Failure {
  return new Failure('invalid_field', `Invalid value for '${param}': ${what}.`, { param })
}
