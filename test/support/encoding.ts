/** A dialect's encoder as the gateway drives it: canonical events in, the caller's stream out. */

import type { FinishReason, StreamEvent } from '../../src/core/event.ts'
import { mergeUsage, type Usage } from '../../src/core/token-usage.ts'
import type { Exchange, Served, StreamEncoder, StreamMeter } from '../../src/dialects/dialect.ts'

export class Encoding {
  readonly encoder: StreamEncoder
  private usage: Usage = {}
  private reason: FinishReason = 'stop'

  constructor(make: (meter: StreamMeter) => StreamEncoder) {
    const usage = () => this.usage
    this.encoder = make({
      get soFar() {
        return usage()
      },
    })
  }

  /** The encoder of an accepted body's answer. */
  static of(exchange: Pick<Exchange, 'encoder'>, served: Served): Encoding {
    return new Encoding((meter) => exchange.encoder(served, meter))
  }

  add(event: StreamEvent): string {
    switch (event.type) {
      case 'start':
        return this.encoder.start()
      case 'reasoning':
        return ''
      case 'usage':
        this.usage = mergeUsage(this.usage, event.usage)
        return ''
      case 'finish':
        this.reason = event.reason
        return ''
      case 'end':
        return this.encoder.end(this.reason, this.usage)
      default:
        return this.encoder.encode(event)
    }
  }

  addAll(events: readonly StreamEvent[]): string {
    return events.map((event) => this.add(event)).join('')
  }

  texts(insides: readonly string[]): string {
    return this.encoder.encodeTexts(insides)
  }
}
