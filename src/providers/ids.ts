/** Ids for tool calls that a provider left without one. */

const RANDOM_BYTES = 18

/** `call_…`: legal for every caller and every provider (`[A-Za-z0-9_-]`, at most 64), unique for ever. */
export function mintCallId(): string {
  return `call_${crypto.getRandomValues(Buffer.allocUnsafe(RANDOM_BYTES)).toString('base64url')}`
}
