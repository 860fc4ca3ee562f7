/**
 * One streamed answer: provider bytes → caller bytes, until the end, a cut or a cancel. A stream that ends in any other
 * way than by the provider's own final marker is cut abnormally, so that every SDK throws.
 */

import type { StreamEvent } from '../core/event.ts'
import { Pace, SLICE_BYTES } from '../core/event-loop.ts'
import { ProviderError } from '../core/provider-error.ts'
import { type Ticking, ticker } from '../core/ticker.ts'
import type { StreamEncoder } from '../dialects/dialect.ts'
import type { Outcome } from '../ledger/ledger.ts'
import type { Provider, UpstreamRequest } from '../providers/provider.ts'
import type { UpstreamCall } from '../providers/upstream.ts'
import { KEEP_ALIVE_COMMENT } from '../wire/sse.ts'
import { DecodeStream } from './decode-stream.ts'
import { EncodeStream } from './encode-stream.ts'
import { EventCheck } from './event-check.ts'
import type { Interruptible, Interruption } from './in-flight.ts'
import type { RequestReservation } from './reservation.ts'
import type { UsageMeter } from './usage-meter.ts'

/** Headers wait for the first content, but at most this long after the first valid event. */
const HOLD_MS = 5000
/** How often something is sent while the provider is silent. */
const KEEP_ALIVE_MS = 15_000
/** A caller that reads nothing for this long is cut. */
const STALL_MS = 120_000

/**
 * Between the last write and a cut. Bun resets the connection, which loses what Bun gathered in this turn (even after
 * its flush has resolved) and what the caller's host has not passed on yet: without this delay the last whole events,
 * and a head that was just written, are lost.
 */
const LAST_BYTES_MS = 100

/**
 * What Bun's direct streams give to `pull`. `flush(true)` resolves once the socket has taken the bytes: back-pressure.
 */
interface ByteSink {
  write(text: string): unknown
  flush(wait: true): unknown
  end(): unknown
}

/** The connection that a stream is written to. */
interface CallerConnection {
  /** Called just before a complete stream ends, while Bun still accepts a timeout for its connection. */
  limitSilence(): void
}

/** How a stream ended. */
interface StreamEnd {
  readonly outcome: Outcome
  /** What the provider did, if it was the provider that ended it. */
  readonly error?: ProviderError | undefined
  /** An error of our own, for the log: the stream was cut like any other. */
  readonly bug?: unknown
}

type Reason = Interruption | 'stalled' | 'refused'

/** `reading`: waiting for the provider. `writing`: waiting for the caller's socket. */
type State = 'reading' | 'working' | 'writing' | 'done'

/** At most one chunk of the provider's is held: the next is read when the caller's socket has taken it. */
export class Pump implements Interruptible, Ticking {
  private readonly opening = Promise.withResolvers<void>()
  private readonly ending = Promise.withResolvers<StreamEnd>()
  private readonly decoder: DecodeStream
  private readonly check: EventCheck
  private readonly encoded: EncodeStream
  private readonly pace = new Pace()
  private reservation: Pick<RequestReservation, 'written'> | undefined
  private sink: ByteSink | undefined
  private connection: CallerConnection | undefined
  private state: State = 'working'
  /** The headers may go out. */
  private isOpen = false
  /** Something was written to the caller. */
  private isHeadOut = false
  /** Everything is encoded, and waits to be written. */
  private isComplete = false
  private progressMs = performance.now()
  private interruption: Reason | undefined
  /** Ends the wait of `woken`, if there is one. */
  private wake: (() => void) | undefined

  constructor(
    private readonly call: Pick<UpstreamCall, 'read' | 'pause' | 'resume' | 'release' | 'abort'>,
    toolNames: UpstreamRequest['toolNames'],
    provider: Provider,
    private readonly encoder: StreamEncoder,
    private readonly meter: UsageMeter,
  ) {
    this.encoded = new EncodeStream(encoder, meter)
    this.check = new EventCheck(this.encoded, toolNames)
    this.decoder = new DecodeStream(provider, this.check)
  }

