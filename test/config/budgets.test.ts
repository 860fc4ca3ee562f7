/** Budgets of a configuration that cannot be: the path of each problem, and how many may apply to one request. */

import { expect, test } from 'bun:test'
import { globSamples } from '../../src/config/glob-samples.ts'
import { matches } from '../../src/core/permission.ts'
import { BASE, edited, problems } from './fixture.ts'

const LIMITS = 'limits: { spend: { day: 5 } }'

/** The problems of an organisation with these budgets, each a YAML mapping without its braces. */
function ofBudgets(budgets: readonly string[], text: string = BASE): readonly string[] {
  const list = budgets.map((budget, i) => `{ name: b${i}, ${LIMITS}, ${budget} }`).join(', ')
  return problems(`tags: [person, team]\n${edited('auto: available', `auto: available\n    budgets: [${list}]`, text)}`)
}

const first = 'organizations[0].budgets[0]'
test.each([
  ['per: person', `${first}.per: must be key, model or tag:NAME`],
  ['per: "tag:persn"', `${first}.per: "persn" is not in tags of the configuration (did you mean "person"?)`],
  [
    'match: { tags: { tem: [a] } }',
    `${first}.match.tags.tem: "tem" is not in tags of the configuration (did you mean "team"?)`,
  ],
  [
    'except: { ann: { spend: { day: 9 } } }',
    `${first}.except: needs per: without it the budget has one counter, and no values`,
  ],
  [
    'per: "tag:person", except: { "Ann B": { spend: { day: 9 } } }',
    `${first}.except["Ann B"]: no tag has this value; requests whose header or user has it count as ` +
      'h:GSPvv5REHNqm0aX-gIfRpZ',
  ],
  ['idle_hours: 0', `${first}.idle_hours: must be at least 1`],
  ['on_exhausted: finish', `${first}.on_exhausted: "finish" is not one of refuse, cut, downgrade`],
])('%s', (budget, problem) => {
  expect(ofBudgets([budget])).toEqual([problem])
})

test('names are unique, and a model under a spend limit of a budget needs a price', () => {
  expect(ofBudgets(['per: key', 'name: b0'].map((text) => text.replace('name: b0', 'per: model')))).toEqual([])
  const twice = edited(
    'auto: available',
    `auto: available\n    budgets: [{ name: b, ${LIMITS} }, { name: b, ${LIMITS} }]`,
  )
  expect(problems(twice)).toEqual([
    'organizations[0].budgets[1].name: is the name of budgets[0], too; names are unique',
  ])
  const unpriced = edited('\n    price: { input: 3, output: 15 }', '', edited('limits: { spend: { day: 50 } }', ''))
  expect(problems(unpriced)).toEqual([])
  expect(ofBudgets(['per: key'], unpriced)).toEqual([expect.stringContaining('models[1].price: is missing')])
})

test.each<readonly [string, readonly string[], number]>([
  ['without match', Array(9).fill('per: key'), 9],
  ['for different values of a tag', Array.from({ length: 20 }, (_, i) => `match: { tags: { team: [t${i}] } }`), 0],
  [
    'for lists of values with one in common',
    Array.from({ length: 9 }, (_, i) => `match: { tags: { team: [t${i}, all] } }`),
    9,
  ],
  ['for different keys', Array.from({ length: 20 }, (_, i) => `match: { keys: [k${i}] }`), 0],
  [
    'for keys that begin so, and keys that end so',
    [...Array(5).fill('match: { keys: ["a*"] }'), ...Array(4).fill('match: { keys: ["*b"] }')],
    9,
  ],
  [
    'for keys that cannot both be',
    [...Array(8).fill('match: { keys: ["a*"] }'), ...Array(8).fill('match: { keys: ["b*"] }')],
    0,
  ],
  [
    'for keys of any letter',
    [...Array(5).fill('match: { keys: ["a?c*"] }'), ...Array(4).fill('match: { keys: ["?b*d"] }')],
    9,
  ],
  [
    'for models of which there is one',
    [...Array(5).fill('match: { models: ["g*"] }'), ...Array(4).fill('match: { models: ["*t"] }')],
    9,
  ],
  [
    'for models of which there is none',
    [...Array(5).fill('match: { models: ["g*"] }'), ...Array(4).fill('match: { models: ["*x"] }')],
    0,
  ],
  [
    'for all of it at once',
    [
      ...Array(3).fill('per: key'),
      ...Array(3).fill('match: { keys: [ci], models: [gpt] }'),
      ...Array(3).fill('match: { keys: ["c*"], tags: { team: [a, b] } }'),
    ],
    9,
  ],
])('at most 8 budgets may apply to a request: %s', (_, budgets, most) => {
  const expected = `organizations[0].budgets: has ${most} budgets that may apply to the same request, and at most 8 may`
  expect(ofBudgets(budgets)).toEqual(most === 0 ? [] : [expected])
})

test('samples show each set of globs that one name can match, and are bounded', () => {
  const globs = ['a*', '*b', '*c*', 'a?b', 'exact', '*']
  const sets = globSamples(globs).map((name) => globs.filter((glob) => matches(glob, name)).join(' '))
  for (const name of ['', 'a', 'ab', 'axb', 'acb', 'b', 'c', 'xcb', 'ac', 'exact', 'axxb', 'x'])
    expect(sets).toContain(globs.filter((glob) => matches(glob, name)).join(' '))
  const many = Array.from({ length: 300 }, (_, i) => `*${i}*${i * 7}*`)
  expect(globSamples(many).length).toBeLessThan(50_000)
})
