/**
 * Organisations that commands and the admin API create. Each is a record of the key store without a secret, under a
 * prefix and its id, so that everything that holds for keys holds for it: one change log, gateways that follow within a
 * second and put back what Redis loses. An earlier version of weir takes it for a key that cannot be presented.
 */

import type { OrganizationConfig, OrganizationDescription } from '../core/organization-config.ts'
import { type KeyRecord, ORGANIZATION } from './key-record.ts'

/**
 * In `shown`, which an organisation has no other use for: of all fields that earlier versions keep when they put a
 * record back, it is the one that can be set and unset.
 */
const DISABLED = 'disabled'

/** The id of the record of an organisation. */
export function organizationRecordId(id: string): string {
  return `${ORGANIZATION}${id}`
}

export function organizationRecord(description: OrganizationDescription, nowMs: number): KeyRecord {
  const { id } = description
  return withDescription(
    { id: organizationRecordId(id), organization: id, sha256: '', shown: '', createdMs: nowMs },
    description,
  )
}

/** The record with other models, limits, weight and state. */
export function withDescription(record: KeyRecord, description: OrganizationDescription): KeyRecord {
  const { models, limits, weight, disabled } = description
  return { ...record, models, limits, weight, shown: disabled ? DISABLED : '' }
}

export function descriptionOfRecord(record: KeyRecord): OrganizationDescription {
  const { organization, models, limits, weight, shown } = record
  return { id: organization, models, limits, weight, disabled: shown === DISABLED }
}

/** As the configuration would have it: without keys of its own, rules or automatic selection. */
export function storedOrganization(record: KeyRecord): OrganizationConfig {
  const { id, models, limits = {}, weight, disabled } = descriptionOfRecord(record)
  return { id, models, rules: [], auto: 'off', limits, weight, keys: [], disabled }
}

/** The organisations of the configuration, and those of the store whose id it does not have. */
export function allOrganizations(
  configured: readonly OrganizationConfig[],
  stored: readonly KeyRecord[],
): readonly OrganizationConfig[] {
  const ids = new Set(configured.map(({ id }) => id))
  return [...configured, ...stored.filter(({ organization }) => !ids.has(organization)).map(storedOrganization)]
}
