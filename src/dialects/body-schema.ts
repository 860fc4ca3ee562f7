/** What the dialects' schemas share: a field that may be null, and a compiled check whose first complaint is a `CallerError` with a path. */

import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { TypeCompiler, type ValueError, ValueErrorType } from '@sinclair/typebox/compiler'
import { CallerError } from '../core/caller-error.ts'
import type { JsonObject } from '../core/json.ts'

/** An optional field: absent, null (official SDKs send it for absent) or of the type. */
export function nullable<T extends TSchema>(schema: T) {
  return Type.Optional(Type.Union([schema, Type.Null()]))
}

/** Compiles a schema once. The check returns the body under its type, or throws `missing_field` or `invalid_field`. */
export function compile<T extends TSchema>(schema: T): (body: JsonObject) => Static<T> {
  const compiled = TypeCompiler.Compile(schema)
  return (body) => {
    if (compiled.Check(body)) return body
    const first = compiled.Errors(body).First()
    throw first === undefined
      ? new CallerError('invalid_field', 'The body is not what this endpoint takes.')
      : complaint(first)
  }
}

function complaint(error: ValueError): CallerError {
  const inner = innermost(error)
  const param = fieldPath(inner.path)
  if (inner.type === ValueErrorType.ObjectRequiredProperty) {
    return new CallerError('missing_field', `Missing required field: '${param}'.`, { param })
  }
  return new CallerError('invalid_field', `Invalid value for '${param}': ${lowerFirst(inner.message)}.`, { param })
}

/**
 * A union's own complaint says nothing; that of the variant that fits best, failing deepest, does. The first counts among equals; where no
 * variant fits at all, what each of them expects.
 */
function innermost(error: ValueError): ValueError {
  if (error.type !== ValueErrorType.Union) return error
  const complaints = error.errors.flatMap((variant) => variant.First() ?? []).map(innermost)
  const deepest = Math.max(...complaints.map(({ path }) => path.length))
  const best = complaints.find(({ path }) => path.length === deepest)
  if (best === undefined) return error
  return deepest > error.path.length ? best : { ...best, message: alternatives(complaints) }
}

/** `Expected string or array`. That an optional field may be null goes without saying. */
function alternatives(complaints: readonly ValueError[]): string {
  const expected = complaints.filter(({ type }) => type !== ValueErrorType.Null).map(({ message }) => message)
  return expected.map((message, at) => (at === 0 ? message : message.replace(/^Expected /, ''))).join(' or ')
}

/** `/messages/3/content` → `messages[3].content`: the way official errors name a field. */
function fieldPath(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((path, part) => (/^\d+$/.test(part) ? `${path}[${part}]` : path === '' ? part : `${path}.${part}`), '')
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1)
}
