/** Ids of answers and their items. They are ours, because a provider's id reveals which provider answered. */

const RANDOM_BYTES = 18

/** A unique id: `prefix_` (for `chatcmpl`: `chatcmpl-`) and 24 random characters of `[A-Za-z0-9_-]`. */
export function mintId(prefix: 'chatcmpl' | 'resp' | 'msg' | 'fc' | 'cmp' | 'call'): string {
  const random = crypto.getRandomValues(Buffer.allocUnsafe(RANDOM_BYTES)).toString('base64url')
  return prefix === 'chatcmpl' ? `${prefix}-${random}` : `${prefix}_${random}`
}
