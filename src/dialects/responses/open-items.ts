/** The items of a Responses stream that were added: what is kept of each while it is open. */

import type { JsonObject, JsonValue } from '../../core/json.ts'
import type { OwnName } from '../../core/own-fields.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { joined, jsonLine } from '../../wire/sse.ts'
import type { FreeText } from '../free-text.ts'
import { opening } from './event-text.ts'
import { GrowingText } from './growing-text.ts'
import type { ThoughtItem } from './thought-item.ts'

/** An item that was added and is not done. */
interface OpenItem {
  readonly id: string
  readonly outputIndex: number
  /** A delta between its sequence number and its text. */
  readonly middle: string
  /** The text of all deltas, as the inside of a JSON string. */
  readonly inside: GrowingText
}

export interface OpenCall extends OpenItem {
  readonly kind: 'call'
  readonly callId: string
  /** The name under which the caller defined the tool. */
  readonly own: OwnName
  /** Reads the text of a call whose tool takes one instead of arguments. */
  readonly free: FreeText | undefined
  /** True once its arguments are whole: it is done as soon as the items before it are. */
  isWhole: boolean
}

export interface OpenMessage extends OpenItem {
  readonly kind: 'message'
  /** The JSON of each annotation of its text. */
  readonly annotations: string[]
  readonly phase: string | undefined
  isWhole: true
}

/** An item of OpenAI's own tools. */
export interface OpenOwn extends Pick<OpenItem, 'id' | 'outputIndex'> {
  readonly kind: 'own'
  item: JsonObject
  isWhole: boolean
}

export type OpenOther = OpenCall | ThoughtItem | OpenMessage | OpenOwn

/** An item that begins. `place`: more of where its deltas belong. */
export function openItem(id: string, outputIndex: number, place: string): OpenItem {
  const middle = joined(',"item_id":"', id, `","output_index":${outputIndex},`, place, '"delta":"')
  return { id, outputIndex, middle, inside: new GrowingText() }
}

/**
 * The longest answer, in UTF-16 units of JSON; a longer one is cut. It is kept, because the closing events repeat it.
 */
const ANSWER_CHARS_MAX = 16 * 1024 * 1024

/** The numbered events of one stream. */
export class EventLines {
  sequence = 0
  private chars = 0

  /** `opening`: an event up to its number. */
  event(opening: string, members: string): string {
    return `${opening}${this.sequence++},${members}}\n\n`
  }

  itemEvent(opening: string, outputIndex: number, json: string): string {
    return this.event(opening, `"output_index":${outputIndex},"item":${json}`)
  }

  /** Throws `ProviderError` if the answer is too long. */
  countChars(inside: string): void {
    this.chars += inside.length
    if (this.chars > ANSWER_CHARS_MAX)
      throw new ProviderError('broken', `the answer is longer than ${ANSWER_CHARS_MAX} characters`)
  }
}

const ANNOTATED = opening('response.output_text.annotation.added')

/** An annotation of the text so far. */
export function annotated(lines: EventLines, message: OpenMessage, annotation: JsonValue | undefined): string {
  if (annotation === undefined) return ''
  const json = jsonLine(annotation)
  lines.countChars(json)
  const index = message.annotations.push(json) - 1
  const place = `"item_id":"${message.id}","output_index":${message.outputIndex},"content_index":0`
  return lines.event(ANNOTATED, `${place},"annotation_index":${index},"annotation":${json}`)
}

/** The members of an event of an item of OpenAI's own tools. */
export function ownMembers({ outputIndex }: OpenOwn, value: JsonObject): string {
  return jsonLine({ output_index: outputIndex, ...value }).slice(1, -1)
}
