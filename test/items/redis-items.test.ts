/** What Redis keeps of remembered items: so much of each owner and no more, for so long and no longer, whoever else keeps what. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { Redis } from 'ioredis'
import { RedisItems } from '../../src/items/redis-items.ts'
import { property } from '../support/random.ts'
import { RedisServer } from '../support/redis.ts'

setDefaultTimeout(20_000)

const OWNER_BYTES = 100_000
let server: RedisServer
let client: Redis
const shelves: RedisItems[] = []

beforeAll(async () => {
  server = await RedisServer.start()
  client = new Redis(server.url)
})

afterAll(async () => {
  for (const shelf of shelves) shelf.close()
  client.disconnect()
  await server[Symbol.asyncDispose]()
})

async function shelfOf(ttlSeconds = 3600): Promise<RedisItems> {
  const shelf = new RedisItems({ kind: 'single', url: server.url }, { ttlSeconds, ownerBytesMax: OWNER_BYTES })
  shelves.push(shelf)
  // Connected, and its scripts known, once it answers. What is sent before is sent again, after what comes next.
  for (let answers = false; !answers; ) {
    shelf.put('nobody', [piece('x', 1)])
    answers = await shelf.get('nobody', 'x').then(
      (found) => found !== undefined,
      () => Bun.sleep(5).then(() => false),
    )
  }
  await client.flushall()
  return shelf
}

const piece = (id: string, length: number) => ({ id, bytes: Buffer.alloc(length, id) })

/** The memory that the keys of all owners take, as Redis counts it. */
async function memory(): Promise<number> {
  let sum = 0
  for (const key of await client.keys('weir:items:*')) sum += Number(await client.memory('USAGE', key, 'SAMPLES', 0))
  return sum
}

describe('of one owner', () => {
  test('the oldest make room for new ones, and what they take is bounded', async () => {
    const shelf = await shelfOf()
    for (let n = 0; n < 300; n++) shelf.put('acme', [piece(`a${n}`, 1000)])
    expect(await shelf.get('acme', 'a299')).toEqual(Buffer.alloc(1000, 'a299'))
    expect(await shelf.get('acme', 'a0')).toBeUndefined()
    expect(await memory()).toBeLessThan(1.5 * OWNER_BYTES)
    expect(await shelf.get('acme', 'a230')).toBeDefined()
  })

  test('nothing of another owner is forgotten for it, or found by it', async () => {
    const shelf = await shelfOf()
    shelf.put('quiet', [piece('mine', 1000)])
    for (let n = 0; n < 300; n++) shelf.put('loud', [piece(`a${n}`, 1000)])
    expect(await shelf.get('quiet', 'mine')).toBeDefined()
    expect(await shelf.get('loud', 'mine')).toBeUndefined()
  })

  test('pieces that are too large are not kept, and the others are', async () => {
    const shelf = await shelfOf()
    shelf.put('acme', [piece('a', 1000), piece('b', OWNER_BYTES), piece('c', 300_000), piece('d', 10)])
    expect(await Promise.all(['a', 'b', 'c', 'd'].map((id) => shelf.get('acme', id)))).toEqual([
      Buffer.alloc(1000, 'a'),
      undefined,
      undefined,
      Buffer.alloc(10, 'd'),
    ])
  })

  test('all of it expires by itself, also if the owner is silent from then on', async () => {
    const shelf = await shelfOf(1)
    shelf.put('acme', [piece('a', 1000)])
    expect(await shelf.get('acme', 'a')).toBeDefined()
    const keys = await client.keys('weir:items:*')
    for (const key of keys) expect(await client.pttl(key)).toBeGreaterThan(0)
    expect(keys).toHaveLength(2)
    while ((await client.keys('weir:items:*')).length > 0) await Bun.sleep(50)
    expect(await shelf.get('acme', 'a')).toBeUndefined()
  })

  test.each(['', ':order'])('one of its keys (%p) is evicted: what it takes stays bounded', async (suffix) => {
    const shelf = await shelfOf()
    for (let n = 0; n < 80; n++) shelf.put('acme', [piece(`a${n}`, 1000)])
    await shelf.get('acme', 'a79')
    const keys = await client.keys('weir:items:*')
    await client.del(keys.find((key) => key.endsWith(':order') === (suffix !== '')) ?? '')
    for (let n = 0; n < 300; n++) shelf.put('acme', [piece(`b${n}`, 1000)])
    expect(await shelf.get('acme', 'b299')).toBeDefined()
    expect(await memory()).toBeLessThan(1.5 * OWNER_BYTES)
  })
})

let shelf: RedisItems | undefined

property('what is kept is as it was sent last, bounded, and nearly all that fits', 25, async (random) => {
  shelf ??= await shelfOf()
  await client.flushall()
  const sent = new Map<string, Buffer>()
  let last = ''
  for (let n = 0; n < 150; n++) {
    last = `p${random.below(random.pick([10, 1000]))}`
    const bytes = Buffer.alloc(random.below(random.pick([100, 5000, 40_000])), last)
    shelf.put('acme', [{ id: last, bytes }])
    sent.set(last, bytes)
  }
  let kept = 0
  for (const [id, bytes] of sent) {
    const found = await shelf.get('acme', id)
    if (found === undefined) continue
    expect(found.equals(bytes)).toBe(true)
    kept += bytes.length + id.length + 256
  }
  const all = [...sent].reduce((sum, [id, bytes]) => sum + bytes.length + id.length + 256, 0)
  expect(await shelf.get('acme', last)).toBeDefined()
  expect(kept).toBeLessThanOrEqual(OWNER_BYTES)
  // The last that made room, or one that was replaced, may have been larger than what was missing.
  expect(kept).toBeGreaterThan(Math.min(all, OWNER_BYTES) - 80_001)
  expect(await memory()).toBeLessThan(1.5 * OWNER_BYTES)
})
