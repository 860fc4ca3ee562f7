/** Canonical events → the text of the caller's stream, which is kept until it is written. */

import type { StreamEvent } from '../core/event.ts'
import type { StreamEncoder } from '../dialects/dialect.ts'
import type { EventSink } from './event-check.ts'
import type { UsageMeter } from './usage-meter.ts'

export class EncodeStream implements EventSink {
  /** What is encoded and not written yet. */
  private text = ''
  /** True once there was an event that the caller sees as content. */
  hasContent = false
  /** When the first event arrived (`performance.now()`). */
  firstEventMs: number | undefined

  constructor(
    private readonly encoder: StreamEncoder,
    private readonly meter: UsageMeter,
  ) {}

  /** Throws `ProviderError` for an answer without end: see `UsageMeter`. */
  event(event: StreamEvent): void {
    this.firstEventMs ??= performance.now()
    this.meter.add(event)
    switch (event.type) {
      case 'start':
        this.text += this.encoder.start()
        return
      case 'reasoning':
      case 'usage':
      case 'finish':
        return
      case 'end':
        // If the provider left a figure out, the caller gets our own count, never a made-up 0.
        this.text += this.encoder.end(this.meter.reason ?? 'stop', this.meter.count(true).usage)
        break
      default:
        this.text += this.encoder.encode(event)
    }
    this.hasContent = true
  }

  texts(insides: readonly string[], joined: string): void {
    this.meter.addInsides(insides.length, joined)
    this.text += this.encoder.encodeTexts(insides, joined)
  }

  /** True if nothing waits to be written. */
  get isEmpty(): boolean {
    return this.text === ''
  }

  /** The text so far, to be written to the caller as it is. */
  take(): string {
    const { text } = this
    this.text = ''
    return text
  }
}
