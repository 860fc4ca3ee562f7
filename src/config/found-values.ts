/** Where the values of a file are, and how a problem shows them without ever showing a secret. */

import { KindGuard, type TSchema } from '@sinclair/typebox'
import { isArray, isObject } from '../core/json.ts'
import type { Read } from './document.ts'
import { isCredentialed, type Locator, type Path, pathText, quoted } from './problems.ts'
import { schema } from './schema-file.ts'

export function locatorOf(read: Read): Locator {
  return {
    lineOf: (path) => {
      // A missing key is reported at the group that should have it.
      for (let length = path.length; length > 0; length--) {
        const line = read.lines().get(pathText(path.slice(0, length)))
        if (line !== undefined) return line
      }
      return 1
    },
    found: (path) => foundText(path, read),
  }
}

/** What the file has in place of one value. */
function foundText(path: Path, read: Read): string | undefined {
  const value = valueAt(read.value, path)
  if (value === undefined || value === null) return undefined
  if (isArray(value)) return value.length === 0 ? '[]' : 'a list'
  if (isObject(value)) return Object.keys(value).length === 0 ? '{}' : 'a group of keys'
  // A reference may have brought a secret.
  const written = read.written.get(pathText(path))
  if (written !== undefined) return quoted(written)
  const isText = typeof value === 'string'
  if (!isText && typeof value !== 'number' && typeof value !== 'boolean') return undefined
  const types = typesAt(path)
  if (types.length === 0 || types.some((type) => type['writeOnly'] === true) || isCredentialed(String(value)))
    return isText
      ? `${value.length} character${value.length === 1 ? '' : 's'}, not shown`
      : `a ${typeof value}, not shown`
  if (!isText) return decimal(value)
  // A key may have been pasted in place of the group that should have it.
  return types.some(isPlain) ? quoted(value) : 'a string'
}

/** Without an exponent: `0.00000025`, not `2.5e-7`. */
export function decimal(value: number | boolean): string {
  const text = String(value)
  return typeof value === 'number' && text.includes('e-') ? value.toFixed(20).replace(/0+$/, '') : text
}

/** What the schema allows at a place; empty if it knows no such place. */
function typesAt(path: Path): readonly TSchema[] {
  return path.reduce<readonly TSchema[]>((types, part) => types.flatMap((type) => inside(type, part)), variants(schema))
}

/** Takes a word, a number or a boolean. */
function isPlain(type: TSchema): boolean {
  return !KindGuard.IsObject(type) && !KindGuard.IsArray(type) && !KindGuard.IsRecord(type)
}

function inside(type: TSchema, part: string | number): readonly TSchema[] {
  if (KindGuard.IsArray(type)) return typeof part === 'number' ? variants(type.items) : []
  if (KindGuard.IsRecord(type)) return Object.values(type.patternProperties).flatMap(variants)
  if (!KindGuard.IsObject(type) || !Object.hasOwn(type.properties, part)) return []
  const property = type.properties[part]
  return property === undefined ? [] : variants(property)
}

function variants(type: TSchema): readonly TSchema[] {
  return KindGuard.IsUnion(type) ? type.anyOf.flatMap(variants) : [type]
}

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((at, part) => {
    if (isArray(at)) return at[Number(part)]
    return isObject(at) && Object.hasOwn(at, part) ? at[part] : undefined
  }, value)
}
