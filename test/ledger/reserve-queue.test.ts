/** How many reservations are in flight at once, in which order they start, and which are rejected. */

import { expect, test } from 'bun:test'
import { ReserveQueue, ReserveQueueFullError } from '../../src/ledger/redis/reserving/reserve-queue.ts'

function setting() {
  const beats = new Set<() => void>()
  let now = 0
  const every = (_: number, call: () => void) => {
    beats.add(call)
    return () => void beats.delete(call)
  }
  const queue = new ReserveQueue({ now: () => now, every })
  const begun: string[] = []
  const ends: (() => void)[] = []
  const ask = (organization: string, count: number) =>
    Array.from({ length: count }, () =>
      queue.run(organization, () => {
        begun.push(organization)
        const { promise, resolve } = Promise.withResolvers<void>()
        ends.push(resolve)
        return promise
      }),
    )
  const pass = (ms: number) => {
    for (let past = 0; past < ms; past += 25) {
      now += 25
      for (const beat of [...beats]) beat()
    }
  }
  const finish = async (count: number) => {
    for (const end of ends.splice(0, count)) end()
    await settled()
  }
  return { ask, begun, ends, finish, pass }
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve))

function count(words: readonly string[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1
  return counts
}

test('64 of an organisation are in flight, 256 in all; when one ends, the next begins', async () => {
  const { ask, begun, ends, finish } = setting()
  const all = [...ask('a', 100), ...ask('b', 100), ...ask('c', 100), ...ask('d', 100), ...ask('e', 100)]
  await settled()
  expect(count(begun)).toEqual({ a: 64, b: 64, c: 64, d: 64 })
  for (let done = 10; done <= 100; done += 10) {
    await finish(10)
    expect(begun.length).toBe(256 + done)
  }
  while (ends.length > 0) await finish(10)
  await Promise.all(all)
  expect(count(begun)).toEqual({ a: 100, b: 100, c: 100, d: 100, e: 100 })
})

test('a flood of one organisation does not keep others waiting: organisations take turns', async () => {
  const { ask, begun, finish } = setting()
  const floods = ['a', 'b', 'c', 'd'].flatMap((one) => ask(one, 500))
  const few = ask('quiet', 3)
  await settled()
  expect(count(begun)['quiet']).toBeUndefined()
  // Three rounds of five organisations.
  await finish(15)
  expect(count(begun)['quiet']).toBe(3)
  while (begun.length < 2003) await finish(64)
  await finish(256)
  await Promise.all([...floods, ...few])
})

test('rejects callers that wait over 2 s or find 4,096 waiting; there is room again afterwards', async () => {
  const { ask, begun, ends, finish, pass } = setting()
  const running = ask('a', 64)
  const waiting = ask('a', 4096)
  const states = Promise.allSettled(waiting)
  const [late] = await Promise.allSettled(ask('b', 1).map((one) => Promise.race([one, settled()])))
  // Another organisation has room as long as fewer than 256 are in flight.
  expect(late?.status).toBe('fulfilled')
  expect(begun.length).toBe(65)
  const [full] = ask('a', 1)
  await expect(full).rejects.toBeInstanceOf(ReserveQueueFullError)
  await settled()
  pass(1900)
  expect(begun.length).toBe(65)
  pass(200)
  for (const state of await states) expect(state).toMatchObject({ reason: expect.any(ReserveQueueFullError) })
  const next = ask('a', 2)
  await finish(ends.length)
  expect(begun.length).toBe(67)
  await finish(2)
  await Promise.all([...running, ...next])
})

test('a call that throws frees its place', async () => {
  const { ask, begun, finish } = setting()
  const queue = new ReserveQueue()
  for (let i = 0; i < 300; i++)
    await expect(queue.run('a', () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(await queue.run('a', async () => 1)).toBe(1)
  const one = ask('a', 1)
  await settled()
  expect(begun).toEqual(['a'])
  await finish(1)
  await Promise.all(one)
})
