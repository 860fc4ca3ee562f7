/** A caller's earlier tool calls as a provider takes them back: their ids, and their arguments as an object; and such an object as a caller gets it. */

import { isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import { fitted, NAMES_OF_64 } from './tool-names.ts'

/** Calls that share a caller's id, as they were sent, and which of them the next result answers. */
interface OpenCalls {
  readonly sent: string[]
  next: number
}

/**
 * The call ids of one request. Providers want `[a-zA-Z0-9_-]`, at most 64, each id once in a conversation; callers bring ids of other
 * providers (a server may number its calls from 0 in every answer). An id that is legal and comes once is sent as it is.
 */
export class CallIds {
  private readonly taken = new Set<string>()
  /** The number that the next one gets of those ids that are alike up to where a number is put. */
  private readonly numbers = new Map<string, number>()
  /** Calls of the last assistant turn that have no result yet, by the caller's id. */
  private readonly open = new Map<string, OpenCalls>()

  /** A new assistant turn begins: results that come now belong to its calls. */
  turn(): void {
    this.open.clear()
  }

  /** The id of a call, in order of appearance. */
  call(id: string): string {
    const sent = this.unique(fitted(id, NAMES_OF_64))
    const open = this.open.get(id)
    if (open === undefined) this.open.set(id, { sent: [sent], next: 0 })
    else open.sent.push(sent)
    return sent
  }

  /** The id of the call that a result answers. One that answers none keeps its id: the provider says so better. */
  result(id: string): string {
    const open = this.open.get(id)
    if (open === undefined) return fitted(id, NAMES_OF_64)
    const sent = open.sent[open.next]
    // The last one stays: whoever answers it once more answers the same call.
    open.next = Math.min(open.next + 1, open.sent.length - 1)
    return sent ?? fitted(id, NAMES_OF_64)
  }

  /** Numbers are given out for each beginning, not for each id: thousands of ids may share the characters that stay. */
  private unique(id: string): string {
    const stem = id.slice(0, NAMES_OF_64.charsMax - 8)
    let sent = id
    while (this.taken.has(sent)) {
      const number = this.numbers.get(stem) ?? 2
      this.numbers.set(stem, number + 1)
      sent = `${stem}_${number}`
    }
    this.taken.add(sent)
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
