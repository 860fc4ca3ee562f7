/** Whether the tool calls of an answer are whole: a caller runs what it is given, and half of a call reads as one without arguments. */

import type { StreamEvent } from '../core/event.ts'
import { isObject } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'
import { DEPTH_MAX, JsonShape, VALUES_MAX } from '../wire/json-shape.ts'

interface Arguments {
  json: string
  readonly shape: JsonShape
}

/** One an answer. Keeps the arguments until the finish; the provider's own limit on an answer bounds them. */
export class CallCheck {
  private readonly calls: Arguments[] = []
  private values = 0

  /**
   * Throws a `ProviderError` at the finish where the arguments of a call are not a JSON object, and at once where they are so deep or so many that
   * they would be refused when the caller sends them back. Where the model was stopped, by its limit or by a filter, the last call may
   * well be half; the reason then tells the caller not to run it.
   */
  see(event: StreamEvent): void {
    if (event.type === 'tool-delta') this.add(event.index, event.json)
    if (event.type !== 'finish' || event.reason === 'length' || event.reason === 'content-filter') return
    for (const call of this.calls) {
      if (call !== undefined && !isObjectText(call.json))
        throw new ProviderError('broken', 'the arguments of a tool call are not a JSON object')
    }
  }

  private add(index: number, piece: string): void {
    const call = this.calls[index] ?? { json: '', shape: new JsonShape() }
    this.calls[index] = call
    const before = call.shape.values
    call.json += piece
    call.shape.add(piece)
    this.values += call.shape.values - before
    if (call.shape.problem === 'deep')
      throw new ProviderError('broken', `the arguments of a tool call are nested more than ${DEPTH_MAX} levels deep`)
    if (this.values > VALUES_MAX)
      throw new ProviderError('broken', `the arguments of the tool calls hold more than ${VALUES_MAX} values`)
  }
}

function isObjectText(json: string): boolean {
  try {
    return isObject(JSON.parse(json))
  } catch {
    return false
  }
}
