/** Calls and results without ids: a result is then matched with its call by name and order. */

import { isObject, type JsonObject, type JsonValue } from '../../core/json.ts'

/**
 * The contents without ids, each turn's results in the order of the calls before them. Callers may send the results of
 * parallel calls in any order, and two calls of one function would get each other's.
 */
export function matchedByOrder(contents: readonly (readonly JsonObject[])[]): readonly JsonObject[][] {
  let places: ReadonlyMap<JsonValue | undefined, number> = new Map()
  return contents.map((parts) => {
    const placeOf = ({ functionResponse: result }: JsonObject) =>
      isObject(result) ? (places.get(result['id']) ?? places.size) : Number.POSITIVE_INFINITY
    const sorted = parts.length > 1 ? parts.toSorted((one, other) => compare(placeOf(one), placeOf(other))) : parts
    const calls = parts.flatMap(({ functionCall: call }) => (isObject(call) ? [call['id']] : []))
    places = new Map(calls.map((id, place) => [id, place]))
    return sorted.map(withoutId)
  })
}

function compare(one: number, other: number): number {
  return one === other ? 0 : one - other
}

function withoutId(part: JsonObject): JsonObject {
  const { functionCall, functionResponse } = part
  if (isObject(functionCall)) return { ...part, functionCall: { ...functionCall, id: undefined } }
  if (isObject(functionResponse)) return { ...part, functionResponse: { ...functionResponse, id: undefined } }
  return part
}
