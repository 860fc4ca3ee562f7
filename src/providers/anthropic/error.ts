/** Anthropic's error responses. One of them must not be judged by its status. */

import { ProviderError } from '../../core/provider-error.ts'
import { responseError } from '../error-response.ts'
import type { ResponseHeaders } from '../provider.ts'

/** An account without credit answers every request with 400 or 402: the operator's problem, not the caller's. */
const NO_CREDIT = /credit balance is too low|"billing_error"/

export function anthropicResponseError(status: number, headers: ResponseHeaders, body: string): ProviderError {
  const error = responseError(status, headers, body)
  return NO_CREDIT.test(body) ? new ProviderError('credential', error.message, error.detail) : error
}
