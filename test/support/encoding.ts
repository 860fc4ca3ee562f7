/**
 * A dialect's encoder driven as in the gateway: a decoder's events in, checked as the gateway checks them, the caller's
 * stream out.
 */

import type { FinishReason, StreamEvent } from '../../src/core/event.ts'
import { mergeUsage, type Usage } from '../../src/core/token-usage.ts'
import type { Exchange, Served, StreamEncoder, StreamMeter } from '../../src/dialects/dialect.ts'
import { EventCheck, type EventSink } from '../../src/gateway/event-check.ts'

/** The events after the gateway's check. */
export function checked(events: readonly StreamEvent[]): StreamEvent[] {
  const passed: StreamEvent[] = []
  const check = new EventCheck({ event: (event) => passed.push(event), texts: () => {} }, undefined)
  for (const event of events) check.event(event)
  return passed
}

export class Encoding implements EventSink {
  readonly encoder: StreamEncoder
  private readonly check = new EventCheck(this, undefined)
  private hasStarted = false
  private out = ''
  private usage: Usage = {}
  private hasFinished = false
  private reason: FinishReason = 'stop'

  constructor(make: (meter: StreamMeter) => StreamEncoder) {
    const usage = () => this.usage
    this.encoder = make({
      get soFar() {
        return usage()
      },
    })
  }

  /** The encoder for the answer to an accepted body. */
  static of(exchange: Pick<Exchange, 'encoder'>, served: Served): Encoding {
    return new Encoding((meter) => exchange.encoder(served, meter))
  }

  /** The caller's bytes for this event. A missing `start` is inserted before the first. */
  add(event: StreamEvent): string {
    this.out = ''
    if (!this.hasStarted && event.type !== 'start') this.check.event({ type: 'start' })
    this.hasStarted = true
    this.check.event(event)
    return this.out
  }

  addAll(events: readonly StreamEvent[]): string {
    return events.map((event) => this.add(event)).join('')
  }

  /** The caller's bytes for copied texts, given as the insides of JSON strings. */
  copy(insides: readonly string[]): string {
    this.out = ''
    if (!this.hasStarted) this.check.event({ type: 'start' })
    this.hasStarted = true
    this.check.texts(insides, insides.join(''), 'text')
    return this.out
  }

  /** Used by the check only. */
  texts(insides: readonly string[], joined: string): void {
    this.out += this.encoder.encodeTexts(insides, joined)
  }

  /** Used by the check only. */
  event(event: StreamEvent): void {
    switch (event.type) {
      case 'start':
        this.out += this.encoder.start()
        return
      case 'reasoning':
      case 'thought':
        return
      case 'own':
        this.out += this.encoder.own?.(event, this.hasFinished) ?? ''
        return
      case 'usage':
        this.usage = mergeUsage(this.usage, event.usage)
        return
      case 'finish':
        this.reason = event.reason
        this.hasFinished = true
        return
      case 'end':
        this.out += this.encoder.end(this.reason, this.usage)
        return
      default:
        this.out += this.encoder.encode(event)
    }
  }
}

/**
 * Whether the text of an event may be copied. One with half a character is always decoded, because the other half may
 * be in the next one.
 */
export function canBeCopied(event: StreamEvent): event is Extract<StreamEvent, { type: 'text' }> {
  return event.type === 'text' && event.text.isWellFormed()
}
