/** What went wrong with a provider: one class of error for everything that a candidate can do to us. Never shown to a caller as it is. */

/**
 * - `unreachable` refused, reset before an answer, DNS, TLS · `timeout` no answer within a deadline
 * - `rate_limited` 429 · `overloaded` 503, 529 and the like · `credential` rejects *our* key
 * - `failed` any other status or error event that is the provider's own trouble · `broken` not HTTP, not JSON, not what was asked for
 * - `rejected` the provider says that the caller's request is wrong · `too_large` the same, of its size
 * - `cut` the stream ended without the provider's final marker
 */
export type ProviderErrorKind =
  | 'unreachable'
  | 'timeout'
  | 'rate_limited'
  | 'overloaded'
  | 'credential'
  | 'failed'
  | 'broken'
  | 'rejected'
  | 'too_large'
  | 'cut'

export interface ProviderErrorDetail {
  /** The provider's HTTP status, where there was one. */
  readonly status?: number | undefined
  /** The provider's code for the caller's mistake, only where it is on our list (`context_length_exceeded`, …). */
  readonly code?: string | undefined
  /** How long the provider asked to be left alone. */
  readonly retryAfterMs?: number | undefined
  /** True where the adapter itself cannot put the request in this provider's words: nothing was sent, and another provider may be able to. */
  readonly unsent?: boolean | undefined
  /** True where the time of the request was up, over all its candidates, and not this provider's own. */
  readonly hurried?: boolean | undefined
  readonly cause?: unknown
}

/** `message` is for the operator's log, unless the kind is `rejected` or `too_large`: then it is the provider's text, scrubbed for the caller. */
export class ProviderError extends Error {
  constructor(
    readonly kind: ProviderErrorKind,
    message: string,
    readonly detail: ProviderErrorDetail = {},
  ) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause })
    this.name = 'ProviderError'
  }
}
