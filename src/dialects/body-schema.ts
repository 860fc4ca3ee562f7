/**
 * What the bodies of all dialects share: fields that may be null, a compiled check whose first error is a `CallerError`
 * with a path, and the hints of two of them.
 */

import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { TypeCompiler, type ValueError, ValueErrorType } from '@sinclair/typebox/compiler'
import { CallerError } from '../core/caller-error.ts'
import { type Hints, NO_HINTS } from '../core/chat-request.ts'
import type { JsonObject } from '../core/json.ts'

/** An optional field: absent, null (official SDKs send it for absent) or of the type. */
export function nullable<T extends TSchema>(schema: T) {
  return Type.Optional(Type.Union([schema, Type.Null()]))
}

interface HintFields {
  readonly service_tier?: string | null | undefined
  readonly prompt_cache_key?: string | null | undefined
  readonly prompt_cache_retention?: string | null | undefined
}

/** The hints of Messages and Responses. */
export function hintsOf(body: HintFields): Hints {
  const { service_tier: tier, prompt_cache_key: key, prompt_cache_retention: retention } = body
  if ((tier ?? key ?? retention ?? undefined) === undefined) return NO_HINTS
  return {
    serviceTier: tier ?? undefined,
    promptCacheKey: key ?? undefined,
    promptCacheRetention: retention ?? undefined,
  }
}

/**
 * Compiles a schema once. The check returns the typed body, or throws `CallerError` `missing_field` or `invalid_field`.
 */
export function compile<T extends TSchema>(schema: T): (body: JsonObject) => Static<T> {
  const compiled = TypeCompiler.Compile(schema)
  return (body) => {
    if (compiled.Check(body)) return body
    const first = compiled.Errors(body).First()
    throw first === undefined
      ? new CallerError('invalid_field', 'The body does not match the schema of this endpoint.')
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
 * The error of a union names no cause. This finds the error of the variant that fits best: the one that fails deepest,
 * the first among equals. If no variant fits at all, the message lists what each of them expects.
 */
function innermost(error: ValueError): ValueError {
  if (error.type !== ValueErrorType.Union) return error
  const complaints = error.errors.flatMap((variant) => variant.First() ?? []).map(innermost)
  const deepest = Math.max(...complaints.map(({ path }) => path.length))
  const best = complaints.find(({ path }) => path.length === deepest)
  if (best === undefined) return error
  return deepest > error.path.length ? best : { ...best, message: alternatives(complaints) }
}

/** `Expected string or array`, each once. Null is left out: every optional field allows it. */
function alternatives(complaints: readonly ValueError[]): string {
  const expected = complaints.filter(({ type }) => type !== ValueErrorType.Null).map(({ message }) => message)
  return [...new Set(expected)]
    .map((message, at) => (at === 0 ? message : message.replace(/^Expected /, '')))
    .join(' or ')
}

/** `/messages/3/content` → `messages[3].content`, as the errors of the official APIs name a field. */
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
