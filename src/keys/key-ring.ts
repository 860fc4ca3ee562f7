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

export class KeyRing implements KeyFinder {
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

  refused(token: string, nowMs: number): RefusedKey | undefined {
    if (token.length > TOKEN_LENGTH_MAX) return undefined
    const key = this.byHash.get(Bun.CryptoHasher.hash('sha256', token, 'hex'))?.key
    if (key === undefined || isUsable(key, nowMs)) return undefined
    return { id: key.id, state: key.disabled ? 'disabled' : 'expired' }
  }
}

/** A key that is known and not accepted. */
export interface RefusedKey {
  readonly id: string
  /** `rotated`: the token is the secret of before the last rotation, whose grace has ended. */
  readonly state: 'expired' | 'disabled' | 'revoked' | 'rotated'
}

/** Looks keys up by their tokens. */
export interface KeyFinder {
  /** The key of a token, if it is accepted. */
  find(token: string, nowMs: number): Key | undefined
  /** The key of a token that `find` does not return, for the log; undefined if it is unknown. */
  refused(token: string, nowMs: number): RefusedKey | undefined
}

/** False for a disabled key, and for an expired one. */
export function isUsable(key: Pick<Key, 'disabled' | 'expiresAtMs'>, nowMs: number): boolean {
  return !key.disabled && (key.expiresAtMs === undefined || nowMs < key.expiresAtMs)
}
