/** Finds the key that a token belongs to, by its hash alone. It never holds a token longer than the call, and remembers nothing of those it did not know. */

import { timingSafeEqual } from 'node:crypto'
import type { Credential, Key } from '../catalog/catalog.ts'

/** Longer than any key can be; what is longer is not hashed, so that no caller decides how long that takes. */
const TOKEN_LENGTH_MAX = 4096

interface Entry {
  /** The hexadecimal digits, as bytes: two of them are compared without making bytes of both first. */
  readonly digits: Buffer
  readonly key: Key
}

/** Compared with where the hash is not known, so that both ways cost the same. No token has this hash. */
const NOBODY = Buffer.alloc(64)

export class KeyRing {
  private readonly byHash = new Map<string, Entry>()

  /** Where two credentials have the same hash, the later one counts. */
  constructor(credentials: Iterable<Credential>) {
    for (const { sha256, key } of credentials) this.byHash.set(sha256, { digits: Buffer.from(sha256), key })
  }

  /**
   * The key of a token, or undefined for one that is unknown, disabled or expired: callers must not learn which. The map is asked for a
   * SHA-256, which nobody can steer towards an entry byte by byte; the comparison that decides takes constant time.
   */
  find(token: string, nowMs: number): Key | undefined {
    if (token.length > TOKEN_LENGTH_MAX) return undefined
    // In one call: a hasher of its own costs four times as much.
    const digest = Bun.CryptoHasher.hash('sha256', token, 'hex')
    const entry = this.byHash.get(digest)
    const same = timingSafeEqual(Buffer.from(digest), entry?.digits ?? NOBODY)
    return entry !== undefined && same && isUsable(entry.key, nowMs) ? entry.key : undefined
  }
}

/** False for a disabled key and from the moment on at which it expires. */
export function isUsable(key: Key, nowMs: number): boolean {
  return !key.disabled && (key.expiresAtMs === undefined || nowMs < key.expiresAtMs)
}
