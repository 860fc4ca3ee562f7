/** One request to the collector: OTLP over HTTP, and what its answer means for the spans. */

import type { TracingConfig } from '../core/tracing-config.ts'
import { retryAfterMs } from '../providers/retry-after.ts'
import { type PostAnswer, ShortPost } from '../providers/short-post.ts'
import type { OtlpEncoder } from './otlp.ts'

/** `retry`: the same spans may be accepted later. `reason` completes "spans were dropped because". */
export type Delivery =
  | { readonly kind: 'accepted'; readonly rejected: number }
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs: number | undefined }
  | { readonly kind: 'refused'; readonly reason: string }

/** The statuses that OTLP names as temporary. */
const TEMPORARY: ReadonlySet<number> = new Set([429, 502, 503, 504])
const PROTOBUF = 'application/x-protobuf'

export class Collector {
  private readonly posts: ShortPost

  constructor(readonly config: TracingConfig) {
    this.posts = new ShortPost({ name: 'collector', url: config.url })
  }

  /** For the log: the address without path and headers. */
  get origin(): string {
    return new URL(this.config.url).origin
  }

  /** Sends one batch. Never rejects. */
  async post(body: Uint8Array, encoder: OtlpEncoder): Promise<Delivery> {
    const answer = await this.posts.send(body, { ...this.config.headers, 'content-type': PROTOBUF })
    return deliveryOf(answer, encoder)
  }

  /** Ends the request that is under way: its spans count as not delivered. */
  abort(): void {
    this.posts.abort()
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