  /**
   * Starts to read. Resolves when the headers may go out; throws the `ProviderError` of a candidate that failed before.
   */
  open(): Promise<void> {
    ticker.add(this)
    void this.run()
    return this.opening.promise
  }

  /** Opens with a whole answer, which the provider sent although a stream was asked for. */
  openWhole(events: readonly StreamEvent[]): void {
    for (const event of events) this.check.event(event)
    this.release()
    ticker.add(this)
    void this.finish().catch((error: unknown) => this.fail(error))
  }

  /** Resolves, and never rejects, once nothing more will be written. */
  get ended(): Promise<StreamEnd> {
    return this.ending.promise
  }

  /** From here on the reservation grows with the output, and reading waits for it if the output has used it up. */
  growWith(reservation: Pick<RequestReservation, 'written'>): void {
    this.reservation = reservation
  }

  /** The source of the caller's stream; Bun calls `pull` once. It rejects to cut the stream. */
  async attach(sink: ByteSink, connection?: CallerConnection): Promise<void> {
    this.sink = sink
    this.connection = connection
    this.wake?.()
    if (this.state === 'reading') this.flushIdle()
    const { outcome } = await this.ending.promise
    if (outcome === 'completed') return
    if (outcome !== 'caller_left') {
      if (!this.isHeadOut) this.flushHead(sink)
      await Bun.sleep(LAST_BYTES_MS)
    }
    throw new Error('cut')
  }

  /**
   * Bun sends the head with the first bytes of the body: a connection cut before them looks like a failed one, and is
   * retried.
   */
  private flushHead(sink: ByteSink): void {
    sink.write(KEEP_ALIVE_COMMENT)
    void sink.flush(true)
  }

  /**
   * Instead of `attach`: the bytes of the whole stream, if all of it arrived before there was anyone to write to.
   * Undefined if `attach` is needed.
   */
  takeWhole(): string | undefined {
    if (!this.isComplete || this.interruption !== undefined) return undefined
    const whole = this.encoded.take()
    this.wake?.()
    return whole
  }

  /** Ends the stream from outside: the caller left or reads nothing, the process ends, or nothing more may be spent. */
  interrupt(why: Reason): void {
    if (this.state === 'done' || this.interruption !== undefined) return
    this.interruption = why
    this.wake?.()
    this.call.abort()
  }

  tick(nowMs: number): void {
    const { firstEventMs } = this.encoded
    if (!this.isOpen && firstEventMs !== undefined && nowMs - firstEventMs >= HOLD_MS) this.release()
    const idleMs = nowMs - this.progressMs
    if (this.state === 'writing' && idleMs >= STALL_MS) this.interrupt('stalled')
    if (this.state === 'reading' && this.isOpen && idleMs >= KEEP_ALIVE_MS) this.flushIdle()
  }

  private async run(): Promise<void> {
    try {
      while (!this.decoder.ended) {
        this.state = 'reading'
        const chunk = await this.call.read()
        this.state = 'working'
        if (chunk === undefined || this.pace.admits(chunk.length)) this.take(chunk)
        else await this.takeInSlices(chunk)
        const writing = this.write()
        if (writing !== undefined) await writing
        const growing = this.reservation?.written(this.meter.written)
        if (growing !== undefined) await growing
      }
      await this.finish()
    } catch (error) {
      await this.fail(error)
    }
  }

  /**
   * Bun gathers up to 768 KiB for one read when the caller is slower than the provider, and offers no smaller reads, so
   * one stream can hold more than 256 KiB. Decoding, encoding and writing a slice at a time keeps a stalled stream from
   * holding all of it three times.
   */
  private async takeInSlices(chunk: Uint8Array): Promise<void> {
    for (let at = 0; at < chunk.length && !this.decoder.ended && this.interruption === undefined; at += SLICE_BYTES) {
      const slice = chunk.subarray(at, at + SLICE_BYTES)
      await this.pace.turn(slice.length)
      this.take(slice)
      await this.write()
      await this.reservation?.written(this.meter.written)
    }
  }

