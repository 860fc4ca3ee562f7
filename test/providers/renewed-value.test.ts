/** Values that expire: who waits, who fetches, and what a failed fetch does. The clock is the test's. */

import { expect, test } from 'bun:test'
import { type Expiring, RenewedValue } from '../../src/providers/renewed-value.ts'
import { thrownBy } from '../support/thrown.ts'

const HOUR = 3_600_000

/** Fetches that the test answers by hand. */
class Source {
  ms = 0
  readonly fetches: PromiseWithResolvers<Expiring<string>>[] = []
  readonly value = new RenewedValue(
    () => {
      const fetch = Promise.withResolvers<Expiring<string>>()
      this.fetches.push(fetch)
      return fetch.promise
    },
    () => this.ms,
    50,
  )

  async answer(value: string, lifeMs: number | undefined): Promise<void> {
    const expiresAtMs = lifeMs === undefined ? undefined : this.ms + lifeMs
    this.fetches.at(-1)?.resolve({ value, expiresAtMs })
    await Bun.sleep(0)
  }

  async fail(): Promise<void> {
    this.fetches.at(-1)?.reject(new Error('down'))
    await Bun.sleep(0)
  }
}

test('concurrent callers share the first fetch, and later ones do not wait', async () => {
  const source = new Source()
  const both = Promise.all([source.value.get(), source.value.get()])
  await source.answer('a', HOUR)
  expect(await both).toEqual(['a', 'a'])
  expect([source.value.get(), source.fetches.length]).toEqual(['a', 1])
})

test('it is replaced five minutes before it expires, while nobody waits', async () => {
  const source = new Source()
  void source.value.get()
  await source.answer('a', HOUR)
  source.ms = HOUR - 300_001
  expect([source.value.get(), source.fetches.length]).toEqual(['a', 1])
  source.ms += 1
  expect([source.value.get(), source.value.get(), source.fetches.length]).toEqual(['a', 'a', 2])
  await source.answer('b', HOUR)
  expect(source.value.get()).toBe('b')
})

test('one that lives for a minute is replaced after half of it; one without an end never is', async () => {
  const source = new Source()
  void source.value.get()
  await source.answer('a', 60_000)
  source.ms = 30_000
  expect([source.value.get(), source.fetches.length]).toEqual(['a', 2])
  await source.answer('b', undefined)
  source.ms = 1000 * HOUR
  expect([source.value.get(), source.fetches.length]).toEqual(['b', 2])
})

test('a failed replacement is tried again after 10 s, and is an error only once nothing holds', async () => {
  const source = new Source()
  void source.value.get()
  await source.answer('a', HOUR)
  source.ms = HOUR - 100_000
  void source.value.get()
  await source.fail()
  expect([source.value.get(), source.fetches.length]).toEqual(['a', 2])
  source.ms += 10_000
  expect([source.value.get(), source.fetches.length]).toEqual(['a', 3])
  await source.fail()
  source.ms = HOUR
  const last = thrownBy(Promise.resolve(source.value.get()))
  await source.fail()
  expect(await last).toMatchObject({ message: 'down' })
  // The next request fetches again.
  const next = source.value.get()
  await source.answer('b', HOUR)
  expect(await next).toBe('b')
})

test('a source that does not answer is given up', async () => {
  const source = new Source()
  expect(await thrownBy(Promise.resolve(source.value.get()))).toMatchObject({ message: 'no answer within 50 ms' })
})
