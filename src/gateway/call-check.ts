/** Whether the tool calls of an answer are whole: a caller runs what it is given, and half of a call reads as one without arguments. */

import type { StreamEvent } from '../core/event.ts'
import { Fault } from '../core/fault.ts'
import { isObject } from '../core/json.ts'

/** One an answer. Keeps the arguments until the finish; the provider's own limit on an answer bounds them. */
export class CallCheck {
  private readonly calls: string[] = []

  /**
   * Throws a `Fault` at the finish where the arguments of a call are not a JSON object. Where the model was stopped, by its limit or by
   * a filter, the last call may well be half; the reason then tells the caller not to run it.
   */
  see(event: StreamEvent): void {
    if (event.type === 'tool-delta') this.calls[event.index] = (this.calls[event.index] ?? '') + event.json
    if (event.type !== 'finish' || event.reason === 'length' || event.reason === 'content-filter') return
    for (const json of this.calls) {
      if (json !== undefined && !isObjectText(json))
        throw new Fault('broken', 'the arguments of a tool call are not a JSON object')
    }
  }
}

function isObjectText(json: string): boolean {
  try {
    return isObject(JSON.parse(json))
  } catch {
    return false
  }
}
