/**
 * Creates, changes, rotates and revokes API keys, for `weir keys` and for the admin API: checks the input, writes the
 * key and its entry of the admin audit in one step, and returns when every gateway knows the change.
 */

import { type Access, access, Catalog, type CatalogConfig, type Key } from '../catalog/catalog.ts'
import { graceMs, keyInput, patchKey, readKey } from '../config/key-input.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import { isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import { KeyProblem } from '../core/key-problem.ts'
import { type SpentBefore, withSpentBefore } from '../core/limits.ts'
import type { KeyConfig, KeyDescription, OrganizationConfig } from '../core/organization-config.ts'
import { mayMatch } from '../core/permission.ts'
import type { AdminEntry, Changer } from './admin-audit.ts'
import { isKeyForId, KEY_FOR_ID, newToken } from './key-format.ts'
import { type KeyRecord, revocationOf, storedKey } from './key-record.ts'
import type { KeyStore } from './key-store.ts'
import { allOrganizations, storedOrganization } from './organization-record.ts'

/** The part of the configuration that decides about keys. */
interface KeysConfig extends CatalogConfig {
  /** Names of tags; absent = none. */
  readonly tags?: readonly string[]
}

export interface KeyChangesParts {
  /** The configuration in force. */
  readonly config: KeysConfig
  readonly by: Changer
  /** Opens the store, uses it and closes it. */
  readonly withStore: <Result>(use: (store: KeyStore) => Promise<Result>) => Promise<Result>
}

/** A key, and its secret, which nothing can show again. */
interface NewKey {
  readonly record: KeyRecord
  readonly secret: string
}

interface Revocation {
  /** `revoked`: by this call. */
  readonly outcome: 'revoked' | 'already_revoked'
  /** True if a key of the configuration was revoked: it stays so until the configuration drops or disables it. */
  readonly isConfigured: boolean
}

type ChangeAction =
  | 'key.created'
  | 'key.updated'
  | 'key.rotated'
  | 'key.revoked'
  | 'organization.created'
  | 'organization.updated'
  | 'organization.disabled'
  | 'budget.raised'
  | 'budget.raise_ended'
  | 'budget.reset'

/** A key that another gateway made. */
interface TakenKey {
  readonly sha256: string
  readonly shown: string
  /** As for `create`. */
  readonly description: JsonObject
  readonly before: SpentBefore | undefined
  readonly isBlocked: boolean
}

/** `taken`: its id is that of another key. */
type Taken = 'created' | 'updated' | 'unchanged' | 'taken'

/** Every method throws `KeyProblem`. */
export class KeyChanges {
  constructor(private readonly parts: KeyChangesParts) {}

  /** `input`: `{"organization", "id", "models", "limits", "expires_at", …}` as configured. */
  async create(input: unknown): Promise<NewKey> {
    const nowMs = Date.now()
    const { config } = this.parts
    const description = readKey(input, config.tags ?? [], nowMs)
    const { id, organization } = description
    checkExpiry(description, nowMs)
    if (this.configured(id) !== undefined)
      throw new KeyProblem('exists', `the id ${quoted(id)} is used by a key of the configuration; choose another`)
    const { token, sha256, shown } = newToken()
    const record = { ...description, sha256, shown, createdMs: nowMs }
    const entry = this.entry('key.created', id, { organization, ...detailsOf(description) })
    const isCreated = await inForce(this.parts, async (store) => {
      checkPrices(config, await ownerOf(config, store, organization), record)
      return await store.create(record, entry)
    })
    if (!isCreated) {
      throw new KeyProblem(
        'exists',
        `the id ${quoted(id)} is used by a key of the store; the id of a revoked or expired key is free after 30 days`,
      )
    }
    return { record, secret: token }
  }

