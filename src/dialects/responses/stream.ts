/**
 * Canonical events → the Responses stream. What does not change from event to event is serialised once for each item.
 */

import type { Compatibility } from '../../core/compatibility.ts'
import type { ContentEvent, FinishReason } from '../../core/event.ts'
import { ProviderError } from '../../core/provider-error.ts'
import type { Usage } from '../../core/token-usage.ts'
import type { ItemText } from '../../items/item-store.ts'
import { joined, jsonInside, KEEP_ALIVE_COMMENT } from '../../wire/sse.ts'
import type { TextForm } from '../../wire/text-copier.ts'
import { mintId } from '../answer-ids.ts'
import type { StreamEncoder } from '../dialect.ts'
import { callItemJson, messageItemJson, textPartJson } from './answer.ts'
import { GrowingText } from './growing-text.ts'
import { COMPLETED, type Ending, endingOf, type Resource } from './resource.ts'
import type { OwnName, Toolbox } from './toolbox.ts'

/**
 * The longest answer, in UTF-16 units of JSON; a longer one is cut. It is kept, because the closing events repeat it.
 */
const ANSWER_CHARS_MAX = 16 * 1024 * 1024

/** Of an answer for which no provider was asked. */
const NO_USAGE: Usage = { input: 0, output: 0 }
// Each event up to its sequence number.
const CREATED = opening('response.created')
const IN_PROGRESS = opening('response.in_progress')
const FAILED = opening('response.failed')
const ITEM_ADDED = opening('response.output_item.added')
const PART_ADDED = opening('response.content_part.added')
const TEXT_DELTA = opening('response.output_text.delta')
const TEXT_DONE = opening('response.output_text.done')
const PART_DONE = opening('response.content_part.done')
const ARGUMENTS_DELTA = opening('response.function_call_arguments.delta')
const ARGUMENTS_DONE = opening('response.function_call_arguments.done')
const ITEM_DONE = opening('response.output_item.done')
const LAST = { completed: opening('response.completed'), incomplete: opening('response.incomplete') } as const
const TEXT_DELTA_END = '","logprobs":[]}\n\n'
/** The end of a delta, and the next one up to its number. */
const SEAM = joined(TEXT_DELTA_END, TEXT_DELTA)
/** A delta up to and including its sequence number, which most streams repeat. */
const numberedDeltas: string[] = []
const NUMBERED_DELTAS_MAX = 1024

/** The encoder of a turn on a socket, whose connection goes on after it. */
export interface TurnEncoder extends StreamEncoder {
  readonly responseId: string
  /** That the turn goes on: an event for callers that count messages. */
  inProgress(): string
  /** The last event of a turn that broke off, with its number: of the events before, not all were sent. */
  failed(number: number, code: string, message: string): string
}

/** An item that was added and is not done. */
interface OpenItem {
  readonly id: string
  readonly outputIndex: number
  /** A delta between its sequence number and its text. */
  readonly middle: string
  /** The text of all deltas, as the inside of a JSON string. */
  readonly inside: GrowingText
}

interface OpenCall extends OpenItem {
  readonly callId: string
  /** The name under which the caller defined the tool. */
  readonly own: OwnName
  /** True once its arguments are whole: it is done as soon as the items before it are. */
  isWhole: boolean
}

/**
 * The one message stays open to the end of the answer: text after a call continues it, so that the output equals that
 * of a whole answer. Items are done in the order in which they were added, because agents build their history from
 * these events; so a call waits for the items before it. Deltas never wait, because every SDK accepts several open
 * items.
 */
export class ResponsesEncoder implements TurnEncoder {
  readonly keepAlive = KEEP_ALIVE_COMMENT
  private sequence = 0
  private items = 0
  private chars = 0
  private message: OpenItem | undefined
  /** In the order in which they were added, which is the index of their events. */
  private readonly calls: OpenCall[] = []
  /** The index of the first call that is not done. */
  private nextCall = 0
  private messageDone: ItemText | undefined
  private ending: Ending = COMPLETED
  private readonly callsDone: ItemText[] = []

  constructor(
    private readonly resource: Resource,
    private readonly toolbox: Toolbox,
    /** Stores the items of a whole answer, so that later requests can refer to them. */
    private readonly store: ((items: readonly ItemText[]) => void) | undefined,
    private readonly status: Compatibility['status'] = 'completed',
    /** For a turn on a socket, which also reports that it is in progress. */
    private readonly isTurn = false,
  ) {}

