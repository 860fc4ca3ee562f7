/** Keys beside those of the configuration: made, listed and revoked by command, known to every worker and node within a second. Never the keys, only their hashes. */

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

/** How often a store is asked whether anything changed; a revocation is in force everywhere within twice this. */
export const KEY_POLL_MS = 400
/** Commands that change keys say so only after this: by then every gateway has looked, so that a new key works from its first use on. */
export const KEYS_KNOWN_MS = 500

/** Called with every key that is not revoked: once when they were first read, and after each change. */
export type KeyListener = (keys: readonly KeyRecord[]) => void

export interface KeyStore {
  /** False where the id is in use, revoked keys' ids too: they stand in logs and bills. */
  create(record: KeyRecord): Promise<boolean>
  /** Every key there ever was, of one organisation or of all, by id. */
  list(organization?: string): Promise<readonly KeyRecord[]>
  revoke(id: string, nowMs: number): Promise<'revoked' | 'already_revoked' | 'unknown'>
  /** Begins to call the listener. While the store cannot be read, the last that was read stands. What is returned ends it. */
  watch(listener: KeyListener): () => void
  close(): Promise<void>
}

/** A stored record, or undefined where the text is none. */
export function parseKey(text: string): KeyRecord | undefined {
  const value: unknown = JSON.parse(text)
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

/** Those of an organisation, or all, by id. */
export function ofOrganization(records: readonly KeyRecord[], organization: string | undefined): readonly KeyRecord[] {
  return records
    .filter((record) => organization === undefined || record.organization === organization)
    .sort((a, b) => (a.id < b.id ? -1 : 1))
}
