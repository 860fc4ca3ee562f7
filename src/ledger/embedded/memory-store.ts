/**
 * The reservation store in the memory of one process. Reports each change to a journal and never waits for it. The
 * scripts in `redis/store` implement the same verbs; one property test compares both with one model.
 */

import { byUnit, type UnitAmounts } from '../../core/limits.ts'
import {
  type Account,
  type Admission,
  type Charge,
  demandOf,
  type Estimate,
  type Hold,
  turnOf,
  usedOf,
} from '../ledger.ts'
import {
  type AccountUsage,
  checkEstimate,
  type ExtendReply,
  type ReserveReply,
  type SettleReply,
  TERMS,
  type Terms,
} from '../reservation-store.ts'
import { minusUsage, type UsageFigures, usageOf } from '../usage-figures.ts'
import { seriesAt, seriesOf } from '../usage-series.ts'
import { keptUntil } from '../window.ts'
import { type AccountState, accountState, advanceAll, termsOf, windowsOf } from './account-state.ts'
import { firstRefusal, rateStatuses, roomOf } from './limit-check.ts'
import type { Clock } from './monotonic-clock.ts'
import { OrganizationState } from './organization-state.ts'
import { type DueOrder, ReservationIndex, UNLINKED } from './reservation-index.ts'
import { begin, free, freeLost, grow, lostUsage, newReservation, replaced, type Scopes } from './reservation-moves.ts'
import { markRefusals, undoOf } from './scope-moves.ts'
import {
  at,
  type Changes,
  copyOf,
  counterUsageOf,
  figuresOf,
  HAS_ENDED,
  NO_WINDOWS,
  type ReservationState,
  type ScopeState,
} from './store-state.ts'

/** `isStored`: its scopes are stored, so a call that has changed them need not look. */
interface KnownState extends AccountState {
  readonly organization: OrganizationState
  readonly isStored: boolean
}

export const NOTHING: UnitAmounts = byUnit(() => 0)

/** What a released reservation had. */
interface Released {
  /** Its owners. */
  readonly state: KnownState
  /** Gives it back what it had. */
  undo(): void
}

export class MemoryStore {
  private readonly organizations = new Map<string, OrganizationState>()
  /** All reservations of the orders of all organisations. */
  private readonly reservations = new ReservationIndex()
  /** The states of accounts whose scopes are stored: finding one otherwise takes seven look-ups. */
  private readonly accountStates = new WeakMap<Account, KnownState>()

  constructor(
    protected readonly clock: Clock,
    protected readonly changes: Changes,
    protected readonly terms: Terms = TERMS,
  ) {}

  /**
   * Reserves what a request needs of every limit, or refuses and changes nothing. Ends overdue reservations first.
   * Throws `RangeError` for an amount that is not a whole number.
   */
  reserve(account: Account, hold: Hold): ReserveReply {
    checkEstimate(hold.estimate)
    const now = this.clock.now()
    const state = this.stateOf(account, now)
    const { organization, scopes, budgets } = state
    this.reapUntil(organization, now)
    const known = this.find(account.organization, hold.id)
    if (known !== undefined && known.state !== 'live') return { outcome: 'ended' }
    if (known !== undefined && turnOf(hold) <= known.turn)
      return { outcome: 'granted', admittedMs: known.admittedMs, rates: rateStatuses(state, now) }
    const crowded = budgets === undefined ? -1 : organization.counters.crowded(budgets, scopes.slice(2), now)
    if (crowded >= 0) return { outcome: 'crowded', counter: crowded }
    const demand = demandOf(hold)
    const released = known && this.release(account, known, now)
    const refused = firstRefusal(state, demand, now)
    if (refused !== undefined) {
      this.refuse(state, demand, now)
      const [rates, room] = [rateStatuses(state, now), roomOf(state, now)]
      released?.undo()
      return { outcome: 'refused', ...refused, rates, room }
    }
    // All checks are done. Nothing below may fail, and nothing above has changed anything for good.
    advanceAll(state, now)
    const reservation = newReservation(account, hold, demand, state, now, now + this.terms.leaseMs)
    begin(reservation, state)
    if (released !== undefined) this.changed(released.state)
    this.changed(state)
    this.start(organization, reservation, known)
    return { outcome: 'granted', admittedMs: now, rates: rateStatuses(state, now) }
  }

  /**
   * Records progress, extends the lease, and raises what is held to `wanted` if the limits have room (else
   * `exhausted`). Throws `RangeError` for an amount that is not a whole number.
   */
  extend(account: Account, id: string, soFar: Estimate, wanted: Estimate): ExtendReply {
    checkEstimate(soFar)
    checkEstimate(wanted)
    const reservation = this.find(account.organization, id)
    if (reservation === undefined) return 'unknown'
    if (reservation.state !== 'live') return 'ended'
    const now = this.clock.now()
    const state = this.advanced(account, now, reservation)
    const fits = grow(reservation, state, soFar, wanted)
    reservation.dueMs = Math.max(reservation.dueMs, now + this.terms.leaseMs)
    this.changed(state)
    state.organization.live.put(reservation)
    this.changes.reservation(reservation)
    return fits ? 'extended' : 'exhausted'
  }

