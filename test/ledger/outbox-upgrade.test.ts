/**
 * An outbox of format 4 with a Redis of an earlier version, which did not record figures by node: nothing is lost, and
 * nothing is taken for a loss.
 */

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Account } from '../../src/ledger/ledger.ts'
import { settlementText } from '../../src/ledger/redis/protocol/settlement.ts'
import type { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { LOG_SQL } from '../../src/ledger/request-table.ts'
import { dayOf } from '../../src/ledger/window.ts'
import { accountOf, chargeOf, holdOf } from './conformance.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { failureOf, totals, until } from './seen.ts'

const { directory, ledgerOn } = opened()

const FORMAT_4 = `
  CREATE TABLE outbox (
    number INTEGER PRIMARY KEY, state INTEGER NOT NULL, due_ms INTEGER NOT NULL, sent_ms INTEGER,
    taken_ms INTEGER, entry TEXT NOT NULL
  );
  CREATE INDEX outbox_due ON outbox (due_ms) WHERE state = 0;
  CREATE INDEX outbox_given_up ON outbox (number) WHERE state = 2;
  CREATE INDEX outbox_taken ON outbox (taken_ms) WHERE taken_ms IS NOT NULL;
  CREATE TABLE node (id TEXT NOT NULL);
  CREATE TABLE life (organization TEXT PRIMARY KEY, life INTEGER NOT NULL, complete INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE given_back (
    organization TEXT NOT NULL, number INTEGER NOT NULL, day INTEGER NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
    requests INTEGER NOT NULL, estimated_requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, images INTEGER NOT NULL,
    cost_micro_usd INTEGER NOT NULL,
    PRIMARY KEY (organization, number)
  ) WITHOUT ROWID;
  ${LOG_SQL}
  PRAGMA user_version = 4;
`

/**
 * A node with settlements of 100 that Redis acknowledged, 30 that it took without acknowledgement, 20 that never
 * arrived, and 7 in doubt and not charged.
 */
async function earlier(server: RedisServer, at: string, account: Account): Promise<number> {
  const client = server.client()
  const store = new RedisStore(client, client)
  const file = new Database(join(at, 'outbox.sqlite'), { create: true, strict: true })
  file.run('PRAGMA journal_mode = WAL')
  file.run(FORMAT_4)
  const now = Date.now()
  const put = file.query('INSERT INTO outbox (state, due_ms, sent_ms, taken_ms, entry) VALUES (?, 0, ?, ?, ?)')
  for (const [cost, state, isTaken] of [
    [100, 1, true],
    [30, 0, true],
    [20, 0, false],
    [7, 2, false],
  ] as const) {
    const hold = holdOf(cost)
    await store.reserve(account, hold)
    const settlement = { id: hold.id, account, admittedMs: now, charge: chargeOf(cost), heldMicroUsd: cost }
    if (isTaken) await store.settle(settlement, settlement.charge)
    else if (state === 2) await store.cancel(account, hold.id)
    // That version knew no tags, and summed up by model alone.
    put.run(state, now, state === 1 ? now : null, settlementText(settlement).replace(',"tags":""', ''))
  }
  // The epoch's key in that version, and in this one.
  const epoch = now - 1000
  await client.hset(redisKey(account.organization, 'scopes'), 'life', epoch)
  await client.hdel(redisKey(account.organization, 'scopes'), 'epoch')
  file.query('INSERT INTO life VALUES (?, ?, 1)').run(account.organization, epoch)
  const usage = file.query('INSERT INTO usage VALUES (?, ?, ?, ?, 4, 0, 40, 16, 20, 0, 157)')
  usage.run(dayOf(now), account.organization, account.key, 'm')
  file.close()
  client.disconnect()
  return epoch
}

async function serve(ledger: RedisLedger, account: Account, cost: number): Promise<void> {
  await until(async () => {
    const settled = async () => ledger.settle(await ledger.reserve(account, holdOf(cost)), chargeOf(cost))
    return (await failureOf(settled())) === 'none'
  })
  await until(() => ledger.health().pending === 0)
}

test('restores nothing twice after an upgrade, finds later losses, restores all after a total loss', async () => {
  await using server = await RedisServer.start()
  const at = directory()
  const account = accountOf()
  const earlierEpoch = await earlier(server, at, account)
  const client = server.client()
  await client.save()
  const before = readFileSync(join(server.directory, 'dump.rdb'))
  const ledger = await ledgerOn(server.socket, at)
  await until(() => ledger.health().pending === 0)
  await serve(ledger, account, 1000)
  const sum = { spent: 1150, held: 0, live: 0 }
  expect(await totals(server, account)).toEqual(sum)
  // Set back to after the upgrade, then to before it.
  await client.save()
  const after = readFileSync(join(server.directory, 'dump.rdb'))
  await serve(ledger, account, 50_000)
  for (const snapshot of [after, before]) {
    await server.kill()
    writeFileSync(join(server.directory, 'dump.rdb'), snapshot)
    await server.start()
    await serve(ledger, account, 1)
  }
  expect(await totals(server, account)).toEqual({ ...sum, spent: 51_152 })
  // A gateway of the earlier version that still runs takes an unknown epoch for a total loss, and restores all that it
  // ever served.
  const epoch = await client.hget(redisKey(account.organization, 'scopes'), 'life')
  expect(Number(epoch)).toBe(earlierEpoch)
  await client.flushall()
  await serve(ledger, account, 1)
  expect(await totals(server, account)).toEqual({ ...sum, spent: 51_153 + 7 })
})
