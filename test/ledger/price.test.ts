/** The price of a request: each component, each fallback, and equality with exact arithmetic. */

import { describe, expect, test } from 'bun:test'
import type { Price } from '../../src/core/money.ts'
import type { Usage } from '../../src/core/token-usage.ts'
import { costMicroUsd, MICRO_USD_MAX, plainCostMicroUsd } from '../../src/ledger/price.ts'
import { Random, randomSeed } from './random.ts'

const SONNET: Price = { input: 3e6, cachedInput: 3e5, cacheWrite: 3.75e6, cacheWrite1h: 6e6, output: 15e6 }

const table: readonly [string, Usage, Price, number, number][] = [
  ['nothing', {}, SONNET, 0, 0],
  ['plain', { input: 1000, output: 100 }, SONNET, 0, 4500],
  ['cached tokens are a part of the input', { input: 1000, cachedInput: 900 }, SONNET, 0, 570],
  ['each write has its price', { input: 1000, cacheWrite5m: 400, cacheWrite1h: 600 }, SONNET, 0, 5100],
  ['one rounding, up', { input: 1, output: 1 }, { input: 1, output: 1 }, 0, 1],
  ['an exact cost is not rounded up', { input: 1_000_000 }, { input: 7 }, 0, 7],
  ['no cached price: input price', { input: 10, cachedInput: 10 }, { input: 2e6 }, 0, 20],
  ['no write price: input price', { input: 10, cacheWrite5m: 5, cacheWrite1h: 5 }, { input: 2e6 }, 0, 20],
  ['no one-hour price: write price', { input: 10, cacheWrite1h: 10 }, { input: 2e6, cacheWrite: 3e6 }, 0, 30],
  ['a free cached price is a price', { input: 10, cachedInput: 10 }, { input: 2e6, cachedInput: 0 }, 0, 0],
  ['parts without a whole', { cachedInput: 10 }, SONNET, 0, 3],
  ['images', {}, { image: 40_000 }, 3, 120_000],
  ['images and tokens', { input: 1, output: 1 }, { image: 40_000, input: 5e6, output: 4e7 }, 1, 40_045],
  ['no price at all', { input: 5, output: 5 }, {}, 2, 0],
  ['beyond 2^53 on the way', { input: 9_007_199_254_740_991 }, { input: 1_000_001 }, 0, MICRO_USD_MAX],
  [
    'beyond 2^53 on the way, within it at the end',
    { input: 1e13, output: 1 },
    { input: 1_000_001, output: 1 },
    0,
    10_000_010_000_001,
  ],
]

describe('costMicroUsd', () => {
  for (const [name, usage, price, images, cost] of table) {
    test(name, () => expect(costMicroUsd(usage, price, images)).toBe(cost))
  }

  test('equals exact arithmetic for random usage and prices', () => {
    const random = new Random(randomSeed('price'))
    for (let i = 0; i < 20_000; i++) {
      const usage = randomUsage(random)
      const price = randomPrice(random)
      const images = random.below(3)
      expect(costMicroUsd(usage, price, images)).toBe(naive(usage, price, images))
      const { input = 0, output = 0 } = usage
      expect(plainCostMicroUsd(input, output, price, images)).toBe(naive({ input, output }, price, images))
    }
  })
})

function randomUsage(random: Random): Usage {
  const size = [10, 1000, 1e6, 1e10, Number.MAX_SAFE_INTEGER / 8][random.below(5)] ?? 10
  const cachedInput = random.maybe(random.below(size))
  const cacheWrite5m = random.maybe(random.below(size))
  const cacheWrite1h = random.maybe(random.below(size))
  return {
    input: random.maybe(random.below(size * 4)),
    cachedInput,
    cacheWrite5m,
    cacheWrite1h,
    output: random.maybe(random.below(size)),
  }
}

function randomPrice(random: Random): Price {
  const price = () => random.maybe(random.below([1, 1e6, 1e8, 1e12][random.below(4)] ?? 1))
  return {
    input: price(),
    cachedInput: price(),
    cacheWrite: price(),
    cacheWrite1h: price(),
    output: price(),
    image: price(),
  }
}

function naive(usage: Usage, price: Price, images: number): number {
  const big = (value: number | undefined) => BigInt(value ?? 0)
  const input = price.input ?? 0
  const write = price.cacheWrite ?? input
  const parts = big(usage.cachedInput) + big(usage.cacheWrite5m) + big(usage.cacheWrite1h)
  const plain = big(usage.input) > parts ? big(usage.input) - parts : 0n
  const sum =
    plain * big(input) +
    big(usage.cachedInput) * big(price.cachedInput ?? input) +
    big(usage.cacheWrite5m) * big(write) +
    big(usage.cacheWrite1h) * big(price.cacheWrite1h ?? write) +
    big(usage.output) * big(price.output)
  const cost = sum / 1_000_000n + (sum % 1_000_000n === 0n ? 0n : 1n) + big(images) * big(price.image)
  return cost > BigInt(MICRO_USD_MAX) ? MICRO_USD_MAX : Number(cost)
}
