/** The circuit breaker in front of Redis: when it opens, what it admits, and what closes it. */

import { expect, test } from 'bun:test'
import { CircuitBreaker } from '../../src/redis/circuit-breaker.ts'

function breaker() {
  const time = { ms: 1000 }
  const one = new CircuitBreaker(() => time.ms)
  const fail = (times: number) => {
    for (let i = 0; i < times; i++) one.failed()
  }
  return { one, time, fail }
}

test('opens after five failures in a row that span 400 ms', () => {
  const { one, time, fail } = breaker()
  fail(4)
  time.ms += 1000
  expect(one.isOpen).toBe(false)
  fail(1)
  expect(one.isOpen).toBe(true)
})

test('a hundred failures at the same moment do not open it', () => {
  const { one, time, fail } = breaker()
  fail(100)
  expect(one.admits()).toBe(true)
  one.succeeded()
  time.ms += 1000
  fail(4)
  expect(one.isOpen).toBe(false)
})

test('while open it admits one command every 250 ms; a success closes it', () => {
  const { one, time, fail } = breaker()
  fail(5)
  time.ms += 400
  expect([one.admits(), one.admits()]).toEqual([true, false])
  time.ms += 250
  expect([one.admits(), one.admits()]).toEqual([true, false])
  one.succeeded()
  expect([one.admits(), one.admits()]).toEqual([true, true])
})
