/** The bounds on what is kept of tags, which callers choose: their combinations, and the accounts of their budgets. */

import { expect, test } from 'bun:test'
import type { Key, Model } from '../../src/catalog/catalog.ts'
import { countedTags, tagsByName, tagValue } from '../../src/core/tags.ts'
import { accountOf } from '../../src/gateway/request-budgets.ts'
import { RequestTags, TagCounts } from '../../src/gateway/request-tags.ts'

test('1,000 combinations of an organisation have sums in a day; the others keep their tags, under (other)', () => {
  let now = Date.UTC(2026, 10, 22, 23)
  const limited: string[] = []
  const counts = new TagCounts({
    limited: (organization, limit) => limited.push(`${organization} ${limit}`),
    now: () => now,
  })
  const charged = (organization: string, text: string) => new RequestTags(text, text, organization, counts).charged()
  for (let n = 0; n < 1000; n++) expect(charged('acme', `user=${n}`)).toBe(`user=${n}`)
  expect(limited).toEqual([])
  for (let n = 1000; n < 3000; n++) {
    const stored = charged('acme', `user=${n}`)
    expect([countedTags(stored), tagsByName(stored)]).toEqual(['(other)', { user: String(n) }])
  }
  // It is logged once a day, and concerns neither known combinations nor other organisations.
  expect(limited).toEqual(['acme 1000'])
  expect([charged('acme', 'user=7'), charged('other', 'user=3000')]).toEqual(['user=7', 'user=3000'])
  now += 3_600_000
  expect(charged('acme', 'user=3000')).toBe('user=3000')
})

test('200,000 combinations of all organisations have sums in a day', () => {
  let now = Date.UTC(2026, 10, 22, 23)
  const limited: string[] = []
  const counts = new TagCounts({ limited: (...of) => limited.push(of.join(' ')), now: () => now })
  const isCounted = (organization: string, text: string) => counts.count(organization, text)
  for (let n = 0; n < 200_000; n++) isCounted(`o-${n % 400}`, `user=${n}`)
  for (let n = 0; n < 400; n++) expect(isCounted(`o-${n}`, `user=${n}`)).toBe(true)
  expect([isCounted('o-1', 'user=x'), isCounted('late', 'user=x'), isCounted('late', 'user=y')]).toEqual([
    ...[false, false, false],
  ])
  expect(limited).toEqual(['o-1 500', 'late 0'])
  now += 3_600_000
  expect(isCounted('late', 'user=x')).toBe(true)
})

test('a reservation takes no place, because it may be rejected', () => {
  const counts = new TagCounts({ limited: () => undefined })
  for (let n = 0; n < 5000; n++)
    expect(new RequestTags(`user=${n}`, `user=${n}`, 'acme', counts).held).toBe(`user=${n}`)
  for (let n = 0; n < 1000; n++) new RequestTags(`user=${n}`, `user=${n}`, 'acme', counts).charged()
  const late = new RequestTags('user=1000', 'user=1000', 'acme', counts)
  expect(countedTags(late.held)).toBe('(other)')
})

test('a request lacks a tag whose name is a property of every object', () => {
  for (const name of ['constructor', 'toString', '__proto__']) expect(tagValue('project=a', name)).toBe('')
  expect(tagValue('constructor=b,project=a', 'constructor')).toBe('b')
})

test('10,000 accounts with counters are kept, however many keys have some', () => {
  const budgets = [{ name: 'run', per: { tag: 'session' }, match: {}, limits: {}, except: new Map() }]
  const keyOf = (id: string) =>
    ({ id, limits: {}, organization: { id: 'acme', limits: {}, budgets } }) as unknown as Key
  const key = keyOf('k')
  const [first, plain] = [accountOf(key, 'session=1'), accountOf(key)]
  const others = Array.from({ length: 1000 }, (_, i) => keyOf(`k-${i}`))
  const fill = (count: number, name: string) => {
    for (let n = 0; n < count; n++) accountOf(others[n % 1000] as Key, `session=${name}${n}`)
  }
  fill(5000, 'a')
  expect(accountOf(key, 'session=1')).toBe(first)
  fill(10_000, 'b')
  const again = accountOf(key, 'session=1')
  expect(again).toEqual(first)
  expect(again).not.toBe(first)
  expect(plain.budgets).toBeUndefined()
})

test('the number of counters is bounded for values that callers choose, not for those of the configuration', () => {
  const person = { name: 'person', per: { tag: 'person' }, match: {}, limits: {}, except: new Map([['boss', {}]]) }
  const team = { ...person, name: 'team', per: { tag: 'team' }, match: { tags: { team: ['a'] } } }
  const budgets = [person, team, ...['key', 'model'].map((per) => ({ ...person, name: per, per }))]
  const key = { id: 'k', limits: {}, organization: { id: 'acme', limits: {}, budgets } } as unknown as Key
  const bounded = (tags: string, model: object) =>
    accountOf(key, tags, model as Model).budgets?.map(({ name, value, isBounded }) => [name, value, isBounded === true])
  const known = [
    ['team', 'a', false],
    ['key', 'k', false],
  ]
  const [named, asked] = [{ name: 'm' }, { name: 'm-*', asked: 'm-1' }]
  expect(bounded('person=ann,team=a', named)).toEqual([['person', 'ann', true], ...known, ['model', 'm', false]])
  expect(bounded('person=boss,team=a', asked)).toEqual([['person', 'boss', false], ...known, ['model', 'm-1', true]])
})
