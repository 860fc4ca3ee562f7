/** The server that holds the book: it may be down, and when it comes back it may have lost its last second. Keeps what is needed to undo that much. */

import { expect } from 'bun:test'
import { MemoryBook } from '../../../src/ledger/embedded/book.ts'
import { charged } from '../../../src/ledger/embedded/reservation.ts'
import { copyOf, type ReservationState, type ScopeState } from '../../../src/ledger/embedded/state.ts'
import type { Account, Hold } from '../../../src/ledger/ledger.ts'
import type { EndKind } from '../../../src/ledger/log-rows.ts'
import type { World } from './world.ts'

export interface Charge {
  readonly id: string
  readonly kind: EndKind
  readonly costMicroUsd: number
}

/** How far back a crash may set it. */
export const LOST_MOST_MS = 1000

export class Server {
  isUp = true
  readonly charges: Charge[] = []
  private book: MemoryBook
  private readonly scopes = new Map<string, ScopeState>()
  private readonly reservations = new Map<string, ReservationState>()
  private undo: { readonly ms: number; readonly back: () => void }[] = []

  constructor(private readonly world: World) {
    this.book = this.newBook()
  }

  /** Runs a verb, if the server is there to run it. */
  ask<T>(verb: (book: MemoryBook) => T): T {
    return verb(this.book)
  }

  /** I1: no grant leaves a limit exceeded. */
  reserve(account: Account, hold: Hold): ReturnType<MemoryBook['reserve']> {
    const isNew = !this.reservations.has(hold.id)
    const reply = this.book.reserve(account, hold)
    if (reply.outcome !== 'granted' || !isNew) return reply
    const { organization } = this.book.figures(account)
    const { concurrentRequests = 0, spend } = account.organizationLimits
    expect(organization.live).toBeLessThanOrEqual(concurrentRequests)
    expect(organization.total.spent + organization.total.held).toBeLessThanOrEqual(spend?.total ?? 0)
    return reply
  }

  /** Dies, and comes back without what it did last. */
  crash(lostMs: number): void {
    this.isUp = false
    const keep = this.world.nowMs - lostMs
    for (let last = this.undo.at(-1); last !== undefined && last.ms > keep; last = this.undo.at(-1)) {
      last.back()
      this.undo.pop()
    }
    this.book = this.newBook()
    this.book.restore(
      [...this.scopes.values()].map(copyOf),
      [...this.reservations.values()].map((reservation) => ({ ...reservation })),
    )
  }

  get remembered(): number {
    return this.reservations.size
  }

  private newBook(): MemoryBook {
    return new MemoryBook(
      { now: () => Math.floor(this.world.nowMs), trusted: () => true },
      {
        scope: (scope) => this.set(this.scopes, `${scope.organization} ${scope.key}`, copyOf(scope)),
        reservation: (reservation) => this.set(this.reservations, reservation.id, { ...reservation }),
        forgotten: (id) => this.set(this.reservations, id, undefined),
        used: () => undefined,
        ended: (reservation, kind, settlement) => {
          const costMicroUsd = settlement?.amounts.costMicroUsd ?? charged(reservation)
          this.charges.push({ id: reservation.id, kind, costMicroUsd })
          this.remember(() => this.charges.pop())
        },
      },
    )
  }

  private set<T>(map: Map<string, T>, key: string, value: T | undefined): void {
    const before = map.get(key)
    if (value === undefined) map.delete(key)
    else map.set(key, value)
    this.remember(() => (before === undefined ? map.delete(key) : map.set(key, before)))
  }

  private remember(back: () => void): void {
    const oldest = this.world.nowMs - 2 * LOST_MOST_MS
    if (this.undo.length > 4096 && (this.undo[2048]?.ms ?? 0) < oldest)
      this.undo = this.undo.filter(({ ms }) => ms >= oldest)
    this.undo.push({ ms: this.world.nowMs, back })
  }
}
