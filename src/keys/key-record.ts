/** The record of an API key in the key store: the hash of the key, never the key itself. Stored as JSON. */

import { type Key, keyOf } from '../catalog/catalog.ts'
import { DAY_MS } from '../core/durations.ts'
import { isArray, isObject, type JsonObject, numberOf, parseObject, stringOf } from '../core/json.ts'
import { limitsOfJson } from '../core/limits.ts'
import type { KeyDescription } from '../core/organization-config.ts'

/** Its id, which the operator chooses, is unique in the store. */
export interface KeyRecord extends KeyDescription {
  /** Hex of SHA-256 of the key. */
  readonly sha256: string
  /** The beginning of the key: enough to recognize it, and no secret. */
  readonly shown: string
  /** Of the record of an organisation: how large its share is where requests wait; absent = 1. */
  readonly weight?: number | undefined
  /** The secret before the last rotation. An earlier one is not accepted any more. */
  readonly previous?: PreviousSecret | undefined
  /**
   * How often the key was changed: of two states of a key, the one with more changes is the later one. Records of
   * earlier versions of weir have none, which counts as 0.
   */
  readonly revision?: number | undefined
  readonly createdMs: number
  readonly revokedMs?: number | undefined
}

interface PreviousSecret {
  /** Hex of SHA-256. */
  readonly sha256: string
  /** Unix milliseconds; from this moment on the secret is rejected. 0 without a grace. */
  readonly untilMs: number
}

/**
 * The prefixes of records that are no keys: one that revokes a key of the configuration, an organisation, and what
 * holds for its budgets. After it comes the id of the key or of the organisation. An id has no colon, so it never
 * begins that of a created key.
 */
export const REVOCATION = 'configuration:'
/** The script of Redis knows it, too. */
export const ORGANIZATION = 'organization:'
export const BUDGETS = 'budgets:'

/** The prefix of a record's id and what comes after it; '' and the whole id for a created key. */
export function partsOfId(recordId: string): readonly [prefix: string, id: string] {
  const end = recordId.indexOf(':') + 1
  return [recordId.slice(0, end), recordId.slice(end)]
}

/** The id of the record that revokes a key of the configuration. */
export function revocationId(key: string): string {
  return `${REVOCATION}${key}`
}

/** The id of the key of the configuration that a record revokes; undefined for any other record. */
export function revokedKeyOf(recordId: string): string | undefined {
  return recordId.startsWith(REVOCATION) ? recordId.slice(REVOCATION.length) : undefined
}

/** Revokes a key of the configuration. It does not end, so that it is not deleted as the record of an ended key is. */
export function revocationOf(organization: string, key: string, nowMs: number): KeyRecord {
  return { id: revocationId(key), organization, sha256: '', shown: '', createdMs: nowMs }
}

/** The key of a record, as requests use it. It has the `auto` of its organization. */
export function storedKey(organization: Key['organization'], record: KeyRecord): Key {
  const { id, models, limits = {}, tags, fixedTags, priority, maxWaitMs, expiresAtMs } = record
  const disabled = organization.disabled === true
  const own = { id, models, auto: organization.auto, limits, tags, fixedTags, priority, maxWaitMs }
  return keyOf(organization, { ...own, expiresAtMs, disabled })
}

/** How long a record is kept after its key was revoked or has expired. The spend of the key is kept forever. */
export const KEY_KEPT_MS = 30 * DAY_MS

/** When the key was revoked or expires, whichever is first; `Infinity` without either. */
export function endOf({ revokedMs, expiresAtMs }: KeyRecord): number {
  return Math.min(revokedMs ?? Number.POSITIVE_INFINITY, expiresAtMs ?? Number.POSITIVE_INFINITY)
}

/** Undefined if the text is not a record: a foreign text among the records must not prevent reading the keys. */
export function parseKeyRecord(text: string): KeyRecord | undefined {
  return keyRecordOfJson(parseObject(text))
}

/** Undefined if the value is not a record. */
export function keyRecordOfJson(value: unknown): KeyRecord | undefined {
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
    limits: limitsOfJson(value['limits']),
    tags: tagsOf(value['tags']),
    fixedTags: tagsOf(value['fixedTags']),
    ...sharesOf(value),
    previous: previousOf(value['previous']),
    revision: numberOf(value['revision']),
    createdMs,
    expiresAtMs: numberOf(value['expiresAtMs']),
    revokedMs: numberOf(value['revokedMs']),
  }
}

/** Absent from most records, which are kept in memory by the hundred thousand. */
function sharesOf(value: JsonObject): Pick<KeyRecord, 'priority' | 'maxWaitMs' | 'weight'> {
  const { priority } = value
  const [maxWaitMs, weight] = [numberOf(value['maxWaitMs']), numberOf(value['weight'])]
  return {
    ...(priority === 'interactive' || priority === 'batch' ? { priority } : {}),
    ...(maxWaitMs === undefined ? {} : { maxWaitMs }),
    ...(weight === undefined ? {} : { weight }),
  }
}

function tagsOf(value: unknown): KeyRecord['tags'] {
  if (!isObject(value)) return undefined
  const tags = Object.entries(value).flatMap(([name, text]) => (typeof text === 'string' ? [[name, text]] : []))
  return tags.length === 0 ? undefined : Object.fromEntries(tags)
}

function previousOf(value: unknown): PreviousSecret | undefined {
  if (!isObject(value)) return undefined
  const [sha256, untilMs] = [stringOf(value['sha256']), numberOf(value['untilMs'])]
  return sha256 === undefined || untilMs === undefined ? undefined : { sha256, untilMs }
}
