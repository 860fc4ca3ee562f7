/**
 * Canonical events of a summary → the stream of a compaction, which has the sealed item at the end and nothing of the
 * summary before.
 */

import type { ContentEvent, FinishReason } from '../../core/event.ts'
import type { Usage } from '../../core/token-usage.ts'
import { jsonInside, KEEP_ALIVE_COMMENT } from '../../wire/sse.ts'
import type { TurnEncoder } from '../dialect.ts'
import { SUMMARY_CHARS_MAX, type SummaryAnswer } from './compaction.ts'
import { GrowingText } from './growing-text.ts'
import { COMPLETED, type Resource } from './resource.ts'

/** An escaped character takes at most six. Text beyond the limit of a summary is dropped. */
const INSIDE_CHARS_MAX = 6 * SUMMARY_CHARS_MAX

/** Gathers the text. Tool calls, which the model was not offered, are dropped. */
export class CompactionEncoder implements TurnEncoder {
  readonly keepAlive = KEEP_ALIVE_COMMENT
  private sequence = 0
  /** The inside of a JSON string. */
  private readonly inside = new GrowingText()
  private chars = 0
  private hasRefused = false

  constructor(
    private readonly resource: Resource,
    /** Seals the summary into the item to send, as JSON text. */
    private readonly seal: (answer: SummaryAnswer) => string,
  ) {}

  encodeTexts(insides: readonly string[]): string {
    for (const inside of insides) {
      if (this.chars >= INSIDE_CHARS_MAX) break
      this.inside.add(inside)
      this.chars += inside.length
    }
    return ''
  }

  get responseId(): string {
    return this.resource.id
  }

  start(): string {
    return this.lifecycle('response.created') + this.inProgress()
  }

  inProgress(): string {
    return this.lifecycle('response.in_progress')
  }

  failed(number: number, code: string, message: string): string {
    this.sequence = number
    return this.lifecycle('response.failed', this.resource.failedLine(code, message))
  }

  encode(event: ContentEvent): string {
    if (event.type === 'refusal' && event.text !== '') this.hasRefused = true
    return event.type === 'text' ? this.encodeTexts([jsonInside(event.text)]) : ''
  }

  end(reason: FinishReason, usage: Usage): string {
    const text: string = JSON.parse(`"${this.inside.whole()}"`)
    const item = this.seal({ text, hasRefused: this.hasRefused, reason })
    const added = this.item('response.output_item.added', item)
    const done = this.item('response.output_item.done', item)
    return added + done + this.lifecycle('response.completed', this.resource.endedLine(item, usage, COMPLETED))
  }

  private lifecycle(type: string, response: string = this.resource.inProgressLine()): string {
    return this.event(type, `"response":${response}`)
  }

  private item(type: string, item: string): string {
    return this.event(type, `"output_index":0,"item":${item}`)
  }

  private event(type: string, members: string): string {
    return `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.sequence++},${members}}\n\n`
  }
}
