/**
 * Sends the spans of this process to the collector, by OTLP over HTTP: a bounded queue, batches, retries. No request
 * waits for it; spans that cannot be delivered are dropped and counted.
 */

import { Pause } from '../core/pause.ts'
import type { TracingConfig } from '../core/tracing-config.ts'
import { within } from '../core/wait-limit.ts'
import { retryAfterMs } from '../providers/retry-after.ts'
import { type PostAnswer, ShortPost } from '../providers/short-post.ts'
import { loadEncoder, type OtlpEncoder, type Span } from './otlp.ts'

/** At 2 KB each, 8 MB. */
const QUEUE_MAX = 4096
/** Encoding a batch takes 2 ms of the event loop. */
const BATCH_MAX = 256
/** Spans wait so long for others to be sent with. */
const DELAY_MS = 1000
/** A batch is dropped after so many attempts, at least 15 s after the first. */
const TRIES_MAX = 5
const BACKOFF_MS_MIN = 1000
/** A longer `retry-after` counts as this. */
const BACKOFF_MS_MAX = 30_000

/** `recovered` is called at the first batch that is accepted so long after the last loss: few lines a minute. */
const CALM_MS = 10_000

/** `retry`: the same spans may be accepted later. `reason` completes "spans were dropped because". */
type Delivery =
  | { readonly kind: 'accepted'; readonly rejected: number }
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs: number | undefined }
  | { readonly kind: 'refused'; readonly reason: string }

/** The statuses that OTLP names as temporary. */
const TEMPORARY: ReadonlySet<number> = new Set([429, 502, 503, 504])
const PROTOBUF = 'application/x-protobuf'

interface SpanExporterOptions {
  /** Counts spans that are lost. */
  readonly dropped: (spans: number) => void
  /** Spans are dropped, after a time in which none were. */
  readonly dropping: (fields: { readonly reason: string; readonly collector: string }) => void
  /** The collector takes all spans again; `dropped` is how many were lost since `dropping`. */
  readonly recovered: (fields: { readonly dropped: number; readonly collector: string }) => void
  /** Instead of `DELAY_MS`, `BACKOFF_MS_MIN` and `CALM_MS`. */
  readonly delayMs?: number
  readonly backoffMs?: number
  readonly calmMs?: number
}

export class SpanExporter {
  private queue: Span[] = []
  private config: TracingConfig | undefined
  private posts: ShortPost | undefined
  private encoder: Promise<OtlpEncoder> | undefined
  /** While batches are sent. */
  private sending: Promise<void> | undefined
  private timer: ReturnType<typeof setTimeout> | undefined
  /** The wait before the next attempt. */
  private readonly backoff = new Pause()
  private isClosing = false
  /** Spans that were dropped since `dropping` was called; 0 while none are. */
  private lost = 0
  private lostMs = 0

  constructor(private readonly options: SpanExporterOptions) {}

  /** Where spans go from now on, those that wait included. */
  use(config: TracingConfig): void {
    if (Bun.deepEquals(config, this.config)) return
    this.config = config
    this.posts = new ShortPost({ name: 'collector', url: config.url })
  }

  /** Takes the spans of one request: all of them or, if the queue is full, none. */
  take(spans: readonly Span[]): void {
    if (this.queue.length + spans.length > QUEUE_MAX) return this.drop(spans.length, 'the queue is full')
    this.queue.push(...spans)
    if (this.sending !== undefined) return
    if (this.queue.length >= BATCH_MAX) this.start()
    else this.startLater()
  }

  /** Sends what waits, and drops what was not delivered within `ms`. Later spans are dropped. */
  async close(ms: number): Promise<void> {
    this.isClosing = true
    this.backoff.end()
    if (this.queue.length > 0) this.start()
    if (this.sending !== undefined) await within(ms, this.sending)
    this.posts?.abort()
  }

  /** A batch that is not full waits for more spans: one request a millisecond would cost as much as the spans. */
  private startLater(): void {
    if (this.timer !== undefined) return
    this.timer = setTimeout(() => this.start(), this.options.delayMs ?? DELAY_MS)
    this.timer.unref()
  }

