/** What the log says of a ledger that is not well: once when it begins, once when it is over. */

import { expect, test } from 'bun:test'
import type { LedgerHealth } from '../../src/ledger/ledger.ts'
import { LedgerWatch } from '../../src/process/ledger-watch.ts'

function make() {
  const lines: (readonly [string, object, string])[] = []
  const at = (level: string) => (fields: object, message: string) => lines.push([level, fields, message])
  const state: { health: LedgerHealth } = { health: { ready: true, pending: 0 } }
  const logger = { info: at('info'), warn: at('warn'), error: at('error') } as never
  const watch = new LedgerWatch({ health: () => state.health }, logger, 3)
  const look = (health: LedgerHealth, nowMs: number) => {
    state.health = health
    watch.look(nowMs)
    return lines.splice(0)
  }
  return look
}

test('a complaint is said once, and once that it is over; a ledger that is well is not mentioned', () => {
  const look = make()
  expect(look({ ready: true, pending: 0 }, 0)).toEqual([])
  const sick = { ready: true, complaint: 'The disk is full', pending: 7 }
  expect(look(sick, 1)).toEqual([['warn', { worker: 3, problem: 'The disk is full', pending: 7 }, 'ledger complains']])
  expect(look({ ...sick, pending: 9 }, 100_000)).toEqual([])
  expect(look({ ready: true, pending: 1 }, 100_001)).toEqual([
    ['info', { worker: 3, pending: 1 }, 'ledger is well again'],
  ])
  expect(look({ ready: true, pending: 0 }, 200_000)).toEqual([])
})

test('what keeps requests from being served is an error, with words of its own where the ledger has none', () => {
  const look = make()
  expect(look({ ready: false, pending: 0 }, 0)).toEqual([
    ['error', { worker: 3, problem: 'The ledger does not answer.', pending: 0 }, 'ledger complains'],
  ])
})

test('other words for a trouble that goes on are said once a minute at most', () => {
  const look = make()
  const sick = (complaint: string) => ({ ready: false, complaint, pending: 0 })
  expect(look(sick('connecting'), 0)).toHaveLength(1)
  expect(look(sick('reconnecting'), 59_999)).toEqual([])
  expect(look(sick('reconnecting'), 60_000)).toHaveLength(1)
  expect(look(sick('connecting'), 60_001)).toEqual([])
})
