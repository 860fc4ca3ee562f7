/** Finds the configured key of a token by its SHA-256. Keeps no token beyond the call. */

import { timingSafeEqual } from 'node:crypto'
import type { Credential, Key } from '../catalog/catalog.ts'

/** Longer than any key. A longer token is not hashed, so that callers cannot make hashing slow. */
const TOKEN_LENGTH_MAX = 4096

interface Entry {
  /** The hexadecimal digits as bytes, so that a comparison converts only the other side. */
  readonly digits: Buffer
  readonly key: Key
}

/** Compared if the hash is unknown, so that both cases take the same time. No token has this hash. */
const NO_DIGEST = Buffer.alloc(64)

/** The digits of the token that is looked up: a buffer for each would cost 0.4 µs. */
const asked = Buffer.alloc(64)

export class KeyRing {
  private readonly byHash = new Map<string, Entry>()

  /** If two credentials have the same hash, the later one counts. */
  constructor(credentials: Iterable<Credential>) {
    for (const { sha256, key } of credentials) this.byHash.set(sha256, { digits: Buffer.from(sha256), key })
  }

  /**
   * The key of a token; undefined if it is unknown, disabled or expired, because callers must not learn which. The map
   * is looked up with a SHA-256, so its timing does not reveal the key byte by byte; the final comparison takes
   * constant time.
   */
  find(token: string, nowMs: number): Key | undefined {
    if (token.length > TOKEN_LENGTH_MAX) return undefined
    // A static call: creating a hasher costs four times as much.
    const digest = Bun.CryptoHasher.hash('sha256', token, 'hex')
    const entry = this.byHash.get(digest)
    asked.write(digest, 'latin1')
    const same = timingSafeEqual(asked, entry?.digits ?? NO_DIGEST)
    return entry !== undefined && same && isUsable(entry.key, nowMs) ? entry.key : undefined
  }
}

/** False for a disabled key, and for an expired one. */
export function isUsable(key: Key, nowMs: number): boolean {
  return !key.disabled && (key.expiresAtMs === undefined || nowMs < key.expiresAtMs)
}
