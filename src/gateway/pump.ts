/**
 * One streamed answer: provider bytes → caller bytes, until the end, a cut or a cancel. A stream that ends in any other
 * way than by the provider's own final marker is cut abnormally, so that every SDK throws.
 */

import { partOf } from '../core/bytes.ts'
import type { StreamEvent } from '../core/event.ts'
import { Pace } from '../core/event-loop.ts'
import { ProviderError } from '../core/provider-error.ts'
import { type Ticking, ticker } from '../core/ticker.ts'
import type { StreamEncoder } from '../dialects/dialect.ts'
import type { Outcome } from '../ledger/ledger.ts'
import type { BodyReader } from '../providers/body-readers.ts'
import type { AnswerReader, UpstreamRequest } from '../providers/provider.ts'
import type { UpstreamCall } from '../providers/upstream.ts'
import type { CallerStream } from './caller-stream.ts'
import { DecodeStream } from './decode-stream.ts'
import { EncodeStream } from './encode-stream.ts'
import { EventCheck } from './event-check.ts'
import { HeldBytes } from './held-bytes.ts'
import type { Interruptible, Interruption } from './in-flight.ts'
import type { RequestReservation } from './reservation.ts'
import type { ShownThoughts } from './shown-thoughts.ts'
import type { ThoughtKeeper } from './thought-keeper.ts'
import type { UsageMeter } from './usage-meter.ts'

/** Headers wait for the first content, but at most this long after the first valid event. */
const HOLD_MS = 5000
/** How often something is sent while the provider is silent. */
const KEEP_ALIVE_MS = 15_000
/** A caller that reads nothing for this long is cut. */
const STALL_MS = 120_000

/** How a stream ended. */
export interface StreamEnd {
  readonly outcome: Outcome
  /** What the provider did, if it was the provider that ended it. */
  readonly error?: ProviderError | undefined
  /** An error of our own, for the log: the stream was cut like any other. */
  readonly bug?: unknown
}

/** Hears what becomes of a stream: `opened` or `fail`. */
export interface PumpOpener {
  /** The headers may go out. */
  opened(): void
  /** The stream has ended before that, with the `ProviderError` of a candidate that failed, or a bug. */
  fail(error: unknown): void
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
 * something else must happen first, the pieces that come are held.
 */
export class Pump implements BodyReader, Interruptible, Ticking {
  place = -1
  private readonly decoder: DecodeStream
  private readonly check: EventCheck
  private readonly encoded: EncodeStream
  private readonly pace = new Pace()
  private opener: PumpOpener | undefined
  private listener: PumpListener | undefined
  private reservation: Pick<RequestReservation, 'growsAt' | 'written'> | undefined
  /** Absent until it is attached, and after the caller has left. */
  private caller: CallerStream | undefined
  private state: State = 'reading'
  /** Made when bytes cannot be taken at once, which few streams need. */
  private held: HeldBytes | undefined
  /** The provider's bytes have ended cleanly, after those that are held. */
  private hasInputEnded = false
  /** The stream breaks off with this, after what is held or encoded. */
  private failure: { readonly thrown: unknown } | undefined
  /** The headers may go out. */
  private isOpen = false
  /** All of the answer came, with the provider's final marker, and is encoded. */
  isComplete = false
  /** `caller_left`, if the stream runs on: its caller has left, and what still comes is read for its usage alone. */
  private interruption: Reason | undefined
  private result: StreamEnd | undefined

