/** Globs, and the three lists of which each must allow a model. */

import { describe, expect, test } from 'bun:test'
import { access } from '../../src/catalog/catalog.ts'
import { type AccessRule, judge, matches } from '../../src/core/permission.ts'
import { property } from '../support/random.ts'
import { catalog, key, keyOf, model, organization } from './fixture.ts'

describe('globs', () => {
  test.each<[string, string, boolean]>([
    ['*', '', true],
    ['*', 'anything', true],
    ['', '', true],
    ['', 'a', false],
    ['gpt-5-*', 'gpt-5-mini', true],
    ['gpt-5-*', 'gpt-5-', true],
    ['gpt-5-*', 'gpt-5', false],
    ['*mini', 'gpt-5-mini', true],
    ['*mini', 'gpt-5-minim', false],
    ['g*5*i', 'gpt-5-mini', true],
    ['gpt-?', 'gpt-5', true],
    ['gpt-?', 'gpt-', false],
    ['gpt-?', 'gpt-55', false],
    ['?', '*', true],
    ['a.c', 'abc', false],
    ['a[b]c', 'abc', false],
    ['GPT', 'gpt', false],
    ['**', 'x', true],
    ['*a*b', 'xaxbxab', true],
  ])('%s on %s: %j', (glob, name, expected) => expect(matches(glob, name)).toBe(expected))

  test('a glob of many stars does not take exponential time', () =>
    expect(matches(`${'*a'.repeat(60)}b`, 'a'.repeat(128))).toBe(false))

  property('equals a naive matcher', 5000, (random) => {
    const slow = (glob: string, name: string): boolean => {
      if (glob === '') return name === ''
      if (glob[0] === '*') return slow(glob.slice(1), name) || (name !== '' && slow(glob, name.slice(1)))
      return name !== '' && (glob[0] === '?' || glob[0] === name[0]) && slow(glob.slice(1), name.slice(1))
    }
    const glob = random.list(8, () => random.pick(['a', 'b', '*', '?'])).join('')
    const name = random.list(8, () => random.pick(['a', 'b'])).join('')
    expect([glob, name, matches(glob, name)]).toEqual([glob, name, slow(glob, name)])
  })
})

describe('verdicts', () => {
  const deny = (models: string[], keys?: string[]): AccessRule => ({ effect: 'deny', models, keys })
  const allow = (models: string[], keys?: string[]): AccessRule => ({ effect: 'allow', models, keys })

  test.each<[string, string[] | undefined, AccessRule[], string[] | undefined, object]>([
    ['no lists', undefined, [], undefined, { allowed: true }],
    ['the organisation has it', ['m*'], [], undefined, { allowed: true }],
    ['the organisation does not', ['n*'], [], undefined, { allowed: false, by: 'organization' }],
    ['the organisation has none', [], [], undefined, { allowed: false, by: 'organization' }],
    ['a rule denies', undefined, [deny(['m'])], undefined, { allowed: false, by: 'rule', rule: 0 }],
    [
      'the first that matches decides',
      undefined,
      [deny(['n']), allow(['m']), deny(['*'])],
      undefined,
      { allowed: true, rule: 1 },
    ],
    ['the other way round', undefined, [deny(['*']), allow(['m'])], undefined, { allowed: false, by: 'rule', rule: 0 }],
    ['a rule for this key', undefined, [deny(['m'], ['k*'])], undefined, { allowed: false, by: 'rule', rule: 0 }],
    ['a rule for another key', undefined, [deny(['m'], ['x', 'y'])], undefined, { allowed: true }],
    [
      'an allowing rule for this key goes first',
      undefined,
      [allow(['m'], ['k']), deny(['*'])],
      undefined,
      { allowed: true, rule: 0 },
    ],
    ['the key has it', undefined, [], ['m'], { allowed: true }],
    ['the key does not', undefined, [], ['n'], { allowed: false, by: 'key' }],
    [
      'a rule does not widen the organisation',
      ['n'],
      [allow(['m'])],
      undefined,
      { allowed: false, by: 'organization' },
    ],
    ['a rule does not widen the key', undefined, [allow(['m'])], ['n'], { allowed: false, by: 'key' }],
  ])('%s', (_, models, rules, keyModels, expected) =>
    expect(judge({ models, rules }, { id: 'k', models: keyModels }, 'm')).toEqual(expected as never),
  )

  test('a key that no rule names is subject only to the rules for all keys', () => {
    expect(judge({ rules: [deny(['m'], ['k*'])] }, {}, 'm')).toEqual({ allowed: true })
    expect(judge({ rules: [deny(['m'], ['*'])] }, {}, 'm').allowed).toBe(false)
    expect(judge({ rules: [deny(['m'])] }, {}, 'm').allowed).toBe(false)
  })
})

test('a spend limit excludes models without a price, for keys created later too', () => {
  const spend = { day: 1, strict: false, onExhausted: 'finish' } as const
  const models = [model('free', { price: undefined }), model('priced')]
  const reach = (own: object, whole: object) => {
    const of = catalog({
      models,
      organizations: [organization('o', { limits: whole, keys: [key('k', { limits: own })] })],
    })
    return [...of.allowed(keyOf(of))].map((one) => one.name)
  }
  expect(reach({}, {})).toEqual(['free', 'priced'])
  expect(reach({ spend }, {})).toEqual(['priced'])
  expect(reach({}, { spend })).toEqual(['priced'])
  const of = catalog({ models, organizations: [organization('o', { limits: { spend } })] })
  const free = of.model('free')
  expect(free === undefined ? undefined : access(keyOf(of), free)).toEqual({ allowed: false, by: 'price' })
})

test('a strict spend limit excludes models without an output limit, unless output is free', () => {
  const spend = { day: 1, strict: true, onExhausted: 'finish' } as const
  const models = [
    model('open'),
    model('limited', { maxOutputTokens: 8000 }),
    model('free', { price: { input: 1, output: 0 } }),
    model('pictures', { supports: ['image_generation'] }),
  ]
  const reach = (own: object, whole: object) => {
    const of = catalog({
      models,
      organizations: [organization('o', { limits: whole, keys: [key('k', { limits: own })] })],
    })
    return [...of.allowed(keyOf(of))].map((one) => one.name)
  }
  expect(reach({ spend: { ...spend, strict: false } }, {})).toEqual(['open', 'limited', 'free', 'pictures'])
  expect(reach({ spend }, {})).toEqual(['limited', 'free', 'pictures'])
  expect(reach({}, { spend })).toEqual(['limited', 'free', 'pictures'])
  const of = catalog({ models, organizations: [organization('o', { limits: { spend } })] })
  const open = of.model('open')
  const verdict = { allowed: false, by: 'output limit' } as const
  expect(open === undefined ? undefined : access(keyOf(of), open)).toEqual(verdict)
})
