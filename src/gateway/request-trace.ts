/**
 * What a tracer hears of requests. The gateway and the public port report to these interfaces and know nothing of
 * spans; without tracing in the configuration, and for most requests with it, no spans are recorded.
 */

import type { Candidate } from '../catalog/resolve.ts'
import type { ProviderErrorKind } from '../core/provider-error.ts'
import type { Usage } from '../core/token-usage.ts'
import type { Outcome } from '../ledger/ledger.ts'
import type { RequestLine } from './request-line.ts'

/** What a request came with: the part of `Request` that is read of it. */
export interface RequestHead {
  readonly method: string
  readonly url: string
  readonly headers: Headers
}

export interface Tracer {
  /** Called when a request arrives. Undefined if it is not traced and its caller sent no trace either. */
  begin(request: RequestHead): RequestTrace | undefined
}

export interface RequestTrace {
  readonly traceId: string
  /** A candidate is called. */
  call(candidate: Candidate): CallTrace
  /** The request has ended, with everything that its log line has. `usage` has figures that the line leaves out. */
  end(line: RequestLine, usage?: Usage): void
}

/** One call to one candidate. */
export interface CallTrace {
  /** To be sent to the provider, which therefore sees the trace; undefined unless the operator allows it. */
  readonly headers: Readonly<Record<string, string>> | undefined
  /** A stream has begun, or the whole answer has arrived. */
  began(): void
  /** Nothing more will be read. Not needed after a whole answer. */
  ended(end: CallEnd): void
}

export interface CallEnd {
  /** What the provider did wrong, if it did. */
  readonly error?: ProviderErrorKind | undefined
  readonly status?: number | undefined
  /** Why the call ended if the provider is not to blame. */
  readonly outcome?: Outcome | undefined
}
