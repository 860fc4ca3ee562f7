/**
 * The thought signatures of recent tool calls. Gemini requires the signature of a call in the history, and no dialect
 * of callers can carry it: a signature has hundreds of characters, a call id at most 64.
 */

/**
 * Of all signatures of a process; the oldest are dropped first. A call without its signature is sent with the
 * documented replacement.
 */
const CHARS_MAX = 16 * 1024 * 1024
/** A longer signature is not kept. */
const SIGNATURE_CHARS_MAX = 64 * 1024

/**
 * Signatures are kept in the memory of one process under random call ids that weir made, so a signature cannot reach
 * another caller's conversation. Another worker, or the same after a restart, does not have it: the model then lacks
 * some of its earlier thoughts, but the request succeeds.
 */
export class Signatures {
  private readonly byCall = new Map<string, string>()
  private chars = 0

  keep(callId: string, signature: string): void {
    if (signature.length > SIGNATURE_CHARS_MAX || this.byCall.has(callId)) return
    this.byCall.set(callId, signature)
    this.chars += callId.length + signature.length
    for (const [oldest, its] of this.byCall) {
      if (this.chars <= CHARS_MAX) break
      this.byCall.delete(oldest)
      this.chars -= oldest.length + its.length
    }
  }

  get isEmpty(): boolean {
    return this.byCall.size === 0
  }

  of(callId: string): string | undefined {
    return this.byCall.get(callId)
  }
}

/** One per process for Gemini's own API and Vertex AI, because a conversation may move between them. */
export const signatures = new Signatures()
