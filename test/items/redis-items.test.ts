/** Items in Redis: each owner has its own limit of bytes, and items expire. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Redis } from 'ioredis'
import { RedisItems } from '../../src/items/redis-items.ts'
import { property } from '../support/random.ts'
import { RedisServer } from '../support/redis.ts'

const OWNER_BYTES = 100_000
let server: RedisServer
let client: Redis
const stores: RedisItems[] = []

beforeAll(async () => {
  server = await RedisServer.start()
  client = new Redis(server.url)
})

afterAll(async () => {
  for (const store of stores) store.close()
  client.disconnect()
  await server[Symbol.asyncDispose]()
})

async function storeOf(ttlSeconds = 3600): Promise<RedisItems> {
  // A reply may take as long as a busy machine needs.
  const place = { kind: 'single', url: server.url, timeoutMs: 60_000 } as const
  const store = new RedisItems(place, { ttlSeconds, ownerBytesMax: OWNER_BYTES })
  stores.push(store)
  // Once it answers, it is connected and has loaded its scripts: an item sent earlier is sent again, after later ones.
  for (let answers = false; !answers; ) {
    store.put('nobody', [item('x', 1)])
    answers = await store.get('nobody', 'x').then(
      (found) => found !== undefined,
      () => Bun.sleep(5).then(() => false),
    )
  }
  await client.flushall()
  return store
}

const item = (id: string, length: number) => ({ id, bytes: Buffer.alloc(length, id) })

/** Bytes that Redis reports for the keys of all owners. */
async function memory(): Promise<number> {
  let sum = 0
  for (const key of await client.keys('weir:items:*')) sum += Number(await client.memory('USAGE', key, 'SAMPLES', 0))
  return sum
}

describe('of one owner', () => {
  test('the oldest items make room for new ones, and their memory is bounded', async () => {
    const store = await storeOf()
    for (let n = 0; n < 300; n++) store.put('acme', [item(`a${n}`, 1000)])
    expect(await store.get('acme', 'a299')).toEqual(Buffer.alloc(1000, 'a299'))
    expect(await store.get('acme', 'a0')).toBeUndefined()
    expect(await memory()).toBeLessThan(1.5 * OWNER_BYTES)
    expect(await store.get('acme', 'a230')).toBeDefined()
  })

  test('an item is found that a look-up overtook on its way', async () => {
    const [store, other] = [await storeOf(), await storeOf()]
    const found = other.get('acme', 'late')
    // The first look-up has missed by the time that this one, sent later, is answered.
    await client.ping()
    store.put('acme', [item('late', 1000)])
    expect(await found).toEqual(Buffer.alloc(1000, 'late'))
  })

  test('it neither removes nor finds items of another owner', async () => {
    const store = await storeOf()
    store.put('quiet', [item('mine', 1000)])
    for (let n = 0; n < 300; n++) store.put('loud', [item(`a${n}`, 1000)])
    expect(await store.get('quiet', 'mine')).toBeDefined()
    expect(await store.get('loud', 'mine')).toBeUndefined()
  })

  test('items that are too large are not stored; the others are', async () => {
    const store = await storeOf()
    store.put('acme', [item('a', 1000), item('b', OWNER_BYTES), item('c', 300_000), item('d', 10)])
    expect(await Promise.all(['a', 'b', 'c', 'd'].map((id) => store.get('acme', id)))).toEqual([
      Buffer.alloc(1000, 'a'),
      undefined,
      undefined,
      Buffer.alloc(10, 'd'),
    ])
  })

  test('everything expires, also if the owner sends nothing more', async () => {
    const store = await storeOf(1)
    store.put('acme', [item('a', 1000)])
    expect(await store.get('acme', 'a')).toBeDefined()
    const keys = await client.keys('weir:items:*')
    for (const key of keys) expect(await client.pttl(key)).toBeGreaterThan(0)
    expect(keys).toHaveLength(2)
    while ((await client.keys('weir:items:*')).length > 0) await Bun.sleep(50)
    expect(await store.get('acme', 'a')).toBeUndefined()
  })

  test.each(['', ':order'])('one of its keys (%p) is evicted: its memory stays bounded', async (suffix) => {
    const store = await storeOf()
    for (let n = 0; n < 80; n++) store.put('acme', [item(`a${n}`, 1000)])
    await store.get('acme', 'a79')
    const keys = await client.keys('weir:items:*')
    await client.del(keys.find((key) => key.endsWith(':order') === (suffix !== '')) ?? '')
    for (let n = 0; n < 300; n++) store.put('acme', [item(`b${n}`, 1000)])
    expect(await store.get('acme', 'b299')).toBeDefined()
    expect(await memory()).toBeLessThan(1.5 * OWNER_BYTES)
  })
})

let store: RedisItems | undefined

property('stored items are the latest version, bounded, and nearly all that fit', 25, async (random) => {
  store ??= await storeOf()
  await client.flushall()
  const sent = new Map<string, Buffer>()
  let last = ''
  for (let n = 0; n < 150; n++) {
    last = `p${random.below(random.pick([10, 1000]))}`
    const bytes = Buffer.alloc(random.below(random.pick([100, 5000, 40_000])), last)
    store.put('acme', [{ id: last, bytes }])
    sent.set(last, bytes)
  }
  let kept = 0
  const items = store
  // All at once: an item that is missing is looked up again, after a wait.
  const all = [...sent].map(async ([id, bytes]) => ({ id, bytes, found: await items.get('acme', id) }))
  for (const { id, bytes, found } of await Promise.all(all)) {
    if (found === undefined) continue
    expect(found.equals(bytes)).toBe(true)
    kept += bytes.length + id.length + 256
  }
  const size = [...sent].reduce((sum, [id, bytes]) => sum + bytes.length + id.length + 256, 0)
  expect(await store.get('acme', last)).toBeDefined()
  expect(kept).toBeLessThanOrEqual(OWNER_BYTES)
  // The last item that was removed or replaced may have been larger than the missing bytes.
  expect(kept).toBeGreaterThan(Math.min(size, OWNER_BYTES) - 80_001)
  expect(await memory()).toBeLessThan(1.5 * OWNER_BYTES)
})
