/** Canonical events → the Responses stream (wire.md A3.3). What does not change from event to event is serialised once an item. */

import type { StreamEvent } from '../../core/event.ts'
import { Fault } from '../../core/fault.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../core/json.ts'
import { mergeUsage, type Usage } from '../../core/usage.ts'
import { jsonInside, KEEP_ALIVE_COMMENT } from '../../wire/sse.ts'
import type { StreamEncoder } from '../dialect.ts'
import { mintId } from '../ids.ts'
import { callItemJson, messageItemJson, textPartJson } from './items.ts'
import type { Resource } from './resource.ts'
import type { OwnName, Toolbox } from './tools.ts'

/** The closing events repeat the whole answer, so it is held. A longer one, in UTF-16 units of JSON, is no answer of a model: it is cut. */
const ANSWER_CHARS_MAX = 16 * 1024 * 1024

const TEXT_DELTA = opening('response.output_text.delta')
const TEXT_DELTA_END = '","logprobs":[]}\n\n'
const ARGUMENTS_DELTA = opening('response.function_call_arguments.delta')

/** An item that was added and is not done. */
interface OpenItem {
  readonly id: string
  readonly outputIndex: number
  /** From behind the sequence number of a delta to its text. */
  readonly middle: string
  /** What the deltas said, as the inside of a JSON string. */
  inside: string
}

interface OpenCall extends OpenItem {
  readonly callId: string
  readonly own: OwnName
  done: boolean
}

/**
 * Items come one after another: one is done before the next is added. Only where a provider interleaves its calls does an item stay open
 * beside the next, which every SDK takes; the alternative, holding the later call back, would need a buffer and delay what is known already.
 */
export class ResponsesEncoder implements StreamEncoder {
  readonly keepAlive = KEEP_ALIVE_COMMENT
  private sequence = 0
  private items = 0
  private chars = 0
  private message: OpenItem | undefined
  /** By the index of their events. */
  private readonly calls: OpenCall[] = []
  /** The items that are done, by their output index. */
  private readonly output: string[] = []
  private usage: Usage = {}

  constructor(
    private readonly resource: Resource,
    private readonly toolbox: Toolbox,
    /** Takes the items when the answer is whole. */
    private readonly sent: ((items: readonly JsonObject[]) => void) | undefined,
  ) {}

  encodeTexts(insides: readonly string[]): string {
    let deltas = ''
    for (const inside of insides) deltas += this.textDelta(inside)
    return deltas
  }

  encode(event: StreamEvent): string {
    switch (event.type) {
      case 'start':
        return this.event('response.created', `"response":${this.resource.inProgressJson()}`)
      case 'text':
      case 'refusal':
        return this.textDelta(jsonInside(event.text))
      case 'tool-start':
        return this.openCall(event.index, event.callId, this.toolbox.ownName(event.name))
      case 'tool-delta':
        return this.argumentsDelta(event.index, event.json)
      case 'usage':
        this.usage = mergeUsage(this.usage, event.usage)
        return ''
      case 'finish':
        return this.finish()
      case 'end':
        return this.complete()
    }
  }

  /** Only the number and the text differ from one delta of a message to the next. */
  private textDelta(inside: string): string {
    if (inside === '') return ''
    this.hold(inside)
    const before = this.message === undefined ? this.openMessage() : ''
    const { message } = this
    if (message === undefined) return before
    message.inside += inside
    return before + TEXT_DELTA + this.sequence++ + message.middle + inside + TEXT_DELTA_END
  }

  private openMessage(): string {
    const before = this.closeWholeCall()
    const item = this.open(mintId('msg'), `"content_index":0,`)
    this.message = item
    const part = `"item_id":"${item.id}","output_index":${item.outputIndex},"content_index":0,"part":${textPartJson('')}`
    const added = this.itemEvent('added', item, messageItemJson(item.id, 'in_progress', ''))
    return before + added + this.event('response.content_part.added', part)
  }

