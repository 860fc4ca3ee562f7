/** Errors of fields that the conversion of a body finds, rather than its schema. */

import { CallerError } from '../core/caller-error.ts'

/** `param` is the field as a path: `messages[3].content[0].type`. */
export function missing(param: string): CallerError {
  return new CallerError('missing_field', `Missing required field: '${param}'.`, { param })
}

/** `what` follows the field's name: `must be a string`. */
export function invalid(param: string, what: string): CallerError {
  return new CallerError('invalid_field', `Invalid value for '${param}': ${what}.`, { param })
}
