/** The lines of a reload: which change makes which, and that none is missed. */

import { expect, test } from 'bun:test'
import { changesOf } from '../../src/config/changes.ts'
import type { Config } from '../../src/config/config.ts'
import { isArray, isObject } from '../../src/core/json.ts'
import { BASE, edited, good } from './fixture.ts'

const base = good(BASE)
const NEW = '{ name: new, targets: [{ provider: openai, model: n }], price: { input: 1, output: 2 } }'

test.each([
  ['owned_by', `owned_by: me\n${BASE}`, ['~ owned_by']],
  ['a new model', edited('models:\n', `models:\n  - ${NEW}\n`), ['+ model new']],
  ['a price', edited('input: 3', 'input: 4'), ['~ price of claude']],
  ['targets', edited('model: gpt-1', 'model: gpt-2'), ['~ targets of gpt']],
  ['a credential', edited('api_key: x', 'api_key: y'), ['~ api_key of provider anthropic']],
  ['a timeout', edited('api_key: x', 'api_key: x, idle_timeout_ms: 5'), ['~ timeouts of provider anthropic']],
  [
    'a limit of a provider',
    edited('api_key: x', 'api_key: x, limits: { requests_per_minute: 5 }'),
    ['~ limits of provider anthropic'],
  ],
  [
    'a limit of a target',
    edited('model: gpt-1', 'model: gpt-1, limits: { requests_per_minute: 5 }'),
    ['~ targets of gpt'],
  ],
  ['the queue', `queue: { max_wait_ms: 5 }\n${BASE}`, ['~ queue']],
  ['a secret', edited('0123456789abcdef0', '0123456789abcdef1'), ['~ secret of key ci']],
  [
    'an organisation',
    edited('id: acme', 'id: acme2'),
    ['+ organization acme2', '- organization acme', '~ organization of key ci', '~ organization of key app'],
  ],
  ['a limit', edited('day: 50', 'day: 51'), ['~ limits of organization acme']],
  ['a key goes', edited('- { id: ci, key: 0123456789abcdef0 }\n', ''), ['- key ci']],
  [
    'expiry',
    edited('key: 0123456789abcdef0', 'key: 0123456789abcdef0, expires_at: 2099-01-01'),
    ['~ expires_at of key ci'],
  ],
  [
    'auto of the organisation, which its keys follow',
    edited('auto: available', 'auto: mandatory'),
    ['~ auto of organization acme'],
  ],
  ['the order of candidates', edited('[gpt, claude]', '[claude, gpt]'), ['~ auto']],
] as const)('%s', (_, text, lines) => {
  expect(changesOf(base, good(text))).toEqual([...lines])
})

test('another order of models is a change', () => {
  const next = { ...base, models: base.models.toReversed() }
  expect(changesOf(base, next)).toEqual(['~ order of models'])
})

/** Every place of the configuration, as a path. */
function placesOf(value: unknown, path: readonly (string | number)[] = []): readonly (readonly (string | number)[])[] {
  if (isArray(value)) return [path, ...value.flatMap((each, at) => placesOf(each, [...path, at]))]
  if (isObject(value))
    return [path, ...Object.entries(value).flatMap(([name, each]) => placesOf(each, [...path, name]))]
  return [path]
}

/** A copy with another value at a place: numbers and words change, lists lose their first entry. */
function mutated(value: unknown, [head, ...rest]: readonly (string | number)[]): unknown {
  if (head !== undefined) {
    if (isArray(value)) return value.map((each, at) => (at === head ? mutated(each, rest) : each))
    return isObject(value) ? { ...value, [head]: mutated(value[String(head)], rest) } : value
  }
  if (typeof value === 'number') return value + 1
  if (typeof value === 'string') return `${value}x`
  if (typeof value === 'boolean') return !value
  return isArray(value) ? value.slice(1) : value
}

test('no change is missed, none is made up, and none shows a value', () => {
  expect(changesOf(base, structuredClone(base))).toEqual([])
  const places = placesOf(base).slice(1)
  expect(places.length).toBeGreaterThan(100)
  for (const place of places) {
    const next = mutated(base, place) as Config
    const changes = changesOf(base, next)
    expect([place, changes.length > 0]).toEqual([place, !Bun.deepEquals(base, next)])
    expect(changes.join('\n')).not.toMatch(/sk-canary|[0-9a-f]{16}/)
    for (const line of changes) expect(line).toMatch(/^[+~-] [^\n]+$/)
  }
})
