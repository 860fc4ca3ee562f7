/**
 * A provider's bytes → canonical events, up to the provider's own final marker. The only place that takes the learned
 * text path (`wire/splice.ts`).
 */

import type { StreamEvent } from '../core/event.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { Usage } from '../core/token-usage.ts'
import type { Provider } from '../providers/provider.ts'
import { Shapes } from '../wire/shapes.ts'
import { Splice, type SpliceSink } from '../wire/splice.ts'
import { decodedInside } from '../wire/sse.ts'
import type { TextKind } from '../wire/template.ts'
import type { TextCopier } from '../wire/text-copier.ts'
import type { EventSink } from './event-check.ts'

type Decoding = Pick<Provider, 'framer' | 'decoder'>

/** The shapes of frames that were learned from the streams of each provider adapter. */
const shapesByAdapter = new WeakMap<Decoding, Shapes>()

function shapesOf(provider: Decoding): Shapes {
  const make = () => new Shapes((event, chunk) => provider.decoder().read(event, chunk))
  return shapesByAdapter.getOrInsertComputed(provider, make)
}

export class DecodeStream implements SpliceSink {
  private readonly framer: ReturnType<Provider['framer']>
  private readonly decoder: ReturnType<Provider['decoder']>
  private readonly splice: Splice | undefined
  /** The provider's final marker was read. What follows it is ignored. */
  ended = false

  constructor(
    provider: Decoding,
    private readonly sink: EventSink,
    /** `decoded`: every frame is decoded, none copied. The events are the same. */
    splice: 'spliced' | 'decoded' = 'spliced',
  ) {
    this.decoder = provider.decoder()
    if (splice === 'spliced') this.splice = new Splice(shapesOf(provider), this)
    this.framer = provider.framer(this.splice)
  }

  /** True if the answer ended without the provider's final marker, because weir has ended it. */
  get hasStopped(): boolean {
    return this.decoder.hasStopped === true
  }

  /** Takes a part of the chunk. Throws `ProviderError`, after the events before the error have reached the sink. */
  push(chunk: Uint8Array, from = 0, to: number = chunk.byteLength): void {
    this.framer.push(chunk, this.frame, from, to)
  }

  /** The clean end of the bytes. Throws `ProviderError` `cut` if the answer is not complete. */
  close(): void {
    this.framer.close(this.frame)
    if (!this.ended) for (const event of this.decoder.close()) this.emit(event)
  }

  /**
   * The bytes broke off. If nothing but their end is missing, the sink gets the finish of the answer after all: some
   * decoders give it only at the end, and then what the provider reported is all that it wrote.
   */
  breakOff(): void {
    try {
      this.close()
    } catch {
      // The answer is not whole.
    }
  }

  get room(): number {
    return this.sink.room ?? Number.POSITIVE_INFINITY
  }

  /** Copied by the splice. Nothing is copied after the final marker, because that is not a text. */
  texts(insides: readonly string[], joined: string, kind: TextKind): void {
    if (kind === 'reasoning') this.decoder.thoughtCopied?.(decodedInside(joined))
    this.sink.texts(insides, joined, kind)
  }

  /** As `texts`. */
  copyTexts(copier: TextCopier, kind: TextKind): number {
    const count = this.sink.copyTexts?.(copier, kind) ?? 0
    if (count > 0 && kind === 'reasoning') this.decoder.thoughtCopied?.(decodedInside(copier.joined))
    return count
  }

  /** Copied by the splice. */
  usage(usage: Usage): void {
    this.sink.event({ type: 'usage', usage })
  }

  private readonly frame = (event: string, data: string): void => {
    if (this.ended) return
    const events = this.decoded(event, data)
    for (const each of events) this.emit(each)
    this.splice?.learn(event, events)
  }

  /** Throws the provider's error, after the usage that came with it. */
  private decoded(event: string, data: string): readonly StreamEvent[] {
    try {
      return this.decoder.decode(event, data)
    } catch (error) {
      if (error instanceof ProviderError && error.detail.usage !== undefined) this.usage(error.detail.usage)
      throw error
    }
  }

  private emit(event: StreamEvent): void {
    if (event.type === 'end') this.ended = true
    this.sink.event(event)
  }
}
