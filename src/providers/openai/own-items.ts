/** What of Responses has no canonical event → events of its own, for callers of the same API. */

import { CALLS_MAX } from '../../core/completion.ts'
import type { OwnEvent, StreamEvent } from '../../core/event.ts'
import { isArray, isObject, type JsonObject, type JsonValue, objectOf, stringOf } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'

/** Items that the decoder reads. */
const READ: ReadonlySet<unknown> = new Set(['message', 'function_call', 'custom_tool_call', 'reasoning'])
const TYPE = /^[a-z][a-z0-9_]{0,63}$/
/** Events of an item, such as `response.web_search_call.searching`. */
const EVENT = /^response\.[a-z0-9_]{1,64}(?:\.[a-z0-9_]{1,64})?$/
/** Members of an event that weir writes itself. */
const OF_EVENT: ReadonlySet<string> = new Set(['type', 'sequence_number', 'output_index'])
/** Longer lists of annotations are no answer. */
const ANNOTATIONS_MAX = 4096

/** One per stream. */
export class OwnItems {
  /** The items that have begun and not ended, as they began. */
  private readonly open = new Map<number, JsonObject>()
  private items = 0
  private annotations = 0
  private hasMessage = false

  /**
   * Whether an item that begins is one of the API's own. A message after another one is a message of its own. Its phase
   * shows whether it is a comment or the answer.
   */
  begin(index: number, item: JsonObject, events: StreamEvent[]): boolean {
    const type = stringOf(item['type']) ?? ''
    if (type === 'message') {
      const { phase } = item
      const hasPhase = typeof phase === 'string'
      if (this.hasMessage || hasPhase) events.push({ type: 'own', part: 'text', value: hasPhase ? { phase } : {} })
      this.hasMessage = true
    }
    if (READ.has(type) || !TYPE.test(type)) return false
    if (++this.items > CALLS_MAX) throw new ProviderError('broken', `the answer holds more than ${CALLS_MAX} items`)
    this.open.set(index, item)
    events.push({ type: 'own', part: 'block', index, value: item })
    return true
  }

  isOpen(index: number): boolean {
    return this.open.has(index)
  }

  /** An event of an open item, or an annotation. */
  event(name: string, index: number, chunk: JsonObject, events: StreamEvent[]): void {
    if (name === 'response.output_text.annotation.added') return this.annotation(chunk['annotation'], events)
    if (!this.open.has(index) || !EVENT.test(name)) return
    const value = Object.fromEntries(Object.entries(chunk).filter(([member]) => !OF_EVENT.has(member)))
    events.push({ type: 'own', part: 'delta', index, name, value })
  }

  /** The annotations of a text that comes whole. */
  annotated({ annotations }: JsonObject, events: StreamEvent[]): void {
    if (isArray(annotations)) for (const annotation of annotations) this.annotation(annotation, events)
  }

  private annotation(annotation: JsonValue | undefined, events: StreamEvent[]): void {
    if (!isObject(annotation)) return
    if (++this.annotations > ANNOTATIONS_MAX)
      throw new ProviderError('broken', `the answer holds more than ${ANNOTATIONS_MAX} annotations`)
    events.push({ type: 'own', part: 'delta', value: { annotation } })
  }

  /** Whether the item that ends is one of the API's own. */
  end(index: number, item: JsonObject, events: StreamEvent[]): boolean {
    if (!this.open.has(index) && (READ.has(item['type']) || !this.begin(index, item, events))) return false
    this.open.delete(index)
    events.push({ type: 'own', part: 'stop', index, value: item })
    return true
  }

  /** The answer ends: items that have not ended stay as they began. Then what it reports of calls, if it does. */
  finish(answer: JsonObject, events: StreamEvent[]): void {
    for (const [index, item] of this.open) this.end(index, item, events)
    const searches = objectOf(objectOf(answer['tool_usage'])?.['web_search'])?.['num_requests']
    if (typeof searches === 'number') events.push(ending({ server_tool_use: { web_search_requests: searches } }))
  }
}

function ending(usage: JsonObject): OwnEvent {
  return { type: 'own', part: 'ending', value: { usage } }
}
