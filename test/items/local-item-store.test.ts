/** Items stored in this process: for how long, how many, and whose are dropped when the memory is full. */

import { describe, expect, test } from 'bun:test'
import { LocalItemStore } from '../../src/items/local-item-store.ts'
import { itemText } from '../support/item-text.ts'
import { property } from '../support/random.ts'

describe('the store of this process', () => {
  const item = (id: string, length = 10) => ({ id, type: 'message', text: 'x'.repeat(length) })
  const text = (id: string, length?: number) => itemText(item(id, length))
  const storeOf = (options: { ttlSeconds?: number; bytesMax?: number; nowMs?: () => number } = {}) =>
    new LocalItemStore({ ttlSeconds: 60, ...options })

  test('an item expires after the configured time', () => {
    let nowMs = 0
    const store = storeOf({ nowMs: () => nowMs })
    store.put('acme', [text('a')])
    nowMs = 59_999
    expect(store.getText('acme', 'a')).toBe(text('a').json)
    nowMs = 60_000
    expect(store.getText('acme', 'a')).toBeUndefined()
  })

  test('0 seconds: nothing is stored', () => {
    const store = storeOf({ ttlSeconds: 0 })
    store.put('acme', [text('a')])
    expect(store.getText('acme', 'a')).toBeUndefined()
  })

  test('the oldest items make room for new ones', () => {
    const store = storeOf({ bytesMax: 10_000 })
    for (const id of ['a', 'b', 'c']) store.put('acme', [text(id, 3000)])
    expect(['a', 'b', 'c'].map((id) => store.getText('acme', id) !== undefined)).toEqual([false, true, true])
  })

  test('of many small items the newest are kept, nearly as many as fit', () => {
    const store = storeOf({ bytesMax: 100_000 })
    const ids = Array.from({ length: 1000 }, (_, n) => `item_${n}`)
    for (const id of ids) store.put('acme', [text(id, 150)])
    const found = ids.filter((id) => store.getText('acme', id) !== undefined)
    expect(found).toEqual(ids.slice(-found.length))
    const bytes = found.length * (JSON.stringify(item('item_999', 150)).length + 300)
    expect(bytes).toBeGreaterThan(80_000)
    expect(bytes).toBeLessThan(110_000)
  })

  test('an item larger than the limit is not stored, and the others stay', () => {
    const store = storeOf({ bytesMax: 10_000 })
    store.put('acme', [text('a', 3000), text('b', 20_000)])
    expect(['a', 'b'].map((id) => store.getText('acme', id) !== undefined)).toEqual([true, false])
  })

  test('expired items free all of their bytes', () => {
    let nowMs = 0
    const store = storeOf({ bytesMax: 10_000, nowMs: () => nowMs })
    for (let round = 0; round < 50; round++) {
      store.put('acme', [text(`a${round}`, 3000), text(`b${round}`, 3000)])
      expect(store.getText('acme', `a${round}`)).toBeDefined()
      expect(store.getText('acme', `b${round}`)).toBeDefined()
      nowMs += 60_000
    }
  })

  test('an id that is stored again has the latest item, once', () => {
    const store = storeOf({ bytesMax: 8000 })
    for (const length of [2999, 3000]) store.put('acme', [text('a', length)])
    store.put('acme', [text('b', 3000)])
    expect(store.getText('acme', 'a')).toBe(text('a', 3000).json)
    expect(store.getText('acme', 'b')).toBeDefined()
  })

  test('an organization that fills the store drops no items of one that holds no more than an even share', () => {
    const store = storeOf({ bytesMax: 200_000 })
    const ids = Array.from({ length: 8 }, (_, n) => `mine_${n}`)
    store.put(
      'quiet',
      ids.map((id) => text(id, 3000)),
    )
    for (let n = 0; n < 1000; n++) store.put(`loud${n % 3}`, [text(`theirs_${n}`, 3000)])
    expect(ids.filter((id) => store.getText('quiet', id) === undefined)).toEqual([])
    expect(store.getText('loud0', 'theirs_999')).toBeDefined()
  })
})

property('stored items are bounded, and no organization below an even share loses items to another', 60, (random) => {
  const bytesMax = random.between(20_000, 400_000)
  let nowMs = 0
  const store = new LocalItemStore({ ttlSeconds: 60, bytesMax, nowMs: () => nowMs })
  const organizations = Array.from({ length: random.between(1, 6) }, (_, n) => `org${n}`)
  const sizes = new Map<string, number>()
  const alive = new Map<string, string[]>()
  for (let step = 0; step < 300; step++) {
    // All steps together take less than the items' lifetime: none expires.
    nowMs += random.below(150)
    const organization = random.pick(['org0', ...organizations])
    const id = `item_${step}`
    const length = random.below(random.chance(0.1) ? Math.floor(bytesMax / 4) : 3000)
    sizes.set(id, length + 450)
    store.put(organization, [itemText({ id, text: 'x'.repeat(length) })])
    if (store.getText(organization, id) !== undefined) {
      alive.set(organization, [...(alive.get(organization) ?? []), id])
    }
    expect(store.heldBytes).toBeLessThanOrEqual(bytesMax)
    for (const [owner, items] of alive) {
      const still = items.filter((one) => store.getText(owner, one) !== undefined)
      const lost = items.length - still.length
      // Besides its items an organization holds the unused bytes of its newest segment: at most a sixteenth of the
      // limit.
      const heldBefore = items.reduce((sum, one) => sum + (sizes.get(one) ?? 0), 0)
      if (owner !== organization && lost > 0)
        expect(heldBefore * 2 + 6144 + bytesMax / 16).toBeGreaterThan(bytesMax / organizations.length)
      alive.set(owner, still)
    }
  }
})
