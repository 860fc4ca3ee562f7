/**
 * Random sequences of create, update, rotate, revoke and the passage of time, in a time of their own: which secrets a
 * gateway accepts and with which limits, compared with a model that keeps lists of secrets and their ends.
 */

import { expect } from 'bun:test'
import { Catalog } from '../../src/catalog/catalog.ts'
import type { OrganizationConfig } from '../../src/core/organization-config.ts'
import { AcceptedKeys } from '../../src/keys/accepted-keys.ts'
import { newToken } from '../../src/keys/key-format.ts'
import { type KeyRecord, parseKeyRecord, revocationOf } from '../../src/keys/key-record.ts'
import { KeyTable } from '../../src/keys/key-table.ts'
import { property, type Random } from '../support/random.ts'

const STEPS = 150
const IDS = 6
const HOUR_MS = 3_600_000

/** What should be accepted: each secret of each key until a time, and the limit that applies. */
interface Expected {
  readonly secrets: { readonly token: string; untilMs: number }[]
  perMinute: number | undefined
  expiresAtMs: number
  isRevoked: boolean
}

const ORGANIZATION: OrganizationConfig = { id: 'acme', rules: [], auto: 'off', limits: {}, keys: [] }

/** The records of a store, as `weir keys` writes them, and the table of a gateway that follows it. */
class Subject {
  private readonly table = new KeyTable()
  private readonly keys = new AcceptedKeys(
    Catalog.from({ ownedBy: 'weir', models: [], organizations: [ORGANIZATION], auto: { candidates: [] } }),
    () => ({ table: this.table, isRead: true, complaint: undefined }),
    () => true,
  )

  change(record: KeyRecord): void {
    const read = parseKeyRecord(JSON.stringify(record))
    if (read !== undefined) this.table.put(read)
  }

  get(id: string): KeyRecord {
    const record = this.table.get(id)
    if (record === undefined) throw new Error(`there is no key ${id}`)
    return record
  }

  accepted(token: string, nowMs: number) {
    return this.keys.find(token, nowMs)
  }

  refused(token: string, nowMs: number) {
    return this.keys.refused(token, nowMs)
  }
}

/** One change of a key, made in both. */
function change(random: Random, id: string, nowMs: number, subject: Subject, model: Map<string, Expected>): void {
  const known = model.get(id)
  const { token, sha256, shown } = newToken()
  if (known === undefined || known.isRevoked) {
    // The id of a revoked key is free when its record is gone.
    const expiresAtMs = random.chance(0.3) ? nowMs + random.below(20) * HOUR_MS : Number.POSITIVE_INFINITY
    const expiry = Number.isFinite(expiresAtMs) ? { expiresAtMs } : {}
    subject.change({ id, organization: 'acme', sha256, shown, createdMs: nowMs, ...expiry })
    const secrets = [{ token, untilMs: Number.POSITIVE_INFINITY }]
    model.set(id, { secrets, perMinute: undefined, expiresAtMs, isRevoked: false })
    return
  }
  const record = subject.get(id)
  switch (random.below(4)) {
    case 0: {
      const perMinute = random.chance(0.3) ? undefined : random.between(1, 100)
      subject.change({ ...record, limits: perMinute === undefined ? undefined : { requestsPerMinute: perMinute } })
      known.perMinute = perMinute
      return
    }
    case 1: {
      const graceMs = random.chance(0.3) ? 0 : random.below(10) * HOUR_MS
      const previous = { sha256: record.sha256, untilMs: graceMs === 0 ? 0 : nowMs + graceMs }
      subject.change({ ...record, sha256, shown, previous })
      // Every earlier secret ends, but the latest one, which has the grace.
      for (const secret of known.secrets) {
        const isLatest = secret === known.secrets.at(-1)
        secret.untilMs = Math.min(secret.untilMs, isLatest ? nowMs + graceMs : nowMs)
      }
      known.secrets.push({ token, untilMs: Number.POSITIVE_INFINITY })
      return
    }
    case 2: {
      const expiresAtMs = nowMs + random.between(1, 30) * HOUR_MS
      subject.change({ ...record, expiresAtMs })
      known.expiresAtMs = expiresAtMs
      return
    }
    default:
      if (!random.chance(0.3)) return
      subject.change({ ...record, revokedMs: nowMs })
      known.isRevoked = true
  }
}

property('after any sequence of changes exactly the secrets of the model are accepted', 30, (random) => {
  const subject = new Subject()
  const model = new Map<string, Expected>()
  const retired: string[] = []
  let nowMs = 1_800_000_000_000
  for (let step = 0; step < STEPS; step++) {
    const id = `key-${random.below(IDS)}`
    const before = model.get(id)
    change(random, id, nowMs, subject, model)
    if (before !== undefined && before !== model.get(id)) retired.push(...before.secrets.map(({ token }) => token))
    nowMs += random.below(3) * HOUR_MS
    for (const [owner, { secrets, perMinute, expiresAtMs, isRevoked }] of model) {
      for (const [at, { token, untilMs }] of secrets.entries()) {
        const key = subject.accepted(token, nowMs)
        const isAccepted = !isRevoked && nowMs < untilMs && nowMs < expiresAtMs
        expect(key?.id).toBe(isAccepted ? owner : undefined)
        if (isAccepted) expect(key?.limits.requestsPerMinute).toBe(perMinute)
        // The log names the key of its present secret and of the one before it.
        const [isLatest, isPrevious] = [at === secrets.length - 1, at === secrets.length - 2]
        const ofLatest = isRevoked ? 'revoked' : 'expired'
        const ofPrevious = isRevoked ? undefined : nowMs < untilMs ? 'expired' : 'rotated'
        const state = isLatest ? ofLatest : isPrevious ? ofPrevious : undefined
        if (!isAccepted) expect(subject.refused(token, nowMs)).toEqual(state && { id: owner, state })
      }
    }
    for (const token of retired) expect(subject.accepted(token, nowMs)).toBeUndefined()
  }
})

property('a record that revokes a key of the configuration rejects that key alone, while it is there', 10, (random) => {
  const tokens = Array.from({ length: 4 }, (_, i) => `configured-key-${i}-${random.below(1e6)}`)
  const keys = tokens.map((token, i) => ({
    ...{ id: `key-${i}`, auto: 'off' as const, limits: {}, disabled: false },
    sha256: new Bun.CryptoHasher('sha256').update(token).digest('hex'),
  }))
  const catalog = Catalog.from({
    ...{ ownedBy: 'weir', models: [], auto: { candidates: [] } },
    organizations: [{ ...ORGANIZATION, keys }],
  })
  const table = new KeyTable()
  const accepted = new AcceptedKeys(
    catalog,
    () => ({ table, isRead: true, complaint: undefined }),
    () => true,
  )
  const revoked = new Set<number>()
  for (let step = 0; step < 60; step++) {
    const at = random.below(tokens.length)
    if (random.chance(0.5)) {
      table.put(revocationOf(random.chance(0.8) ? 'acme' : 'other', `key-${at}`, step))
      if (table.revocation(`key-${at}`)?.organization === 'acme') revoked.add(at)
      else revoked.delete(at)
    } else {
      table.delete(`configuration:key-${at}`)
      revoked.delete(at)
    }
    for (const [i, token] of tokens.entries()) {
      const key = accepted.find(token, 0)
      expect(key?.id).toBe(revoked.has(i) ? undefined : `key-${i}`)
      if (revoked.has(i)) expect(accepted.refused(token, 0)).toEqual({ id: `key-${i}`, state: 'revoked' })
      else if (key !== undefined) expect(accepted.isRevoked(key)).toBe(false)
    }
  }
})
