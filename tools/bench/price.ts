/** What the price of a request takes: what is reserved for it, and what it is charged, with tiers and lengths. */

import { priceOf } from '../../src/config/prices.ts'
import { chargedMicroUsd, reservedMicroUsd } from '../../src/ledger/price.ts'
import type { Measurement } from './rounds.ts'

const PRICE = priceOf({
  ...{ input: 2.5, cached_input: 0.25, output: 15 },
  above: [{ input_tokens: 272_000, input: 5, cached_input: 0.5, output: 22.5 }],
  tiers: { priority: { input: 5, cached_input: 0.5, output: 30 }, flex: { factor: 0.5 } },
  tier_aliases: { fast: 'priority' },
})
const TIERS = [undefined, 'default', 'priority', 'fast', 'flex'] as const
/** The fastest of many short rounds is one that nothing else on the machine interrupted. */
const ROUNDS = 40
const REQUESTS = 20_000

/** Returns a sum, so that no compiler leaves the work out. */
function priced(count: number): number {
  let sum = 0
  for (let at = 0; at < count; at++) {
    const asked = TIERS[at % TIERS.length]
    const input = (at * 7919) % 400_000
    sum += reservedMicroUsd(PRICE, input, 4096, { asked })
    sum += chargedMicroUsd(PRICE, { usage: { input, cachedInput: input >> 1, output: 800, serviceTier: asked }, asked })
  }
  return sum
}

export async function priceMeasurements(): Promise<readonly Measurement[]> {
  let [fastestMs, sum] = [Number.POSITIVE_INFINITY, 0]
  for (let round = 0; round < ROUNDS; round++) {
    const startMs = performance.now()
    sum += priced(REQUESTS)
    fastestMs = Math.min(fastestMs, performance.now() - startMs)
  }
  if (sum <= 0) throw new Error('requests must cost something')
  const value = (fastestMs * 1000) / REQUESTS
  return [
    {
      name: 'price of a request with tiers and lengths: reserved and charged',
      unit: 'µs',
      valueMax: 0.3,
      figures: [{ gateway: 'weir', value }],
    },
  ]
}
