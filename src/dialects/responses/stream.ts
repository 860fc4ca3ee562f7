/**
 * Canonical events → the Responses stream. What does not change from event to event is serialised once for each item.
 */

import type { Compatibility } from '../../core/compatibility.ts'
import type { ContentEvent, FinishReason, ThoughtEvent } from '../../core/event.ts'
import { ProviderError } from '../../core/provider-error.ts'
import type { Reasoning } from '../../core/reasoning.ts'
import type { Usage } from '../../core/token-usage.ts'
import type { ItemText } from '../../items/item-store.ts'
import { joined, jsonInside, KEEP_ALIVE_COMMENT } from '../../wire/sse.ts'
import type { TextKind } from '../../wire/template.ts'
import type { TextForm } from '../../wire/text-copier.ts'
import { mintId } from '../answer-ids.ts'
import type { StreamEncoder } from '../dialect.ts'
import { callItemJson, freeItemJson, messageItemJson, textPartJson, thoughtItemJson } from './answer.ts'
import {
  ARGUMENTS_DELTA,
  ARGUMENTS_DONE,
  CREATED,
  deltaOpening,
  FAILED,
  IN_PROGRESS,
  INPUT_DELTA,
  INPUT_DONE,
  ITEM_ADDED,
  ITEM_DONE,
  LAST,
  PART_ADDED,
  PART_DONE,
  SEAM,
  TEXT_DELTA,
  TEXT_DELTA_END,
  TEXT_DONE,
} from './event-text.ts'
import { FreeText } from './free-text.ts'
import { GrowingText } from './growing-text.ts'
import { COMPLETED, type Ending, endingOf, type Resource } from './resource.ts'
import { ThoughtItem } from './thought-item.ts'
import type { OwnName, Toolbox } from './toolbox.ts'

/**
 * The longest answer, in UTF-16 units of JSON; a longer one is cut. It is kept, because the closing events repeat it.
 */
const ANSWER_CHARS_MAX = 16 * 1024 * 1024

/** Of an answer for which no provider was asked. */
const NO_USAGE: Usage = { input: 0, output: 0 }

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
  readonly kind: 'call'
  readonly callId: string
  /** The name under which the caller defined the tool. */
  readonly own: OwnName
  /** Reads the text of a call whose tool takes one instead of arguments. */
  readonly free: FreeText | undefined
  /** True once its arguments are whole: it is done as soon as the items before it are. */
  isWhole: boolean
}

/** What an encoder writes besides an answer's text and calls. */
interface Variant {
  readonly status?: Compatibility['status']
  /** What the caller sees of thoughts; absent for nothing. */
  readonly shows?: Reasoning['shows'] | undefined
  /** For a turn on a socket, which also reports that it is in progress. */
  readonly isTurn?: boolean
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
  /** By the index of their events. */
  private readonly calls: OpenCall[] = []
  /** Calls and thoughts in the order in which they were added. */
  private readonly others: (OpenCall | ThoughtItem)[] = []
  /** The index of the first of them that is not done. */
  private nextOther = 0
  private messageDone: DoneItem | undefined
  private ending: Ending = COMPLETED
  private readonly othersDone: DoneItem[] = []
  private thought: ThoughtItem | undefined
  private hasThoughts = false
  private readonly status: Compatibility['status']

  constructor(
    private readonly resource: Resource,
    private readonly toolbox: Toolbox,
    /** Stores the items of a whole answer, so that later requests can refer to them. */
    private readonly store: ((items: readonly ItemText[]) => void) | undefined,
    private readonly variant: Variant = {},
  ) {
    this.status = variant.status ?? 'completed'
  }

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

  encodeThoughts(insides: readonly string[]): string {
    if (this.variant.shows?.texts !== true) return ''
    let deltas = ''
    for (const inside of insides) deltas += this.summaryDelta(inside)
    return deltas
  }

  thoughtForm(): TextForm | undefined {
    return this.thought?.form(this.sequence)
  }

  textsCopied(count: number, joined: string, kind: TextKind): void {
    this.countChars(joined)
    const written = kind === 'text' ? this.message?.inside : this.thought?.part
    written?.add(joined)
    this.sequence += count
  }

  start(): string {
    const created = this.event(CREATED, `"response":${this.resource.inProgressLine()}`)
    return this.variant.isTurn === true ? created + this.inProgress() : created
  }

