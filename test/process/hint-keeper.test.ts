/** Fields without effect, as the workers of a node report them. */

import { expect, test } from 'bun:test'
import type { FieldHint } from '../../src/gateway/field-hints.ts'
import { HintKeeper } from '../../src/process/children/hint-keeper.ts'

const HOUR_MS = 3_600_000
const hint = (key: string, fields: readonly string[] = ['thinking']): FieldHint => ({ organization: 'o', key, fields })

test('a key is logged once a day, whatever the workers report, and shown for a day', () => {
  const logged: string[] = []
  let nowMs = 0
  const keeper = new HintKeeper(
    ({ key }) => logged.push(`${key} ${nowMs / HOUR_MS}`),
    () => nowMs,
  )
  for (const hours of [0, 1, 23, 24, 25]) {
    nowMs = hours * HOUR_MS
    for (const key of ['a', 'a', 'b']) keeper.note(hint(key))
  }
  expect(logged).toEqual(['a 0', 'b 0', 'a 24', 'b 24'])
  expect(keeper.recent().map(({ key, atMs }) => [key, atMs / HOUR_MS])).toEqual([
    ['b', 24],
    ['a', 24],
  ])
  nowMs = 48 * HOUR_MS
  expect(keeper.recent()).toEqual([])
})

test('the keys that it holds have a bound', () => {
  const keeper = new HintKeeper(
    () => {},
    () => 0,
  )
  for (let index = 0; index < 5000; index++) keeper.note(hint(`k${index}`))
  expect([keeper.recent().length, keeper.recent()[0]?.key]).toEqual([4096, 'k4999'])
})