  /** `patch`: what is absent stays, `null` removes. */
  async update(id: string, patch: unknown): Promise<KeyRecord> {
    const nowMs = Date.now()
    const { config } = this.parts
    const given = isObject(patch) ? patch : {}
    const details = { ...given }
    const edit = (record: KeyRecord, owner: OrganizationConfig | undefined): KeyRecord => {
      checkActive(record, 'changed')
      const description = patchKey(record, patch, config.tags ?? [], nowMs)
      if (given['expires_at'] !== undefined) checkExpiry(description, nowMs)
      const { expiresAtMs } = description
      // The entry is written after this: the time, not `90d`.
      if (given['expires_at'] !== undefined && expiresAtMs !== undefined) details['expires_at'] = timeText(expiresAtMs)
      const next = withSpent({ ...record, ...description }, record.limits?.spend?.before)
      if (given['limits'] !== undefined || given['models'] !== undefined) checkPrices(config, owner, next)
      return next
    }
    return await this.change(id, edit, this.entry('key.updated', id, details))
  }

  /** `grace`: how long the old secret is accepted, as `24h`; absent: not at all. */
  async rotate(id: string, grace?: unknown): Promise<NewKey> {
    const nowMs = Date.now()
    const ms = grace === undefined ? 0 : typeof grace === 'string' ? graceMs(grace) : undefined
    if (ms === undefined) {
      throw new KeyProblem(
        'invalid',
        `grace: must be a duration (90s, 10m, 24h, 7d) or 0, not ${JSON.stringify(grace)}`,
      )
    }
    const { token, sha256, shown } = newToken()
    const details: Record<string, JsonValue> = {}
    const edit = (record: KeyRecord): KeyRecord => {
      checkActive(record, 'rotated')
      // Made already, and given back by a gateway to a Redis that had lost it.
      if (record.sha256 === sha256) return record
      // No secret of the key is accepted after its expiry, so the grace ends there at the latest. Without a grace the
      // old secret is rejected by every clock, and known for the log.
      const untilMs = ms === 0 ? 0 : Math.min(nowMs + ms, record.expiresAtMs ?? Number.POSITIVE_INFINITY)
      // The entry is written after this, with the change.
      details['old_secret_until'] = untilMs === 0 ? null : timeText(untilMs)
      return { ...record, sha256, shown, previous: { sha256: record.sha256, untilMs } }
    }
    const record = await this.change(id, edit, this.entry('key.rotated', id, details))
    return { record, secret: token }
  }

  /**
   * Takes over keys whose hashes another gateway had, and what they spent there. A key that is in the store already
   * only gets that amount, so the same keys may be taken over again. Resolves to what was done, in their order.
   */
  async takeOver(keys: readonly TakenKey[]): Promise<readonly Taken[]> {
    const nowMs = Date.now()
    const { config } = this.parts
    const records = keys.map(({ description: input, sha256, shown, before, isBlocked }) => {
      const description = readKey(input, config.tags ?? [], nowMs)
      const revokedMs = isBlocked ? nowMs : undefined
      return withSpent({ ...description, sha256, shown, createdMs: nowMs, revokedMs }, before)
    })
    return await inForce(this.parts, async (store) => {
      const known = new Set(allOrganizations(config.organizations, await store.organizations()).map(({ id }) => id))
      const missing = records.find(({ organization }) => !known.has(organization))
      if (missing !== undefined)
        throw new KeyProblem('invalid', `the configuration has no organisation ${quoted(missing.organization)}`)
      const done: Taken[] = []
      for (const record of records) done.push(await this.take(store, record))
      return done
    })
  }

  private async take(store: KeyStore, record: KeyRecord): Promise<Taken> {
    const { id, organization } = record
    if (this.configured(id) !== undefined) return 'taken'
    const details = { organization, ...detailsOf(record), from: 'litellm' }
    const there = await store.get(id)
    if (there === undefined) {
      return (await store.create(record, this.entry('key.created', id, details))) ? 'created' : 'taken'
    }
    if (there.sha256 !== record.sha256 || there.organization !== organization) return 'taken'
    const before = record.limits?.spend?.before
    const isSame = there.limits?.spend === undefined || Bun.deepEquals(there.limits.spend.before, before)
    if (there.revokedMs !== undefined || isSame) return 'unchanged'
    const edit = (key: KeyRecord): KeyRecord => withSpent(key, before)
    await store.change(id, edit, this.entry('key.updated', id, { organization, from: 'litellm' }))
    return 'updated'
  }

