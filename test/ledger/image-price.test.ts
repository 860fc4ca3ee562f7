import { describe, expect, test } from 'bun:test'
import type { Price } from '../../src/core/money.ts'
import type { Usage } from '../../src/core/token-usage.ts'
import { estimateImages } from '../../src/ledger/estimate.ts'
import { costMicroUsd, imagePrice } from '../../src/ledger/price.ts'

const image: Price = { image: 40_000 }
const tokens: Price = { input: 5_000_000, output: 40_000_000 }
const both: Price = { ...image, ...tokens }
const reported: Usage = { input: 10, output: 272 }

describe('an image request is charged by the image or by the token, never by both', () => {
  const rows: readonly (readonly [name: string, price: Price, usage: Usage, images: number, micro: number])[] = [
    ['by the image', image, {}, 3, 120_000],
    ['by the image also if tokens were reported', image, reported, 1, 40_000],
    ['by the token', tokens, reported, 1, 50 + 10_880],
    ['by the token if both are priced and tokens were reported', both, reported, 2, 50 + 10_880],
    ['by the image if both are priced and none were reported', both, {}, 2, 80_000],
    ['by the image if only input tokens were reported', both, { input: 10 }, 2, 80_000],
    ['for nothing if no image was generated', image, reported, 0, 0],
  ]
  test.each(rows)('%s', (_, price, usage, images, micro) => {
    expect(costMicroUsd(usage, imagePrice(price, usage) ?? {}, images)).toBe(micro)
  })
})

describe('the tokens of an image request', () => {
  const order = { prompt: '', inputs: 0, images: 1, size: undefined, quality: undefined }
  test.each([
    [{ ...order, quality: 'low', size: '1024x1024' }, 0, 272],
    [{ ...order, quality: 'medium', size: '1536x1024' }, 0, 1584],
    [{ ...order, quality: 'high', size: '1024x1024' }, 0, 4160],
    [{ ...order, size: 'auto' }, 0, 6240],
    [{ ...order, images: 10, inputs: 2 }, 3200, 62_400],
  ])('%o', (asked, input, output) => {
    expect(estimateImages(asked)).toEqual({ input, output })
  })

  test('the prompt adds tokens', () => {
    expect(estimateImages({ ...order, prompt: 'a weir at dawn, in oil' }).input).toBeGreaterThan(4)
  })
})
