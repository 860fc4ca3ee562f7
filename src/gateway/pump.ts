/**
 * One streamed answer: upstream bytes → caller bytes, until the end, a cut or a cancel. A stream that ends in any other way than by the
 * provider's own final marker is cut abnormally, so that every SDK throws.
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
import { Feed } from './decode-stream.ts'
import { EventCheck, type EventSink } from './event-check.ts'
import type { Interruption } from './in-flight.ts'
import type { UsageMeter } from './usage-meter.ts'

/** Headers are held back for the first content, but not longer than this after the first valid event (decisions.md 4). */
const HOLD_MS = 5000
/** While the provider is silent, something goes out this often. */
const KEEP_ALIVE_MS = 15_000
/** A caller that takes nothing for this long is cut. */
const STALL_MS = 120_000

/**
 * Between the last write and a cut. Bun resets the connection, and with it goes what it gathered in this turn (a flush that has resolved
 * included) and what the caller's host has not handed on yet: without this the last whole events, and a head that was just written, are lost.
 */
const LAST_BYTES_MS = 100

/** What Bun's direct streams give to `pull`. `flush(true)` resolves once the socket has taken the bytes: that is the back-pressure. */
interface ByteSink {
  write(text: string): unknown
  flush(wait: true): unknown
  end(): unknown
}

/** How a stream ended. */
export interface StreamEnd {
  readonly outcome: Outcome
  /** What the provider did, where it was the provider. */
  readonly fault?: ProviderError | undefined
  /** An error of our own, for the log: the stream was cut like any other. */
  readonly bug?: unknown
}

/** `reading`: waiting for the provider. `writing`: waiting for the caller's socket. */
type State = 'reading' | 'working' | 'writing' | 'done'

/**
 * Reads from the start; `opened` resolves when the answer may begin and rejects with a `ProviderError` where the candidate failed before that.
 * At most one chunk of the provider's is held: the next is read when the caller's socket has taken it.
 */
export class Pump implements EventSink, Ticking {
  private readonly opening = Promise.withResolvers<void>()
  private readonly ending = Promise.withResolvers<StreamEnd>()
  private readonly feed: Feed
  private readonly check: EventCheck
  private sink: ByteSink | undefined
  private beforeEnd: (() => void) | undefined
  /** Told of the output tokens so far; nothing more is read before what it gives back has resolved. */
  private fund: ((outputTokens: number) => Promise<void> | undefined) | undefined
  private out = ''
  private state: State = 'working'
  private isOpen = false
  private content = false
  /** Something was written to the caller. */
  private isHeadOut = false
  /** All is encoded; what is missing is somebody to take it. */
  private complete = false
  private firstEventMs: number | undefined
  private progressMs = performance.now()
  private interruption: Interruption | 'stalled' | 'refused' | undefined
  /** Ends the wait of `woken`, where somebody waits. */
  private wake: (() => void) | undefined
  private readonly pace = new Pace()

  constructor(
    private readonly call: Pick<UpstreamCall, 'read' | 'pause' | 'resume' | 'release' | 'abort'>,
    toolNames: UpstreamRequest['toolNames'],
    provider: Provider,
    private readonly encoder: StreamEncoder,
    private readonly tally: UsageMeter,
  ) {
    this.check = new EventCheck(this, toolNames)
    this.feed = new Feed(provider, this.check)
  }

  /** Starts to read. Resolves when the headers may go out; throws the `ProviderError` of a candidate that failed before. */
  open(): Promise<void> {
    ticker.add(this)
    void this.run()
    return this.opening.promise
  }

  /** Resolves, and never rejects, once nothing more will be written. */
  get ended(): Promise<StreamEnd> {
    return this.ending.promise
  }

  /** From here on somebody follows how much is written. */
  onWritten(fund: (outputTokens: number) => Promise<void> | undefined): void {
    this.fund = fund
  }

  /** Feeds a whole answer, where the provider sent one although a stream was asked for. */
  openWhole(events: readonly StreamEvent[]): void {
    for (const event of events) this.check.event(event)
    this.release()
    void this.finishWhole()
  }

