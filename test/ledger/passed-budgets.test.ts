/** What a node reports of budgets that are passed once it has given back what Redis had lost. */

import { expect, test } from 'bun:test'
import { DAY_MS } from '../../src/core/durations.ts'
import type { Account } from '../../src/ledger/ledger.ts'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import type { PassedBudget } from '../../src/ledger/redis/recovery/passed-budgets.ts'
import type { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { breakConnections, failureOf, logged, NOTHING, totals, until } from './seen.ts'

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
  expect((await totals(server, account)).spent).toBe(1900)
  for (const one of back) found.push(...(await reported(one, account)))
  const { organization } = account
  expect(found).toEqual([
    { organization, key: undefined, limit: 'total', limitMicroUsd: 1000, spentMicroUsd: 1900, givenBackMicroUsd: 900 },
    { organization, key: 'ci', limit: 'day', limitMicroUsd: 1200, spentMicroUsd: 1300, givenBackMicroUsd: 600 },
  ])

  // A broken connection loses nothing, though the budgets stay passed.
  await breakConnections(client)
  const free: Account = { ...accountOf({}, {}, organization), key: 'dev' }
  for (const one of [...back, there]) {
    await until(async () => (await failureOf(serve(one, free, 0))) === 'none')
  }
  for (const one of [...back, there]) expect(await reported(one, account)).toEqual([])
})

test('given back of another day does not count, and a budget that is just used up is not passed', async () => {
  await using server = await RedisServer.start()
  const limits = spend({ day: 500, total: 1500 })
  const account = accountOf(limits)
  const at = directory()
  const now = Date.now()
  // A node that was away served 800 yesterday, and 100 today.
  const outbox = new Outbox(at)
  await outbox.enter(account.organization, 7, NOTHING, [])
  outbox.entered(account.organization, 7)
  for (const [cost, daysAgo] of [
    [800, 1],
    [100, 0],
  ] as const) {
    const id = `old-${daysAgo}`
    const admittedMs = now - daysAgo * DAY_MS
    await logged(outbox, { id, account, admittedMs, charge: chargeOf(cost), heldMicroUsd: cost }, true)
    outbox.taken(id, account.organization, 7)
  }
  outbox.close()
  const there = await ledgerOn(server.socket)
  await serve(there, { ...account, organizationLimits: {} }, 600)
  const back = await ledgerOn(server.socket, at)
  const found: PassedBudget[] = []
  await until(async () => {
    found.push(...(await reported(back, account)))
    return found.length > 0
  })
  const { organization } = account
  expect(found).toEqual([
    { organization, key: undefined, limit: 'day', limitMicroUsd: 500, spentMicroUsd: 700, givenBackMicroUsd: 100 },
  ])
  expect((await totals(server, account)).spent).toBe(1500)
})
