/**
 * A node whose disk the test fills; the arguments name its directory and the socket of Redis. Reads one command a line
 * from stdin, and answers each with the ledger's health and the number of timer runs.
 */

import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { RedisLink } from '../../src/ledger/redis/redis-link.ts'
import { accountOf, chargeOf, holdOf } from './conformance.ts'

// As in weir: an uncaught error ends the process.
process.on('unhandledRejection', (error) => {
  console.error(error)
  process.exit(3)
})
const [directory = '', url = '', organization = ''] = process.argv.slice(2)
const account = { ...accountOf(), organization }
const link = new RedisLink({ kind: 'single', url })
await link.start()
let beats = 0
const time = {
  now: Date.now,
  every: (ms: number, call: () => void) => {
    const timer = setInterval(() => {
      if (ms === 250) beats += 1
      call()
    }, ms)
    return () => clearInterval(timer)
  },
}
const ledger = new RedisLedger(link, new Outbox(directory), 'refuse', time)

async function settle(): Promise<void> {
  for (let i = 0; i < 10; i++) await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(70))
}

for await (const line of console) {
  if (line === 'settle') await settle()
  if (line === 'end') break
  console.log(JSON.stringify({ beats, ...ledger.health() }))
}
await ledger.close()
process.exit(0)
