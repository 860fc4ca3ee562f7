/** Which of several nodes reports an alert, also after Redis has lost who does. */

import { expect, test } from 'bun:test'
import { alertLedger } from '../../src/assembly/alert-ledger.ts'
import { RedisServer } from '../support/redis.ts'

const DAY_MS = 86_400_000

test('one of two nodes reports an alert of their installation, and only it after Redis has lost that', async () => {
  const server = await RedisServer.start()
  const place = { ledger: { kind: 'redis', redis: { kind: 'single', url: server.url } }, dataDir: '' } as const
  const won = { id: 'alert_1', organization: 'acme', token: 'one' }
  const one = alertLedger(place, () => [[{ ...won, untilMs: Date.now() + DAY_MS }]])
  const two = alertLedger(place, () => [])
  const claims = async (node: typeof one, token: string) => {
    for (;;) {
      try {
        return await node.claim('alert_1', { organization: 'acme', token }, DAY_MS)
      } catch {
        await Bun.sleep(50)
      }
    }
  }
  expect(await claims(one, 'one')).toBe(true)
  expect(await claims(two, 'two')).toBe(false)
  const installations = () => Promise.all([one.installation('first'), two.installation('second')])
  const [installation, other] = await installations()
  expect(other).toBe(installation)
  await server[Symbol.asyncDispose]()
  // It begins empty.
  await using _ = await RedisServer.start([], server.port)
  expect(await claims(two, 'two')).toBe(false)
  expect(await claims(one, 'one')).toBe(true)
  // Who comes later gets it from those that were there before the loss.
  const three = alertLedger(place, () => [])
  expect(await three.installation('third')).toBe(installation)
  three.close()
  one.close()
  two.close()
})
