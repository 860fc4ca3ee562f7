/** The arguments of a call in a caller's history → an entry. */

import type { Arena } from '../core/arena.ts'
import * as Kind from '../core/entry-kinds.ts'
import type { EntryWriter } from '../core/entry-writer.ts'
import { OPEN } from '../core/json-bytes.ts'
import { isNoArguments } from '../core/no-arguments.ts'
import type { JsonDocument } from '../wire/json-document.ts'
import { valuesWithin } from '../wire/json-text.ts'
import type { RequestLimits } from './request-limits.ts'

interface ReadOptions {
  readonly entries: EntryWriter
  readonly arena: Arena
  readonly limits: RequestLimits
}

/**
 * Adds the arguments, which some callers send as an object rather than as JSON text; `{}` if there are none. `path` is
 * the field. Returns whether they are the text that came. Throws `CallerError` if they are too deep, or those of all
 * calls too many.
 */
export function readArguments(
  document: JsonDocument,
  value: number,
  reading: ReadOptions,
  path: () => string,
): boolean {
  const { entries, arena, limits } = reading
  const isString = document.isString(value)
  const isNone = isString
    ? document.bytes[document.fromOf(value)] !== OPEN && isNoArguments(document.text(value))
    : document.isNull(value)
  if (isNone) {
    entries.add(Kind.ARGUMENTS, arena.addJson('{}'), arena.end)
    return false
  }
  const from = document.fromOf(value)
  const to = document.toOf(value)
  if (!isString) {
    const json = document.written(value)
    limits.addCallJson(json, path)
    if (document.isObject(value)) entries.add(Kind.INPUT, from, to)
    else entries.addText(Kind.ARGUMENTS, arena, JSON.stringify(document.value(value)))
    return false
  }
  const values = valuesWithin(document.bytes, from, to)
  if (values === -1) limits.addCallJson(document.text(value), path)
  else limits.addCallValues(values, path)
  entries.add(Kind.ARGUMENTS, from, to)
  return true
}
