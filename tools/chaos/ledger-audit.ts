/** Reads charges, rows and figures directly from the ledgers' databases, without a gateway. */

import type { Cluster, Redis } from 'ioredis'
import { type AuditRow, ROW_SQL, rowOf } from '../../src/ledger/audit-columns.ts'
import type { Account } from '../../src/ledger/ledger.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import type { AccountUsage, ScopeUsage } from '../../src/ledger/reservation-store.ts'
import { openReadOnly, type Schema } from '../../src/sqlite/database.ts'
import { counterFigure, countersOf, type Organization } from './organizations.ts'

/** A record of a request's cost. The last one of an id counts. */
export interface Charge {
  readonly kind: string
  readonly organization: string
  readonly key: string
  readonly costMicroUsd: number
  readonly overageMicroUsd: number
  readonly tags: string
}

/** The audit trail by reservation. */
export type Trail = ReadonlyMap<string, readonly Charge[]>

export async function trailOf(client: Redis | Cluster, organizations: readonly Organization[]): Promise<Trail> {
  const trail = new Map<string, Charge[]>()
  for (const { organization } of organizations) {
    for (const [, words] of await client.xrange(redisKey(organization, 'audit'), '-', '+')) {
      const field = (name: string) => words[words.indexOf(name) + 1] ?? ''
      const charge = {
        kind: field('kind'),
        organization,
        key: field('key'),
        costMicroUsd: Number(field('cost')),
        overageMicroUsd: Number(field('overage')),
        tags: field('tags'),
      }
      const id = field('id')
      const known = trail.get(id)
      if (known === undefined) trail.set(id, [charge])
      else known.push(charge)
    }
  }
  return trail
}

/** The last row of each request in a ledger's log. */
export function rowsOf(path: string, schema: Schema): readonly AuditRow[] {
  const database = openReadOnly(path, schema)
  if (database === undefined) return []
  try {
    const rows = new Map<string, AuditRow>()
    const query = database.query<Parameters<typeof rowOf>[0], []>(
      `SELECT ${ROW_SQL} FROM request ORDER BY batch, place`,
    )
    for (const row of query.all().map(rowOf)) rows.set(row.id, row)
    return [...rows.values()]
  } finally {
    database.close()
  }
}

/** The number of settlements in an outbox that Redis has not taken yet. */
export function pendingIn(path: string, schema: Schema): number {
  const database = openReadOnly(path, schema)
  if (database === undefined) return 0
  try {
    const query = database.query<{ n: number }, []>(
      `SELECT (SELECT count(*) FROM outbox WHERE state = 0)
         + (SELECT count(*) FROM outbox_group JOIN request ON request.batch = outbox_group.batch) AS n`,
    )
    return query.get()?.n ?? 0
  } finally {
    database.close()
  }
}

/** Keys are `organization`, `organization/key`, and those of `counterFigure`. */
export type AllFigures = ReadonlyMap<string, ScopeUsage>

export async function figuresOf(
  organizations: readonly Organization[],
  read: (account: Account) => AccountUsage | Promise<AccountUsage>,
): Promise<AllFigures> {
  const all = new Map<string, ScopeUsage>()
  for (const one of organizations) {
    const { organization, keys } = one
    const counters = countersOf(one)
    for (const [key] of keys) {
      const found = await read({ organization, organizationLimits: {}, key, keyLimits: {}, budgets: counters })
      for (const [i, counter] of counters.entries()) {
        const usage = found.budgets?.[i]?.usage
        if (usage !== undefined) all.set(counterFigure(organization, counter), usage)
      }
      all.set(organization, found.organization)
      all.set(`${organization}/${key}`, found.key)
    }
  }
  return all
}

export function isIdle(figures: AllFigures): boolean {
  return [...figures.values()].every(
    ({ live, day, month, total }) => live === 0 && day.held === 0 && month.held === 0 && total.held === 0,
  )
}

/** The spend of all organizations. */
export function spentOf(figures: AllFigures, organizations: readonly Organization[]): number {
  return sumOf(organizations, ({ organization }) => figures.get(organization)?.total.spent ?? 0)
}

/** The final charge of a reservation. */
export function finalOf(charges: readonly Charge[] | undefined): number | undefined {
  return charges?.at(-1)?.costMicroUsd
}

export function sumOf<T>(things: Iterable<T>, figure: (thing: T) => number): number {
  let sum = 0
  for (const thing of things) sum += figure(thing)
  return sum
}