  /** The source of the caller's stream; Bun calls `pull` once. Its rejection is the cut. `beforeEnd` runs where it comes to its whole end. */
  async attach(sink: ByteSink, beforeEnd?: () => void): Promise<void> {
    this.sink = sink
    this.beforeEnd = beforeEnd
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

  /** Bun sends the head with the first bytes of the body: a connection that is cut before them reads as one that failed, and is repeated. */
  private flushHead(sink: ByteSink): void {
    sink.write(KEEP_ALIVE_COMMENT)
    void sink.flush(true)
  }

  /**
   * The bytes of the whole stream, where all of it came before there was anybody to take it: then it needs no stream. Instead of
   * `attach`; undefined where `attach` it must be.
   */
  takeWhole(): string | undefined {
    if (!this.complete || this.interruption !== undefined) return undefined
    const whole = this.out
    this.out = ''
    this.wake?.()
    return whole
  }

  /** Ends the stream from outside: the caller left or takes nothing, the process ends, or nothing more may be spent. */
  interrupt(why: Interruption | 'stalled' | 'refused'): void {
    if (this.state === 'done' || this.interruption !== undefined) return
    this.interruption = why
    this.wake?.()
    this.call.abort()
  }

  event(event: StreamEvent): void {
    this.firstEventMs ??= performance.now()
    this.tally.add(event)
    switch (event.type) {
      case 'start':
        this.out += this.encoder.start()
        return
      case 'reasoning':
      case 'usage':
      case 'finish':
        return
      case 'end':
        // A figure that the provider left out is our own count, never a made-up 0.
        this.out += this.encoder.end(this.tally.reason ?? 'stop', this.tally.count(true).usage)
        break
      default:
        this.out += this.encoder.encode(event)
    }
    this.content = true
  }

  texts(insides: readonly string[]): void {
    this.tally.addInsides(insides)
    this.out += this.encoder.encodeTexts(insides)
  }

  tick(nowMs: number): void {
    if (!this.isOpen && this.firstEventMs !== undefined && nowMs - this.firstEventMs >= HOLD_MS) this.release()
    const idleMs = nowMs - this.progressMs
    if (this.state === 'writing' && idleMs >= STALL_MS) this.interrupt('stalled')
    if (this.state === 'reading' && this.isOpen && idleMs >= KEEP_ALIVE_MS) this.flushIdle()
  }

  private async run(): Promise<void> {
    try {
      while (!this.feed.ended) {
        this.state = 'reading'
        const chunk = await this.call.read()
        this.state = 'working'
        if (chunk === undefined || this.pace.admits(chunk.length)) this.take(chunk)
        else await this.takeInSlices(chunk)
        const waiting = this.write()
        if (waiting !== undefined) await waiting
        const growing = this.fund?.(this.tally.written)
        if (growing !== undefined) await growing
      }
      await this.finish()
    } catch (error) {
      await this.fail(error)
    }
  }

  /**
   * Bun gathers up to 768 KiB for one read when the caller is slower than the provider, and offers no smaller reads, so one stream can
   * hold more than 256 KiB. Decoding, encoding and writing a slice at a time keeps a stalled stream from holding all of it three times.
   */
  private async takeInSlices(chunk: Uint8Array): Promise<void> {
    for (let at = 0; at < chunk.length && !this.feed.ended && this.interruption === undefined; at += SLICE_BYTES) {
      const slice = chunk.subarray(at, at + SLICE_BYTES)
      await this.pace.turn(slice.length)
      this.take(slice)
      await this.write()
      await this.fund?.(this.tally.written)
    }
  }

  /** Takes a chunk, or the clean end. What stood before a fault in the same chunk has reached `out`. */
  private take(chunk: Uint8Array | undefined): void {
    try {
      if (chunk === undefined) this.feed.close()
      else this.feed.push(chunk)
    } finally {
      // A finish that a dialect keeps back until the end has written nothing: a provider that breaks off now has failed before the content.
      if (this.content && this.out !== '' && !this.isOpen) this.release()
    }
  }

  /** The headers may go out. */
  private release(): void {
    this.isOpen = true
    this.opening.resolve()
    if (this.sink !== undefined && this.state === 'reading') this.flushIdle()
  }

  /** One chunk, one write; the last one is written with the end. Undefined where nobody must wait, which is nearly always. */
  private write(): Promise<void> | undefined {
    if (!this.isOpen || this.out === '' || this.feed.ended) return undefined
    return this.sink === undefined ? this.writeOnceAttached() : this.writeTo(this.sink)
  }

  private async writeOnceAttached(): Promise<void> {
    await this.woken()
    if (this.sink !== undefined) await this.writeTo(this.sink)
  }

  /** Resolves once somebody takes the stream, or it is interrupted. A promise is made only where there is a wait. */
  private woken(): Promise<void> {
    if (this.interruption !== undefined) return Promise.resolve()
    return new Promise((resolve) => {
      this.wake = resolve
    })
  }

  private writeTo(sink: ByteSink): Promise<void> | undefined {
    if (this.interruption !== undefined) return undefined
    sink.write(this.out)
    this.isHeadOut = true
    this.out = ''
    const flushed = sink.flush(true)
    this.progressMs = performance.now()
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

  /** Something to send while nothing comes from the provider: what has gathered, or a sign of life. */
  private flushIdle(): void {
    if (this.sink === undefined || this.interruption !== undefined) return
    this.sink.write(this.out === '' ? this.encoder.keepAlive : this.out)
    this.isHeadOut = true
    this.out = ''
    this.progressMs = performance.now()
    void this.sink.flush(true)
  }

  private async finish(): Promise<void> {
    this.complete = true
    if (this.sink === undefined) await this.woken()
    if (this.interruption !== undefined) throw new Error('interrupted')
    this.sink?.write(this.out)
    this.beforeEnd?.()
    this.sink?.end()
    this.out = ''
    void this.call.release()
    this.end({ outcome: 'completed' })
  }

  private async finishWhole(): Promise<void> {
    ticker.add(this)
    try {
      await this.finish()
    } catch (error) {
      await this.fail(error)
    }
  }

  private async fail(error: unknown): Promise<void> {
    this.call.abort()
    const fault = error instanceof ProviderError ? error : undefined
    const bug = fault === undefined && this.interruption === undefined ? error : undefined
    if (this.isOpen && this.interruption === undefined && this.out !== '') {
      await (this.sink === undefined ? this.writeOnceAttached() : this.writeTo(this.sink))
    }
    this.end({ outcome: outcomeOf(this.interruption, fault), fault, bug })
    if (!this.isOpen) this.opening.reject(error)
  }

  private end(end: StreamEnd): void {
    this.state = 'done'
    ticker.remove(this)
    this.ending.resolve(end)
  }
}

function outcomeOf(
  interruption: Interruption | 'stalled' | 'refused' | undefined,
  fault: ProviderError | undefined,
): Outcome {
  switch (interruption) {
    case 'caller_left':
    case 'drained':
      return interruption
    case 'stalled':
      return 'timed_out'
    case 'refused':
      return 'refused'
    default:
      return fault?.kind === 'timeout' ? 'timed_out' : 'provider_cut'
  }
}
