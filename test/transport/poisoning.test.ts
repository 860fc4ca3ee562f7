import { expect, test } from 'bun:test'
import { poison } from './poisoning.ts'

test('500 requests at once with random aborts: no answer reaches another request', async () => {
  const { mismatches, whole, aborted, failed, connections } = await poison(10_000)
  expect(mismatches).toBe(0)
  expect(whole + aborted + failed).toBe(10_000)
  for (const count of [whole, aborted, failed]) expect(count).toBeGreaterThan(10)
  // Connections are shared, or there would be nothing to mix up.
  expect(connections).toBeLessThan(9000)
})