  /** Revokes a key of the store, or of the configuration until that drops or disables it. */
  async revoke(id: string): Promise<Revocation> {
    checkId(id)
    const nowMs = Date.now()
    const configured = this.configured(id)
    const outcomes = await inForce(this.parts, async (store) => {
      const stored = await store.revoke(id, nowMs, this.entry('key.revoked', id, {}))
      if (configured === undefined) {
        if (stored === 'unknown') throw await unknownKey(store, id)
        return [stored]
      }
      if (configured.key.disabled) {
        if (stored !== 'unknown') return [stored]
        throw new KeyProblem('conflict', `key ${quoted(id)} is disabled in the configuration and rejected already`)
      }
      const { organization } = configured
      const entry = this.entry('key.revoked', id, {
        organization,
        until: 'the configuration drops or disables the key',
      })
      const revocation = revocationOf(organization, id, nowMs)
      if (await store.create(revocation, entry)) return [stored, 'revoked']
      // A configuration that dropped or disabled the key before, and is deleting the earlier one, must keep this one.
      await store.change(revocation.id, () => revocation)
      return [stored, 'already_revoked']
    })
    const outcome = outcomes.includes('revoked') ? 'revoked' : 'already_revoked'
    return { outcome, isConfigured: configured?.key.disabled === false }
  }

  private async change(
    id: string,
    edit: (record: KeyRecord, owner: OrganizationConfig | undefined) => KeyRecord,
    entry: AdminEntry,
  ): Promise<KeyRecord> {
    checkId(id)
    return await inForce(this.parts, async (store) => {
      const known = (await store.get(id))?.organization
      const owner = known === undefined ? undefined : await organizationOf(this.parts.config, store, known)
      const record = await store.change(id, (before) => edit(before, owner), entry)
      if (record !== undefined) return record
      if (this.configured(id) === undefined) throw await unknownKey(store, id)
      throw new KeyProblem(
        'conflict',
        `key ${quoted(id)} is in the configuration; change it there and send SIGHUP to weir serve`,
      )
    })
  }

  private configured(id: string): { readonly organization: string; readonly key: KeyConfig } | undefined {
    for (const { id: organization, keys } of this.parts.config.organizations) {
      const key = keys.find((one) => one.id === id)
      if (key !== undefined) return { organization, key }
    }
    return undefined
  }

  private entry(action: ChangeAction, target: string, details: JsonObject): AdminEntry {
    return auditEntry(this.parts, action, target, details)
  }
}

/** Resolves when the changes are in force on every gateway, and stay. */
export function inForce<Result>(
  { withStore }: Pick<KeyChangesParts, 'withStore'>,
  make: (store: KeyStore) => Promise<Result>,
): Promise<Result> {
  return withStore(async (store) => {
    const result = await make(store)
    await store.confirm()
    return result
  })
}

export function auditEntry(
  { by }: Pick<KeyChangesParts, 'by'>,
  action: ChangeAction,
  target: string,
  details: JsonObject,
): AdminEntry {
  return { timeMs: Date.now(), ...by, action, target, details: bounded(details) }
}

/** Records of organisations and revocations are in the same store, under ids with a colon. */
function checkId(id: string): void {
  if (id.includes(':')) throw new KeyProblem('unknown', `no key has the id ${quoted(id)}`)
}

/** An organisation of the configuration, or one that a command created. */
async function organizationOf(
  { organizations }: KeysConfig,
  store: KeyStore,
  id: string,
): Promise<OrganizationConfig | undefined> {
  const configured = organizations.find((one) => one.id === id)
  const record = configured === undefined ? await store.organization(id) : undefined
  return record === undefined ? configured : storedOrganization(record)
}

