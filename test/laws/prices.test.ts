/**
 * The prices of service tiers, lengths, audio and images against a model that shares nothing with them: exact fractions
 * over the file as it is written. No request is charged other than by its own row, and no strict budget is passed.
 */

import { describe, expect, test } from 'bun:test'
import { priceOf } from '../../src/config/prices.ts'
import type { Usage } from '../../src/core/token-usage.ts'
import { chargedMicroUsd, imagePrice, reservedMicroUsd, servedTier } from '../../src/ledger/price.ts'
import { Random, randomSeed } from '../ledger/random.ts'

type FilePrice = Parameters<typeof priceOf>[0]
type FileRow = NonNullable<FilePrice['above']>[number]

/** Millionths of a dollar per million tokens, exactly. */
type Row = Readonly<Record<'input' | 'cached' | 'write' | 'write1h' | 'output' | 'audio', bigint | undefined>>

const TIERS = ['priority', 'flex', 'scale', 'batch'] as const
const BASE = ['default', 'standard', 'standard_only']

const micro = (dollars: number | undefined) => (dollars === undefined ? undefined : BigInt(Math.round(dollars * 1e6)))
const ceiling = (over: bigint, under: bigint) => (over + under - 1n) / under

function written(rates: Omit<FileRow, 'input_tokens'>): Row {
  return {
    input: micro(rates.input),
    cached: micro(rates.cached_input),
    write: micro(rates.cache_write),
    write1h: micro(rates.cache_write_1h),
    output: micro(rates.output),
    audio: micro(rates.audio_input),
  }
}

/** A row that replaces another one: its own fields, with the input's price for parts without one. */
function instead(row: Row, base: Row): Row {
  const whole = {
    ...row,
    input: row.input ?? base.input,
    output: row.output ?? base.output,
    audio: row.audio ?? base.audio,
  }
  if (row.input !== undefined) return whole
  const write1h = row.write1h ?? (row.write === undefined ? base.write1h : undefined)
  return { ...whole, cached: row.cached ?? base.cached, write: row.write ?? base.write, write1h }
}

function full({ input = 0n, cached, write, write1h, output = 0n, audio }: Row) {
  return {
    input,
    cached: cached ?? input,
    write: write ?? input,
    write1h: write1h ?? write ?? input,
    output,
    audio: audio ?? input,
  }
}

function multiplied(row: Row, factor: number): Row {
  const over = BigInt(Math.round(factor * 1000))
  const each = Object.entries(row).map(([name, amount]) => [
    name,
    amount === undefined ? undefined : ceiling(amount * over, 1000n),
  ])
  return Object.fromEntries(each)
}

function grownBy(row: Row, from: Row, to: Row): Row {
  const [before, after] = [full(from), full(to)]
  const names = ['input', 'cached', 'write', 'write1h', 'output', 'audio'] as const
  const each = names.map((name) => {
    const amount = row[name]
    if (amount === undefined) return [name, undefined]
    return [name, before[name] === 0n ? after[name] : ceiling(amount * after[name], before[name])]
  })
  return Object.fromEntries(each)
}

/** The row of a tier for an input, looked up in the file. */
function rowOf(price: FilePrice, tier: string | undefined, input: number): Row {
  const base = written(price)
  const long = longest(price.above, input)
  const ofBase = long === undefined ? base : instead(written(long), base)
  const name = tier === undefined ? '' : (price.tier_aliases?.[tier] ?? tier)
  const own = price.tiers?.[name]
  if (own === undefined) return ofBase
  if (own.factor !== undefined) return multiplied(ofBase, own.factor)
  const mine = instead(written(own), base)
  if (own.above === undefined) return long === undefined ? mine : grownBy(mine, base, ofBase)
  const mineLong = longest(own.above, input)
  return mineLong === undefined ? mine : instead(written(mineLong), mine)
}

function longest(rows: FilePrice['above'], input: number): FileRow | undefined {
  let found: FileRow | undefined
  for (const row of rows ?? [])
    if (input > row.input_tokens && (found === undefined || row.input_tokens > found.input_tokens)) found = row
  return found
}

function naiveCost(
  row: Row,
  { input = 0, cachedInput = 0, cacheWrite5m = 0, cacheWrite1h = 0, audioInput = 0, output = 0 }: Usage,
): number {
  const rates = full(row)
  const audio = row.audio === undefined ? 0 : audioInput
  const plain = Math.max(0, input - cachedInput - cacheWrite5m - cacheWrite1h - audio)
  const sum =
    BigInt(plain) * rates.input +
    BigInt(cachedInput) * rates.cached +
    BigInt(cacheWrite5m) * rates.write +
    BigInt(cacheWrite1h) * rates.write1h +
    BigInt(audio) * rates.audio +
    BigInt(output) * rates.output
  return Number(ceiling(sum, 1_000_000n))
}

const dollars = (random: Random) => random.below(40_000) / 1000

function randomRates(random: Random) {
  const maybe = () => (random.oneIn(2) ? {} : { value: dollars(random) })
  const fields = ['cached_input', 'cache_write', 'cache_write_1h', 'audio_input'] as const
  return Object.fromEntries(fields.flatMap((name) => ('value' in maybe() ? [[name, dollars(random)]] : [])))
}

function randomLengths(random: Random): FilePrice['above'] {
  const lengths = [1000, 200_000, 272_000].filter(() => random.oneIn(2))
  if (lengths.length === 0) return undefined
  const rows = lengths.map((input_tokens) => {
    const own = random.oneIn(4) ? {} : { input: dollars(random) }
    return { input_tokens, ...randomRates(random), ...own, output: dollars(random) }
  })
  return random.oneIn(2) ? rows : rows.toReversed()
}

function randomPrice(random: Random): FilePrice {
  const names = TIERS.filter(() => random.oneIn(2))
  const tiers = names.map((name) => {
    if (random.oneIn(3)) return [name, { factor: random.below(3000) / 1000 }] as const
    const own = random.oneIn(4) ? {} : { input: dollars(random) }
    return [
      name,
      {
        ...randomRates(random),
        ...own,
        output: dollars(random),
        above: random.oneIn(2) ? randomLengths(random) : undefined,
      },
    ] as const
  })
  const [alias] = names
  return {
    input: dollars(random),
    output: dollars(random),
    ...randomRates(random),
    above: randomLengths(random),
    ...(tiers.length === 0 ? {} : { tiers: Object.fromEntries(tiers) }),
    ...(alias === undefined ? {} : { tier_aliases: { fast: alias } }),
    ...(alias !== undefined && random.oneIn(3) ? { default_tier: random.oneIn(2) ? 'fast' : alias } : {}),
  }
}

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
