/** A caller's `cache_control` → a cache mark. */

import { CallerError } from '../core/caller-error.ts'
import { type JsonDocument, NONE, words } from '../wire/json-document.ts'

const MARK = words('type', 'ttl')
const EPHEMERAL = words('ephemeral')
/** In the order of `MARKS`, after the mark without a TTL. */
const TTLS = words('5m', '1h')
const found = new Int32Array(MARK.length)

/**
 * The mark that is the value of `cache_control`, as its index in `MARKS`; 0 if there is none, or null. `path` is that
 * of the object that carries it. Throws `CallerError` `invalid_field` for a type other than `ephemeral` or a TTL other
 * than 5m and 1h.
 */
export function readMark(document: JsonDocument, value: number, path: () => string): number {
  if (document.isNull(value)) return 0
  const failed = (field: string, what: string) => {
    const at = path()
    const param = `${at === '' ? '' : `${at}.`}cache_control${field}`
    return new CallerError('invalid_field', `'${param}' must be ${what}.`, { param })
  }
  if (!document.isObject(value)) throw failed('', 'an object')
  document.select(value, MARK, found)
  const type = found[0] ?? NONE
  const ttl = found[1] ?? NONE
  if (document.word(type, EPHEMERAL) === NONE) throw failed('.type', "'ephemeral'")
  if (document.isNull(ttl)) return 1
  const index = document.word(ttl, TTLS)
  if (index === NONE) throw failed('.ttl', "'5m' or '1h'")
  return 2 + index
}

/** Whether a mark that was read, by its index in `MARKS`, is all that the value of `cache_control` has. */
export function isWholeMark(document: JsonDocument, value: number, mark: number): boolean {
  return mark !== 0 && document.select(value, MARK, found) === (mark === 1 ? 1 : 2)
}
