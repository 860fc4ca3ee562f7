/**
 * One of several processes that draw on the same budget with 32 calls in flight until it is used up. Prints how many
 * calls were granted, and how many of those after a refusal.
 */

import { Redis } from 'ioredis'
import type { Account } from '../../src/ledger/ledger.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'

const [, , socket = '', limit = '', amount = ''] = process.argv
const redis = new Redis(socket)
const store = new RedisStore(redis, redis)
const account: Account = {
  organization: 'acme',
  organizationLimits: { spend: { total: Number(limit), strict: false, onExhausted: 'finish' } },
  key: 'ci',
  keyLimits: {},
}
let made = 0
let granted = 0
let grantedAfterRefusal = 0

async function work(): Promise<void> {
  for (let isRefused = false; ; ) {
    const estimate = { inputTokens: 1, outputTokens: 1, costMicroUsd: Number(amount) }
    const { outcome } = await store.reserve(account, { id: `${process.pid}-${made++}`, estimate, floorMicroUsd: 0 })
    if (outcome === 'granted') granted += 1
    if (outcome === 'granted' && isRefused) grantedAfterRefusal += 1
    // Each worker calls once more after its first refusal: the budget was used up before that call began, so a grant
    // would be an error.
    if (outcome === 'refused' && isRefused) return
    isRefused = outcome === 'refused'
  }
}

await Promise.all(Array.from({ length: 32 }, work))
console.log(JSON.stringify({ granted, grantedAfterRefusal }))
redis.disconnect()
