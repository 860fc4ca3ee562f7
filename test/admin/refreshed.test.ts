/** A value that the admin port read of the ledger is new enough for each asker, in virtual time. */

import { expect, test } from 'bun:test'
import { Refreshed } from '../../src/admin/refreshed.ts'
import { property } from '../support/random.ts'

const HOUR = 3_600_000

/** A ledger that changes, in which a reading takes `readMs`, and its readers. */
class World {
  nowMs = 0
  /** When the ledger changed last; a reading returns that of its beginning. */
  changedMs = 0
  /** How long after it is counted a change can be read. */
  lateMs = 0
  readMs = 10
  isBroken = false
  readonly readings: { begunMs: number; endMs: number }[] = []
  private readonly waiting: { atMs: number; run: () => void }[] = []
  readonly refreshed: Refreshed<number>

  constructor(readonly ages = { ageMs: 2000, ageMsMax: 30_000 }) {
    const clock = () => this.nowMs
    const version = () => this.changedMs
    this.refreshed = new Refreshed({ read: () => this.read(), ...ages, version, clock })
  }

  private read(): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    const { changedMs, nowMs, readMs, isBroken } = this
    const value = changedMs > nowMs - this.lateMs ? changedMs - 1 : changedMs
    this.readings.push({ begunMs: nowMs, endMs: nowMs + readMs })
    const run = () => (isBroken ? reject(new Error('broken')) : resolve(value))
    this.waiting.push({ atMs: nowMs + readMs, run })
    return promise
  }

  async pass(ms: number): Promise<void> {
    const end = this.nowMs + ms
    for (;;) {
      const next = this.waiting.findIndex(({ atMs }) => atMs <= end)
      if (next === -1) break
      const [{ atMs, run } = { atMs: end, run: () => {} }] = this.waiting.splice(next, 1)
      this.nowMs = atMs
      run()
      await Bun.sleep(0)
    }
    this.nowMs = end
  }

  /** The answer, when it comes. */
  async ask(): Promise<number> {
    const answer = this.refreshed.get()
    answer.catch(() => {})
    await this.pass(0)
    await this.pass(this.readMs)
    return await answer
  }
}

test('the first answer after a pause has what happened in the pause', async () => {
  const world = new World()
  expect(await world.ask()).toBe(0)
  await world.pass(5 * HOUR)
  world.changedMs = world.nowMs - HOUR
  expect(await world.ask()).toBe(4 * HOUR + world.readMs)
})

test('also for who waits for a moment only: no answer, rather than an old one', async () => {
  const world = new World()
  await world.ask()
  await world.pass(5 * HOUR)
  world.changedMs = world.nowMs
  world.readMs = HOUR
  expect(await world.refreshed.fresh(1)).toBeUndefined()
  await world.pass(HOUR)
  expect(await world.refreshed.fresh(1)).toBe(world.changedMs)
})

test('who asks all the time gets the last value while a slow reading runs', async () => {
  const world = new World()
  await world.ask()
  world.changedMs = 1
  await world.pass(2500)
  world.readMs = 5000
  expect(await world.refreshed.fresh(1)).toBe(0)
  await world.pass(5000)
  expect(await world.refreshed.fresh(1)).toBe(1)
})

test('a ledger that cannot be read gives an error, and no value from before', async () => {
  const world = new World()
  await world.ask()
  await world.pass(HOUR)
  world.isBroken = true
  await expect(world.ask()).rejects.toThrow('broken')
  expect(await world.refreshed.fresh(1)).toBeUndefined()
  world.isBroken = false
  await world.pass(2000)
  expect(await world.ask()).toBe(0)
})

test('a ledger that is back is read as soon as a value would be, however long the failure took', async () => {
  const world = new World()
  world.readMs = 3000
  world.isBroken = true
  await expect(world.ask()).rejects.toThrow('broken')
  world.isBroken = false
  world.readMs = 10
  await expect(world.ask()).rejects.toThrow('broken')
  await world.pass(2000)
  expect(await world.ask()).toBe(0)
})

test('a change that can be read a moment after it was counted is not missed', async () => {
  const world = new World()
  await world.ask()
  await world.pass(3000)
  // The version is that of the change, the value still that before it.
  world.changedMs = world.nowMs
  world.lateMs = 5
  expect(await world.ask()).toBeLessThan(world.changedMs)
  await world.pass(2000)
  expect(await world.ask()).toBe(world.changedMs)
})

property('every answer has every change before its bound, and reading takes 2 % of the time', 20, async (random) => {
  const world = new World()
  const changes = [0]
  for (let i = 0; i < 60; i++) {
    await world.pass(random.pick([1, 500, 2100, 10_000, 31_000, HOUR]))
    if (random.chance(0.4)) {
      world.changedMs = world.nowMs
      changes.push(world.nowMs)
    }
    world.readMs = random.pick([1, 20, 200])
    const askedMs = world.nowMs
    const last = world.readings.at(-1)
    const boundMs = Math.max(2000, last === undefined ? 0 : 50 * (last.endMs - last.begunMs))
    const answer = await world.ask()
    expect(answer).toBeGreaterThanOrEqual(changes.findLast((changedMs) => changedMs < askedMs - boundMs) ?? 0)
  }
  const busyMs = world.readings.reduce((sum, { begunMs, endMs }) => sum + endMs - begunMs, 0)
  expect(busyMs).toBeLessThanOrEqual(0.02 * world.nowMs + 400)
})
