/** How a call of a target failed, and how that reads: for the operator, not for routing. */

import type { ProviderError, ProviderErrorKind } from '../core/provider-error.ts'

export interface Failure {
  readonly reason: ProviderErrorKind
  /** The provider's HTTP status, if it sent one. */
  readonly status?: number | undefined
  /** Why it could not be reached, if it sent none. */
  readonly cause?: string | undefined
}

export function failureOfError({ kind, detail, causeCode }: ProviderError): Failure {
  return { reason: kind, status: detail.status, cause: causeCode }
}

const TEXTS: Readonly<Record<ProviderErrorKind, string>> = {
  unreachable: 'cannot be reached',
  timeout: 'does not answer in time',
  rate_limited: 'is rate limited',
  overloaded: 'is overloaded',
  credential: 'rejects our credential',
  credit_exhausted: 'has no credit left in our account',
  failed: 'fails',
  broken: 'gives no valid answer',
  rejected: 'rejects requests',
  too_large: 'rejects requests',
  cut: 'breaks its answers off',
}
/** For these the status alone does not show what to do. */
const EXPLAINED: ReadonlySet<ProviderErrorKind> = new Set(['credential', 'credit_exhausted', 'broken', 'cut'])

/** A predicate: `answers 500`, `cannot be reached (ECONNREFUSED)`. */
export function failureText({ reason, status, cause }: Failure): string {
  const isAnswer = status !== undefined && status >= 400
  if (isAnswer && !EXPLAINED.has(reason)) return `answers ${status}`
  return withCode(TEXTS[reason], cause ?? (isAnswer ? String(status) : undefined))
}

export function withCode(text: string, code: string | undefined): string {
  return code === undefined ? text : `${text} (${code})`
}