/** As `organizationOf`; throws `KeyProblem` if there is none. */
export async function ownerOf(config: KeysConfig, store: KeyStore, id: string): Promise<OrganizationConfig> {
  const owner = await organizationOf(config, store, id)
  if (owner !== undefined) return owner
  const stored = (await store.organizations()).map(({ organization }) => organization)
  const known = [...config.organizations.map((one) => one.id), ...stored]
  const hint = didYouMean(id, known) || '; make one with weir organizations create'
  throw new KeyProblem('invalid', `the configuration has no organisation ${quoted(id)}${hint}`)
}

/** What an operator probably did not mean by a key that was made or changed: patterns that match no model. */
export function keyWarnings(config: KeysConfig, { models = [] }: Pick<KeyRecord, 'models'>): readonly string[] {
  const names = config.models.map(({ name }) => name)
  return models
    .filter((glob) => !names.some((name) => mayMatch(glob, name)))
    .map((glob) => `models: ${quoted(glob)} matches no model of the configuration${didYouMean(glob, names)}`)
}

/** The key with what it spent elsewhere, if it has a spend limit. */
function withSpent(record: KeyRecord, before: SpentBefore | undefined): KeyRecord {
  const { limits } = record
  return limits === undefined ? record : { ...record, limits: withSpentBefore(limits, before) }
}

function checkExpiry({ expiresAtMs }: KeyDescription, nowMs: number): void {
  if (expiresAtMs !== undefined && expiresAtMs <= nowMs)
    throw new KeyProblem('invalid', `expires_at: must be in the future, not ${timeText(expiresAtMs)}`)
}

function checkActive({ id, revokedMs }: KeyRecord, what: string): void {
  if (revokedMs !== undefined)
    throw new KeyProblem('conflict', `key ${quoted(id)} is revoked and cannot be ${what}; create another key`)
}

function checkPrices(config: KeysConfig, owner: OrganizationConfig | undefined, record: KeyRecord): void {
  if (record.limits?.spend === undefined || owner === undefined) return
  checkPriced(config, owner, `key ${quoted(record.id)}`, (organization) => storedKey(organization, record))
}

/** A spend limit needs to know what a request of a key of the organisation may cost. `whose` is a kind and an id. */
export function checkPriced(
  config: KeysConfig,
  owner: OrganizationConfig,
  whose: string,
  keyOf: (organization: Key['organization']) => Key,
): void {
  const catalog = Catalog.from({ ...config, organizations: [owner] })
  const organization = catalog.organization(owner.id)
  if (organization === undefined) return
  const key = keyOf(organization)
  for (const model of catalog.models) {
    const problem = unpriced(access(key, model))
    if (problem === undefined) continue
    throw new KeyProblem(
      'invalid',
      `${whose} may use model ${quoted(model.name)}, ${problem}; give the model one in the configuration, or ` +
        `exclude it with the models of the ${whose.split(' ')[0]}`,
    )
  }
}

/** What a model lacks under a spend limit; undefined if nothing, or if it is not allowed anyway. */
function unpriced(verdict: Access): string | undefined {
  if (verdict.allowed || (verdict.by !== 'price' && verdict.by !== 'output limit')) return undefined
  const [lacks, under] =
    verdict.by === 'price' ? ['price', 'a spend limit'] : ['max_output_tokens', 'a strict spend limit']
  return `which has no ${lacks}, and ${under} needs it`
}

/** Reading all ids would take long: the suggestion is among some of them. */
async function unknownKey(store: KeyStore, id: string): Promise<KeyProblem> {
  if (isKeyForId(id)) return new KeyProblem('unknown', KEY_FOR_ID)
  return new KeyProblem('unknown', `no key has the id ${quoted(id)}${didYouMean(id, await store.someIds())}`)
}

/** The fields of a key for the admin audit, with the names of the configuration. */
function detailsOf(description: KeyDescription): JsonObject {
  const { organization: _, id: __, ...fields } = keyInput(description)
  return fields
}

/** A caller decides how long its lists are; an entry of the audit has a bound. */
const DETAILS_CHARS_MAX = 4000

function bounded(details: JsonObject): JsonObject {
  return JSON.stringify(details).length <= DETAILS_CHARS_MAX ? details : { fields: Object.keys(details) }
}

function timeText(ms: number): string {
  return new Date(ms).toISOString()
}
