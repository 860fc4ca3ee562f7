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
import type { BodyReader, UpstreamCall } from '../providers/upstream.ts'
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
 * What Bun's direct streams give to `pull`. `write` returns a promise if the socket is full, which resolves once it has
 * taken the bytes; else a number, so that nothing is allocated for a write to a caller that reads.
 */
interface ByteSink {
  write(bytes: string | Uint8Array): unknown
  flush(): unknown
  end(): unknown
}

/** The connection that a stream is written to. */
interface CallerConnection {
  /** Called just before a complete stream ends, while Bun still accepts a timeout for its connection. */
  limitSilence(): void
}

/** How a stream ended. */
export interface StreamEnd {
  readonly outcome: Outcome
  /** What the provider did, if it was the provider that ended it. */
  readonly error?: ProviderError | undefined
  /** An error of our own, for the log: the stream was cut like any other. */
  readonly bug?: unknown
}

/** Hears what becomes of a stream: `opened`, then `ended`; or `failed` alone. */
export interface PumpOpener {
  /** The headers may go out. */
  opened(): void
  /** The stream has ended before that, with the `ProviderError` of a candidate that failed, or a bug. */
  failed(error: unknown): void
}

/** Hears that nothing more will be written of a stream that was opened. */
export interface PumpListener {
  streamEnded(end: StreamEnd): void
}

type Reason = Interruption | 'stalled' | 'refused'

/**
 * `reading`: waiting for the provider. `working`: within a call. `attaching`: waiting for the caller's side. `writing`:
 * waiting for the caller's socket. `waiting`: for the ledger, or for a turn of the event loop.
 */
type State = 'reading' | 'working' | 'attaching' | 'writing' | 'waiting' | 'done'

/**
 * Each piece of the answer is decoded, encoded and written in the turn in which it arrives, without a promise. While
 * something else must happen first, the pieces that come are held, and above `SLICE_BYTES` the provider must wait: then
 * only what the transport had read already still comes, at most 512 KiB.
 */
export class Pump implements BodyReader, Interruptible, Ticking {
  place = -1
  private readonly decoder: DecodeStream
  private readonly check: EventCheck
  private readonly encoded: EncodeStream
  private readonly pace = new Pace()
  private opener: PumpOpener | undefined
  private listener: PumpListener | undefined
  private reservation: Pick<RequestReservation, 'written'> | undefined
  private sink: ByteSink | undefined
  private connection: CallerConnection | undefined
  private state: State = 'reading'
  private held: Uint8Array[] = NOTHING_HELD
  private heldBytes = 0
  private isPaused = false
  /** The provider's bytes have ended cleanly, after those that are held. */
  private hasInputEnded = false
  /** The stream breaks off with this, after what is held or encoded. */
  private failure: { readonly thrown: unknown } | undefined
  /** The headers may go out. */
  private isOpen = false
  /** Something was written to the caller. */
  private isHeadOut = false
  /** Everything is encoded. */
  private isComplete = false
  private progressMs = performance.now()
  private interruption: Reason | undefined
  private result: StreamEnd | undefined
  /** The promise that `attach` returned. */
  private pulled: PromiseWithResolvers<void> | undefined

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

  /** Starts to read. */
  open(opener: PumpOpener): void {
    this.opener = opener
    ticker.add(this)
    this.call.read(this)
  }

  /** Opens with a whole answer, which the provider sent although a stream was asked for. */
  openWhole(events: readonly StreamEvent[], opener: PumpOpener): void {
    for (const event of events) this.check.event(event)
    this.opener = opener
    this.state = 'working'
    this.isComplete = true
    ticker.add(this)
    this.release()
    if (this.state === 'working') this.proceed()
  }

  /**
   * For a stream that has opened: from here on the reservation grows with the output, and reading waits for it if the
   * output has used it up. The listener hears of the end.
   */
  relay(reservation: Pick<RequestReservation, 'written'>, listener: PumpListener): void {
    this.reservation = reservation
    this.listener = listener
  }

  /** The source of the caller's stream; Bun calls `pull` once. It rejects to cut the stream. */
  attach(sink: ByteSink, connection?: CallerConnection): Promise<void> {
    this.sink = sink
    this.connection = connection
    this.pulled = Promise.withResolvers()
    if (this.result !== undefined) this.endPull(this.result, this.pulled)
    else if (this.state === 'reading') this.flushIdle()
    else if (this.state === 'attaching') this.proceed()
    return this.pulled.promise
  }

