/** What the key store adds to the configuration: its organisations, its keys with limits, and those that expire. */

import { openKeyStore } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import type { Limits } from '../core/limits.ts'
import type { ExpiringKey } from '../core/organization-config.ts'
import { ownLimitsWith } from '../keys/budget-overrides.ts'
import { budgetsRecordId } from '../keys/budget-record.ts'
import { allOrganizations } from '../keys/organization-record.ts'
import { withLedger } from './ledger-part.ts'

/** Stored keys that are looked at, the first by id: 500,000 would take hundreds of megabytes. */
const KEYS_MAX = 20_000

/** A key with limits of its own. */
export interface LimitedKey {
  readonly id: string
  readonly organization: string
  readonly limits: Limits
}

export interface StoredKeys {
  readonly limited: readonly LimitedKey[]
  readonly expiring: readonly ExpiringKey[]
}

/** Throws `LedgerProblem`. */
export async function storedKeysOf(config: Config): Promise<StoredKeys> {
  const keys = (await withLedger(openKeyStore, config, (store) => store.list(undefined, KEYS_MAX))).filter(
    ({ revokedMs }) => revokedMs === undefined,
  )
  return {
    limited: keys.flatMap(({ id, organization, limits }) =>
      limits === undefined ? [] : [{ id, organization, limits }],
    ),
    expiring: keys.flatMap(({ id, organization, expiresAtMs }) =>
      expiresAtMs === undefined ? [] : [{ id, organization, expiresAtMs }],
    ),
  }
}

/** The keys of the configuration that expire. */
export function configuredExpiringKeys({ organizations }: Config): readonly ExpiringKey[] {
  return organizations.flatMap(({ id: organization, keys }) =>
    keys.flatMap(({ id, expiresAtMs, disabled }) =>
      expiresAtMs === undefined || disabled ? [] : [{ id, organization, expiresAtMs }],
    ),
  )
}

/**
 * The configuration with the organisations of the store, which have no key in it, and with what organisations spent
 * elsewhere. Throws `LedgerProblem`.
 */
export async function withStoredOrganizations(config: Config): Promise<Config> {
  return await withLedger(openKeyStore, config, async (store) => {
    const all = allOrganizations(config.organizations, await store.organizations())
    const limited = all.filter(({ limits }) => limits.spend !== undefined)
    const records = await store.records(limited.map(({ id }) => budgetsRecordId(id)))
    const byId = new Map(records.map((record) => [record.organization, record]))
    const organizations = all.map((one) => {
      const limits = ownLimitsWith(byId.get(one.id), one.limits)
      return limits === one.limits ? one : { ...one, limits }
    })
    return { ...config, organizations }
  })
}
