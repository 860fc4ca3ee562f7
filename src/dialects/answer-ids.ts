/** Ids of what we send. Ours, never the provider's: those tell where an answer came from. */

const RANDOM_BYTES = 18

/** `prefix_…` (`chatcmpl-…`, as callers know it): 24 random characters of `[A-Za-z0-9_-]`, at most 64 in all, unique for ever. */
export function mintId(prefix: 'chatcmpl' | 'resp' | 'msg' | 'fc' | 'cmp' | 'call'): string {
  const random = crypto.getRandomValues(Buffer.allocUnsafe(RANDOM_BYTES)).toString('base64url')
  return prefix === 'chatcmpl' ? `${prefix}-${random}` : `${prefix}_${random}`
}
