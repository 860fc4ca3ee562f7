/** The ids of an answer's tool calls: the provider's own if callers and providers accept them. */

import { CALLS_MAX } from '../core/completion.ts'
import { ProviderError } from '../core/provider-error.ts'

const RANDOM_BYTES = 18

/** `call_…`: legal for every caller and provider, and globally unique. */
function mintCallId(): string {
  return `call_${crypto.getRandomValues(Buffer.allocUnsafe(RANDOM_BYTES)).toString('base64url')}`
}

/**
 * What every caller and provider accepts as an id. Callers send back the ids they got, to whichever provider is asked
 * next: OpenAI and Azure reject ids of more than 40 characters, and those of vLLM have 46.
 */
const LEGAL_ID = /^[A-Za-z0-9_-]{1,40}$/

/** The ids of one answer's calls. */
export class AnswerCallIds {
  /** Made with the first id: most answers have none. */
  private made: Set<string> | undefined

  /**
   * The provider's id if it is legal and unique in this answer, else one of ours. Throws `ProviderError` `broken` if
   * the answer holds more calls than a caller could send back.
   */
  of(given: string): string {
    this.made ??= new Set()
    const seen = this.made
    if (seen.size === CALLS_MAX) throw new ProviderError('broken', `the answer holds more than ${CALLS_MAX} tool calls`)
    const id = LEGAL_ID.test(given) && !seen.has(given) ? given : mintCallId()
    seen.add(id)
    return id
  }
}
