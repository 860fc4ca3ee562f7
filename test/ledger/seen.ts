/**
 * What tests of the Redis ledger observe from outside: whether a condition comes true, how a verb fails, what an
 * organisation has spent.
 */

import type { Redis } from 'ioredis'
import { CallerError } from '../../src/core/caller-error.ts'
import type { Account, Ledger } from '../../src/ledger/ledger.ts'
import type { FoundOfNode, NodeLog } from '../../src/ledger/redis/protocol/node-log.ts'
import type { Settlement } from '../../src/ledger/redis/protocol/settlement.ts'
import { openReader, RedisUsageLog } from '../../src/ledger/redis/readers/redis-readers.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { addUsage, noUsage, type UsageFigures } from '../../src/ledger/usage-figures.ts'
import { chargeOf, holdOf } from './conformance.ts'
import type { RedisServer } from './redis-server.ts'

/** What a Redis that was emptied has of a node. */
export const NOTHING: FoundOfNode = {
  figures: new Map(),
  foldedBefore: 0,
  reservations: new Map(),
  isLegacy: false,
  sinceMs: 0,
}

/** Waits for a condition that a timer brings about, usually within 500 ms; fails after ten seconds. */
export async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  for (let i = 0; i < 1000; i++) {
    if (await what()) return
    await Bun.sleep(10)
  }
  throw new Error('The condition did not come true within ten seconds.')
}

/** Adds a settlement to an outbox. Resolves when it is committed, or when the commit failed. */
export function logged(outbox: NodeLog, settlement: Settlement, isSent: boolean): Promise<void> {
  return new Promise((resolve) => outbox.add(settlement, isSent, { committed: resolve }))
}

/** Cuts all connections of ledgers. Resolves after each was replaced; before that a ledger may not have noticed yet. */
export async function breakConnections(client: Redis): Promise<void> {
  const ledgers = async () =>
    [...String(await client.call('CLIENT', 'LIST')).matchAll(/^id=(\d+) .*\bname=weir-/gm)].map(([, id]) => Number(id))
  const before = await ledgers()
  await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  const last = Math.max(...before)
  await until(async () => (await ledgers()).filter((id) => id > last).length >= before.length)
}

/** Serves a request until its settlement is in the node's log. */
export async function serve(ledger: Ledger, account: Account, cost: number, model = 'm'): Promise<void> {
  await ledger.settle(await ledger.reserve(account, holdOf(cost)), chargeOf(cost, model))
}

/** All usage that Redis has, of one organisation or of all. */
export async function usage({ socket }: RedisServer, organization?: string): Promise<UsageFigures> {
  const log = await openReader(RedisUsageLog, { kind: 'single', url: socket })
  const rows = await log.read({ sinceDay: 0, untilDay: 1e6, organization })
  await log.close()
  return rows.reduce<UsageFigures>(addUsage, noUsage)
}

/** Copies all data of Redis; the returned function puts it back. */
export async function copied(client: Redis): Promise<() => Promise<void>> {
  const names = await client.keys('*')
  const dumps = await Promise.all(names.map(async (name) => [name, await client.dumpBuffer(name)] as const))
  return async () => {
    const all = client.multi().flushall()
    for (const [name, dump] of dumps) if (dump !== null) all.restore(name, 0, dump)
    await all.exec()
  }
}

export async function failureOf(promise: PromiseLike<unknown>): Promise<string> {
  try {
    await promise
  } catch (error) {
    return error instanceof CallerError ? error.kind : String(error)
  }
  return 'none'
}

export async function totals(
  server: RedisServer,
  account: Account,
): Promise<{ readonly spent: number; readonly held: number; readonly live: number }> {
  const client = server.client()
  const { organization } = await new RedisStore(client, client).figures(account)
  client.disconnect()
  return { spent: organization.total.spent, held: organization.total.held, live: organization.live }
}
