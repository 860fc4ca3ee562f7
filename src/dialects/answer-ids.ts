/** Ids of answers and their items. They are ours, because a provider's id reveals which provider answered. */

/** 18 random bytes. */
const RANDOM_CHARS = 24
/** Random bytes are drawn and encoded for this many ids at once: one draw costs 1 µs, however few the bytes. */
const DRAWN_IDS = 256

const bytes = Buffer.alloc((DRAWN_IDS * RANDOM_CHARS * 3) / 4)
let drawn = ''
let used = 0

/** A unique id: `prefix_` (for `chatcmpl`: `chatcmpl-`) and 24 random characters of `[A-Za-z0-9_-]`. */
export function mintId(prefix: 'chatcmpl' | 'resp' | 'msg' | 'fc' | 'ctc' | 'cmp' | 'call' | 'rs'): string {
  if (used === drawn.length) {
    drawn = crypto.getRandomValues(bytes).toString('base64url')
    used = 0
  }
  const random = drawn.slice(used, used + RANDOM_CHARS)
  used += RANDOM_CHARS
  return prefix === 'chatcmpl' ? `${prefix}-${random}` : `${prefix}_${random}`
}
