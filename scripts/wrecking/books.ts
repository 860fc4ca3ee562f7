/** What the ledgers say once all is over, read from their stores behind the gateways' backs: every charge, every row, every figure. */

import type { Redis } from 'ioredis'
import { openReadOnly, type Schema } from '../../src/ledger/database.ts'
import { type LogRow, readRows } from '../../src/ledger/log-rows.ts'
import { redisKey } from '../../src/ledger/redis/book.ts'

/** A time at which a request's cost became known. The last one of an id counts. */
export interface Charge {
  readonly kind: string
  readonly key: string
  readonly costMicroUsd: number
  readonly overageMicroUsd: number
}

/** An organisation's audit trail by reservation. */
export type Trail = ReadonlyMap<string, readonly Charge[]>

export async function trailOf(client: Redis, organization: string): Promise<Trail> {
  const trail = new Map<string, Charge[]>()
  for (const [, words] of await client.xrange(redisKey(organization, 'audit'), '-', '+')) {
    const field = (name: string) => words[words.indexOf(name) + 1] ?? ''
    const charge = {
      kind: field('kind'),
      key: field('key'),
      costMicroUsd: Number(field('cost')),
      overageMicroUsd: Number(field('overage')),
    }
    const id = field('id')
    const known = trail.get(id)
    if (known === undefined) trail.set(id, [charge])
    else known.push(charge)
  }
  return trail
}

/** All rows of a ledger's log. */
export function rowsOf(path: string, schema: Schema): readonly LogRow[] {
  const database = openReadOnly(path, schema)
  if (database === undefined) return []
  try {
    return readRows(database, 0, Number.MAX_SAFE_INTEGER)
  } finally {
    database.close()
  }
}

/** How many settlements of an outbox are in a state. */
export function entriesOf(path: string, schema: Schema, state: number): number {
  const database = openReadOnly(path, schema)
  if (database === undefined) return 0
  try {
    const query = database.query<{ n: number }, [number]>('SELECT count(*) AS n FROM outbox WHERE state = ?')
    return query.get(state)?.n ?? 0
  } finally {
    database.close()
  }
}

/** What is charged for a reservation in the end. */
export function finalOf(charges: readonly Charge[] | undefined): number | undefined {
  return charges?.at(-1)?.costMicroUsd
}

export function sumOf<T>(things: Iterable<T>, figure: (thing: T) => number): number {
  let sum = 0
  for (const thing of things) sum += figure(thing)
  return sum
}
