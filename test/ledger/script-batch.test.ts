/** Script calls reach Redis in one write for each turn of the loop, each with its own reply, also on a busy loop. */

import { expect, test } from 'bun:test'
import type { Account } from '../../src/ledger/ledger.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { accountOf, chargeOf, holdOf } from './conformance.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { failureOf, totals, until } from './seen.ts'

const { ledgerOn } = opened()

/** Blocks the event loop. */
function block(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

test('the calls of one turn are one write, and other commands in between keep their own replies', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const store = new RedisStore(client, client)
  const accounts = Array.from({ length: 20 }, () => accountOf())
  // Redis knows the script from now on: otherwise each call is sent again with its text.
  await store.reserve(accountOf(), holdOf(1))
  const writes: number[] = []
  const write = client.stream.write.bind(client.stream)
  client.stream.write = (text: string | Uint8Array) => {
    writes.push(String(text).split('evalsha').length - 1)
    return write(text)
  }
  const replies = await Promise.all(
    accounts.flatMap((account, i) => [
      Promise.resolve(store.reserve(account, holdOf(1))).then(({ outcome }) => outcome),
      client.echo(`number ${i}`),
    ]),
  )
  expect(replies).toEqual(Array.from({ length: 20 }, (_, i) => ['granted', `number ${i}`]).flat())
  expect(writes.filter((calls) => calls > 0)).toEqual([20])
})

test('reservations of one turn are one call for each 16 of an organisation, decided in their order', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const store = new RedisStore(client, client)
  const limits = { concurrentRequests: 18 }
  const accounts = [accountOf(limits), accountOf(limits)]
  await store.reserve(accountOf(), holdOf(1))
  await client.config('RESETSTAT')
  const holds = Array.from({ length: 20 }, () => accounts.map((account) => ({ account, hold: holdOf(9) }))).flat()
  const replies = await Promise.all(holds.map(({ account, hold }) => store.reserve(account, hold)))
  // Both organisations in turn: the first 18 reservations of each.
  expect(replies.map(({ outcome }) => outcome)).toEqual([...Array(36).fill('granted'), ...Array(4).fill('refused')])
  // 20 reservations of each organisation: 16 and 4.
  expect(await client.info('commandstats')).toContain('cmdstat_evalsha:calls=4,')
  for (const account of accounts) expect(await totals(server, account)).toEqual({ spent: 0, held: 162, live: 18 })
})

test('keys have their own scopes in one call, and a repeated reservation changes nothing', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const store = new RedisStore(client, client)
  const one = accountOf({}, { concurrentRequests: 1 })
  const other = { ...one, key: `${one.key}-other` }
  const hold = holdOf(9)
  const calls = [store.reserve(one, hold), store.reserve(other, holdOf(5)), store.reserve(one, holdOf(5))]
  const replies = await Promise.all([...calls, store.reserve(one, hold)])
  expect(replies.map(({ outcome }) => outcome)).toEqual(['granted', 'granted', 'refused', 'granted'])
  const { organization, key } = await store.figures(one)
  expect([organization.live, key.live, (await store.figures(other)).key.live]).toEqual([2, 1, 1])
})

test('a key of an unknown version does not reject the reservations beside it', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const store = new RedisStore(client, client)
  const one = accountOf()
  const other = { ...one, key: `${one.key}-other` }
  // A list of one number, 99, in msgpack.
  await client.hset(redisKey(one.organization, 'scopes'), `k${other.key}`, Buffer.from([0x91, 99]))
  const replies = await Promise.all(
    [one, other, one].map((account) =>
      Promise.resolve(store.reserve(account, holdOf(1))).then(
        ({ outcome }) => outcome,
        (error: Error) => error.message,
      ),
    ),
  )
  expect(replies).toEqual(['granted', expect.stringContaining('VERSION'), 'granted'])
})

