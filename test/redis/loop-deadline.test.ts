/** A time limit that counts only while the event loop runs. Time is the test's own. */

import { expect, test } from 'bun:test'
import { LoopDeadline } from '../../src/redis/loop-deadline.ts'

function setting(limitMs: number) {
  const beats = new Set<() => void>()
  let now = 1000
  const time = {
    now: () => now,
    every: (_: number, call: () => void) => {
      beats.add(call)
      return () => void beats.delete(call)
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
  /** The loop comes round after so many milliseconds. */
  const pass = (ms: number, times = 1) => {
    for (let i = 0; i < times; i++) {
      now += ms
      for (const beat of [...beats]) beat()
    }
  }
  return { watched, pass, beats }
}

test('on a loop that runs freely it is the time that has passed', () => {
  const { watched, pass } = setting(250)
  const one = watched()
  pass(25, 9)
  expect(one.expired).toBe(false)
  pass(25)
  expect(one.expired).toBe(true)
})

test.each([300, 1000, 60_000])('of %i ms in which the process stood still next to nothing counts', (ms) => {
  const { watched, pass } = setting(250)
  const one = watched()
  pass(ms, 4)
  expect(one.expired).toBe(false)
  // But it is bounded: whoever waits on a loop that is always late hears after five rounds of it.
  pass(ms)
  expect(one.expired).toBe(true)
})

test('what is settled in time is left alone, also what comes after it', () => {
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

test('nobody waits: nothing beats', () => {
  const { watched, pass, beats } = setting(250)
  expect(beats.size).toBe(0)
  const one = watched()
  expect(beats.size).toBe(1)
  one.isSettled = true
  pass(25)
  expect(beats.size).toBe(0)
  const two = watched()
  // A long time without anybody is nobody's time.
  pass(25, 9)
  expect(two.expired).toBe(false)
  pass(25)
  expect([two.expired, beats.size]).toEqual([true, 0])
})
