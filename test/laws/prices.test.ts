/**
 * The prices of service tiers, lengths, audio and images against a model that shares nothing with them. No request is
 * charged other than by its own row, and no strict budget is passed.
 */

import { describe, expect, test } from 'bun:test'
import { priceOf } from '../../src/config/prices.ts'
import type { Usage } from '../../src/core/token-usage.ts'
import { chargedMicroUsd, imagePrice, reservedMicroUsd, servedTier } from '../../src/ledger/price.ts'
import { Random, randomSeed } from '../ledger/random.ts'
import { BASE, naiveCost, randomPrice, rowOf, TIERS } from './naive-prices.ts'

/** Parts of an input that never add up to more than it. */
function randomUsage(random: Random, input: number, output: number): Usage {
  let left = input
  const part = () => {
    const taken = random.oneIn(2) ? 0 : random.below(left + 1)
    left -= taken
    return taken
  }
  return { input, output, cachedInput: part(), cacheWrite5m: part(), cacheWrite1h: part(), audioInput: part() }
}

const ANSWERS = [undefined, 'auto', 'fast', 'unheard-of', ...BASE, ...TIERS]

describe('the price of a request', () => {
  test('is that of its own row, for every tier and length', () => {
    const random = new Random(randomSeed('prices'))
    for (let i = 0; i < 4000; i++) {
      const file = randomPrice(random)
      const price = priceOf(file)
      const input = random.pick([0, 999, 1000, 1001, 200_000, 200_001, 272_001, random.below(400_000)])
      const usage = { ...randomUsage(random, input, random.below(5000)), serviceTier: random.pick(ANSWERS) }
      const asked = random.pick(ANSWERS)
      const charged = chargedMicroUsd(price, { usage, asked })
      const isNamed = usage.serviceTier !== undefined && usage.serviceTier !== 'auto'
      const cost = (tier: string | undefined) => naiveCost(rowOf(file, tier, input), usage)
      const wanted = asked === undefined || asked === 'auto' ? file.default_tier : asked
      expect(charged).toBe(isNamed ? cost(usage.serviceTier) : Math.max(cost(undefined), cost(wanted)))
    }
  })

  test('is never more than what was reserved, if the answer keeps to the tier or falls back to the base', () => {
    const random = new Random(randomSeed('reserved'))
    for (let i = 0; i < 4000; i++) {
      const file = randomPrice(random)
      const price = priceOf(file)
      const [input, output] = [random.below(400_000), random.below(5000)]
      const asked = random.pick(ANSWERS)
      const wanted = asked === undefined || asked === 'auto' ? file.default_tier : asked
      const reserved = reservedMicroUsd(price, input, output, { asked, audioTokens: input })
      for (const serviceTier of [undefined, 'default', wanted]) {
        // Up to a quarter more input than estimated may reach another length.
        for (const longer of [input, Math.floor(input * 1.2)]) {
          const rates = rowOf(file, serviceTier, longer)
          const usage = { input, output, audioInput: random.below(input + 1), serviceTier }
          expect(naiveCost(rates, usage)).toBeLessThanOrEqual(reserved)
          expect(chargedMicroUsd(price, { usage, asked })).toBeLessThanOrEqual(reserved)
        }
      }
    }
  })

  test('a strict budget holds: the sum of what is charged never passes what was reserved within it', () => {
    const random = new Random(randomSeed('strict'))
    for (let round = 0; round < 200; round++) {
      const file = randomPrice(random)
      const price = priceOf(file)
      const budget = random.below(2_000_000)
      let spent = 0
      for (let i = 0; i < 100; i++) {
        const [input, output] = [random.below(300_000), random.below(5000)]
        const asked = random.pick(['default', 'priority', 'flex', 'fast'])
        const reserved = reservedMicroUsd(price, input, output, { asked, cached: '1h', audioTokens: input })
        if (spent + reserved > budget) continue
        const usage = randomUsage(random, random.below(input + 1), random.below(output + 1))
        const charged = chargedMicroUsd(price, {
          usage: { ...usage, serviceTier: random.pick([asked, 'default', undefined]) },
          asked,
        })
        spent += charged
        expect(spent).toBeLessThanOrEqual(budget)
      }
    }
  })
})

test('the tier of the log is bounded, and the same for all names of the base tier', () => {
  const price = priceOf({ input: 1, output: 1, tiers: { turbo: { factor: 2 } }, tier_aliases: { quick: 'turbo' } })
  const tiers = ['quick', 'turbo', 'standard', 'default', 'auto', undefined, 'priority', 'x'.repeat(99)]
  expect(tiers.map((serviceTier) => servedTier(price, { serviceTier }))).toEqual([
    ...['turbo', 'turbo', 'default', 'default', '', '', 'priority', 'other'],
  ])
})

test.each([
  [{ quality: 'low', size: '1024x1024' }, 11_000],
  [{ quality: 'low' }, 250_000],
  [{ quality: 'low', size: 'auto' }, 250_000],
  [{ quality: 'auto', size: '1536x1024' }, 300_000],
  [{ quality: 'medium', size: '9x9' }, 250_000],
  [{}, 300_000],
])('the row of images for %o', (wanted, image) => {
  const images = { 'low:1024x1024': 0.011, 'high:1536x1024': 0.3, '*': 0.25 }
  expect(imagePrice(priceOf({ images }), {}, wanted)).toEqual({ image })
})

test('no row of images', () => {
  expect(imagePrice(priceOf({ images: { 'low:1024x1024': 0.011 } }), {}, { quality: 'high' })).toBeUndefined()
})
