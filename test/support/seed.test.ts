import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { seedOf } from './seed.ts'

test('without WEIR_SEED every run has the same seed', () => {
  expect(seedOf(undefined)).toBe(seedOf(undefined))
  expect(seedOf('')).toBe(seedOf(undefined))
})

test('WEIR_SEED=random draws a new seed', () => {
  const seeds = new Set(Array.from({ length: 20 }, () => seedOf('random')))
  expect(seeds.size).toBeGreaterThan(15)
})

test('WEIR_SEED=N repeats a run; anything else is an error', () => {
  expect(seedOf('2567428922')).toBe(2_567_428_922)
  for (const wrong of ['yes', '-1', '1.5', '1e99', '99999999999999999999'])
    expect(() => seedOf(wrong)).toThrow('WEIR_SEED')
})

test('nothing else chooses a seed', async () => {
  const root = join(import.meta.dir, '../..')
  const found: string[] = []
  for (const folder of ['test', 'scripts']) {
    for await (const path of new Bun.Glob(`${folder}/**/*.ts`).scan(root)) {
      if (path === 'test/support/seed.test.ts') continue
      const text = await Bun.file(join(root, path)).text()
      if (
        /env(?:\.|\[')WEIR_SEED/.test(text) ||
        /seed[^\n]*=[^\n]*(?:Date\.now|Math\.random|performance\.now|randomInt|getRandomValues)/i.test(text)
      )
        found.push(path)
    }
  }
  expect(found).toEqual(['test/support/seed.ts'])
})
