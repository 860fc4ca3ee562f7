/** The log lines of a ledger that has a problem: one when it begins, one when it is over. */

import { expect, test } from 'bun:test'
import type { LedgerHealth } from '../../src/ledger/ledger.ts'
import { LedgerWatch } from '../../src/process/watchers/ledger-watch.ts'

function make() {
  const lines: (readonly [string, object, string])[] = []
  const at = (level: string) => (fields: object, message: string) => lines.push([level, fields, message])
  const state: { health: LedgerHealth } = { health: { ready: true, up: true, pending: 0 } }
  const logger = { info: at('info'), warn: at('warn'), error: at('error') } as never
  const changes: boolean[] = []
  const watch = new LedgerWatch({ health: () => state.health }, logger, 3, (up) => changes.push(up))
  const look = (health: LedgerHealth, nowMs: number) => {
    state.health = health
    watch.tick(nowMs)
    return lines.splice(0)
  }
  return { look, changes }
}

const well = { ready: true, up: true, pending: 0 }
const recovered = (pending: number) => ['info', { event: 'ledger.up', worker: 3, pending }, 'ledger recovered']

test('a problem is logged once, and so is its end; a healthy ledger is not logged', () => {
  const { look } = make()
  expect(look(well, 0)).toEqual([])
  const full = { ...well, complaint: 'The disk is slow', pending: 7 }
  const fields = { event: 'ledger.degraded', worker: 3, problem: 'The disk is slow', pending: 7 }
  expect(look(full, 1) as unknown).toEqual([['warn', fields, 'ledger degraded']])
  expect(look({ ...full, pending: 9 }, 100_000)).toEqual([])
  expect(look({ ...well, pending: 1 }, 100_001) as unknown).toEqual([recovered(1)])
  expect(look(well, 200_000)).toEqual([])
})

test.each([
  'database or disk is full',
  'ENOSPC: no space left on device, write',
  'No space is left on the disk of data/outbox.sqlite.',
])('a full disk has an event of its own: %s', (problem) => {
  const { look } = make()
  const fields = { event: 'ledger.disk_full', worker: 3, problem, pending: 7 }
  expect(look({ ...well, complaint: problem, pending: 7 }, 1) as unknown).toEqual([
    ['warn', fields, 'disk of the ledger full'],
  ])
  expect(look({ ready: false, up: false, complaint: problem, pending: 10_000 }, 2) as unknown).toEqual([
    ['error', { ...fields, event: 'ledger.down', pending: 10_000 }, 'ledger down'],
  ])
  expect(look(well, 3) as unknown).toEqual([recovered(0)])
})

test('an unreachable ledger is down: an error if requests fail, a warning if they are served without it', () => {
  for (const ready of [false, true]) {
    const { look, changes } = make()
    look(well, 0)
    const fields = { event: 'ledger.down', worker: 3, problem: 'The ledger does not answer.', pending: 0 }
    const down = { ...well, ready, up: false }
    expect(look(down, 1) as unknown).toEqual([[ready ? 'warn' : 'error', fields, 'ledger down']])
    expect(look(down, 2)).toEqual([])
    expect(look(well, 3) as unknown).toEqual([recovered(0)])
    expect(changes).toEqual([true, false, true])
  }
})

test('a problem that gets worse or better is logged at once', () => {
  const { look } = make()
  const events = (health: LedgerHealth, nowMs: number) => look(health, nowMs).map(([, fields]) => fields)
  const doubt = { ...well, complaint: 'doubt' }
  expect(events(doubt, 0)).toMatchObject([{ event: 'ledger.degraded', problem: 'doubt' }])
  expect(events({ ...doubt, up: false, ready: false, complaint: 'away' }, 1)).toMatchObject([
    { event: 'ledger.down', problem: 'away' },
  ])
  expect(events(doubt, 2)).toMatchObject([{ event: 'ledger.up' }, { event: 'ledger.degraded', problem: 'doubt' }])
})

test('the cause of an outage is logged as soon as it is known, and again at most once a minute', () => {
  const { look } = make()
  const problems = (complaint: string, nowMs: number) =>
    look({ ready: false, up: false, complaint, pending: 0 }, nowMs).map(
      ([, fields]) => (fields as { problem?: string }).problem,
    )
  expect(problems('Redis is not reached.', 0)).toEqual(['Redis is not reached.'])
  expect(problems('Redis is not reached (ECONNREFUSED).', 1)).toEqual(['Redis is not reached (ECONNREFUSED).'])
  expect(problems('Redis requires a password.', 2)).toEqual(['Redis requires a password.'])
  expect(problems('Redis is not reached (ECONNREFUSED).', 3)).toEqual([])
  expect(problems('Redis requires a password.', 4)).toEqual([])
  expect(look(well, 5) as unknown).toEqual([recovered(0)])
})

test('a problem whose text changes is logged at most once a minute', () => {
  const { look } = make()
  const away = (complaint: string) => ({ ready: false, up: false, complaint, pending: 0 })
  expect(look(away('connecting'), 0)).toHaveLength(1)
  expect(look(away('reconnecting'), 59_999)).toEqual([])
  expect(look(away('reconnecting'), 60_000)).toHaveLength(1)
  expect(look(away('connecting'), 60_001)).toEqual([])
})