  get responseId(): string {
    return this.resource.id
  }

  inProgress(): string {
    return this.event(IN_PROGRESS, `"response":${this.resource.inProgressLine()}`)
  }

  failed(number: number, code: string, message: string): string {
    this.sequence = number
    return this.event(FAILED, `"response":${this.resource.failedLine(code, message)}`)
  }

  /**
   * Several texts at once, by one native join whose result is written as it is: with additions around it, it would be
   * copied once more. An empty text is no event.
   */
  encodeTexts(insides: readonly string[], joined: string): string {
    if (insides.length === 1 || insides.includes('')) {
      let deltas = ''
      for (const inside of insides) deltas += this.textDelta(inside)
      return deltas
    }
    this.countChars(joined)
    let before = ''
    let { message } = this
    if (message === undefined) {
      message = this.openMessage()
      before = this.messageAdded(message)
    }
    message.inside.add(joined)
    const { middle } = message
    const pieces = new Array<string>(4 * insides.length + 1)
    pieces[0] = before
    let at = 1
    for (const inside of insides) {
      pieces[at++] = deltaOpening(this.sequence++)
      pieces[at++] = middle
      pieces[at++] = inside
      pieces[at++] = TEXT_DELTA_END
    }
    return pieces.join('')
  }

  textForm(): TextForm | undefined {
    const { message, sequence } = this
    if (message === undefined) return undefined
    const { middle } = message
    return { opening: TEXT_DELTA + sequence + middle, seam: SEAM, number: sequence, middle, closing: TEXT_DELTA_END }
  }

  textsCopied(count: number, joined: string): void {
    this.countChars(joined)
    this.message?.inside.add(joined)
    this.sequence += count
  }

  start(): string {
    const created = this.event(CREATED, `"response":${this.resource.inProgressLine()}`)
    return this.isTurn ? created + this.inProgress() : created
  }

  encode(event: ContentEvent): string {
    switch (event.type) {
      case 'text':
      case 'refusal':
        return this.textDelta(jsonInside(event.text))
      case 'tool-start':
        return this.openCall(event.index, event.callId, this.toolbox.ownName(event.name))
      case 'tool-delta':
        return this.argumentsDelta(event.index, event.json, event.isLast === true)
    }
  }

  /** What is open at the end of an incomplete answer is incomplete, too. */
  end(reason: FinishReason, usage: Usage): string {
    this.ending = endingOf(reason, this.status)
    return this.closeAll() + this.complete(usage)
  }

  /** The end of an answer that has nothing, and for which no provider was asked. */
  endEmpty(): string {
    return this.event(LAST.completed, `"response":${this.resource.endedLine('', NO_USAGE, COMPLETED)}`)
  }

  /** Only the number and the text differ from one delta of a message to the next. */
  private textDelta(inside: string): string {
    if (inside === '') return ''
    this.countChars(inside)
    let before = ''
    let { message } = this
    if (message === undefined) {
      message = this.openMessage()
      before = this.messageAdded(message)
    }
    message.inside.add(inside)
    return before + deltaOpening(this.sequence++) + message.middle + inside + TEXT_DELTA_END
  }

  private openMessage(): OpenItem {
    const item = this.open(mintId('msg'), `"content_index":0,`)
    this.message = item
    return item
  }

  private messageAdded(item: OpenItem): string {
    const before = this.closeWholeCalls()
    const place = `"item_id":"${item.id}","output_index":${item.outputIndex},"content_index":0`
    const part = `${place},"part":${textPartJson('')}`
    const added = this.itemEvent(ITEM_ADDED, item.outputIndex, messageItemJson(item.id, 'in_progress', ''))
    return before + added + this.event(PART_ADDED, part)
  }

  private closeMessage(message: OpenItem): string {
    const { id, outputIndex } = message
    const inside = message.inside.whole()
    const place = `"item_id":"${id}","output_index":${outputIndex},"content_index":0`
    const part = textPartJson(inside)
    const json = messageItemJson(id, this.ending.status, part)
    this.messageDone = { id, json }
    return (
      this.event(TEXT_DONE, `${place},"text":"${inside}","logprobs":[]`) +
      this.event(PART_DONE, `${place},"part":${part}`) +
      this.itemEvent(ITEM_DONE, outputIndex, json)
    )
  }

