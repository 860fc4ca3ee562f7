/** A caller's earlier tool calls as a provider takes them back: their ids, and their arguments as an object; and such an object as a caller gets it. */

import { isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import { fitted, NAMES_OF_64 } from './tool-names.ts'

/**
 * The call ids of one request. Providers want `[a-zA-Z0-9_-]`, at most 64, each id once in a conversation; callers bring ids of other
 * providers (a server may number its calls from 0 in every answer). An id that is legal and comes once is sent as it is.
 */
export class CallIds {
  /** How often each sent id was wanted. */
  private readonly wanted = new Map<string, number>()
  /** Calls of the last assistant turn that have no result yet, by the caller's id. */
  private readonly open = new Map<string, string[]>()

  /** A new assistant turn begins: results that come now belong to its calls. */
  turn(): void {
    this.open.clear()
  }

  /** The id of a call, in order of appearance. */
  call(id: string): string {
    const sent = this.unique(fitted(id, NAMES_OF_64))
    const open = this.open.get(id)
    if (open === undefined) this.open.set(id, [sent])
    else open.push(sent)
    return sent
  }

  /** The id of the call that a result answers. One that answers none keeps its id: the provider says so better. */
  result(id: string): string {
    const open = this.open.get(id)
    if (open === undefined) return fitted(id, NAMES_OF_64)
    return (open.length > 1 ? open.shift() : open[0]) ?? fitted(id, NAMES_OF_64)
  }

  private unique(id: string): string {
    let sent = id
    while (this.wanted.has(sent)) {
      const times = (this.wanted.get(id) ?? 1) + 1
      this.wanted.set(id, times)
      sent = `${id.slice(0, NAMES_OF_64.charsMax - 8)}_${times}`
    }
    this.wanted.set(sent, 1)
    return sent
  }
}

/**
 * The arguments of a call as the object that providers want. No text is `{}`; what is no object (a call that was cut off at the output
 * limit) goes under the key that Anthropic's documentation names for it, so that the model sees what it wrote.
 */
export function callInput(json: string): JsonObject {
  if (json.trim() === '') return {}
  let input: unknown
  try {
    input = JSON.parse(json)
  } catch {
    // Half a call: kept as text below.
  }
  return isObject(input) ? input : { INVALID_JSON: json }
}

/** The input of a call that a provider gives whole, as JSON text. Some servers give the text itself; what is neither is no input. */
export function inputJson(input: JsonValue | undefined): string {
  if (isObject(input)) return JSON.stringify(input)
  return typeof input === 'string' && input.trim() !== '' ? input : '{}'
}
