/**
 * Canonical events → the Responses stream. What does not change from event to event is serialised once for each item.
 */

import type { Compatibility } from '../../core/compatibility.ts'
import type { ContentEvent, FinishReason, OwnEvent, ThoughtEvent } from '../../core/event.ts'
import { type JsonObject, stringOf } from '../../core/json.ts'
import type { Reasoning } from '../../core/reasoning.ts'
import type { Usage } from '../../core/token-usage.ts'
import type { ItemText } from '../../items/item-store.ts'
import { jsonInside, jsonLine, KEEP_ALIVE_COMMENT } from '../../wire/sse.ts'
import type { TextKind } from '../../wire/template.ts'
import type { TextForm } from '../../wire/text-copier.ts'
import { mintId } from '../answer-ids.ts'
import type { TurnEncoder } from '../dialect.ts'
import { FreeText } from '../free-text.ts'
import { callItemJson, messageItemJson, textPartJson, thoughtItemJson } from './answer.ts'
import { DoneItems } from './done-items.ts'
import {
  ARGUMENTS_DELTA,
  CREATED,
  deltaOpening,
  FAILED,
  IN_PROGRESS,
  INPUT_DELTA,
  ITEM_ADDED,
  LAST,
  opening,
  PART_ADDED,
  SEAM,
  TEXT_DELTA,
  TEXT_DELTA_END,
} from './event-text.ts'
import {
  annotated,
  EventLines,
  type OpenCall,
  type OpenMessage,
  type OpenOther,
  type OpenOwn,
  openItem,
  ownMembers,
} from './open-items.ts'
import { COMPLETED, type Ending, endingOf, type Resource } from './resource.ts'
import { ThoughtItem } from './thought-item.ts'
import type { Toolbox } from './toolbox.ts'

/** Of an answer for which no provider was asked. */
const NO_USAGE: Usage = { input: 0, output: 0 }