  /**
   * Releases what is held and corrects what is spent to the actual use. Never refuses. Throws `RangeError` for an
   * amount that is not a whole number.
   */
  settle({ account, id }: Admission, charge: Charge): SettleReply {
    checkEstimate(charge)
    const now = this.clock.now()
    const known = this.find(account.organization, id)
    if (known === undefined) return 'unknown'
    if (known.state === 'settled') return 'already_settled'
    const state = this.advanced(account, now, known)
    const isLate = known.state === 'lost'
    if (isLate) this.used(known, minusUsage(lostUsage(known)))
    free(known, state, usedOf(charge, 1), now)
    this.changed(state)
    this.end(known, 'settled', now)
    this.count(known, charge)
    this.changes.ended(known, isLate ? 'late' : 'settled', charge, now)
    return 'settled'
  }

  /**
   * Ends overdue reservations: a live one is lost and charged the greater of its progress and its floor. Returns how
   * many it ended or dropped.
   */
  reap(organization: string): number {
    return this.reapUntil(this.organization(organization), this.clock.now())
  }

  /** What is used, held and spent. Ends overdue reservations first. */
  figures(account: Account): AccountUsage {
    const now = this.clock.now()
    this.reapUntil(this.organization(account.organization), now)
    const state = this.stateOf(account, now)
    const scopes = state.scopes.map(copyOf)
    advanceAll({ ...state, scopes }, now)
    const usage = { organization: figuresOf(at(scopes, 0)), key: figuresOf(at(scopes, 1)) }
    return scopes.length === 2 ? usage : { ...usage, budgets: scopes.slice(2).map(counterUsageOf) }
  }

  /** Of all organisations, keys and counters. */
  scopes(): readonly ScopeState[] {
    return [...this.organizations.values()].flatMap((organization) => organization.scopes)
  }

  /** For a store of one request: how many counters the organisation has. */
  setCounterCount(organization: string, count: number): void {
    const { counters } = this.organization(organization)
    counters.elsewhere = Math.max(0, count - counters.scopes.size)
  }

  /** Restores the state that another process left. Must come before any other call. */
  restore(scopes: readonly ScopeState[], reservations: readonly ReservationState[]): void {
    for (const scope of scopes) {
      if (scope.untilMs !== HAS_ENDED) this.organization(scope.organization).store(scope)
    }
    for (const reservation of reservations) {
      const own = { ...reservation, ...UNLINKED }
      this.organization(own.organization).orderOf(own).put(own)
      this.reservations.add(own)
    }
  }

  /**
   * Renews the lease of every live reservation: they could not be extended while the store was away. For the start.
   */
  renewAll(): void {
    const dueMs = this.clock.now() + this.terms.leaseMs
    for (const { live } of this.organizations.values())
      for (const reservation of live.values()) {
        reservation.dueMs = Math.max(reservation.dueMs, dueMs)
        live.put(reservation)
      }
  }

  /**
   * The clock has made a step: leases, and the minutes of rate limits, go on as if it had not. Budgets belong to days
   * of the calendar, and their windows follow the clock, forwards only.
   */
  shift(stepMs: number): void {
    for (const { scopes, live, lost, ended } of this.organizations.values()) {
      for (const scope of scopes) {
        scope.at += stepMs
        for (const bucket of scope.rates) bucket.at += stepMs
        this.changes.scope(scope)
      }
      // The order stays: all of them are moved by as much.
      for (const reservation of [live, lost, ended].flatMap((order) => order.values())) {
        reservation.dueMs += stepMs
        this.changes.reservation(reservation)
      }
    }
  }

  /** Ends every live reservation as lost, whatever its lease: its process has died. For the start. */
  loseAll(): void {
    const now = this.clock.now()
    for (const { live } of this.organizations.values())
      for (const reservation of live.values()) this.lose(reservation, now)
  }

  /**
   * Ends overdue reservations of all organisations. For a timer: without it an organisation that sends no requests
   * would hold its reservations for ever.
   */
  reapAll(): void {
    for (const organization of this.organizations.values()) {
      this.reapUntil(organization, this.clock.now())
      organization.counters.sweep(this.clock.now())
    }
  }

  protected find(organization: string, id: string): ReservationState | undefined {
    return this.reservations.get(organization, id)
  }

  /**
   * `reservation`: of a call about one. It counts in the counters of its admission, whatever budgets there are now.
   */
  protected stateOf(account: Account, now: number, reservation?: ReservationState): KnownState {
    const isSimple = account.budgets === undefined && (reservation?.counters.length ?? 0) === 0
    if (isSimple) {
      const known = this.accountStates.get(account)
      if (known !== undefined && known.limits === termsOf(account).limits) return known
    }
    const organization = this.organization(account.organization)
    const own = accountState(account, organization, now, reservation?.counters)
    const isStored = isSimple && organization.hasPair(account.key)
    const state = { ...own, organization, isStored }
    if (isStored) this.accountStates.set(account, state)
    return state
  }

