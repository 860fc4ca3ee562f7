/**
 * Creates, changes and disables organisations beside those of the configuration, for `weir organizations` and for the
 * admin API, as `KeyChanges` does with keys.
 */

import { keyOf } from '../catalog/catalog.ts'
import { patchOrganization, readOrganization } from '../config/key-input.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import { isObject, type JsonObject } from '../core/json.ts'
import { KeyProblem } from '../core/key-problem.ts'
import { configuredLimits, type Limits } from '../core/limits.ts'
import type { OrganizationConfig } from '../core/organization-config.ts'
import { auditEntry, checkPriced, inForce, type KeyChangesParts } from './key-changes.ts'
import type { KeyRecord } from './key-record.ts'
import {
  descriptionOfRecord,
  organizationRecord,
  organizationRecordId,
  storedOrganization,
  withDescription,
} from './organization-record.ts'

/** Every method throws `KeyProblem`. */
export class OrganizationChanges {
  constructor(private readonly parts: KeyChangesParts) {}

  /** `input`: `{"id", "models", "limits", "weight"}` as in the configuration. */
  async create(input: unknown): Promise<KeyRecord> {
    const description = readOrganization(input)
    const { id } = description
    if (this.isConfigured(id))
      throw new KeyProblem('exists', `the id ${quoted(id)} is used by an organisation of the configuration`)
    const record = organizationRecord(description, Date.now())
    this.checkPrices(record)
    const { models, limits, weight } = description
    const details = {
      ...(models === undefined ? {} : { models: [...models] }),
      ...(limits === undefined ? {} : { limits: configuredLimits(limits) }),
      ...(weight === undefined ? {} : { weight }),
    }
    const entry = auditEntry(this.parts, 'organization.created', id, details)
    if (!(await inForce(this.parts, (store) => store.create(record, entry))))
      throw new KeyProblem('exists', `the id ${quoted(id)} is used by an organisation of the store`)
    return record
  }

  /** `patch`: what is absent stays, `null` removes. `{"disabled": true}` rejects its keys. */
  async update(id: string, patch: unknown): Promise<KeyRecord> {
    const given = isObject(patch) ? patch : {}
    const isDisabling = given['disabled'] === true && Object.keys(given).length === 1
    const action = isDisabling ? 'organization.disabled' : 'organization.updated'
    const edit = (record: KeyRecord): KeyRecord => {
      const before = descriptionOfRecord(record)
      const next = withDescription(record, patchOrganization(before, patch))
      if (given['limits'] !== undefined || given['models'] !== undefined) this.checkPrices(next)
      return Bun.deepEquals(descriptionOfRecord(next), before) ? record : next
    }
    const entry = auditEntry(this.parts, action, id, isDisabling ? {} : given)
    if (this.isConfigured(id)) {
      const advice = 'change it there and send SIGHUP to weir serve'
      throw new KeyProblem('conflict', `organisation ${quoted(id)} is in the configuration; ${advice}`)
    }
    return await inForce(this.parts, async (store) => {
      const record = await store.change(organizationRecordId(id), edit, entry)
      if (record !== undefined) return record
      const known = (await store.organizations()).map(({ organization }) => organization)
      throw new KeyProblem('unknown', `no organisation has the id ${quoted(id)}${didYouMean(id, known)}`)
    })
  }

  private isConfigured(id: string): boolean {
    return this.parts.config.organizations.some((organization) => organization.id === id)
  }

  private checkPrices(record: KeyRecord): void {
    const organization = storedOrganization(record)
    if (organization.limits.spend === undefined) return
    const key = { id: '', auto: 'off', limits: {}, disabled: false } as const
    checkPriced(this.parts.config, organization, `organisation ${quoted(organization.id)}`, (owner) =>
      keyOf(owner, key),
    )
  }
}

/** An organisation as it is listed. */
export interface ListedOrganization {
  readonly id: string
  readonly source: 'store' | 'configuration'
  readonly models: readonly string[] | undefined
  readonly limits: Limits
  readonly weight: number
  /** Undefined for one of the configuration. */
  readonly createdMs: number | undefined
  /** `overridden`: the configuration has one of the same id, and that holds. */
  readonly state: 'active' | 'disabled' | 'overridden'
}

/** All organisations by id, of the store and of the configuration. */
export function listOrganizations(
  configured: readonly OrganizationConfig[],
  stored: readonly KeyRecord[],
): readonly ListedOrganization[] {
  const own = configured.map(
    ({ id, models, limits, weight = 1 }): ListedOrganization => ({
      ...{ id, source: 'configuration', models, limits, weight, createdMs: undefined, state: 'active' },
    }),
  )
  const ids = new Set(own.map(({ id }) => id))
  const others = stored.map((record) => listedOrganization(record, ids.has(record.organization)))
  return [...own, ...others].sort((one, other) => (one.id < other.id ? -1 : one.id > other.id ? 1 : 0))
}

/** One of the store. */
export function listedOrganization(record: KeyRecord, isOverridden = false): ListedOrganization {
  const { id, models, limits = {}, weight = 1, disabled } = descriptionOfRecord(record)
  const state = isOverridden ? 'overridden' : disabled ? 'disabled' : 'active'
  return { id, source: 'store', models, limits, weight, createdMs: record.createdMs, state }
}

/** An organisation as JSON. A missing value is null; money of limits in dollars, as in the configuration. */
export function organizationJson(organization: ListedOrganization): JsonObject {
  const { id, source, models, limits, weight, createdMs, state } = organization
  return {
    ...{ id, source, models: models ?? null, limits: configuredLimits(limits), weight },
    created_at: createdMs === undefined ? null : new Date(createdMs).toISOString(),
    state,
  }
}
