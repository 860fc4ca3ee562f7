/** One request to the collector: OTLP over HTTP, and what its answer means for the spans. */

import type { Endpoint } from '../core/endpoint.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { TracingConfig } from '../core/tracing-config.ts'
import { retryAfterMs } from '../providers/retry-after.ts'
import { UpstreamCall } from '../providers/upstream.ts'
import type { OtlpEncoder } from './otlp.ts'

/** `retry`: the same spans may be accepted later. `reason` completes "spans were dropped because". */
export type Delivery =
  | { readonly kind: 'accepted'; readonly rejected: number }
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs: number | undefined }
  | { readonly kind: 'refused'; readonly reason: string }

/** A collector near by answers within milliseconds. One that hangs holds back nothing but spans. */
const CONNECT_MS = 3000
const TOTAL_MS = 10_000
/** An answer is a few bytes; what is beyond this is not read. */
const ANSWER_BYTES_MAX = 64 * 1024
/** The statuses that OTLP names as temporary. */
const TEMPORARY: ReadonlySet<number> = new Set([429, 502, 503, 504])
const PROTOBUF = 'application/x-protobuf'

export class Collector {
  private readonly endpoint: Endpoint
  private call: UpstreamCall | undefined

  constructor(readonly config: TracingConfig) {
    this.endpoint = {
      name: 'collector',
      baseUrl: config.url,
      headers: {},
      deadlines: {
        connectMs: CONNECT_MS,
        firstByteMs: { stream: TOTAL_MS, whole: TOTAL_MS },
        idleMs: TOTAL_MS,
        totalMs: TOTAL_MS,
      },
      viaFetch: config.viaFetch,
    }
  }

  /** For the log: the address without path and headers. */
  get origin(): string {
    return new URL(this.config.url).origin
  }

  /** Sends one batch. Never rejects. */
  post(body: Uint8Array, encoder: OtlpEncoder): Promise<Delivery> {
    const headers = { 'user-agent': 'weir', ...this.config.headers, 'content-type': PROTOBUF }
    const request = { url: this.config.url, headers, body: [body] }
    const call = new UpstreamCall(request, this.endpoint, false, Number.POSITIVE_INFINITY)
    this.call = call
    return new Promise((resolve) => {
      call.send({
        head() {
          readBytes(call, (bytes) => resolve(deliveryOf(call, bytes, encoder)))
        },
        fail: (error) => resolve({ kind: 'retry', reason: `the collector is ${stateOf(error)}`, afterMs: undefined }),
      })
    })
  }

  /** Ends the request that is under way: its spans count as not delivered. */
  abort(): void {
    this.call?.interrupt()
  }
}

/** Gives the body to `take`; undefined if it breaks off or is too long. The status counts all the same. */
function readBytes(call: UpstreamCall, take: (bytes: Uint8Array | undefined) => void): void {
  const chunks: Uint8Array[] = []
  let size = 0
  call.read({
    data(bytes) {
      size += bytes.byteLength
      if (size <= ANSWER_BYTES_MAX) return void chunks.push(bytes)
      call.abort()
      take(undefined)
    },
    end: () => take(Buffer.concat(chunks)),
    fail: () => take(undefined),
  })
}

function deliveryOf({ status, headers }: UpstreamCall, bytes: Uint8Array | undefined, encoder: OtlpEncoder): Delivery {
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

function stateOf(error: unknown): string {
  return error instanceof ProviderError && error.kind === 'timeout' ? 'too slow' : 'unreachable'
}
