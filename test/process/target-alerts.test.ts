/** Which states of targets and models are worth an alert, and when they end. */

import { expect, test } from 'bun:test'
import type { TargetState } from '../../src/gateway/target-states.ts'
import { targetAlerts } from '../../src/process/watchers/target-alerts.ts'
import { checked, UNKNOWN } from '../support/admin.ts'

const NOW = Date.parse('2026-11-21T12:00:00Z')
const MINUTE_MS = 60_000
const config = checked({ providers: { up: 'http://127.0.0.1:9/v1' }, models: { one: ['up/a'], two: ['up/a', 'up/b'] } })
const fields = { provider: 'up', model: 'a' }

type Reason = NonNullable<TargetState['failing']>['reason']

/** It has failed since `NOW`, for so long. */
function failing(reason: Reason, ms = 0, rests = 1): TargetState {
  const rest = { ...fields, reason, restMs: 1000, rests, asked: false, probing: false, failures: 3 }
  return {
    state: 'resting',
    rest,
    failing: { reason, sinceMs: NOW, lastMs: NOW + ms, isOfStreams: false },
    answeredMs: 0,
    isDown: true,
  }
}

const answered: TargetState = { ...UNKNOWN, state: 'healthy', answeredMs: NOW + 1 }

/** By type: the fields of the alerts that are found, and whether one about target a and model one is still open. */
function alerts(states: Readonly<Record<string, TargetState>>, given = config) {
  const found = targetAlerts(given, ({ model }) => states[model] ?? UNKNOWN, NOW)
  return Object.fromEntries(
    found.map((each) => [
      each.type,
      {
        found: each.found.map((one) => one.fields as object),
        isOpen: each.isOpen(each.type === 'model.down' ? { model: 'one' } : fields),
      },
    ]),
  )
}

test('a target is reported if its calls have failed for a minute, not if nothing calls it', () => {
  expect(alerts({ a: failing('timeout', MINUTE_MS - 1) })['target.open']?.found).toEqual([])
  const since = new Date(NOW).toISOString()
  const found = [{ ...fields, reason: 'timeout', since }]
  expect(alerts({ a: failing('timeout', MINUTE_MS) })['target.open']).toEqual({ found, isOpen: true })
  const failed = failing('unreachable', MINUTE_MS)
  const unreachable = failed.failing && { ...failed.failing, cause: 'ENOTFOUND' }
  expect(alerts({ a: { ...failed, failing: unreachable } })['target.open']?.found).toEqual([
    { ...fields, reason: 'unreachable', cause: 'ENOTFOUND', since },
  ])
  expect(alerts({ a: answered })['target.open']).toEqual({ found: [], isOpen: false })
})

test('a credential is rejected until the target answers, also if it fails in another way meanwhile', () => {
  const type = 'provider.credential_rejected'
  expect(alerts({ a: failing('credential') })[type]).toEqual({ found: [fields], isOpen: true })
  expect(alerts({ a: failing('timeout') })[type]).toEqual({ found: [], isOpen: true })
  expect(alerts({ a: answered })[type]).toEqual({ found: [], isOpen: false })
})

test('credit is reported once for each provider, until one of its targets answers', () => {
  const type = 'provider.credit_exhausted'
  const without = failing('credit_exhausted')
  expect(alerts({ a: without, b: without })[type]).toEqual({ found: [fields], isOpen: true })
  // What answered before it ran out shows nothing.
  expect(alerts({ a: without, b: { ...answered, answeredMs: NOW - 1 } })[type]?.found).toEqual([fields])
  expect(alerts({ a: without, b: answered })[type]).toEqual({ found: [], isOpen: false })
  expect(alerts({ b: answered })[type]).toEqual({ found: [], isOpen: false })
})

test('a model is reported with its reason, until a target of it answers', () => {
  const down = alerts({ a: failing('timeout') })['model.down']
  expect(down).toMatchObject({ found: [{ model: 'one', since: new Date(NOW).toISOString() }], isOpen: true })
  expect(down?.found[0]).toHaveProperty('reason', 'its only target up/a does not answer in time since 12:00')
  expect(alerts({ a: answered })['model.down']).toEqual({ found: [], isOpen: false })
})

test('after a restart nothing is known yet, and nothing has ended; what is not configured any more has', () => {
  for (const each of Object.values(alerts({}))) expect(each).toEqual({ found: [], isOpen: true })
  const other = checked({ providers: { up: 'http://127.0.0.1:9/v1' }, models: { two: ['up/b'] } })
  for (const each of Object.values(alerts({}, other))) expect(each).toEqual({ found: [], isOpen: false })
})
