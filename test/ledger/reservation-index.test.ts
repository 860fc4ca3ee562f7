/** The links between reservations, against a `Map` and a sorted list. */

import { expect } from 'bun:test'
import { amountsOf } from '../../src/core/limit-amounts.ts'
import { DueOrder, ReservationIndex } from '../../src/ledger/embedded/reservation-index.ts'
import { newReservation } from '../../src/ledger/embedded/reservation-moves.ts'
import { newScope, type ReservationState } from '../../src/ledger/embedded/store-state.ts'
import { demandOf } from '../../src/ledger/ledger.ts'
import { property, type Random } from '../support/random.ts'
import { accountOf, holdOf } from './conformance.ts'

/** Few ends of ids, so that many ids share a slot, and the same ids in two organisations. */
function reservationOf(random: Random, dueMs: number): ReservationState {
  const account = accountOf({}, {}, random.pick(['one', 'two']))
  const hold = { ...holdOf(1), id: `${random.below(300)}-${random.pick(['same end', 'another end', 'x'])}` }
  const scopes = [newScope(account.organization, '', 0), newScope(account.organization, 'k', 0)] as const
  const limits = [amountsOf(account.organizationLimits), amountsOf(account.keyLimits)] as const
  return newReservation(account, hold, demandOf(hold), { scopes, limits }, 0, dueMs)
}

property('the index finds what was added and not deleted, while it grows and shrinks', 20, (random) => {
  const index = new ReservationIndex()
  const known = new Map<string, ReservationState>()
  const nameOf = ({ organization, id }: ReservationState) => `${organization} ${id}`
  for (let step = 0; step < 3000; step++) {
    const one = reservationOf(random, 0)
    const wanted = step % 1000 < 600 ? 0.7 : 0.1
    if (random.chance(wanted)) {
      index.add(one)
      if (!known.has(nameOf(one))) known.set(nameOf(one), one)
    } else {
      // Also those that are not in the index.
      const gone = known.get(nameOf(one)) ?? one
      index.delete(gone)
      known.delete(nameOf(gone))
      expect(gone.sameSlot).toBeUndefined()
    }
    const asked = reservationOf(random, 0)
    expect(index.get(asked.organization, asked.id)).toBe(known.get(nameOf(asked)))
  }
  for (const one of known.values()) expect(index.get(one.organization, one.id)).toBe(one)
})

property('the order has the reservations by due time, those with the same in the order of `put`', 20, (random) => {
  const order = new DueOrder()
  let sorted: ReservationState[] = []
  for (let step = 0; step < 400; step++) {
    const known = sorted[random.below(sorted.length)]
    const isNew = known === undefined || random.chance(0.4)
    const one = isNew ? reservationOf(random, 0) : known
    sorted = sorted.filter((other) => other !== one)
    if (isNew || random.chance(0.5)) {
      // Most are due last; now and then the clock has stepped back.
      one.dueMs = random.chance(0.8) ? step : random.below(step + 1)
      order.put(one)
      sorted = [...sorted, one].sort((a, b) => a.dueMs - b.dueMs)
    } else {
      order.delete(one)
      expect([one.before, one.after]).toEqual([undefined, undefined])
    }
    expect(order.values().map(({ dueMs }) => dueMs)).toEqual(sorted.map(({ dueMs }) => dueMs))
    expect(order.values().every((other, i) => other === sorted[i])).toBe(true)
    const now = random.below(step + 2)
    expect(order.next(now)).toBe(sorted.find(({ dueMs }) => dueMs <= now))
  }
})