  /**
   * Instead of `attach`: the bytes of the whole stream, if all of it arrived before there was anyone to write to.
   * Undefined if `attach` is needed.
   */
  takeWhole(): ReturnType<EncodeStream['take']> | undefined {
    if (!this.isComplete || this.state === 'done') return undefined
    const whole = this.encoded.take()
    this.complete()
    return whole
  }

  /**
   * Ends the stream from outside: the caller left or reads nothing, the process ends, or nothing more may be spent.
   */
  interrupt(why: Reason): void {
    if (this.state === 'done') return
    this.interruption = why
    this.call.abort()
    this.stop(new ProviderError('cut', 'the stream was interrupted'))
  }

  tick(nowMs: number): void {
    const { firstEventMs } = this.encoded
    if (!this.isOpen && firstEventMs !== undefined && nowMs - firstEventMs >= HOLD_MS) this.release()
    const idleMs = nowMs - this.progressMs
    if (this.state === 'writing' && idleMs >= STALL_MS) this.interrupt('stalled')
    if (this.state === 'reading' && this.isOpen && idleMs >= KEEP_ALIVE_MS) this.flushIdle()
  }

  data(bytes: Uint8Array): void {
    if (this.isComplete || this.state === 'done') return
    if (this.state === 'reading' && this.pace.admits(bytes.length)) {
      this.state = 'working'
      this.take(bytes)
      return this.proceed()
    }
    this.hold(bytes)
    if (this.state === 'reading') this.proceed()
  }

  end(): void {
    if (this.isComplete || this.state === 'done') return
    this.hasInputEnded = true
    if (this.state === 'reading') this.proceed()
  }

  fail(error: ProviderError): void {
    if (this.isComplete || this.state === 'done') return
    this.hasFailed(error)
    if (this.state === 'reading') this.proceed()
  }

  private hasFailed(thrown: unknown): void {
    if (this.failure !== undefined) return
    this.failure = { thrown }
    this.call.abort()
  }

  private hold(bytes: Uint8Array): void {
    if (this.held === NOTHING_HELD) this.held = []
    this.held.push(bytes)
    this.heldBytes += bytes.length
    if (this.heldBytes > SLICE_BYTES) this.pause()
  }

  /** Goes on until something has to wait, or all that came is written. */
  private proceed(): void {
    if (this.state === 'done') return
    this.state = 'working'
    try {
      while (this.isPassedOn()) {
        if (this.isComplete) return this.finish()
        const [next] = this.held
        if (next !== undefined) {
          const slice = this.shift(next)
          if (!this.pace.admits(slice.length)) return this.takeInTurn(slice)
          this.take(slice)
        } else if (this.failure !== undefined) return this.breakOff(this.failure.thrown)
        else if (this.hasInputEnded) this.take(undefined)
        else return this.readOn()
      }
    } catch (error) {
      this.breakOff(error)
    }
  }

  private readOn(): void {
    this.state = 'reading'
    if (!this.isPaused) return
    this.isPaused = false
    this.call.resume()
  }

  private pause(): void {
    if (this.isPaused) return
    this.isPaused = true
    this.call.pause()
  }

  /**
   * The next bytes that are held, at most a slice. A caller slower than the provider makes reads of up to 512 KiB.
   * Decoding, encoding and writing a slice at a time keeps a stalled stream from holding all of it three times.
   */
  private shift(next: Uint8Array): Uint8Array {
    const slice = next.subarray(0, SLICE_BYTES)
    if (slice.length === next.length) this.held.shift()
    else this.held[0] = next.subarray(SLICE_BYTES)
    this.heldBytes -= slice.length
    return slice
  }

  private takeInTurn(slice: Uint8Array): void {
    this.state = 'waiting'
    void this.pace.turn(slice.length).then(() => {
      if (this.state !== 'waiting') return
      this.state = 'working'
      this.take(slice)
      this.proceed()
    })
  }

