/** A provider's bytes → canonical events, up to the provider's own final marker. The learnt text path is taken here and nowhere else. */

import type { StreamEvent } from '../core/event.ts'
import type { Provider } from '../providers/provider.ts'
import { Splice } from '../wire/splice.ts'
import type { EventSink } from './event-check.ts'

export class Feed {
  private readonly framer: ReturnType<Provider['framer']>
  private readonly decoder: ReturnType<Provider['decoder']>
  private readonly splice: Splice | undefined
  private whole = false

  constructor(
    provider: Pick<Provider, 'framer' | 'decoder'>,
    private readonly sink: EventSink,
    /** Off: every frame is decoded. The events are the same. */
    splice: 'spliced' | 'decoded' = 'spliced',
  ) {
    this.decoder = provider.decoder()
    if (splice === 'decoded') {
      this.framer = provider.framer()
      return
    }
    const learnt = new Splice((event, data) => onlyText(provider.decoder().decode(event, data)))
    const take = (insides: readonly string[]) => sink.texts(insides)
    this.splice = learnt
    this.framer = provider.framer((text, from) => (this.whole ? from : learnt.run(text, from, take)))
  }

  /** True once the provider's final marker was seen. What comes behind it is ignored. */
  get ended(): boolean {
    return this.whole
  }

  /** Throws `ProviderError`; the events before it have reached the sink. */
  push(chunk: Uint8Array): void {
    this.framer.push(chunk, this.frame)
  }

  /** The clean end of the bytes. Throws `ProviderError` `cut` where the answer is not whole. */
  close(): void {
    this.framer.close(this.frame)
    if (!this.whole) for (const event of this.decoder.close()) this.emit(event)
  }

  private readonly frame = (event: string, data: string): void => {
    if (this.whole) return
    const inside = this.splice?.match(event, data)
    if (inside !== undefined) return this.sink.texts([inside])
    this.splice?.forget()
    const events = this.decoder.decode(event, data)
    for (const each of events) this.emit(each)
    const text = onlyText(events)
    if (text !== undefined) this.splice?.learn(event, data, text)
  }

  private emit(event: StreamEvent): void {
    if (event.type === 'end') this.whole = true
    this.sink.event(event)
  }
}

/** The text of a frame that said this text and nothing else; that the stream has started goes without saying. */
function onlyText(events: readonly StreamEvent[]): string | undefined {
  let text: string | undefined
  for (const event of events) {
    if (event.type === 'start') continue
    if (event.type !== 'text' || event.logprobs !== undefined || text !== undefined) return undefined
    text = event.text
  }
  return text
}
