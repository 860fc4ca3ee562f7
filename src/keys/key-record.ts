/** The record of an API key in the key store: the hash of the key, never the key itself. Stored as JSON. */

import { isArray, isObject, numberOf, stringOf } from '../core/json.ts'

export interface KeyRecord {
  /** Chosen by the operator; unique in the store. */
  readonly id: string
  readonly organization: string
  /** Hex of SHA-256 of the key. */
  readonly sha256: string
  /** The beginning of the key: enough to recognize it, and no secret. */
  readonly shown: string
  /** Globs over public model names; absent = all models of the organization. */
  readonly models?: readonly string[] | undefined
  readonly createdMs: number
  readonly expiresAtMs?: number | undefined
  readonly revokedMs?: number | undefined
}

/** How long a record is kept after its key was revoked or has expired. The spend of the key is kept forever. */
export const KEY_KEPT_MS = 30 * 86_400_000

/** When the key was revoked or expires, whichever is first; `Infinity` without either. */
export function endOf({ revokedMs, expiresAtMs }: KeyRecord): number {
  return Math.min(revokedMs ?? Number.POSITIVE_INFINITY, expiresAtMs ?? Number.POSITIVE_INFINITY)
}

/** Undefined if the text is not a record. */
export function parseKey(text: string): KeyRecord | undefined {
  try {
    return keyOfJson(JSON.parse(text))
  } catch (error) {
    // A foreign text among the records must not prevent reading the keys.
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Undefined if the value is not a record. */
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
