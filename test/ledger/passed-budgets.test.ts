/** What a node reports of budgets that are passed once it has given back what Redis had lost. */

import { expect, test } from 'bun:test'
import type { Account } from '../../src/ledger/ledger.ts'
import type { PassedBudget } from '../../src/ledger/redis/epochs/passed-budgets.ts'
import type { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { breakConnections, totals, until } from './seen.ts'

const { open, directory, ledgerOn } = opened()

async function serve(ledger: RedisLedger, account: Account, cost: number): Promise<void> {
  await ledger.settle(await ledger.reserve(account, holdOf(cost)), chargeOf(cost))
  await until(() => ledger.health().pending === 0)
}

async function close(ledger: RedisLedger): Promise<void> {
  open.splice(open.indexOf(ledger), 1)
  await ledger.close()
}

/** What a node reports now, once Redis has all that was spent. */
async function reported(ledger: RedisLedger, account: Account): Promise<readonly PassedBudget[]> {
  const found: PassedBudget[] = []
  await ledger.reportPassed(
    (_, key) => ({ ...account, key, keyLimits: key === account.key ? account.keyLimits : {} }),
    (passed) => found.push(passed),
  )
  return found
}

test('each budget is reported once after each return, and only by the node that gave something back', async () => {
  await using server = await RedisServer.start()
  const account = accountOf(spend({ total: 1000, month: 5000 }), spend({ day: 1200 }))
  const other: Account = { ...account, key: 'dev', keyLimits: {} }
  const at = directory()
  const away = await ledgerOn(server.socket, at)
  await serve(away, account, 600)
  await serve(away, other, 300)
  await close(away)
  const client = server.client()
  await client.flushall()
  const there = await ledgerOn(server.socket)
  await serve(there, account, 700)
  await serve(there, other, 300)
  expect(await reported(there, account)).toEqual([])

  const back = [await ledgerOn(server.socket, at), await ledgerOn(server.socket, at)]
  const found: PassedBudget[] = []
  await until(async () => {
    for (const one of back) found.push(...(await reported(one, account)))
    return found.length >= 2
  })
  expect((await totals(server, account))['spent'] ?? 1900).toBe(1900)
  for (const one of back) found.push(...(await reported(one, account)))
  const { organization } = account
  expect(found).toEqual([
    { organization, key: undefined, limit: 'total', limitMicroUsd: 1000, spentMicroUsd: 1900, givenBackMicroUsd: 900 },
    { organization, key: 'ci', limit: 'day', limitMicroUsd: 1200, spentMicroUsd: 1300, givenBackMicroUsd: 600 },
  ])

  // A broken connection loses nothing, though the budgets stay passed.
  await breakConnections(client)
  const free: Account = { ...accountOf({}, {}, organization), key: 'dev' }
  for (const one of [...back, there]) await serve(one, free, 0)
  for (const one of [...back, there]) expect(await reported(one, account)).toEqual([])
  client.disconnect()
})

test('usage of a day before today is not of its budget, and what leaves room is not reported', async () => {
  await using server = await RedisServer.start()
  const account = accountOf(spend({ total: 1000 }))
  const at = directory()
  const away = await ledgerOn(server.socket, at)
  await serve(away, account, 600)
  await close(away)
  const client = server.client()
  await client.flushall()
  const there = await ledgerOn(server.socket)
  await serve(there, account, 400)
  const back = await ledgerOn(server.socket, at)
  await until(async () => (await totals(server, account))['spent'] !== undefined)
  await serve(back, { ...account, organizationLimits: {} }, 0)
  expect(await reported(back, account)).toEqual([])
  client.disconnect()
})
