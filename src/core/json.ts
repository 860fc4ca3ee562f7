/** Types of parsed JSON, and guards that narrow them. */

export type JsonValue = string | number | boolean | null | JsonArray | JsonObject
type JsonArray = readonly JsonValue[]
export interface JsonObject {
  readonly [key: string]: JsonValue | undefined
}

/** True for a JSON object: neither null nor an array, nor a number as `core/exact-json.ts` keeps it. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value)
}

/** True for a JSON array. `Array.isArray` alone narrows to `any[]`. */
export function isArray(value: unknown): value is JsonArray {
  return Array.isArray(value)
}

/** The value if it is an object, else undefined. */
export function objectOf(value: unknown): JsonObject | undefined {
  return isObject(value) ? value : undefined
}

/** The value if it is a string, else undefined. */
export function stringOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** The value if it is a finite number, else undefined. */
export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}

/** The object that a text of JSON has; undefined for every other text. */
export function parseObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** An object without the members of these names. */
export function withoutMembers(members: JsonObject, names: readonly string[]): JsonObject {
  if (Object.keys(members).every((name) => names.includes(name))) return {}
  return Object.fromEntries(Object.entries(members).filter(([name]) => !names.includes(name)))
}