  constructor(
    private readonly call: Pick<UpstreamCall, 'read' | 'readOn' | 'pause' | 'resume' | 'release' | 'abort'>,
    toolNames: UpstreamRequest['toolNames'],
    provider: Pick<AnswerReader, 'framer' | 'decoder'>,
    private readonly encoder: StreamEncoder,
    private readonly meter: UsageMeter,
    keeper?: ThoughtKeeper,
    shown?: ShownThoughts,
  ) {
    this.encoded = new EncodeStream(encoder, meter)
    this.check = new EventCheck(this.encoded, toolNames, keeper, shown)
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
  relay(reservation: Pick<RequestReservation, 'growsAt' | 'written'>, listener: PumpListener): void {
    this.reservation = reservation
    this.listener = listener
  }

  /** From now on the caller takes what is written; once, after `opened`. */
  attach(caller: CallerStream): void {
    if (this.interruption === 'caller_left') return caller.close('caller_left')
    this.caller = caller
    if (this.result !== undefined) caller.close(this.result.outcome)
    else if (this.state === 'reading') this.writeIdle()
    else if (this.state === 'attaching') this.proceed()
  }

  /**
   * Instead of `attach`: the whole stream, to be taken once, if all of it arrived before there was anyone to write to.
   * Undefined if `attach` is needed.
   */
  takeWhole(): Pick<EncodeStream, 'bytes' | 'take'> | undefined {
    if (!this.isComplete || this.state === 'done') return undefined
    this.complete()
    return this.encoded
  }

  /**
   * Ends the stream from outside: the caller left or reads nothing, the process ends, or nothing more may be spent. If
   * the caller left, and nothing else ends it before, the answer is still read for a moment.
   */
  interrupt(why: Reason): void {
    if (this.state === 'done') return
    if (why === 'caller_left' && this.call.readOn()) return this.leave()
    this.interruption ??= why
    this.call.abort()
    this.stop(interruptedError())
  }

  /** The caller has left: nothing more is written, but what comes until the call ends is decoded for its usage. */
  leave(): void {
    if (this.state === 'done' || this.interruption !== undefined) return
    this.interruption = 'caller_left'
    this.caller?.close('caller_left')
    this.caller = undefined
    if (this.state === 'attaching' || this.state === 'writing') this.proceed()
  }

  /** The answer is complete although the provider goes on: a stop sequence has ended it. */
  get hasStopped(): boolean {
    return this.decoder.hasStopped
  }

  private get hasLeft(): boolean {
    return this.interruption !== undefined
  }

  tick(nowMs: number): void {
    const { firstEventMs } = this.encoded
    if (!this.isOpen && firstEventMs !== undefined && nowMs - firstEventMs >= HOLD_MS) this.release()
    if (this.caller === undefined) return
    const idleMs = nowMs - this.caller.progressMs
    if (this.state === 'writing' && idleMs >= STALL_MS) this.interrupt('stalled')
    if (this.state === 'reading' && this.isOpen && idleMs >= KEEP_ALIVE_MS) this.writeIdle()
  }

  data(bytes: Uint8Array, from: number, to: number): void {
    if (this.isComplete || this.state === 'done') return
    if (this.state === 'reading' && this.pace.admits(to - from)) {
      this.state = 'working'
      this.take(bytes, from, to)
      return this.proceed()
    }
    this.holding().add(partOf(bytes, from, to))
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

  /** Goes on until something has to wait, or all that came is written. */
  private proceed(): void {
    if (this.state === 'done') return
    this.state = 'working'
    try {
      while (this.isPassedOn()) {
        if (this.isComplete) return this.finish()
        const slice = this.held?.next()
        if (slice !== undefined) {
          if (!this.pace.admits(slice.length)) return this.takeInTurn(slice)
          this.take(slice, 0, slice.length)
        } else if (this.failure !== undefined) return this.breakOff(this.failure.thrown)
        else if (this.hasInputEnded) this.take(undefined, 0, 0)
        else return this.readOn()
      }
    } catch (error) {
      this.breakOff(error)
    }
  }

  private holding(): HeldBytes {
    this.held ??= new HeldBytes(this.call)
    return this.held
  }

  private readOn(): void {
    this.state = 'reading'
    this.held?.resume()
  }

  private takeInTurn(slice: Uint8Array): void {
    this.state = 'waiting'
    void this.pace.turn(slice.length).then(() => {
      if (this.state !== 'waiting') return
      this.state = 'working'
      this.take(slice, 0, slice.length)
      this.proceed()
    })
  }

  /** Takes bytes, or their clean end. Events before an error in the same bytes are encoded. */
  private take(bytes: Uint8Array | undefined, from: number, to: number): void {
    try {
      if (bytes === undefined) this.decoder.close()
      else this.decoder.push(bytes, from, to)
      // Also if the connection failed later, while these bytes were held for a slow caller.
      this.isComplete = this.decoder.ended
    } catch (thrown) {
      this.held?.clear()
      this.hasFailed(thrown)
    }
    // A dialect may encode a finish only at the end: a provider that breaks off between them failed before the content.
    if (!this.isOpen && this.encoded.hasContent && !this.encoded.isEmpty) this.release()
  }

  private release(): void {
    if (this.hasLeft) return
    this.isOpen = true
    this.opener?.opened()
  }

  /**
   * Writes what is encoded: once for each piece that was taken, the last one with the end. Then the reservation grows.
   * False if something must wait, or the stream has ended.
   */
  private isPassedOn(): boolean {
    if (this.hasLeft) this.encoded.take()
    else if (this.state === 'working' && this.isOpen && !this.isComplete && !this.encoded.isEmpty) this.write()
    const isBroken = this.failure !== undefined && !this.isComplete
    if (this.state !== 'working' || isBroken) return this.state === 'working'
    const { reservation, meter } = this
    const growing = reservation?.growsAt(meter.writtenAtMost) ? reservation.written(meter.written) : undefined
    if (growing === undefined) return true
    this.state = 'waiting'
    this.waitFor(growing)
    return false
  }

  /** Apart, like `drains`: a method with a function in it makes its surroundings an object, and that of each event. */
  private waitFor(growing: Promise<void>): void {
    growing.then(
      () => this.state === 'waiting' && this.proceed(),
      (error: unknown) => this.breakOff(error),
    )
  }

  private write(): void {
    const { caller } = this
    if (caller === undefined) {
      this.state = 'attaching'
      return
    }
    const full = caller.write(this.encoded.take())
    if (full !== undefined && !this.hasLeft) this.drains(full, caller)
  }

  /** The caller is slower than the provider: nothing is read until its socket takes more. */
  private drains(full: Promise<unknown>, caller: CallerStream): void {
    this.state = 'writing'
    this.holding().pause()
    const drained = () => {
      caller.progressMs = performance.now()
      if (this.state === 'writing') this.proceed()
    }
    full.then(drained, drained)
  }

  /** The provider is silent: sends what is encoded, or a keep-alive. */
  private writeIdle(): void {
    this.caller?.writeIdle(this.encoded.isEmpty ? this.encoder.keepAlive : this.encoded.take())
  }

  private finish(): void {
    if (this.hasLeft) {
      this.leaveProvider()
      return this.stop(interruptedError())
    }
    if (this.caller === undefined) {
      this.state = 'attaching'
      return
    }
    this.caller.finish(this.encoded.take())
    this.complete()
  }

  private leaveProvider(): void {
    if (this.hasStopped) this.call.abort()
    else this.call.release()
  }

  private complete(): void {
    this.leaveProvider()
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
    if (!this.isComplete && bug === undefined) this.decoder.breakOff()
    this.finishWith({ outcome: outcomeOf(this.interruption, error), error, bug })
    if (!this.isOpen) this.opener?.fail(thrown)
  }

  private finishWith(end: StreamEnd): void {
    this.state = 'done'
    this.result = end
    this.held?.clear()
    ticker.remove(this)
    this.caller?.close(end.outcome)
    this.listener?.streamEnded(end)
  }
}

function interruptedError(): ProviderError {
  return new ProviderError('cut', 'the stream was interrupted')
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
