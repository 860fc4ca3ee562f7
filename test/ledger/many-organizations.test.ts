/** A Redis that loses everything while many organisations send requests: each is charged to the micro-dollar. */

import { expect, test } from 'bun:test'
import { newRequestId } from '../../src/core/request-id.ts'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import type { RecoverableStore } from '../../src/ledger/redis/protocol/epochs.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { failureOf, logged, NOTHING, totals, until } from './seen.ts'

const { open: closing, directory, ledgerOn } = opened()

test('FLUSHALL under load: every organisation is charged once, and little is resent one by one', async () => {
  await using server = await RedisServer.start()
  const ledgers = [await ledgerOn(server.socket), await ledgerOn(server.socket)]
  const accounts = Array.from({ length: 120 }, (_, i) => accountOf(spend({ total: 1e9 }), {}, `org-${i}`))
  const spent = new Map<string, number>()
  let count = 0
  const serve = async () => {
    const cost = 100 + (count % 7)
    const account = accounts[count % accounts.length]
    const ledger = ledgers[count % ledgers.length]
    count += 1
    if (account === undefined || ledger === undefined) throw new Error('Expected an account and a ledger.')
    const id = newRequestId()
    const reservation = await Promise.resolve(ledger.reserve(account, { ...holdOf(cost), id })).catch(() => undefined)
    if (reservation === undefined) return
    spent.set(account.organization, (spent.get(account.organization) ?? 0) + cost)
    await ledger.settle(reservation, chargeOf(cost))
  }
  const load = (times: number) =>
    Promise.all(
      Array.from({ length: 24 }, async () => {
        for (let i = 0; i < times; i++) await serve()
      }),
    )
  const client = server.client()
  await load(100)
  for (let loss = 0; loss < 2; loss++) {
    const loading = load(25)
    await client.flushall()
    await loading
  }
  // An organisation without requests since then is restored by its next one.
  for (const account of accounts) {
    for (const ledger of ledgers) {
      await until(async () => {
        const failure = await failureOf(
          Promise.resolve(ledger.reserve(account, holdOf(0))).then((one) => ledger.settle(one, chargeOf(0))),
        )
        return failure === 'none'
      })
    }
  }
  await until(() => ledgers.every((ledger) => ledger.health().pending === 0))
  for (const account of accounts) {
    const found = await totals(server, account)
    expect([account.organization, found]).toEqual([
      account.organization,
      { spent: spent.get(account.organization) ?? 0, held: 0, live: 0 },
    ])
  }
  let resent = 0
  for (const { organization } of accounts) {
    const trail = await client.xrange(redisKey(organization, 'audit'), '-', '+')
    resent += trail.filter(([, words]) => words[words.indexOf('kind') + 1] === 'direct').length
  }
  // 1,000 of each node in 10 s, and what was on its way.
  expect(resent).toBeLessThan(2 * 1000 + 1200)
})

test('an organisation with many rows of usage is served, within its budget, while they are given back', async () => {
  await using server = await RedisServer.start()
  // The rows that are on their way count twice: a machine that is busy enough may have sent all 300 when the first
  // reservation is decided, and that must fit nevertheless, because the next lot waits.
  const account = accountOf(spend({ total: 12_000 + 50 + 3950 }))
  const at = directory()
  // An hour ago: none is sent again one by one.
  const outbox = new Outbox(at, () => Date.now() - 3_600_000)
  for (let i = 0; i < 1200; i++) {
    const charge = { ...chargeOf(10), model: `m-${i}` }
    void logged(outbox, { id: newRequestId(), account, admittedMs: Date.now(), charge, heldMicroUsd: 10 }, false)
  }
  outbox.commit()
  for (const { settlement } of outbox.pending(2000, true)) outbox.taken(settlement.id, account.organization, 0)
  outbox.close()
  // On a busy machine Redis would seem lost for a moment. Then a settlement waits for all rows, and nothing is shown.
  const ledger = await ledgerOn(server.socket, at, 60_000)
  const { store }: { readonly store: RecoverableStore } = Reflect.get(ledger, 'link')
  const { promise: opened, resolve: open } = Promise.withResolvers<void>()
  // Also if the test fails before: the end of the ledger waits for the rows.
  closing.unshift({ close: async () => open() })
  const restore = store.restore.bind(store)
  let restored = 0
  store.restore = async (epoch, node, row) => {
    if (row.number > 300) await opened
    restored += 1
    return await restore(epoch, node, row)
  }
  const reservation = await ledger.reserve(account, holdOf(50))
  expect(restored).toBeLessThan(1200)
  const settling = ledger.settle(reservation, chargeOf(50))
  await until(async () => Bun.deepEquals(await totals(server, account), { spent: 300 * 10 + 50, held: 0, live: 0 }))
  // Nearly all of it is owed. The rows on their way count twice, so both are decided between two lots of rows.
  const refused = failureOf(Promise.resolve(ledger.reserve(account, holdOf(3951))))
  const granted = ledger.reserve(account, holdOf(3950))
  open()
  expect(await refused).toBe('quota_exhausted')
  await settling
  await ledger.settle(await granted, chargeOf(3950))
  await until(async () => (await totals(server, account)).spent === 16_000)
  expect(await totals(server, account)).toEqual({ spent: 16_000, held: 0, live: 0 })
})

test('an organisation that Redis never knew is entered without reading the log', async () => {
  const outbox = new Outbox(directory())
  const settlement = (organization: string) => {
    const account = accountOf({}, {}, organization)
    return { id: newRequestId(), account, admittedMs: Date.now(), charge: chargeOf(5), heldMicroUsd: 5 }
  }
  const tail: { readonly last: number | undefined } = Reflect.get(outbox, 'tail')
  await logged(outbox, settlement('new'), true)
  await outbox.prepare('new', 7, NOTHING)
  await outbox.enter('new', 7, NOTHING, [])
  expect(tail.last).toBeUndefined()
  await outbox.prepare('new', 8, NOTHING)
  await outbox.enter('new', 8, NOTHING, [])
  expect(tail.last).toBeGreaterThan(0)
  outbox.close()
})
