/** What is said of a field at fault in a part of the body that no schema covers. */

import { Failure } from '../../core/error.ts'

export function missing(param: string): Failure {
  return new Failure('missing_field', `Missing required field: '${param}'.`, { param })
}

/** `what` completes the sentence: `must be a string`. */
export function invalid(param: string, what: string): Failure {
  return new Failure('invalid_field', `Invalid value for '${param}': ${what}.`, { param })
}
