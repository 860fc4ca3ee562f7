/** The two sides of a stream, controlled by the test: a provider's call and a caller's socket. */

import { ProviderError } from '../../src/core/provider-error.ts'
import { HttpStream } from '../../src/gateway/caller-stream.ts'
import type { Pump, PumpOpener, StreamEnd } from '../../src/gateway/pump.ts'
import type { BodyReader } from '../../src/providers/body-readers.ts'
import { bytesOf } from '../support/bytes.ts'

/** A provider's call whose bytes come from the test. */
export class HandCall {
  readonly done: string[] = []
  private readonly chunks: (string | Uint8Array | undefined | ProviderError)[] = []
  private reader: BodyReader | undefined
  private isPaused = false

  /** `mayReadOn`: what it answers to a stream whose caller has left. */
  constructor(private readonly mayReadOn = true) {}

  give(...chunks: readonly (string | Uint8Array | undefined | ProviderError)[]): void {
    this.chunks.push(...chunks)
    this.deliver()
  }

  /** Gives them despite a pause: what a transport has read before it, or the end of a connection. */
  giveWhilePaused(...chunks: readonly (string | Uint8Array | undefined | ProviderError)[]): void {
    const { isPaused } = this
    this.isPaused = false
    this.give(...chunks)
    this.isPaused = isPaused
  }

  read(reader: BodyReader): void {
    this.reader = reader
    this.deliver()
  }

  readOn(): boolean {
    this.done.push('read on')
    return this.mayReadOn
  }

  pause(): void {
    this.done.push('pause')
    this.isPaused = true
  }

  resume(): void {
    this.done.push('resume')
    this.isPaused = false
    queueMicrotask(() => this.deliver())
  }

  release(): void {
    this.done.push('release')
    this.reader = undefined
  }

  abort(): void {
    this.done.push('abort')
    this.reader = undefined
  }

  private deliver(): void {
    while (this.chunks.length > 0 && this.reader !== undefined && !this.isPaused) {
      const chunk = this.chunks.shift()
      if (chunk instanceof ProviderError) this.reader.fail(chunk)
      else if (chunk === undefined) this.reader.end()
      else this.deliverBytes(this.reader, bytesOf(chunk))
    }
  }

  /** As a transport does: what the reader may take is a part of the bytes. */
  private deliverBytes(reader: BodyReader, chunk: Uint8Array): void {
    reader.data(Buffer.concat([Buffer.from('5\r\n'), chunk, Buffer.from('\r\n')]), 3, 3 + chunk.length)
  }
}

/** How a stream opens and ends, as promises. `opened` rejects with the error of a stream that did not open. */
export class Hearing implements PumpOpener {
  private readonly opening = Promise.withResolvers<void>()
  private readonly ending = Promise.withResolvers<StreamEnd>()

  constructor(private readonly pump: Pump) {}

  get open(): Promise<void> {
    return this.opening.promise
  }

  get ended(): Promise<StreamEnd> {
    return this.ending.promise
  }

  opened(): void {
    this.pump.relay({ growsAt: () => false, written: () => undefined }, { streamEnded: this.ending.resolve })
    this.opening.resolve()
  }

  fail(error: unknown): void {
    this.opening.reject(error)
  }
}

/** Opens a stream. */
export function opened(pump: Pump): Hearing {
  const hearing = new Hearing(pump)
  pump.open(hearing)
  return hearing
}

/** A caller's socket: full until the test lets it take what was written. */
export class HandSink {
  readonly writes: string[] = []
  /** What writes to it, once a pump is attached. */
  stream: HttpStream | undefined
  ended = false
  private full: PromiseWithResolvers<number> | undefined

  fill(): void {
    this.full = Promise.withResolvers<number>()
  }

  take(): void {
    this.full?.resolve(1)
    this.full = undefined
  }

  write(bytes: string | Uint8Array): number | Promise<number> {
    this.writes.push(typeof bytes === 'string' ? bytes : Buffer.from(bytes).toString())
    return this.full?.promise ?? bytes.length
  }

  flush(): number {
    return 0
  }

  end(): void {
    this.ended = true
  }

  get text(): string {
    return this.writes.join('')
  }
}

/** Attaches a caller over HTTP. Resolves when the stream is complete, and rejects if it is cut. */
export function attached(pump: Pump, sink: HandSink): Promise<void> {
  const stream = new HttpStream(sink)
  sink.stream = stream
  pump.attach(stream)
  return stream.ended
}
