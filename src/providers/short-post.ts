/**
 * POST requests to a service of the operator's, such as a collector of traces or a webhook: short deadlines, no
 * redirects, and of an answer only its beginning.
 */

import { BytePieces } from '../core/byte-pieces.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { GrowingBytes } from '../core/growing-bytes.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { ResponseHeaders } from './provider.ts'
import { UpstreamCall } from './upstream.ts'

/** A service near by answers within milliseconds; one that hangs holds back nothing but what is sent to it. */
const CONNECT_MS = 3000
const TOTAL_MS = 10_000
/** An answer is a few bytes; what is beyond this is not read. */
const ANSWER_BYTES_MAX = 64 * 1024

interface PostPlace {
  readonly name: string
  readonly url: string
}

export type PostAnswer =
  | {
      readonly status: number
      readonly headers: ResponseHeaders
      /** Undefined if it breaks off or is too long. The status counts all the same. */
      readonly bytes: Uint8Array | undefined
    }
  /** There was no answer within 10 s, or no connection. It completes "the collector is". */
  | { readonly failure: 'too slow' | 'unreachable' }

export class ShortPost {
  private readonly endpoint: Endpoint
  private readonly calls = new Set<UpstreamCall>()

  constructor(private readonly place: PostPlace) {
    this.endpoint = {
      name: place.name,
      baseUrl: place.url,
      headers: {},
      deadlines: {
        connectMs: CONNECT_MS,
        firstByteMs: { stream: TOTAL_MS, whole: TOTAL_MS },
        idleMs: TOTAL_MS,
        totalMs: TOTAL_MS,
      },
    }
  }

  /** Never rejects. */
  send(body: Uint8Array, headers: Readonly<Record<string, string>>): Promise<PostAnswer> {
    const request = { url: this.place.url, headers: { 'user-agent': 'weir', ...headers }, body: BytePieces.of([body]) }
    const call = new UpstreamCall(request, this.endpoint, false, Number.POSITIVE_INFINITY)
    this.calls.add(call)
    const { promise, resolve } = Promise.withResolvers<PostAnswer>()
    call.send({
      head() {
        const { status, headers: answered } = call
        readBytes(call, (bytes) => resolve({ status, headers: answered, bytes }))
      },
      fail: (error) => resolve({ failure: stateOf(error) }),
    })
    return promise.finally(() => this.calls.delete(call))
  }

  /** Ends the requests that are under way: they count as not answered. */
  abort(): void {
    for (const call of this.calls) call.interrupt()
  }
}

/** Gives the body to `take`; undefined if it breaks off or is too long. */
function readBytes(call: UpstreamCall, take: (bytes: Uint8Array | undefined) => void): void {
  const whole = new GrowingBytes()
  call.read({
    data(bytes, from, to) {
      if (whole.byteLength + to - from <= ANSWER_BYTES_MAX) return whole.add(bytes, from, to)
      call.abort()
      take(undefined)
    },
    end: () => take(whole.take()),
    fail: () => take(undefined),
  })
}

function stateOf(error: unknown): 'too slow' | 'unreachable' {
  return error instanceof ProviderError && error.kind === 'timeout' ? 'too slow' : 'unreachable'
}
