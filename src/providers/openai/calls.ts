/**
 * The tool calls of one answer, assembled from deltas. Servers agree on the field names and little else: ids, indexes
 * and the end of a call differ.
 */

import { CALLS_MAX } from '../../core/completion.ts'
import type { StreamEvent } from '../../core/event.ts'
import { isObject, type JsonObject, objectOf, parseObject, stringOf } from '../../core/json.ts'
import { isNoArguments, mayBeNoArguments } from '../../core/no-arguments.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { FREE_CLOSING, FREE_OPENING } from '../../core/tool-list.ts'
import { ObjectText } from '../../wire/object-text.ts'
import { AnswerCallIds } from '../answer-call-ids.ts'

/** A call without a name after this many characters of arguments is rejected. */
const NAMELESS_CHARS_MAX = 64 * 1024

interface Call {
  /** Its number among the calls that were opened. */
  index: number
  /** The server's id, even if callers get another. */
  id: string
  name: string
  /** Arguments that arrived before the call was opened. */
  pending: string
  open: boolean
  /** Its tool takes a text instead of arguments. */
  isFree: boolean
  /** All arguments so far: once they are a whole object, more arguments belong to another call. */
  readonly written: ObjectText
}

/**
 * Calls are numbered in the order in which they are opened, whatever the server's indexes: the name of an earlier one
 * may arrive later. The first id and the first name that are not empty are kept.
 */
export class Calls {
  private readonly calls: Call[] = []
  private readonly byId = new Map<string, Call>()
  private readonly byIndex = new Map<number, Call>()
  private readonly ids = new AnswerCallIds()
  private opened = 0

  /** One entry of `delta.tool_calls`. */
  add(delta: JsonObject, events: StreamEvent[]): void {
    const free = objectOf(delta['custom'])
    const called = free ?? objectOf(delta['function']) ?? {}
    const id = stringOf(delta['id']) ?? ''
    const name = stringOf(called['name']) ?? ''
    const known = this.callOf(delta['index'], id, name)
    const json = free === undefined ? argumentsIn(called) : this.freeText(known, free)
    // Arguments after a whole object belong to another call, whatever the index: some servers send the same index and
    // even the same id with every call.
    const isOver = name !== '' && json.trim() !== '' && isWhole(known)
    const isSame = id !== '' && known.id === id && known.name === name
    const isUnnamed = id === '' && typeof delta['index'] === 'number' && known.name === name
    // Some servers repeat the whole call at its end. Other arguments after a whole object make it invalid, which is
    // rejected at the finish.
    if (isOver && (isSame || isUnnamed) && repeats(known, json)) return
    const call = isOver && !isSame ? this.another(delta['index']) : known
    if (call.id === '') this.name(call, id)
    if (call.name === '') call.name = name
    call.pending += json
    if (call.name === '' && call.pending.length > NAMELESS_CHARS_MAX) throw nameless()
    // A call opens when its name is known and its id is too, or cannot follow because its arguments have begun.
    if (!call.open && call.name !== '' && (call.id !== '' || call.pending !== '')) this.open(call, events)
    if (call.open) this.flush(call, events)
  }

  /**
   * The answer ends, and with it its calls. A call without arguments, or with `null`, gets `{}`; one without a name is
   * rejected, because no caller could run it.
   */
  finish(events: StreamEvent[]): void {
    for (const call of this.calls) {
      if (call.name === '') throw nameless()
      if (!call.open) this.open(call, events)
      if (call.isFree) call.pending += FREE_CLOSING
      if (call.written.isEmpty && isNoArguments(call.pending)) call.pending = '{}'
      this.write(call, events)
    }
  }

  /** Of a tool that takes a text: for a model it is a function of that text. */
  private freeText(call: Call, { input }: JsonObject): string {
    const opening = call.isFree ? '' : FREE_OPENING
    call.isFree = true
    return opening + JSON.stringify(stringOf(input) ?? '').slice(1, -1)
  }

  private open(call: Call, events: StreamEvent[]): void {
    call.open = true
    call.index = this.opened++
    events.push({ type: 'tool-start', index: call.index, callId: this.ids.of(call.id), name: call.name })
  }

  /** What may become no arguments is held back until more arrives. */
  private flush(call: Call, events: StreamEvent[]): void {
    if (call.written.isEmpty && mayBeNoArguments(call.pending)) return
    this.write(call, events)
  }

  private write(call: Call, events: StreamEvent[]): void {
    if (call.pending === '') return
    call.written.add(call.pending)
    events.push({ type: 'tool-delta', index: call.index, json: call.pending })
    call.pending = ''
  }

  private callOf(index: unknown, id: string, name: string): Call {
    if (typeof index === 'number') {
      const known = this.byIndex.get(index)
      // Some servers send index 0 with every call: another id together with a name is another call.
      if (
        known !== undefined &&
        !(id !== '' && name !== '' && known.id !== '' && known.id !== id && !this.isRepeat(known, name))
      )
        return known
      return this.another(index)
    }
    const last = this.calls.at(-1)
    if (last === undefined) return this.begin()
    if (id !== '') return this.byId.get(id) ?? (last.id === '' && name === '' ? last : this.begin())
    if (name !== '' && (name !== last.name || isWhole(last))) return last.name === '' ? last : this.begin()
    return last
  }

  /** An id and name sent again with a new id, before the arguments are whole, belong to the same call. */
  private isRepeat(call: Call, name: string): boolean {
    return call.name === name && !call.written.isEmpty && !isWhole(call)
  }

  private name(call: Call, id: string): void {
    call.id = id
    if (!this.byId.has(id)) this.byId.set(id, call)
  }

  private another(index: unknown): Call {
    const call = this.begin()
    if (typeof index === 'number') this.byIndex.set(index, call)
    return call
  }

  private begin(): Call {
    if (this.calls.length === CALLS_MAX)
      throw new ProviderError('broken', `the answer holds more than ${CALLS_MAX} tool calls`)
    const call: Call = {
      index: -1,
      id: '',
      name: '',
      pending: '',
      open: false,
      isFree: false,
      written: new ObjectText(),
    }
    this.calls.push(call)
    return call
  }
}

function argumentsIn({ arguments: written }: JsonObject): string {
  return isObject(written) ? JSON.stringify(written) : (stringOf(written) ?? '')
}

/** Also after `null`, which is held back to the end. */
function isWhole({ written, pending }: Call): boolean {
  return written.state === 'whole' || (written.isEmpty && pending.trim() !== '' && isNoArguments(pending))
}

function nameless(): ProviderError {
  return new ProviderError('broken', 'a tool call has no name')
}

/** True if the JSON text spells the same object as the arguments so far. */
function repeats({ written }: Call, json: string): boolean {
  if (written.value === undefined) return isNoArguments(json)
  return Bun.deepEquals(written.value, parseObject(json))
}