  encode(event: ContentEvent): string {
    switch (event.type) {
      case 'text':
      case 'refusal':
        return this.textDelta(jsonInside(event.text))
      case 'tool-start':
        return this.openCall(event.index, event.callId, event.name)
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
    const before = this.closeWhole()
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
    this.messageDone = { id, json, outputIndex }
    return (
      this.event(TEXT_DONE, `${place},"text":"${inside}","logprobs":[]`) +
      this.event(PART_DONE, `${place},"part":${part}`) +
      this.itemEvent(ITEM_DONE, outputIndex, json)
    )
  }

  private openCall(index: number, callId: string, name: string): string {
    const before = this.closeWhole()
    const own = this.toolbox.ownName(name)
    const free = this.toolbox.takesText(name) ? new FreeText() : undefined
    const id = mintId(free === undefined ? 'fc' : 'ctc')
    const call = { kind: 'call' as const, ...this.open(id, ''), callId, own, free, isWhole: false }
    this.calls[index] = call
    this.others.push(call)
    const item = (free === undefined ? callItemJson : freeItemJson)(call.id, 'in_progress', '', callId, own)
    return before + this.itemEvent(ITEM_ADDED, call.outputIndex, item)
  }

  private argumentsDelta(index: number, json: string, isLast: boolean): string {
    const call = this.calls[index]
    if (call === undefined) throw new Error(`arguments of call ${index} before its start`)
    if (json === '') return ''
    call.isWhole = isLast
    const { free } = call
    const inside = free === undefined ? jsonInside(json) : free.add(json, isLast)
    if (inside === '') return ''
    this.countChars(inside)
    call.inside.add(inside)
    return `${free === undefined ? ARGUMENTS_DELTA : INPUT_DELTA}${this.sequence++}${call.middle}${inside}"}\n\n`
  }

  private closeCall(call: OpenCall): string {
    this.nextOther++
    const { id, outputIndex, callId, own } = call
    const inside = call.inside.whole()
    const place = `"item_id":"${id}","output_index":${outputIndex}`
    const status = call.isWhole ? 'completed' : this.ending.status
    if (call.free !== undefined) {
      const json = freeItemJson(id, status, inside, callId, own)
      this.othersDone.push({ id, json, outputIndex })
      const done = this.event(INPUT_DONE, `${place},"input":"${inside}"`)
      return done + this.itemEvent(ITEM_DONE, outputIndex, json)
    }
    const arguments_ = `${place},"name":"${jsonInside(own.name)}","arguments":"${inside}"`
    const json = callItemJson(id, status, inside, callId, own)
    this.othersDone.push({ id, json, outputIndex })
    return this.event(ARGUMENTS_DONE, arguments_) + this.itemEvent(ITEM_DONE, outputIndex, json)
  }

  /**
   * Closes the items that are whole, up to the first that is not. The deltas of a call that is not whole interleave
   * with those of the next item.
   */
  private closeWhole(): string {
    let events = ''
    for (let item = this.nextOpen(); item?.isWhole === true; item = this.nextOpen()) events += this.closeOther(item)
    return events
  }

  /** The first open item, unless it is the message, which stays open to the end. */
  private nextOpen(): OpenCall | ThoughtItem | undefined {
    const item = this.others[this.nextOther]
    const isFirst = this.message === undefined || (item !== undefined && item.outputIndex < this.message.outputIndex)
    return isFirst ? item : undefined
  }

  private closeOther(item: OpenCall | ThoughtItem): string {
    return item.kind === 'call' ? this.closeCall(item) : this.closeThought(item)
  }

  encodeThought(event: ThoughtEvent): string {
    const { shows } = this.variant
    if (shows === undefined) return ''
    if (event.type === 'reasoning') {
      if (!shows.texts || event.text === '') return ''
      return this.summaryDelta(jsonInside(event.text), event.isNewPart)
    }
    const { thought } = this
    if (thought === undefined && !event.seal) return ''
    const before = thought === undefined ? this.openThought() : ''
    const open = this.thought
    if (open === undefined) return before
    open.seal = event.seal ?? ''
    this.countChars(open.seal)
    open.isWhole = true
    this.thought = undefined
    return before + open.endPart() + this.closeWhole()
  }

  private openThought(): string {
    const before = this.closeWhole()
    const id = mintId('rs')
    const outputIndex = this.items++
    this.thought = new ThoughtItem(id, outputIndex, (opening, members) => this.event(opening, members))
    this.others.push(this.thought)
    this.hasThoughts = true
    return before + this.itemEvent(ITEM_ADDED, outputIndex, thoughtItemJson(id, [], ''))
  }

  private summaryDelta(inside: string, isNewPart = false): string {
    const before = this.thought === undefined ? this.openThought() : ''
    this.countChars(inside)
    return before + (this.thought?.delta(inside, isNewPart) ?? '')
  }

  private closeThought(thought: ThoughtItem): string {
    this.nextOther++
    const { id, outputIndex, parts, seal } = thought
    const end = thought.endPart()
    const json = thoughtItemJson(id, parts, seal)
    this.othersDone.push({ id, json, outputIndex })
    return end + this.itemEvent(ITEM_DONE, outputIndex, json)
  }

  /** Closes all open items in the order in which they were added. An answer without content has one empty message. */
  private closeAll(): string {
    const isEmpty = this.message === undefined && this.calls.length === 0
    let events = isEmpty ? this.messageAdded(this.openMessage()) : ''
    const closeOthers = () => {
      for (let item = this.nextOpen(); item !== undefined; item = this.nextOpen()) events += this.closeOther(item)
    }
    closeOthers()
    const { message } = this
    if (message === undefined) return events
    this.message = undefined
    events += this.closeMessage(message)
    closeOthers()
    return events
  }

  private complete(usage: Usage): string {
    // The order of a whole answer: the message, then the calls; with thoughts, that in which they began.
    const items = this.messageDone === undefined ? this.othersDone : [this.messageDone, ...this.othersDone]
    if (this.hasThoughts) items.sort((one, other) => one.outputIndex - other.outputIndex)
    this.store?.(items.map(({ id, json }) => ({ id, json })))
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

interface DoneItem extends ItemText {
  readonly outputIndex: number
}
