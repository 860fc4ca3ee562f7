/**
 * Random prices, written in random ways, against random lists: after the edit nothing differs from the list, and all
 * bytes outside the price and all comments inside it are as they were.
 */

import { expect, test } from 'bun:test'
import { stringify } from 'yaml'
import { parseConfig } from '../../src/config/parse.ts'
import type { JsonObject, JsonValue } from '../../src/core/json.ts'
import type { Price } from '../../src/core/money.ts'
import { priceDifferences } from '../../src/import/price-differences.ts'
import { withPrice } from '../../src/import/price-edits.ts'
import { statedPrice } from '../../src/import/price-list.ts'
import { Random, randomSeed } from '../ledger/random.ts'

const OPTIONS = { env: {}, readFile: () => ({ error: 'there are no files here' }), cores: 1 }

const dollars = (random: Random) => random.pick([1, 2, 3, 4.5, random.below(40_000) / 1000])

function rates(random: Random, isWhole: boolean): JsonObject {
  const optional = ['cached_input', 'cache_write', 'cache_write_1h', 'audio_input'].filter(() => random.oneIn(3))
  const names = [...(isWhole || random.oneIn(2) ? ['input'] : []), 'output', ...optional]
  return Object.fromEntries(names.map((name) => [name, dollars(random)]))
}

function lengths(random: Random): JsonObject {
  const found = [100_000, 200_000, 272_000].filter(() => random.oneIn(3))
  if (found.length === 0) return {}
  return { above: found.map((input_tokens) => ({ input_tokens, ...rates(random, false) })) }
}

function price(random: Random): JsonObject {
  const names = ['priority', 'flex', 'scale'].filter(() => random.oneIn(3))
  const tier = () =>
    random.oneIn(3) ? { factor: random.below(3000) / 1000 } : { ...rates(random, false), ...lengths(random) }
  const tiers = names.length === 0 ? {} : { tiers: Object.fromEntries(names.map((name) => [name, tier()])) }
  return { ...rates(random, true), ...lengths(random), ...tiers }
}

/** As block or in one line, each part as it comes, with comments where a block may have them. */
function written(random: Random, value: JsonValue, indent: string): string {
  if (typeof value !== 'object' || value === null || random.oneIn(3)) return inLine(random, value)
  const remark = () => (random.oneIn(2) ? `  # remark ${random.below(1_000_000)}` : '')
  const before = () => (random.oneIn(3) ? `\n${indent}# remark ${random.below(1_000_000)}` : '')
  const isScalar = (each: JsonValue | undefined) => typeof each !== 'object'
  if (Array.isArray(value))
    return value.map((each) => `${before()}\n${indent}- ${inLine(random, each)}${remark()}`).join('')
  const entries = Object.entries(value).map(([name, each = null]) => {
    const text = written(random, each, `${indent}  `)
    return `${before()}\n${indent}${name}: ${text}${isScalar(each) || !text.startsWith('\n') ? remark() : ''}`
  })
  return entries.join('')
}

function inLine(random: Random, value: JsonValue): string {
  const text = stringify(value, { collectionStyle: 'flow', lineWidth: 0 }).trim()
  return random.oneIn(2) ? text : text.replaceAll('{ ', '{').replace(/ \}$/, ', }')
}

const remarks = (text: string) => (text.match(/# remark \d+/g) ?? []).sort()

function priceIn(text: string, at: number): Price | undefined {
  const parsed = parseConfig(text, OPTIONS)
  if (!parsed.ok) throw new Error(parsed.problems.map(({ path, message }) => `${path}: ${message}\n${text}`).join('\n'))
  return parsed.config.models[at]?.price
}

test('an edit leaves nothing to differ, and everything else as it is', async () => {
  const random = new Random(randomSeed('price edits'))
  for (let round = 0; round < 150; round++) {
    const listed = statedPrice(price(random), ['list'])
    if ('problem' in listed) throw new Error(listed.problem)
    const theirs = listed.price
    const isShared = random.oneIn(4)
    const own = written(random, price(random), '      ')
    const head = `# head\nproviders: { up: { dialect: openai, base_url: "http://127.0.0.1:9/v1" } }
models:
  - { name: first, targets: [{ provider: up, model: a }], price: { input: 1, output: 2 } }
  - name: second  # of two
    targets: [{ provider: up, model: b }]
    price:${isShared ? ' &shared' : ''}`
    const tail = `
  - name: third
    targets: [{ provider: up, model: c }]
    price: ${isShared ? '*shared' : '{ input: 1, output: 2 }'}
organizations: [{ id: acme, keys: [{ id: ci, key: configured-key-0123456789 }] }]
# end`
    const eol = random.pick(['\n', '\r\n'])
    const before = `${head} ${own}${tail}`.replaceAll('\n', eol)
    const third = priceIn(before, 2)
    const edited = await withPrice(before, 1, async (text) => {
      const ours = priceIn(text, 1)
      return { ours, theirs, differences: priceDifferences('second', ours, theirs) }
    })
    if ('problem' in edited) throw new Error(`${edited.problem}\n${before}`)
    const { text } = edited
    expect(priceDifferences('second', priceIn(text, 1), theirs)).toEqual([])
    expect(priceIn(text, 2)).toEqual(third)
    expect(remarks(text)).toEqual(remarks(before))
    expect(text.startsWith(head.replaceAll('\n', eol))).toBe(true)
    if (!isShared) expect(text.endsWith(tail.replaceAll('\n', eol))).toBe(true)
    if (eol === '\r\n') expect(text.replaceAll('\r\n', '')).not.toContain('\n')
  }
})
