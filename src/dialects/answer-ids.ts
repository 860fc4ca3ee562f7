/** Ids of answers and their items. They are ours, because a provider's id reveals which provider answered. */

const RANDOM_BYTES = 18
/** Random bytes are drawn for this many ids at once: one draw costs 1 µs, however few the bytes. */
const DRAWN_IDS = 256

const drawn = Buffer.alloc(DRAWN_IDS * RANDOM_BYTES)
let used = drawn.length

/** A unique id: `prefix_` (for `chatcmpl`: `chatcmpl-`) and 24 random characters of `[A-Za-z0-9_-]`. */
export function mintId(prefix: 'chatcmpl' | 'resp' | 'msg' | 'fc' | 'cmp' | 'call'): string {
  if (used === drawn.length) {
    crypto.getRandomValues(drawn)
    used = 0
  }
  const random = drawn.toString('base64url', used, used + RANDOM_BYTES)
  used += RANDOM_BYTES
  return prefix === 'chatcmpl' ? `${prefix}-${random}` : `${prefix}_${random}`
}
