/** How the items of a Responses stream end: the last events of each, and what the whole answer has of them. */

import type { ItemText } from '../../items/item-store.ts'
import { jsonInside, jsonLine } from '../../wire/sse.ts'
import { callItemJson, type ItemStatus, messageItemJson, textPartJson, thoughtItemJson } from './answer.ts'
import { ARGUMENTS_DONE, INPUT_DONE, ITEM_DONE, PART_DONE, TEXT_DONE } from './event-text.ts'
import type { EventLines, OpenCall, OpenMessage, OpenOther } from './open-items.ts'
import type { ThoughtItem } from './thought-item.ts'

interface DoneItem extends ItemText {
  readonly outputIndex: number
}

export class DoneItems {
  private message: DoneItem | undefined
  private readonly others: DoneItem[] = []

  constructor(private readonly lines: EventLines) {}

  /** The events that end an item. `status`: of one that is not whole. */
  close(item: OpenOther, status: ItemStatus): string {
    switch (item.kind) {
      case 'call':
        return this.closeCall(item, item.isWhole ? 'completed' : status)
      case 'thought':
        return this.closeThought(item)
      case 'message':
        return this.closeMessage(item, status)
      case 'own': {
        const json = jsonLine(item.item)
        this.lines.countChars(json)
        return this.add(item, json)
      }
    }
  }

  /** In the order in which they began, or in that of a whole answer: the message, then the calls. */
  all(inOrder: boolean): readonly DoneItem[] {
    const items = this.message === undefined ? this.others : [this.message, ...this.others]
    return inOrder ? items.toSorted((one, other) => one.outputIndex - other.outputIndex) : items
  }

  private closeMessage(message: OpenMessage, status: ItemStatus): string {
    const { id, outputIndex, annotations, phase } = message
    const inside = message.inside.whole()
    const place = `"item_id":"${id}","output_index":${outputIndex},"content_index":0`
    const part = textPartJson(inside, annotations.join())
    const json = messageItemJson(id, status, part, phase)
    if (this.message !== undefined) this.others.push(this.message)
    this.message = { id, json, outputIndex }
    return (
      this.lines.event(TEXT_DONE, `${place},"text":"${inside}","logprobs":[]`) +
      this.lines.event(PART_DONE, `${place},"part":${part}`) +
      this.lines.itemEvent(ITEM_DONE, outputIndex, json)
    )
  }

  private closeCall(call: OpenCall, status: ItemStatus): string {
    const { id, outputIndex, callId, own } = call
    const inside = call.inside.whole()
    const place = `"item_id":"${id}","output_index":${outputIndex}`
    const isFree = call.free !== undefined
    const last = isFree
      ? this.lines.event(INPUT_DONE, `${place},"input":"${inside}"`)
      : this.lines.event(ARGUMENTS_DONE, `${place},"name":"${jsonInside(own.name)}","arguments":"${inside}"`)
    return last + this.add(call, callItemJson(isFree, { id, status }, inside, callId, own))
  }

  private closeThought(thought: ThoughtItem): string {
    const end = thought.endPart()
    return end + this.add(thought, thoughtItemJson(thought.id, thought.parts, thought.seal))
  }

  private add({ id, outputIndex }: OpenOther, json: string): string {
    this.others.push({ id, json, outputIndex })
    return this.lines.itemEvent(ITEM_DONE, outputIndex, json)
  }
}