  private start(): void {
    clearTimeout(this.timer)
    this.timer = undefined
    this.sending ??= this.send()
  }

  /** In a turn of its own: the spans are encoded after the answer of the request that filled the batch. */
  private async send(): Promise<void> {
    await new Promise(setImmediate)
    do {
      const batch = this.queue.splice(0, BATCH_MAX)
      try {
        await this.deliver(batch)
      } catch (error) {
        this.drop(batch.length, `of an internal error (${error instanceof Error ? error.name : typeof error})`)
      }
    } while (this.queue.length >= (this.isClosing ? 1 : BATCH_MAX))
    // In the turn in which the queue was looked at: spans that come later start the next round.
    this.sending = undefined
    if (this.queue.length > 0) this.startLater()
  }

  private async deliver(batch: Span[]): Promise<void> {
    this.encoder ??= loadEncoder()
    const encoder = await this.encoder
    const body = encoder.serializeRequest(batch)
    const { length } = batch
    if (body === undefined) return this.drop(length, 'they cannot be encoded')
    for (let tries = 1; this.posts !== undefined; tries++) {
      const headers = { ...this.config?.headers, 'content-type': PROTOBUF }
      const delivery = deliveryOf(await this.posts.send(body, headers), encoder)
      if (delivery.kind === 'accepted') return this.accepted(Math.min(delivery.rejected, length))
      if (delivery.kind === 'refused' || tries === TRIES_MAX) return this.drop(length, delivery.reason)
      if (this.isClosing) return this.dropAll(length, delivery.reason)
      await this.pause(delivery, tries)
    }
  }

  /** For the log: the address without path and headers. */
  private get collector(): string {
    return this.config === undefined ? '' : new URL(this.config.url).origin
  }

  private accepted(rejected: number): void {
    if (rejected > 0) return this.drop(rejected, 'the collector rejected them')
    if (this.lost === 0 || performance.now() - this.lostMs < (this.options.calmMs ?? CALM_MS)) return
    this.options.recovered({ dropped: this.lost, collector: this.collector })
    this.lost = 0
  }

  private pause({ afterMs }: Extract<Delivery, { kind: 'retry' }>, tries: number): Promise<void> {
    const backoffMs = (this.options.backoffMs ?? BACKOFF_MS_MIN) * 2 ** (tries - 1)
    const ms = Math.min(BACKOFF_MS_MAX, Math.max(backoffMs, afterMs ?? 0)) * (1 + Math.random() / 5)
    return this.backoff.wait(ms)
  }

  private dropAll(more: number, reason: string): void {
    this.drop(this.queue.length + more, reason)
    this.queue = []
  }

  private drop(spans: number, reason: string): void {
    this.options.dropped(spans)
    this.lostMs = performance.now()
    if (this.lost === 0) this.options.dropping({ reason, collector: this.collector })
    this.lost += spans
  }
}

function deliveryOf(answer: PostAnswer, encoder: OtlpEncoder): Delivery {
  if ('failure' in answer) return { kind: 'retry', reason: `the collector is ${answer.failure}`, afterMs: undefined }
  const { status, headers, bytes } = answer
  if (status >= 200 && status < 300) {
    const isProtobuf = headers.get('content-type')?.startsWith(PROTOBUF) === true
    return { kind: 'accepted', rejected: isProtobuf && bytes !== undefined ? rejectedOf(bytes, encoder) : 0 }
  }
  const reason = `the collector answered ${status}`
  if (!TEMPORARY.has(status)) return { kind: 'refused', reason }
  return { kind: 'retry', reason, afterMs: retryAfterMs(headers) }
}

/** The spans of a batch that the collector accepted only in part. */
function rejectedOf(bytes: Uint8Array, encoder: OtlpEncoder): number {
  try {
    return Number(encoder.deserializeResponse(bytes).partialSuccess?.rejectedSpans ?? 0)
  } catch {
    // By its status the collector accepted the spans; it may answer with a body of its own.
    return 0
  }
}
