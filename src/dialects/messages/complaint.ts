/** What is wrong with a field that the conversion, not the schema, finds at fault. All are body validation. */

import { Failure } from '../../core/error.ts'

export function missing(param: string): Failure {
  return new Failure('missing_field', `Missing required field: '${param}'.`, { param })
}

export function invalid(param: string, what: string): Failure {
  return new Failure('invalid_field', `Invalid value for '${param}': ${what}.`, { param })
}

/** The one text of inference-api.md 4.5 for a block that 2.5 does not list; callers match it, so `param` alone says which one. */
export function unsupportedBlock(param: string): Failure {
  return new Failure('invalid_field', 'Unsupported Anthropic content block', { param })
}
