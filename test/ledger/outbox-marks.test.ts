/** A mark reaches the entry of its own settlement, whether the entry was inserted in a group or alone. */

import { expect, test } from 'bun:test'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { accountOf, chargeOf } from './conformance.ts'
import { opened } from './opened.ts'
import { logged } from './seen.ts'

const { directory } = opened()

test('after commits of different sizes only marked settlements are not due', () => {
  let now = Date.now()
  const outbox = new Outbox(directory(), () => now)
  const account = accountOf()
  const ids: string[] = []
  // Below a group, a whole group, several groups, and groups with a rest.
  for (const size of [3, 16, 32, 41]) {
    for (let i = 0; i < size; i++) {
      const id = `r-${ids.length}`
      ids.push(id)
      void logged(outbox, { id, account, admittedMs: now, charge: chargeOf(5), heldMicroUsd: 5 }, true)
    }
    expect(outbox.commit()).toBe(true)
  }
  const marked = new Set(ids.filter((_, i) => i % 3 === 0))
  for (const id of marked) outbox.postponed(id)
  expect(outbox.commit()).toBe(true)
  now += 10_000
  const due = outbox.pending(1000).map(({ settlement }) => settlement.id)
  expect(due.toSorted()).toEqual(ids.filter((id) => !marked.has(id)).toSorted())
  expect(outbox.pendingCount()).toBe(ids.length)
  outbox.close()
})
