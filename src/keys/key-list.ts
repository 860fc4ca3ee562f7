/** The list of all API keys, of the store and of the configuration, as `weir keys list` and the admin API show it. */

import type { JsonObject } from '../core/json.ts'
import { configuredLimits, type Limits } from '../core/limits.ts'
import type { OrganizationConfig } from '../core/organization-config.ts'
import type { KeyRecord } from './key-record.ts'
import { isUsable } from './key-ring.ts'
import type { KeyStore } from './key-store.ts'

/** What the ledger knows of a key. */
export interface KeyActivity {
  /** When a request of the key last began, grew or ended, in Unix milliseconds. */
  readonly usedMs: number
  /** Spent and held in this UTC day, in micro-dollars. */
  readonly todayMicroUsd: number
}

/** The activity of some keys of an organisation, by id. Keys that were never used are not in it. */
type ReadActivity = (organization: string, keys: readonly string[]) => Promise<ReadonlyMap<string, KeyActivity>>

export interface ListedKey {
  readonly id: string
  readonly organization: string
  readonly source: 'store' | 'configuration'
  /** The beginning of the secret; undefined for keys of the configuration. */
  readonly shown: string | undefined
  readonly models: readonly string[] | undefined
  readonly limits: Limits
  readonly tags: Readonly<Record<string, string>>
  readonly fixedTags: Readonly<Record<string, string>>
  readonly priority: NonNullable<KeyRecord['priority']>
  readonly maxWaitMs: number | undefined
  readonly createdMs: number | undefined
  readonly expiresAtMs: number | undefined
  readonly revokedMs: number | undefined
  /** Until when the secret before the last rotation is accepted. */
  readonly graceUntilMs: number | undefined
  readonly state: 'active' | 'expired' | 'revoked' | 'disabled' | 'orphaned'
  /** Undefined if the key was never used. */
  readonly activity: KeyActivity | undefined
}

interface ListOptions {
  /** Of the configuration and of the store. */
  readonly organizations: readonly OrganizationConfig[]
  /** Only keys of this organisation. */
  readonly only?: string | undefined
  readonly nowMs: number
  /** The first by id; absent = all. */
  readonly most?: number | undefined
}

/** The keys, by id. */
export async function listKeys(
  store: KeyStore,
  readActivity: ReadActivity,
  { organizations, only, nowMs, most = Number.POSITIVE_INFINITY }: ListOptions,
): Promise<readonly ListedKey[]> {
  const served = organizations.filter(({ id }) => only === undefined || id === only)
  const configured = served.flatMap(({ keys }) => keys.map(({ id }) => id))
  const records = await store.list(only, most)
  const revocations = await store.revocations(configured)
  const owners = new Map(organizations.map((organization) => [organization.id, organization]))
  const listed = [
    ...records.map((record) => storedRow(record, owners.get(record.organization), nowMs)),
    ...served.flatMap((organization) => configuredRows(organization, revocations, nowMs)),
  ]
    .sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0))
    .slice(0, most)
  const active = await activityOf(listed, readActivity)
  return listed.map((key) => ({ ...key, activity: active.get(`${key.organization}\0${key.id}`) }))
}

/** One key of the store after a change, as it is listed: its organisation is known. */
export function listedRecord(record: KeyRecord, activity: KeyActivity | undefined, nowMs: number): ListedKey {
  return { ...storedRow(record, { disabled: false }, nowMs), activity }
}

type Row = Omit<ListedKey, 'activity'>

/** `owner`: its organisation, if that is known. */
function storedRow(record: KeyRecord, owner: Pick<OrganizationConfig, 'disabled'> | undefined, nowMs: number): Row {
  const { id, organization, shown, models, limits = {}, tags = {}, fixedTags = {}, createdMs } = record
  const { expiresAtMs, revokedMs, previous, priority = 'interactive', maxWaitMs } = record
  const graceUntilMs = previous !== undefined && nowMs < previous.untilMs ? previous.untilMs : undefined
  const live = isUsable({ disabled: false, expiresAtMs }, nowMs) ? 'active' : 'expired'
  const ofOwner = owner === undefined ? 'orphaned' : owner.disabled === true ? 'disabled' : live
  const state = revokedMs !== undefined ? 'revoked' : ofOwner
  return {
    ...{ id, organization, source: 'store', shown, models, limits, tags, fixedTags, priority, maxWaitMs },
    ...{ createdMs, expiresAtMs, revokedMs, graceUntilMs, state },
  }
}

function configuredRows(
  { id: organization, keys }: OrganizationConfig,
  revocations: ReadonlyMap<string, KeyRecord>,
  nowMs: number,
): readonly Row[] {
  return keys.map((key) => {
    const { id, models, limits, tags = {}, fixedTags = {}, expiresAtMs, disabled } = key
    const { priority = 'interactive', maxWaitMs } = key
    const revocation = revocations.get(id)
    const revokedMs = !disabled && revocation?.organization === organization ? revocation.createdMs : undefined
    const live = isUsable(key, nowMs) ? 'active' : 'expired'
    return {
      ...{ id, organization, source: 'configuration', shown: undefined, models, limits, tags, fixedTags },
      ...{ priority, maxWaitMs, createdMs: undefined, expiresAtMs, revokedMs, graceUntilMs: undefined },
      state: disabled ? 'disabled' : revokedMs !== undefined ? 'revoked' : live,
    }
  })
}

/** By organisation and id, with NUL between. */
async function activityOf(keys: readonly Row[], read: ReadActivity): Promise<ReadonlyMap<string, KeyActivity>> {
  const byOrganization = Map.groupBy(keys, ({ organization }) => organization)
  const found = new Map<string, KeyActivity>()
  for (const [organization, own] of byOrganization) {
    const active = await read(organization, [...new Set(own.map(({ id }) => id))])
    for (const [id, activity] of active) found.set(`${organization}\0${id}`, activity)
  }
  return found
}

/** A key as JSON. A missing value is null; money of limits in dollars, as in the configuration. */
export function keyJson(key: ListedKey): JsonObject {
  const time = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString())
  return {
    id: key.id,
    organization: key.organization,
    source: key.source,
    shown: key.shown ?? null,
    models: key.models ?? null,
    limits: configuredLimits(key.limits),
    tags: key.tags,
    fixed_tags: key.fixedTags,
    priority: key.priority,
    max_wait_ms: key.maxWaitMs ?? null,
    created_at: time(key.createdMs),
    expires_at: time(key.expiresAtMs),
    revoked_at: time(key.revokedMs),
    grace_until: time(key.graceUntilMs),
    last_used_at: time(key.activity?.usedMs),
    spend_today_micro_usd: key.activity?.todayMicroUsd ?? 0,
    state: key.state,
  }
}
