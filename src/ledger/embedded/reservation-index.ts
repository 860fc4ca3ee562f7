/**
 * Reservations by their ids, and in the order in which they are due. Both structures are links between the states
 * themselves, because a state comes and goes with each request: a `Map` takes 0.18 µs to add and delete an entry, and
 * keeps deleted ones alive (see `core/member-list.ts`). A state that leaves has no links, so it keeps nothing alive.
 */

import type { ReservationState } from './store-state.ts'

const SLOTS_MIN = 64
/** The characters of an id that are hashed: request ids are random, above all in the last ones. */
const HASHED_CHARACTERS = 8

/** The links of a state that is in no index and no order. */
export const UNLINKED = { sameSlot: undefined, before: undefined, after: undefined } as const

/** Finds the reservations of a store by organisation and id. */
export class ReservationIndex {
  /** The first state of each slot; `sameSlot` leads to the others. Their number is a power of two. */
  private slots = emptySlots(SLOTS_MIN)
  private count = 0

  get(organization: string, id: string): ReservationState | undefined {
    let found = this.slots[this.slotOf(id)]
    while (found !== undefined && (found.id !== id || found.organization !== organization)) found = found.sameSlot
    return found
  }

  /** Does nothing if it is in the index. */
  add(reservation: ReservationState): void {
    const { organization, id } = reservation
    if (this.get(organization, id) !== undefined) return
    if (this.count === this.slots.length) this.resize(2 * this.count)
    this.link(reservation)
    this.count += 1
  }

  /** Does nothing if it is not in the index. */
  delete(reservation: ReservationState): void {
    const slot = this.slotOf(reservation.id)
    const first = this.slots[slot]
    if (first === reservation) this.slots[slot] = reservation.sameSlot
    else {
      let previous = first
      while (previous !== undefined && previous.sameSlot !== reservation) previous = previous.sameSlot
      if (previous === undefined) return
      previous.sameSlot = reservation.sameSlot
    }
    reservation.sameSlot = undefined
    this.count -= 1
    if (this.slots.length > SLOTS_MIN && 8 * this.count < this.slots.length) this.resize(this.slots.length / 2)
  }

  private slotOf(id: string): number {
    let hash = id.length
    for (let i = Math.max(0, id.length - HASHED_CHARACTERS); i < id.length; i++)
      hash = (Math.imul(hash, 31) + id.charCodeAt(i)) | 0
    return hash & (this.slots.length - 1)
  }

  private link(reservation: ReservationState): void {
    const slot = this.slotOf(reservation.id)
    reservation.sameSlot = this.slots[slot]
    this.slots[slot] = reservation
  }

  private resize(length: number): void {
    const before = this.slots
    this.slots = emptySlots(length)
    for (const first of before) {
      for (let one = first; one !== undefined; ) {
        const next = one.sameSlot
        this.link(one)
        one = next
      }
    }
  }
}

function emptySlots(length: number): (ReservationState | undefined)[] {
  return new Array<ReservationState | undefined>(length).fill(undefined)
}

/** Reservations by due time. A new one is due last, unless the clock stepped back. A state is in one order at most. */
export class DueOrder {
  private first: ReservationState | undefined
  private last: ReservationState | undefined

  /** All of them at this moment. */
  values(): readonly ReservationState[] {
    const values: ReservationState[] = []
    for (let one = this.first; one !== undefined; one = one.after) values.push(one)
    return values
  }

  /** Adds a reservation, or moves one whose due time has changed. */
  put(reservation: ReservationState): void {
    if (this.last === reservation) {
      const { before } = reservation
      if (before === undefined || before.dueMs <= reservation.dueMs) return
    }
    this.delete(reservation)
    let before = this.last
    while (before !== undefined && before.dueMs > reservation.dueMs) before = before.before
    const after = before === undefined ? this.first : before.after
    reservation.before = before
    reservation.after = after
    if (before === undefined) this.first = reservation
    else before.after = reservation
    if (after === undefined) this.last = reservation
    else after.before = reservation
  }

  /** Does nothing if it is not in this order. */
  delete(reservation: ReservationState): void {
    const { before, after } = reservation
    if (before === undefined && this.first !== reservation) return
    if (before === undefined) this.first = after
    else before.after = after
    if (after === undefined) this.last = before
    else after.before = before
    reservation.before = undefined
    reservation.after = undefined
  }

  /** The reservation that is due first, if its time has come. */
  next(now: number): ReservationState | undefined {
    const { first } = this
    return first !== undefined && first.dueMs <= now ? first : undefined
  }
}
