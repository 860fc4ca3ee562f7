/**
 * What tests of the Redis ledger observe from outside: whether a condition comes true, how a verb fails, what an
 * organisation has spent.
 */

import type { Redis } from 'ioredis'
import { CallerError } from '../../src/core/caller-error.ts'
import type { Account } from '../../src/ledger/ledger.ts'
import type { NodeLog } from '../../src/ledger/redis/protocol/node-log.ts'
import type { Settlement } from '../../src/ledger/redis/protocol/settlement.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import type { RedisServer } from './redis-server.ts'

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
