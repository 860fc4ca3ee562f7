/**
 * TypeBox writes "null or" and lists of literals as `anyOf`, from which generators of clients make a type for each
 * variant. This writes the same as `type: ["string", "null"]` and `enum`.
 */

import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'

/** A copy without the members that JSON does not have. */
export function simplified(schema: object): JsonValue {
  const plain: JsonValue = JSON.parse(JSON.stringify(schema))
  return simple(plain)
}

function simple(value: JsonValue): JsonValue {
  if (isArray(value)) return value.map(simple)
  if (!isObject(value)) return value
  const copy: JsonObject = Object.fromEntries(
    Object.entries(value).flatMap(([name, each]) => (each === undefined ? [] : [[name, simple(each)]])),
  )
  const { anyOf: variants, ...rest } = copy
  return isArray(variants) && variants.every(isObject) ? withoutNull(variants, rest) : copy
}

/** `rest` is what the union has besides its variants, such as a description. */
function withoutNull(variants: readonly JsonObject[], rest: JsonObject): JsonObject {
  const others = flat(variants.filter(({ type }) => type !== 'null'))
  const isNullable = others.length < flat(variants).length
  const [only] = others
  if (only !== undefined && others.length === 1) return joined(only, isNullable, rest)
  return { ...rest, anyOf: isNullable ? [...others, { type: 'null' }] : others }
}

/** The variants of unions within a union, unless these have a description of their own. */
function flat(variants: readonly JsonObject[]): readonly JsonObject[] {
  return variants.flatMap((variant) => {
    const { anyOf: inner, ...more } = variant
    return isArray(inner) && inner.every(isObject) && Object.keys(more).length === 0 ? inner : [variant]
  })
}

function joined(only: JsonObject, isNullable: boolean, rest: JsonObject): JsonObject {
  const { type, enum: values } = only
  if (!isNullable) return { ...only, ...rest }
  if (typeof type !== 'string' || 'const' in only || '$ref' in only) return { ...rest, anyOf: [only, { type: 'null' }] }
  const listed = isArray(values) ? { enum: [...values, null] } : {}
  return { ...only, ...listed, type: [type, 'null'], ...rest }
}
