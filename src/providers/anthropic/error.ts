/** Anthropic's errors, where they differ from what their status says. */

import { ProviderError } from '../../core/provider-error.ts'
import { faultOf } from '../error-response.ts'

/** An account without credit answers 400 or 402 to every request: our trouble, not the caller's. */
const NO_CREDIT = /credit balance is too low|"billing_error"/

export function anthropicFault(status: number, headers: Headers, body: string): ProviderError {
  const fault = faultOf(status, headers, body)
  return NO_CREDIT.test(body)
    ? new ProviderError('credential', fault.message, { ...fault.detail, code: undefined })
    : fault
}
