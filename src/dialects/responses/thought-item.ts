/** An item of reasoning of a Responses stream, whose words are the parts of a summary. */

import type { TextForm } from '../../wire/text-copier.ts'
import { summaryPartJson } from './answer.ts'
import { opening } from './event-text.ts'
import { GrowingText } from './growing-text.ts'

const PART_ADDED = opening('response.reasoning_summary_part.added')
const DELTA = opening('response.reasoning_summary_text.delta')
const DELTA_END = '"}\n\n'
const TEXT_DONE = opening('response.reasoning_summary_text.done')
const PART_DONE = opening('response.reasoning_summary_part.done')

export class ThoughtItem {
  readonly kind = 'thought'
  /** The parts before the one that is open. */
  readonly parts: string[] = []
  part: GrowingText | undefined
  seal = ''
  isWhole = false

  constructor(
    readonly id: string,
    readonly outputIndex: number,
    /** An event with the next number: its text up to the number, and its further members. */
    private readonly event: (opening: string, members: string) => string,
  ) {}

  /** Further words, as the inside of a JSON string; `isNewPart`: they begin a part. */
  delta(inside: string, isNewPart: boolean): string {
    let events = isNewPart ? this.endPart() : ''
    if (this.part === undefined) {
      this.part = new GrowingText()
      events += this.event(PART_ADDED, `${this.place},"part":${summaryPartJson('')}`)
    }
    this.part.add(inside)
    return events + this.event(DELTA, `${this.place},"delta":"${inside}"`)
  }

  /** How `delta` writes the next words, whose first event has this number; undefined if a part begins with them. */
  form(number: number): TextForm | undefined {
    if (this.part === undefined) return undefined
    const middle = `,${this.place},"delta":"`
    return { opening: DELTA + number + middle, seam: DELTA_END + DELTA, number, middle, closing: DELTA_END }
  }

  endPart(): string {
    if (this.part === undefined) return ''
    const inside = this.part.whole()
    const { place } = this
    this.part = undefined
    this.parts.push(inside)
    return (
      this.event(TEXT_DONE, `${place},"text":"${inside}"`) +
      this.event(PART_DONE, `${place},"part":${summaryPartJson(inside)}`)
    )
  }

  private get place(): string {
    return `"item_id":"${this.id}","output_index":${this.outputIndex},"summary_index":${this.parts.length}`
  }
}
