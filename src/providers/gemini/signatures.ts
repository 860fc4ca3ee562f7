/**
 * The thought signatures of recent tool calls. Gemini wants the signature of a call back with the call, and no caller's dialect can carry
 * it: a signature has hundreds of characters, a call id at most 64.
 */

/** All signatures of a process; the oldest go first. A call whose signature is gone is sent with the documented dummy instead. */
const CHARS_MAX = 16 * 1024 * 1024
/** A longer one is not kept. */
const SIGNATURE_CHARS_MAX = 64 * 1024

/**
 * Kept in the memory of one process, under call ids that this program made up and nobody can guess: a signature cannot reach another
 * caller's conversation. Another worker, or this one after a restart, does not have it; the answer is then one with less of the model's
 * earlier thought in it, not an error.
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

  of(callId: string): string | undefined {
    return this.byCall.get(callId)
  }
}
