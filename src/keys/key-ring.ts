/** Finds the configured key of a token by its SHA-256. Keeps no token beyond the call. */

import { timingSafeEqual } from 'node:crypto'
import type { HashedKey, Key } from '../catalog/catalog.ts'

/** Longer than any key. A longer token is not hashed, so that callers cannot make hashing slow. */
export const TOKEN_LENGTH_MAX = 4096

interface Entry {
  readonly digest: Buffer
  readonly key: Key
  /** Another key whose SHA-256 begins with the same 32 bits. */
  readonly next: Entry | undefined
}

/** Compared if the hash is unknown, so that both cases take the same time. No token has this hash. */
const NO_DIGEST = Buffer.alloc(32)

/** The SHA-256 of the token that is looked up: as hexadecimal digits it would cost 0.15 µs more. */
const asked = Buffer.alloc(32)

export class KeyRing implements KeyFinder {
  /** By the first 32 bits of the hash. */
  private readonly byHash = new Map<number, Entry>()

  /** If two credentials have the same hash, the later one counts. */
  constructor(credentials: Iterable<HashedKey>) {
    for (const { sha256, key } of credentials) {
      const digest = Buffer.from(sha256, 'hex')
      this.byHash.set(beginningOf(digest), { digest, key, next: this.byHash.get(beginningOf(digest)) })
    }
  }

  /**
   * The key of a token; undefined if it is unknown, disabled or expired, because callers must not learn which. The map
   * is looked up with a SHA-256, so its timing does not reveal the key byte by byte; the final comparison takes
   * constant time.
   */
  find(token: string, nowMs: number): Key | undefined {
    const key = this.keyOf(token)
    return key !== undefined && isUsable(key, nowMs) ? key : undefined
  }

  refused(token: string, nowMs: number): RefusedKey | undefined {
    const key = this.keyOf(token)
    if (key === undefined || isUsable(key, nowMs)) return undefined
    return { id: key.id, state: key.disabled ? 'disabled' : 'expired' }
  }

  private keyOf(token: string): Key | undefined {
    if (token.length > TOKEN_LENGTH_MAX) return undefined
    // A static call: creating a hasher costs four times as much.
    Bun.CryptoHasher.hash('sha256', token, asked)
    let entry = this.byHash.get(beginningOf(asked))
    while (!timingSafeEqual(asked, entry?.digest ?? NO_DIGEST)) {
      if (entry === undefined) return undefined
      entry = entry.next
    }
    return entry?.key
  }
}

function beginningOf(digest: Buffer): number {
  return digest.readUInt32LE(0)
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
