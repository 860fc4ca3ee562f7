/**
 * A provider's bytes → canonical events, up to the provider's own final marker. The only place that takes the learned
 * text path (`wire/splice.ts`).
 */

import type { StreamEvent } from '../core/event.ts'
import type { Provider } from '../providers/provider.ts'
import { Splice } from '../wire/splice.ts'
import type { EventSink } from './event-check.ts'

export class DecodeStream {
  private readonly framer: ReturnType<Provider['framer']>
  private readonly decoder: ReturnType<Provider['decoder']>
  private readonly splice: Splice | undefined
  private isComplete = false

  constructor(
    provider: Pick<Provider, 'framer' | 'decoder'>,
    private readonly sink: EventSink,
    /** `decoded`: every frame is decoded, none copied. The events are the same. */
    splice: 'spliced' | 'decoded' = 'spliced',
  ) {
    this.decoder = provider.decoder()
    if (splice === 'decoded') {
      this.framer = provider.framer()
      return
    }
    const learned = new Splice((event, data) => onlyText(provider.decoder().decode(event, data)))
    const take = (insides: readonly string[]) => sink.texts(insides)
    this.splice = learned
    this.framer = provider.framer((text, from) => (this.isComplete ? from : learned.run(text, from, take)))
  }

  /** True once the provider's final marker was read. What follows it is ignored. */
  get ended(): boolean {
    return this.isComplete
  }

  /** Throws `ProviderError`, after the events before the error have reached the sink. */
  push(chunk: Uint8Array): void {
    this.framer.push(chunk, this.frame)
  }

  /** The clean end of the bytes. Throws `ProviderError` `cut` if the answer is not complete. */
  close(): void {
    this.framer.close(this.frame)
    if (!this.isComplete) for (const event of this.decoder.close()) this.emit(event)
  }

  private readonly frame = (event: string, data: string): void => {
    if (this.isComplete) return
    const inside = this.splice?.match(event, data)
    if (inside !== undefined) return this.sink.texts([inside])
    this.splice?.forget()
    const events = this.decoder.decode(event, data)
    for (const each of events) this.emit(each)
    const text = onlyText(events)
    if (text !== undefined) this.splice?.learn(event, data, text)
  }

  private emit(event: StreamEvent): void {
    if (event.type === 'end') this.isComplete = true
    this.sink.event(event)
  }
}

/** The text of a frame that holds one text and nothing else; a `start` event does not count. */
function onlyText(events: readonly StreamEvent[]): string | undefined {
  let text: string | undefined
  for (const event of events) {
    if (event.type === 'start') continue
    if (event.type !== 'text' || event.logprobs !== undefined || text !== undefined) return undefined
    text = event.text
  }
  return text
}