  /** Takes a chunk, or the clean end. Events before an error in the same chunk are encoded. */
  private take(chunk: Uint8Array | undefined): void {
    try {
      if (chunk === undefined) this.decoder.close()
      else this.decoder.push(chunk)
    } finally {
      // A dialect may encode a finish only at the end: a provider that breaks off between them failed before the
      // content.
      if (!this.isOpen && this.encoded.hasContent && !this.encoded.isEmpty) this.release()
    }
  }

  private release(): void {
    this.isOpen = true
    this.opening.resolve()
    if (this.sink !== undefined && this.state === 'reading') this.flushIdle()
  }

  /**
   * One write for each chunk that was read; the last one is written with the end. Undefined if nothing must wait, which
   * is nearly always: then reading goes on in the same turn, and saves an await of 30 ns.
   */
  private write(): Promise<void> | undefined {
    if (!this.isOpen || this.encoded.isEmpty || this.decoder.ended) return undefined
    return this.sink === undefined ? this.writeOnceAttached() : this.writeTo(this.sink)
  }

  private async writeOnceAttached(): Promise<void> {
    await this.woken()
    if (this.sink !== undefined) await this.writeTo(this.sink)
  }

  /** Resolves once the caller's side is attached or the stream is interrupted. */
  private woken(): Promise<void> {
    if (this.interruption !== undefined) return Promise.resolve()
    return new Promise((resolve) => {
      this.wake = resolve
    })
  }

  private writeTo(sink: ByteSink): Promise<void> | undefined {
    if (this.interruption !== undefined) return undefined
    const flushed = this.flush(sink, this.encoded.take())
    return flushed instanceof Promise && Bun.peek.status(flushed) !== 'fulfilled' ? this.wait(flushed) : undefined
  }

  /** The caller is slower than the provider: nothing is read until its socket takes more. */
  private async wait(flushed: Promise<unknown>): Promise<void> {
    this.state = 'writing'
    this.call.pause()
    await Promise.race([flushed, this.woken()])
    this.call.resume()
    this.progressMs = performance.now()
    this.state = 'working'
  }

  /** The provider is silent: sends what is encoded, or a keep-alive. */
  private flushIdle(): void {
    if (this.sink === undefined || this.interruption !== undefined) return
    const text = this.encoded.take()
    void this.flush(this.sink, text === '' ? this.encoder.keepAlive : text)
  }

  private flush(sink: ByteSink, text: string): unknown {
    sink.write(text)
    this.isHeadOut = true
    const flushed = sink.flush(true)
    this.progressMs = performance.now()
    return flushed
  }

  private async finish(): Promise<void> {
    this.isComplete = true
    if (this.sink === undefined) await this.woken()
    if (this.interruption !== undefined) throw new Error('interrupted')
    this.sink?.write(this.encoded.take())
    this.connection?.limitSilence()
    this.sink?.end()
    void this.call.release()
    this.end({ outcome: 'completed' })
  }

  private async fail(thrown: unknown): Promise<void> {
    this.call.abort()
    const error = thrown instanceof ProviderError ? thrown : undefined
    const bug = error === undefined && this.interruption === undefined ? thrown : undefined
    if (this.isOpen && this.interruption === undefined && !this.encoded.isEmpty) {
      await (this.sink === undefined ? this.writeOnceAttached() : this.writeTo(this.sink))
    }
    this.end({ outcome: outcomeOf(this.interruption, error), error, bug })
    if (!this.isOpen) this.opening.reject(thrown)
  }

  private end(end: StreamEnd): void {
    this.state = 'done'
    ticker.remove(this)
    this.ending.resolve(end)
  }
}

function outcomeOf(interruption: Reason | undefined, error: ProviderError | undefined): Outcome {
  switch (interruption) {
    case 'caller_left':
    case 'drained':
      return interruption
    case 'stalled':
      return 'timed_out'
    case 'refused':
      return 'refused'
    default:
      return error?.kind === 'timeout' ? 'timed_out' : 'provider_cut'
  }
}