  private openCall(index: number, callId: string, own: OwnName): string {
    const before = this.closeWholeCalls()
    const call = { ...this.open(mintId('fc'), ''), callId, own, isWhole: false }
    this.calls[index] = call
    return before + this.itemEvent(ITEM_ADDED, call.outputIndex, callItemJson(call.id, 'in_progress', '', callId, own))
  }

  private argumentsDelta(index: number, json: string, isLast: boolean): string {
    const call = this.calls[index]
    if (call === undefined) throw new Error(`arguments of call ${index} before its start`)
    if (json === '') return ''
    call.isWhole = isLast
    const inside = jsonInside(json)
    this.countChars(inside)
    call.inside.add(inside)
    return `${ARGUMENTS_DELTA}${this.sequence++}${call.middle}${inside}"}\n\n`
  }

  private closeCall(call: OpenCall): string {
    this.nextCall++
    const { id, outputIndex, callId, own } = call
    const inside = call.inside.whole()
    const place = `"item_id":"${id}","output_index":${outputIndex}`
    const arguments_ = `${place},"name":"${jsonInside(own.name)}","arguments":"${inside}"`
    const json = callItemJson(id, call.isWhole ? 'completed' : this.ending.status, inside, callId, own)
    this.callsDone.push({ id, json })
    return this.event(ARGUMENTS_DONE, arguments_) + this.itemEvent(ITEM_DONE, outputIndex, json)
  }

  /**
   * Closes the calls whose arguments are whole, up to the first item that is not. The deltas of a call that is not
   * whole interleave with those of the next item.
   */
  private closeWholeCalls(): string {
    let events = ''
    for (let call = this.nextOpen(); call?.isWhole === true; call = this.nextOpen()) events += this.closeCall(call)
    return events
  }

  /** The first open item if it is a call; undefined if it is the message, which stays open to the end. */
  private nextOpen(): OpenCall | undefined {
    const call = this.calls[this.nextCall]
    const isFirst = this.message === undefined || (call !== undefined && call.outputIndex < this.message.outputIndex)
    return isFirst ? call : undefined
  }

  /** Closes all open items in the order in which they were added. An answer without content has one empty message. */
  private closeAll(): string {
    let events = this.items === 0 ? this.messageAdded(this.openMessage()) : ''
    const closeCalls = () => {
      for (let call = this.nextOpen(); call !== undefined; call = this.nextOpen()) events += this.closeCall(call)
    }
    closeCalls()
    const { message } = this
    if (message === undefined) return events
    this.message = undefined
    events += this.closeMessage(message)
    closeCalls()
    return events
  }

  private complete(usage: Usage): string {
    // The order of a whole answer: the message, then the calls.
    const items = this.messageDone === undefined ? this.callsDone : [this.messageDone, ...this.callsDone]
    this.store?.(items)
    const output = items.map(({ json }) => json).join()
    return this.event(LAST[this.ending.status], `"response":${this.resource.endedLine(output, usage, this.ending)}`)
  }

  private open(id: string, place: string): OpenItem {
    const outputIndex = this.items++
    const middle = joined(',"item_id":"', id, `","output_index":${outputIndex},`, place, '"delta":"')
    return { id, outputIndex, middle, inside: new GrowingText() }
  }

  private itemEvent(opening: string, outputIndex: number, json: string): string {
    return this.event(opening, `"output_index":${outputIndex},"item":${json}`)
  }

  private event(opening: string, members: string): string {
    return `${opening}${this.sequence++},${members}}\n\n`
  }

  /** Throws `ProviderError` if the answer is too long. */
  private countChars(inside: string): void {
    this.chars += inside.length
    if (this.chars > ANSWER_CHARS_MAX)
      throw new ProviderError('broken', `the answer is longer than ${ANSWER_CHARS_MAX} characters`)
  }
}

/** A delta up to and including its sequence number. */
function deltaOpening(sequence: number): string {
  if (sequence >= NUMBERED_DELTAS_MAX) return TEXT_DELTA + sequence
  let opening = numberedDeltas[sequence]
  if (opening === undefined) {
    opening = joined(TEXT_DELTA, String(sequence))
    numberedDeltas[sequence] = opening
  }
  return opening
}

/** An event up to its sequence number. */
function opening(name: string): string {
  return joined('event: ', name, '\ndata: {"type":"', name, '","sequence_number":')
}
