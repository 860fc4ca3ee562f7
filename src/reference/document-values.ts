/** Values of the OpenAPI document, each of the type that its place has; an empty one if the document has none there. */

import { isArray, isObject, type JsonObject, type JsonValue } from '../core/json.ts'

export function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : ''
}

export function objectOf(value: JsonValue | undefined): JsonObject {
  return isObject(value) ? value : {}
}

export function objectsOf(value: JsonValue | undefined): readonly JsonObject[] {
  return isArray(value) ? value.filter(isObject) : []
}
