/** Hashes an API key: SHA-256 in lower-case hex, the only form in which weir keeps a key. */

import { createHash } from 'node:crypto'

export function hashOf(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

export function isHash(text: string): boolean {
  return /^[0-9a-f]{64}$/.test(text)
}
