/**
 * One class for everything that can go wrong with a provider. `gateway/candidate-failures.ts` turns it into a
 * `CallerError`.
 */

import { codeOf } from './system-error.ts'
import type { Usage } from './token-usage.ts'

/**
 * - `unreachable`: DNS or TLS error, connection refused, or reset before an answer
 * - `timeout`: no answer within a deadline
 * - `rate_limited`: status 429
 * - `overloaded`: status 503, 529 or similar
 * - `credential`: the provider rejected weir's own key
 * - `credit_exhausted`: the operator's account at the provider has no credit left
 * - `failed`: any other error of the provider's own, by status or as an event of a stream
 * - `broken`: not HTTP, not JSON, or not an answer to the request
 * - `rejected`: the provider rejected the caller's request
 * - `too_large`: the provider rejected the size of the caller's request
 * - `cut`: the stream ended without the provider's final marker
 */
export type ProviderErrorKind = (typeof providerErrorKinds)[number]

export const providerErrorKinds = [
  'unreachable',
  'timeout',
  'rate_limited',
  'overloaded',
  'credential',
  'credit_exhausted',
  'failed',
  'broken',
  'rejected',
  'too_large',
  'cut',
] as const

export function isErrorKind(value: unknown): value is ProviderErrorKind {
  return providerErrorKinds.some((kind) => kind === value)
}

export interface ProviderErrorDetail {
  /** The provider's HTTP status, if it sent one. */
  readonly status?: number | undefined
  /** The provider's code for the caller's mistake, if callers know it (`context_length_exceeded`, …). */
  readonly code?: string | undefined
  /** The field of the request that the provider names as the cause. */
  readonly param?: string | undefined
  /** The provider's `retry-after`. */
  readonly retryAfterMs?: number | undefined
  /**
   * True if the adapter cannot express the request in this provider's API: nothing was sent, and another provider may
   * be able to.
   */
  readonly unsent?: boolean | undefined
  /**
   * True if the answer is valid, but of no use for this request, such as a compaction without a summary. Callers can
   * cause that, so it is no failure of the target.
   */
  readonly unusable?: boolean | undefined
  /** True if the deadline of the whole request passed, over all its candidates, rather than this provider's own. */
  readonly hurried?: boolean | undefined
  /** Which deadline passed. Other errors have the code of their `cause`. */
  readonly timeout?: 'connect' | 'first_byte' | 'idle' | 'total' | undefined
  /** The provider's own code or type of the error, and its message without secrets, if it sent them. */
  readonly providerCode?: string | undefined
  readonly providerMessage?: string | undefined
  /** Its type and its code as they are, for callers who get errors of providers unchanged. */
  readonly ownType?: string | undefined
  readonly ownCode?: string | undefined
  readonly hasNumericCode?: boolean | undefined
  /** What the provider reports of an answer that it has begun, in the event that ends it with the error. */
  readonly usage?: Usage | undefined
  readonly cause?: unknown
}

/**
 * `message` is for the operator's log. If the kind is `rejected` or `too_large`, it is the provider's text without
 * secrets, and the caller reads it. The caller also reads that of an answer that is `unusable`, which is weir's own.
 */
export class ProviderError extends Error {
  constructor(
    readonly kind: ProviderErrorKind,
    message: string,
    readonly detail: ProviderErrorDetail = {},
  ) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause })
    this.name = 'ProviderError'
  }

  /**
   * What went wrong below HTTP: `ECONNREFUSED`, `ENOTFOUND`, a TLS library's code such as `CERT_HAS_EXPIRED`, or
   * `connect_timeout` and the like. Undefined if the provider answered, or nothing is known.
   */
  get causeCode(): string | undefined {
    const { timeout, cause } = this.detail
    return timeout === undefined ? codeOf(cause) || undefined : `${timeout}_timeout`
  }
}