  /** Takes bytes, or their clean end. Events before an error in the same bytes are encoded. */
  private take(bytes: Uint8Array | undefined): void {
    try {
      if (bytes === undefined) this.decoder.close()
      else this.decoder.push(bytes)
    } catch (thrown) {
      this.held = NOTHING_HELD
      this.hasFailed(thrown)
    }
    this.isComplete = this.decoder.ended && this.failure === undefined
    // A dialect may encode a finish only at the end: a provider that breaks off between them failed before the content.
    if (!this.isOpen && this.encoded.hasContent && !this.encoded.isEmpty) this.release()
  }

  private release(): void {
    this.isOpen = true
    this.opener?.opened()
  }

  /**
   * Writes what is encoded: once for each piece that was taken, the last one with the end. Then the reservation grows.
   * False if something must wait, or the stream has ended.
   */
  private isPassedOn(): boolean {
    if (this.state === 'working' && this.isOpen && !this.isComplete && !this.encoded.isEmpty) this.write()
    if (this.state !== 'working' || this.failure !== undefined) return this.state === 'working'
    const growing = this.reservation?.written(this.meter.written)
    if (growing === undefined) return true
    this.state = 'waiting'
    growing.then(
      () => this.state === 'waiting' && this.proceed(),
      (error: unknown) => this.breakOff(error),
    )
    return false
  }

  private write(): void {
    if (this.sink === undefined) {
      this.state = 'attaching'
      return
    }
    const full = this.flush(this.sink, this.encoded.take())
    if (full === undefined) return
    // The caller is slower than the provider: nothing is read until its socket takes more.
    this.state = 'writing'
    this.pause()
    const drained = () => {
      this.progressMs = performance.now()
      if (this.state === 'writing') this.proceed()
    }
    full.then(drained, drained)
  }

  /** The provider is silent: sends what is encoded, or a keep-alive. */
  private flushIdle(): void {
    if (this.sink === undefined) return
    this.flush(this.sink, this.encoded.isEmpty ? this.encoder.keepAlive : this.encoded.take())?.catch(ignored)
  }

  /** A promise if the caller's socket is full, which ends once it is not. */
  private flush(sink: ByteSink, bytes: string | Uint8Array): Promise<unknown> | undefined {
    const written = sink.write(bytes)
    sink.flush()
    this.isHeadOut = true
    this.progressMs = performance.now()
    return written instanceof Promise ? written : undefined
  }

  private finish(): void {
    if (this.sink === undefined) {
      this.state = 'attaching'
      return
    }
    this.sink.write(this.encoded.take())
    this.connection?.limitSilence()
    this.sink.end()
    this.complete()
  }

  private complete(): void {
    this.call.release()
    this.finishWith({ outcome: 'completed' })
  }

  /** Cuts the stream after what was encoded before. */
  private breakOff(thrown: unknown): void {
    if (this.state === 'done') return
    this.hasFailed(thrown)
    this.stop(thrown)
  }

  private stop(thrown: unknown): void {
    const error = thrown instanceof ProviderError ? thrown : undefined
    const bug = error === undefined ? thrown : undefined
    this.finishWith({ outcome: outcomeOf(this.interruption, error), error, bug })
    if (!this.isOpen) this.opener?.failed(thrown)
  }

  private finishWith(end: StreamEnd): void {
    this.state = 'done'
    this.result = end
    this.held = NOTHING_HELD
    ticker.remove(this)
    if (this.pulled !== undefined) this.endPull(end, this.pulled)
    this.listener?.streamEnded(end)
  }

  private endPull({ outcome }: StreamEnd, pulled: PromiseWithResolvers<void>): void {
    if (outcome === 'completed') return pulled.resolve()
    if (outcome === 'caller_left') return pulled.reject(new Error('cut'))
    if (!this.isHeadOut && this.sink !== undefined) this.flushHead(this.sink)
    setTimeout(() => pulled.reject(new Error('cut')), LAST_BYTES_MS)
  }

  /**
   * Bun sends the head with the first bytes of the body: a connection cut before them looks like a failed one, and is
   * retried.
   */
  private flushHead(sink: ByteSink): void {
    this.flush(sink, KEEP_ALIVE_COMMENT)?.catch(ignored)
  }
}

/** Shared by all streams that hold nothing, which are nearly all. */
const NOTHING_HELD: Uint8Array[] = []

/** A write to a caller that has left. */
function ignored(): void {}

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