  /** The same, advanced to `now`. */
  protected advanced(account: Account, now: number, reservation?: ReservationState): KnownState {
    const state = this.stateOf(account, now, reservation)
    advanceAll(state, now)
    return state
  }

  protected organization(id: string): OrganizationState {
    const known = this.organizations.get(id)
    if (known !== undefined) return known
    const organization = new OrganizationState(id, (scope) => this.changes.scope(scope))
    this.organizations.set(id, organization)
    return organization
  }

  /** Stores a reservation that is live from now on, in place of that of an earlier turn if there is one. */
  protected start({ live }: OrganizationState, reservation: ReservationState, earlier?: ReservationState): void {
    const started = earlier === undefined ? reservation : replaced(earlier, reservation)
    live.put(started)
    this.reservations.add(started)
    this.changes.reservation(started)
  }

  /** Releases all that a live reservation has of its limits, for its next turn. */
  protected release(account: Account, known: ReservationState, now: number): Released {
    const state = this.stateOf(account, now, known)
    const undos = state.scopes.map(undoOf)
    advanceAll(state, now)
    free(known, state, NOTHING, now)
    const undo = () => {
      for (const one of undos) one()
    }
    return { state, undo }
  }

  /** A refused request consumes nothing, and is seen only in the marks of the budgets that refuse it. */
  private refuse(state: KnownState, demand: UnitAmounts, now: number): void {
    const { organization, scopes, limits } = state
    const marked = scopes.filter((scope, i) => {
      // A counter that no request has opened is not kept for one that was refused.
      if (i >= 2 && !organization.has(scope)) return false
      return markRefusals(scope, at(limits, i), demand, now, windowsOf(state, i, now))
    })
    if (marked.length === 0) return
    for (const scope of scopes.slice(0, 2)) {
      if (organization.has(scope)) continue
      scope.windows = NO_WINDOWS
      if (!marked.includes(scope)) marked.push(scope)
    }
    this.keep(marked)
  }

  protected changed({ organization, scopes, budgets, isStored }: KnownState): void {
    for (let i = 0; i < scopes.length; i++) {
      const [scope, budget] = [at(scopes, i), budgets?.[i - 2]]
      if (budget !== undefined) scope.untilMs = keptUntil(scope.at, scope.ends, budget)
      if (!isStored) organization.store(scope)
      this.changes.scope(scope)
    }
  }

  /** Stores the scopes of a call that has changed them. */
  protected keep(changed: Scopes): void {
    for (const scope of changed) {
      this.organization(scope.organization).store(scope)
      this.changes.scope(scope)
    }
  }

  private reapUntil({ live, lost, ended }: OrganizationState, now: number): number {
    let reaped = 0
    for (let due = live.next(now); due !== undefined; due = live.next(now)) {
      this.lose(due, now)
      reaped += 1
    }
    return reaped + this.forgetUntil(lost, now) + this.forgetUntil(ended, now)
  }

  private forgetUntil(order: DueOrder, now: number): number {
    let forgotten = 0
    for (let due = order.next(now); due !== undefined; due = order.next(now)) {
      order.delete(due)
      this.reservations.delete(due)
      this.changes.forgotten(due.id)
      if (due.state === 'lost') this.deletedLost(due)
      forgotten += 1
    }
    return forgotten
  }

  /** A lost reservation was deleted before a settlement came. */
  protected deletedLost(_reservation: ReservationState): void {}

  /** Ends a reservation whose cost is unknown: charges its progress, and at least its floor. */
  private lose(reservation: ReservationState, now: number): void {
    const organization = this.organization(reservation.organization)
    const counters = reservation.counters.map((name) => organization.counters.open(name, now))
    const scopes = [...organization.pair(reservation.key, now), ...counters]
    freeLost(reservation, scopes)
    this.keep(scopes)
    this.end(reservation, 'lost', now)
    this.used(reservation, lostUsage(reservation))
    this.changes.ended(reservation, 'lost', undefined, now)
  }

  protected count(reservation: ReservationState, charge: Charge): void {
    const usage = usageOf(charge)
    if (usage !== undefined) this.used(reservation, usage, seriesOf(charge))
  }

  protected used(reservation: ReservationState, figures: UsageFigures, series: string = reservation.series): void {
    this.changes.used(reservation, seriesAt(series, reservation.admittedMs), figures)
  }

  protected end(reservation: ReservationState, state: Exclude<ReservationState['state'], 'live'>, now: number): void {
    const { endedMs, lostMs } = this.terms
    const keptMs = state === 'lost' ? lostMs + Math.max(0, reservation.admittedMs - now) : endedMs
    const organization = this.organization(reservation.organization)
    organization.orderOf(reservation).delete(reservation)
    reservation.state = state
    reservation.dueMs = now + keptMs
    this.changes.reservation(reservation)
    if (keptMs > 0) {
      organization.orderOf(reservation).put(reservation)
      this.reservations.add(reservation)
    } else {
      this.reservations.delete(reservation)
      this.changes.forgotten(reservation.id)
    }
  }
}
