/** Canonical events → the text of the caller's stream, which is kept until it is written. */

import type { StreamEvent } from '../core/event.ts'
import type { StreamEncoder } from '../dialects/dialect.ts'
import { decodedInside } from '../wire/sse.ts'
import type { TextKind } from '../wire/template.ts'
import type { EventOwner, TextCopier } from '../wire/text-copier.ts'
import type { EventSink } from './event-check.ts'
import type { UsageMeter } from './usage-meter.ts'

export class EncodeStream implements EventSink, EventOwner {
  /** What is encoded and not written yet: events in the copier's memory, if it is set, and the text after them. */
  private text = ''
  private copier: TextCopier | undefined
  /** True once there was an event that the caller sees as content. */
  hasContent = false
  private hasFinished = false
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
      case 'thought': {
        const shown = this.encoder.encodeThought?.(event) ?? ''
        if (shown === '') return
        this.text += shown
        break
      }
      case 'usage':
        return
      case 'finish':
        this.hasFinished = true
        return
      case 'own':
        this.text += this.encoder.own?.(event, this.hasFinished) ?? ''
        if (event.part !== 'block' && event.part !== 'delta') return
        break
      case 'end':
        // If the provider left a figure out, the caller gets our own count, never a made-up 0.
        this.text += this.encoder.end(this.meter.reason ?? 'stop', this.meter.count(true).usage, this.meter.own)
        break
      default:
        this.text += this.encoder.encode(event)
    }
    this.hasContent = true
  }

  get room(): number {
    return this.meter.room
  }

  texts(insides: readonly string[], joined: string, kind: TextKind): void {
    if (kind === 'text') {
      this.meter.addInsides(insides.length, joined)
      this.text += this.encoder.encodeTexts(insides, joined)
      return
    }
    this.meter.addThought(decodedInside(joined))
    const shown = this.encoder.encodeThoughts?.(insides, joined) ?? ''
    if (shown === '') return
    this.text += shown
    this.hasContent = true
  }

  copyTexts(copier: TextCopier, kind: TextKind): number {
    const form = kind === 'text' ? this.encoder.textForm?.() : this.encoder.thoughtForm?.()
    const count = form === undefined ? 0 : copier.copy(form, this.text, this)
    if (form === undefined || count === 0) return 0
    if (kind === 'text') this.meter.addInsides(count, copier.joined)
    else this.meter.addThought(decodedInside(copier.joined))
    this.encoder.textsCopied?.(count, copier.joined, kind)
    copier.keep(this, form)
    this.copier = copier
    this.text = ''
    return count
  }

  /** Another stream needs the copier's memory: its events go on as text. */
  displaced(events: string): void {
    this.copier = undefined
    this.text = events + this.text
  }

  /** True if nothing waits to be written. */
  get isEmpty(): boolean {
    return this.text === '' && this.copier === undefined
  }

  /** How many bytes wait. */
  get bytes(): number {
    return Buffer.byteLength(this.text) + (this.copier?.size ?? 0)
  }

  /**
   * What waits, to be written to the caller as it is. Bytes must be written or copied at once: their memory is that of
   * all streams.
   */
  take(): string | Uint8Array {
    const { text, copier } = this
    this.text = ''
    this.copier = undefined
    if (copier !== undefined) return copier.take(text)
    return text
  }
}