  private closeMessage(): string {
    const { message } = this
    if (message === undefined) return ''
    this.message = undefined
    const { id, outputIndex, inside } = message
    const place = `"item_id":"${id}","output_index":${outputIndex},"content_index":0`
    const part = textPartJson(inside)
    return (
      this.event('response.output_text.done', `${place},"text":"${inside}","logprobs":[]`) +
      this.event('response.content_part.done', `${place},"part":${part}`) +
      this.done(message, messageItemJson(id, 'completed', part))
    )
  }

  private openCall(index: number, callId: string, own: OwnName): string {
    const before = this.closeMessage() + this.closeWholeCall()
    const call = { ...this.open(mintId('fc'), ''), callId, own, done: false }
    this.calls[index] = call
    return before + this.itemEvent('added', call, callItemJson(call.id, 'in_progress', '', callId, own))
  }

  private argumentsDelta(index: number, json: string): string {
    const call = this.calls[index]
    if (call === undefined || json === '') return ''
    if (call.done) {
      if (json.trim() === '') return ''
      throw new Fault('broken', 'arguments of a tool call go on behind their end')
    }
    const inside = jsonInside(json)
    this.hold(inside)
    call.inside += inside
    return `${ARGUMENTS_DELTA}${this.sequence++}${call.middle}${inside}"}\n\n`
  }

  private closeCall(call: OpenCall, index: number): string {
    // A call without arguments is `{}`; what is done must equal the deltas.
    const before = call.inside === '' ? this.argumentsDelta(index, '{}') : ''
    call.done = true
    const { id, outputIndex, inside, callId, own } = call
    const place = `"item_id":"${id}","output_index":${outputIndex}`
    const done = `${place},"name":"${jsonInside(own.name)}","arguments":"${inside}"`
    return (
      before +
      this.event('response.function_call_arguments.done', done) +
      this.done(call, callItemJson(id, 'completed', inside, callId, own))
    )
  }

  /**
   * Closes the latest call where its arguments are whole: providers do not say when they are, but the next item shows that they may be.
   * Where they are not, its deltas interleave with those of the next item and it stays open until the finish.
   */
  private closeWholeCall(): string {
    const index = this.calls.length - 1
    const call = this.calls[index]
    return call !== undefined && !call.done && isWhole(call.inside) ? this.closeCall(call, index) : ''
  }

  /** What is still open is done, in the order in which it was added: an open message was added last. An answer without anything is one empty message. */
  private finish(): string {
    const empty = this.items === 0 ? this.openMessage() : ''
    const calls = this.calls.map((call, index) => (call.done ? '' : this.closeCall(call, index)))
    return empty + calls.join('') + this.closeMessage()
  }

  private complete(): string {
    if (this.sent !== undefined) {
      const items: JsonValue = JSON.parse(`[${this.output.join()}]`)
      if (isArray(items)) this.sent(items.filter(isObject))
    }
    return this.event('response.completed', `"response":${this.resource.completedJson(this.output, this.usage)}`)
  }

  private open(id: string, place: string): OpenItem {
    const outputIndex = this.items++
    return { id, outputIndex, middle: `,"item_id":"${id}","output_index":${outputIndex},${place}"delta":"`, inside: '' }
  }

  private done(item: OpenItem, json: string): string {
    this.output[item.outputIndex] = json
    return this.itemEvent('done', item, json)
  }

  private itemEvent(what: 'added' | 'done', item: OpenItem, json: string): string {
    return this.event(`response.output_item.${what}`, `"output_index":${item.outputIndex},"item":${json}`)
  }

  private event(name: string, members: string): string {
    return `${opening(name)}${this.sequence++},${members}}\n\n`
  }

  private hold(inside: string): void {
    this.chars += inside.length
    if (this.chars > ANSWER_CHARS_MAX)
      throw new Fault('broken', `the answer is longer than ${ANSWER_CHARS_MAX} characters`)
  }
}

/** An event up to its sequence number. */
function opening(name: string): string {
  return `event: ${name}\ndata: {"type":"${name}","sequence_number":`
}

/** Whether arguments, as the inside of a JSON string, are a whole JSON object. */
function isWhole(inside: string): boolean {
  if (!inside.endsWith('}')) return false
  const json: string = JSON.parse(`"${inside}"`)
  try {
    JSON.parse(json)
    return true
  } catch {
    // Not whole yet: which is what was asked.
    return false
  }
}
