/**
 * A model of prices that shares nothing with the code: exact fractions over the file as it is written. And random
 * prices of files.
 */

import type { priceOf } from '../../src/config/prices.ts'
import type { Usage } from '../../src/core/token-usage.ts'
import type { Random } from '../ledger/random.ts'

export type FilePrice = Parameters<typeof priceOf>[0]
type FileRow = NonNullable<FilePrice['above']>[number]

/** Millionths of a dollar per million tokens, exactly. */
type Row = Readonly<Record<'input' | 'cached' | 'write' | 'write1h' | 'output' | 'audio', bigint | undefined>>

export const TIERS = ['priority', 'flex', 'scale', 'batch'] as const
export const BASE = ['default', 'standard', 'standard_only']

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
export function rowOf(price: FilePrice, tier: string | undefined, input: number): Row {
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

export function naiveCost(
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

export function randomPrice(random: Random): FilePrice {
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
