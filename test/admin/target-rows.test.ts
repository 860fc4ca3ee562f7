/** What the admin API shows of targets that only the limits of providers know. */

import { expect, test } from 'bun:test'
import { targetRows } from '../../src/admin/target-rows.ts'
import { checked, UNKNOWN } from '../support/admin.ts'

test('a target has the room of its limits and those of its provider, the scarcest first', () => {
  const config = checked({
    providers: { a: 'http://127.0.0.1:9/v1', 'a-b': 'http://127.0.0.1:9/v1' },
    models: {
      m: {
        targets: [
          { provider: 'a', model: 'org/x' },
          { provider: 'a-b', model: 'x' },
        ],
      },
    },
  })
  const left = {
    'a/requests': 0.5,
    'a/org/x/tokens': 0.9,
    'a/org/x/reported.requests': 0.1,
    'a/org/tokens': 0.2,
    'a-b/spend.month': 1,
  }
  const rows = targetRows({ config, stateOf: () => UNKNOWN, figuresOf: () => undefined, formsOf: () => [], left })
  expect(rows.map(({ model, room }) => [model, ...room])).toEqual([
    [
      'org/x',
      { limit: 'reported.requests', of: 'target', left: 0.1 },
      { limit: 'requests', of: 'provider', left: 0.5 },
      { limit: 'tokens', of: 'target', left: 0.9 },
    ],
    ['x', { limit: 'spend.month', of: 'provider', left: 1 }],
  ])
})
