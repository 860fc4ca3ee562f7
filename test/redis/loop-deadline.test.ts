/** A deadline that counts only while the event loop runs. The test sets the time. */

import { expect, test } from 'bun:test'
import { LoopDeadline, LoopPauses } from '../../src/redis/loop-deadline.ts'

function setting(limitMs: number) {
  const ticks = new Set<() => void>()
  let now = 1000
  const time = {
    now: () => now,
    every: (_: number, call: () => void) => {
      ticks.add(call)
      return () => void ticks.delete(call)
    },
  }
  const deadline = new LoopDeadline(limitMs, time)
  const watched = () => {
    const one = { isSettled: false, expired: false, expire() {} }
    one.expire = () => {
      one.expired = true
      one.isSettled = true
    }
    deadline.watch(one)
    return one
  }
  /** One turn of the loop after `ms` milliseconds. */
  const pass = (ms: number, times = 1) => {
    for (let i = 0; i < times; i++) {
      now += ms
      for (const tick of [...ticks]) tick()
    }
  }
  return { watched, pass, ticks, time }
}

test('on a loop that is never late it is the elapsed time', () => {
  const { watched, pass } = setting(250)
  const one = watched()
  pass(25, 9)
  expect(one.expired).toBe(false)
  pass(25)
  expect(one.expired).toBe(true)
})

test.each([300, 1000, 60_000])('of %i ms in which the process was suspended almost nothing counts', (ms) => {
  const { watched, pass } = setting(250)
  const one = watched()
  pass(ms, 4)
  expect(one.expired).toBe(false)
  // But it is bounded: on a loop that is always late, the deadline passes after five turns.
  pass(ms)
  expect(one.expired).toBe(true)
})

test('a limit of 2 s counts no more of a late turn: it passes after 40 turns', () => {
  const { watched, pass } = setting(2000)
  const one = watched()
  pass(300, 39)
  expect(one.expired).toBe(false)
  pass(300)
  expect(one.expired).toBe(true)
})

test('an entry that settles in time does not expire, and later entries keep their own deadline', () => {
  const { watched, pass } = setting(250)
  const [one, two] = [watched(), watched()]
  pass(25, 5)
  const three = watched()
  one.isSettled = true
  pass(25, 5)
  expect([one.expired, two.expired, three.expired]).toEqual([false, true, false])
  pass(25, 5)
  expect(three.expired).toBe(true)
})

test('without entries there is no timer', () => {
  const { watched, pass, ticks } = setting(250)
  expect(ticks.size).toBe(0)
  const one = watched()
  expect(ticks.size).toBe(1)
  one.isSettled = true
  pass(25)
  expect(ticks.size).toBe(0)
  const two = watched()
  // The time without entries does not count for a later one.
  pass(25, 9)
  expect(two.expired).toBe(false)
  pass(25)
  expect([two.expired, ticks.size]).toEqual([true, 0])
})

test('a pause lasts while the loop runs: one late turn does not end it', async () => {
  const { pass, ticks, time } = setting(250)
  const pauses = new LoopPauses(time)
  const ended: string[] = []
  const waits = [pauses.wait(30).then(() => ended.push('one')), pauses.wait(30).then(() => ended.push('two'))]
  expect(ticks.size).toBe(1)
  pass(500, 4)
  await Bun.sleep(0)
  expect(ended).toEqual([])
  pass(3, 2)
  await Promise.all(waits)
  expect([ended, ticks.size]).toEqual([['one', 'two'], 0])
})
