/** A Redis that loses everything while many organisations send requests: each is charged to the micro-dollar. */

import { expect, test } from 'bun:test'
import { newRequestId } from '../../src/core/request-id.ts'
import { Outbox } from '../../src/ledger/redis/delivery/outbox.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { failureOf, logged, totals, until } from './seen.ts'

const { directory, ledgerOn } = opened()

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
  client.disconnect()
}, 120_000)

test('an organisation that Redis never knew is entered without reading the log', async () => {
  const outbox = new Outbox(directory())
  const settlement = (organization: string) => {
    const account = accountOf({}, {}, organization)
    return { id: newRequestId(), account, admittedMs: Date.now(), charge: chargeOf(5), heldMicroUsd: 5 }
  }
  const nothing = { figures: new Map(), foldedBefore: 0, reservations: new Map(), isLegacy: false, sinceMs: 0 }
  const tail: { readonly last: number | undefined } = Reflect.get(outbox, 'tail')
  await logged(outbox, settlement('new'), true)
  await outbox.prepare('new', 7, nothing)
  outbox.enter('new', 7, nothing, [])
  expect(tail.last).toBeUndefined()
  await outbox.prepare('new', 8, nothing)
  outbox.enter('new', 8, nothing, [])
  expect(tail.last).toBeGreaterThan(0)
  outbox.close()
})