test('settlements of one turn are one call for each 16 of an organisation, each with its own reply', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const store = new RedisStore(client, client)
  const accounts = [accountOf(), accountOf()]
  const settle = async (account: Account, id: string) =>
    await store.settle({ id, account, admittedMs: Date.now() }, chargeOf(7))
  const holds = accounts.flatMap((account) => Array.from({ length: 20 }, () => ({ account, hold: holdOf(9) })))
  for (const { account, hold } of holds) await store.reserve(account, hold)
  await settle(accountOf(), 'unknown')
  await client.config('RESETSTAT')
  const replies = await Promise.all(
    holds.flatMap(({ account, hold }) => [settle(account, hold.id), settle(account, 'x')]),
  )
  expect(replies).toEqual(holds.flatMap(() => ['settled', 'unknown']))
  // 40 settlements of each organisation: 16, 16 and 8.
  expect(await client.info('commandstats')).toContain('cmdstat_evalsha:calls=6,')
  for (const account of accounts) expect(await totals(server, account)).toEqual({ spent: 140, held: 0, live: 0 })
})

test('a reservation of an unknown version does not hold up the settlements beside it', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const store = new RedisStore(client, client)
  const account = accountOf()
  const holds = [holdOf(9), holdOf(9), holdOf(9)]
  for (const hold of holds) await store.reserve(account, hold)
  // A list of one number, 99, in msgpack.
  await client.hset(redisKey(account.organization, 'reservations'), holds[1]?.id ?? '', Buffer.from([0x91, 99]))
  const settled = holds.map(({ id }) => store.settle({ id, account, admittedMs: Date.now() }, chargeOf(7)))
  const replies = await Promise.all(
    settled.map((reply) => Promise.resolve(reply).catch((error: Error) => error.message)),
  )
  expect(replies).toEqual(['settled', expect.stringContaining('VERSION'), 'settled'])
})

test('names with letters of several bytes arrive whole', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const store = new RedisStore(client, client)
  const account = { ...accountOf(), organization: 'ö{1}', key: 'schlüssel 🔑' }
  const holds = [holdOf(1), { ...holdOf(2), model: 'модель' }]
  const replies = await Promise.all(holds.map((hold) => store.reserve(account, hold)))
  expect(replies.map(({ outcome }) => outcome)).toEqual(['granted', 'granted'])
  expect((await store.figures(account)).key.live).toBe(2)
  const settled = holds.map(({ id }) => store.settle({ id, account, admittedMs: Date.now() }, chargeOf(1, 'модель')))
  expect(await Promise.all(settled)).toEqual(['settled', 'settled'])
})

test('calls of a client that is still connecting are sent when it is connected', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const store = new RedisStore(client, client)
  const account = accountOf()
  const replies = await Promise.all(Array.from({ length: 5 }, () => store.reserve(account, holdOf(1))))
  expect(replies.map(({ outcome }) => outcome)).toEqual(Array(5).fill('granted'))
})

test.each([1, 5])('a busy loop rejects none of 300 requests at once, of %i organisation(s)', async (count) => {
  await using server = await RedisServer.start()
  const ledger = await ledgerOn(server.socket)
  // At most 64 of an organisation are in flight: of one organisation alone, most wait in the queue for several turns.
  const accounts = Array.from({ length: count }, () => accountOf())
  for (const account of accounts) await ledger.settle(await ledger.reserve(account, holdOf(1)), chargeOf(1))
  let isDone = false
  // A reply takes two turns, which are longer than the whole timeout of a command.
  const busy = () => {
    block(300)
    if (!isDone) setImmediate(busy)
  }
  setImmediate(busy)
  const each = 300 / count
  const holds = accounts.flatMap((account) => Array.from({ length: each }, () => ({ account, hold: holdOf(1) })))
  const asked = await Promise.all(holds.map(({ account, hold }) => failureOf(ledger.reserve(account, hold))))
  isDone = true
  expect(new Set(asked)).toEqual(new Set(['none']))
  for (const account of accounts) await until(async () => (await totals(server, account)).live === each)
})
