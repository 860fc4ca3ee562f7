/** Ids of tool calls as callers get them: the provider's own wherever they can be used. */

import { CALLS_MAX } from '../core/completion.ts'
import { ProviderError } from '../core/provider-error.ts'

const RANDOM_BYTES = 18

/** `call_…`: legal for every caller and every provider (`[A-Za-z0-9_-]`, at most 64), unique for ever. */
function mintCallId(): string {
  return `call_${crypto.getRandomValues(Buffer.allocUnsafe(RANDOM_BYTES)).toString('base64url')}`
}

/** What every caller and every provider takes as an id (wire.md A0); callers send back what we sent. */
const LEGAL_ID = /^[A-Za-z0-9_-]{1,64}$/

/** The ids of one answer's calls. */
export class CallerIds {
  private readonly seen = new Set<string>()

  /**
   * The provider's id where it is legal and no other call of this answer has it, else one of ours. Throws a `ProviderError` where the answer
   * holds more calls than a caller could send back.
   */
  of(given: string): string {
    if (this.seen.size === CALLS_MAX)
      throw new ProviderError('broken', `the answer holds more than ${CALLS_MAX} tool calls`)
    const id = LEGAL_ID.test(given) && !this.seen.has(given) ? given : mintCallId()
    this.seen.add(id)
    return id
  }
}
