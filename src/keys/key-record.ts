/** An API key as the key store has it: never the key, only its hash. Its text in the store is JSON. */

import { isArray, isObject, numberOf, stringOf } from '../core/json.ts'

export interface KeyRecord {
  /** The operator's name for it; unique in the store. */
  readonly id: string
  readonly organization: string
  /** Hex of SHA-256 of the key. */
  readonly sha256: string
  /** How the key begins: enough to know it again, no secret. */
  readonly shown: string
  /** Globs over public model names; absent = all that the organisation may use. */
  readonly models?: readonly string[] | undefined
  readonly createdMs: number
  readonly expiresAtMs?: number | undefined
  readonly revokedMs?: number | undefined
}

/** So long the record of a key is kept after the key was revoked or has expired. What it spent is kept for good. */
export const KEY_KEPT_MS = 30 * 86_400_000

/** When the key was revoked or expires, whichever is first; `Infinity` if it does neither. */
export function endOf({ revokedMs, expiresAtMs }: KeyRecord): number {
  return Math.min(revokedMs ?? Number.POSITIVE_INFINITY, expiresAtMs ?? Number.POSITIVE_INFINITY)
}

/** A stored record, or undefined if the text is none. */
export function parseKey(text: string): KeyRecord | undefined {
  try {
    return keyOfJson(JSON.parse(text))
  } catch (error) {
    // Somebody else's text among the records must not keep the keys from being read.
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** The same for what was parsed already. */
export function keyOfJson(value: unknown): KeyRecord | undefined {
  if (!isObject(value)) return undefined
  const id = stringOf(value['id'])
  const organization = stringOf(value['organization'])
  const sha256 = stringOf(value['sha256'])
  const createdMs = numberOf(value['createdMs'])
  if (id === undefined || organization === undefined || sha256 === undefined || createdMs === undefined)
    return undefined
  const models = value['models']
  return {
    id,
    organization,
    sha256,
    shown: stringOf(value['shown']) ?? '',
    models: isArray(models) ? models.filter((glob) => typeof glob === 'string') : undefined,
    createdMs,
    expiresAtMs: numberOf(value['expiresAtMs']),
    revokedMs: numberOf(value['revokedMs']),
  }
}
