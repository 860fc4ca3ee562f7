/** What is wrong with a field that the conversion, not the schema, finds at fault. All are body validation. */

import { CallerError } from '../core/caller-error.ts'

/** `param` is the field as a path: `messages[3].content[0].type`. */
export function missing(param: string): CallerError {
  return new CallerError('missing_field', `Missing required field: '${param}'.`, { param })
}

/** `what` follows the field's name: `must be a string`. */
export function invalid(param: string, what: string): CallerError {
  return new CallerError('invalid_field', `Invalid value for '${param}': ${what}.`, { param })
}