type ToolStart = Extract<ContentEvent, { type: 'tool-start' }>

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
  private readonly lines = new EventLines()
  private readonly done = new DoneItems(this.lines)
  private items = 0
  private message: OpenMessage | undefined
  private hasMessage = false
  /** That of the message which comes next. */
  private phase: string | undefined
  /** By the index of their events. */
  private readonly calls: OpenCall[] = []
  /** Calls and thoughts in the order in which they were added. */
  private readonly others: OpenOther[] = []
  /** The index of the first of them that is not done. */
  private nextOther = 0
  private ending: Ending = COMPLETED
  private thought: ThoughtItem | undefined
  /** Items are in the order in which they began. */
  private hasOrder = false
  /** By the index of their events. */
  private readonly ownItems = new Map<number, OpenOwn>()
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
    return this.lines.event(IN_PROGRESS, `"response":${this.resource.inProgressLine()}`)
  }

  failed(number: number, code: string, message: string): string {
    this.lines.sequence = number
    return this.lines.event(FAILED, `"response":${this.resource.failedLine(code, message)}`)
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
    this.lines.countChars(joined)
    const isNew = this.message === undefined
    const message = this.message ?? this.openMessage()
    const before = isNew ? this.messageAdded(message) : ''
    message.inside.add(joined)
    const { middle } = message
    const pieces = new Array<string>(4 * insides.length + 1)
    pieces[0] = before
    let at = 1
    for (const inside of insides) {
      pieces[at++] = deltaOpening(this.lines.sequence++)
      pieces[at++] = middle
      pieces[at++] = inside
      pieces[at++] = TEXT_DELTA_END
    }
    return pieces.join('')
  }

  /** None for a turn: each of its events becomes a frame of text, so that bytes would be decoded again. */
  textForm(): TextForm | undefined {
    const { message } = this
    const { sequence } = this.lines
    if (message === undefined || this.variant.isTurn === true) return undefined
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
    return this.variant.isTurn === true ? undefined : this.thought?.form(this.lines.sequence)
  }

  textsCopied(count: number, joined: string, kind: TextKind): void {
    this.lines.countChars(joined)
    const written = kind === 'text' ? this.message?.inside : this.thought?.part
    written?.add(joined)
    this.lines.sequence += count
  }

  start(): string {
    const line = `"response":${this.resource.inProgressLine()}`
    const created = this.lines.event(CREATED, line)
    return this.variant.isTurn === true ? created + this.lines.event(IN_PROGRESS, line) : created
  }

  encode(event: ContentEvent): string {
    switch (event.type) {
      case 'text':
      case 'refusal':
        return this.textDelta(jsonInside(event.text))
      case 'tool-start':
        return this.openCall(event)
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
    return this.lines.event(LAST.completed, `"response":${this.resource.endedLine('', NO_USAGE, COMPLETED)}`)
  }

  /** Only the number and the text differ from one delta of a message to the next. */
  private textDelta(inside: string): string {
    if (inside === '') return ''
    this.lines.countChars(inside)
    const isNew = this.message === undefined
    const message = this.message ?? this.openMessage()
    const before = isNew ? this.messageAdded(message) : ''
    message.inside.add(inside)
    return before + deltaOpening(this.lines.sequence++) + message.middle + inside + TEXT_DELTA_END
  }

  private openMessage(): OpenMessage {
    const item = openItem(mintId('msg'), this.items++, `"content_index":0,`)
    this.hasMessage = true
    this.message = { kind: 'message', ...item, annotations: [], phase: this.phase, isWhole: true }
    return this.message
  }

  private messageAdded(item: OpenMessage): string {
    const before = this.closeWhole()
    const place = `"item_id":"${item.id}","output_index":${item.outputIndex},"content_index":0`
    const part = `${place},"part":${textPartJson('')}`
    const json = messageItemJson(item.id, 'in_progress', '', item.phase)
    const added = this.lines.itemEvent(ITEM_ADDED, item.outputIndex, json)
    return before + added + this.lines.event(PART_ADDED, part)
  }

  private openCall({ index, callId, name, own: members }: ToolStart): string {
    const before = this.closeWhole()
    const own = this.toolbox.ownName(name, members)
    const free = this.toolbox.takesText(name) ? new FreeText() : undefined
    const id = mintId(free === undefined ? 'fc' : 'ctc')
    const call = { kind: 'call' as const, ...openItem(id, this.items++, ''), callId, own, free, isWhole: false }
    this.calls[index] = call
    this.others.push(call)
    const item = callItemJson(free !== undefined, { id, status: 'in_progress' }, '', callId, own)
    return before + this.lines.itemEvent(ITEM_ADDED, call.outputIndex, item)
  }

  private argumentsDelta(index: number, json: string, isLast: boolean): string {
    const call = this.calls[index]
    if (call === undefined) throw new Error(`arguments of call ${index} before its start`)
    if (json === '') return ''
    call.isWhole = isLast
    const { free } = call
    const inside = free === undefined ? jsonInside(json) : free.add(json, isLast)
    if (inside === '') return ''
    this.lines.countChars(inside)
    call.inside.add(inside)
    return `${free === undefined ? ARGUMENTS_DELTA : INPUT_DELTA}${this.lines.sequence++}${call.middle}${inside}"}\n\n`
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
  private nextOpen(): OpenOther | undefined {
    const item = this.others[this.nextOther]
    const isFirst = this.message === undefined || (item !== undefined && item.outputIndex < this.message.outputIndex)
    return isFirst ? item : undefined
  }

  private closeOther(item: OpenOther): string {
    this.nextOther++
    return this.done.close(item, this.ending.status)
  }

  /** What OpenAI's own tools did, for callers whose operator lets it pass. */
  own({ part, value, index, name }: OwnEvent): string {
    const open = index === undefined ? undefined : this.ownItems.get(index)
    switch (part) {
      case 'block':
        return this.beginOwn(index ?? 0, value)
      case 'delta':
        if (index === undefined)
          return this.message === undefined ? '' : annotated(this.lines, this.message, value['annotation'])
        return open === undefined || name === undefined ? '' : this.lines.event(opening(name), ownMembers(open, value))
      case 'stop':
        if (open === undefined) return ''
        open.item = value
        open.isWhole = true
        return this.closeWhole()
      case 'text':
        this.phase = stringOf(value['phase'])
        return this.endMessage()
      default:
        return ''
    }
  }

  private beginOwn(index: number, item: JsonObject): string {
    const before = this.endMessage() + this.closeWhole()
    const id = stringOf(item['id']) ?? ''
    const open: OpenOwn = { kind: 'own', id, outputIndex: this.items++, item, isWhole: false }
    this.ownItems.set(index, open)
    this.others.push(open)
    this.hasOrder = true
    return before + this.lines.itemEvent(ITEM_ADDED, open.outputIndex, jsonLine(item))
  }

  /** The text that follows is a message of its own. */
  private endMessage(): string {
    const { message } = this
    if (message === undefined) return ''
    this.message = undefined
    this.hasOrder = true
    const after = this.others.findIndex(({ outputIndex }) => outputIndex > message.outputIndex)
    this.others.splice(after === -1 ? this.others.length : after, 0, message)
    return this.closeWhole()
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
    this.lines.countChars(open.seal)
    open.isWhole = true
    this.thought = undefined
    return before + open.endPart() + this.closeWhole()
  }

  private openThought(): string {
    const before = this.closeWhole()
    const id = mintId('rs')
    const outputIndex = this.items++
    this.thought = new ThoughtItem(id, outputIndex, (opening, members) => this.lines.event(opening, members))
    this.others.push(this.thought)
    this.hasOrder = true
    return before + this.lines.itemEvent(ITEM_ADDED, outputIndex, thoughtItemJson(id, [], ''))
  }

  private summaryDelta(inside: string, isNewPart = false): string {
    const before = this.thought === undefined ? this.openThought() : ''
    this.lines.countChars(inside)
    return before + (this.thought?.delta(inside, isNewPart) ?? '')
  }

  /** Closes all open items in the order in which they were added. An answer without content has one empty message. */
  private closeAll(): string {
    const isEmpty = !this.hasMessage && this.calls.length === 0 && this.ownItems.size === 0
    let events = isEmpty ? this.messageAdded(this.openMessage()) : ''
    const closeOthers = () => {
      for (let item = this.nextOpen(); item !== undefined; item = this.nextOpen()) events += this.closeOther(item)
    }
    closeOthers()
    const { message } = this
    if (message === undefined) return events
    this.message = undefined
    events += this.done.close(message, this.ending.status)
    closeOthers()
    return events
  }

  private complete(usage: Usage): string {
    const items = this.done.all(this.hasOrder)
    this.store?.(items.map(({ id, json }) => ({ id, json })))
    const output = items.map(({ json }) => json).join()
    return this.lines.event(
      LAST[this.ending.status],
      `"response":${this.resource.endedLine(output, usage, this.ending)}`,
    )
  }
}
