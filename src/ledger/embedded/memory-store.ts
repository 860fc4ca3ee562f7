/**
 * The book in the memory of one process. Owns every figure and reservation; says to a journal what changed, and never waits for it.
 * `redis/*.lua` are the same verbs, line by line; one law holds both to one model.
 */

import type { EndKind } from '../audit-columns.ts'
import type { Account, Admission, Charge, Estimate, Hold } from '../ledger.ts'
import {
  type CancelReply,
  checkEstimate,
  type ExtendReply,
  type FiguresOf,
  type ReservationStore,
  type ReserveReply,
  type SettleOptions,
  type SettleReply,
  TERMS,
  type Terms,
} from '../reservation-store.ts'
import { minusUsage, type UsageFigures, usageOf, usageOfLost } from '../usage-figures.ts'
import { dayOf, monthOf } from '../window.ts'
import { Deadlines } from './deadlines.ts'
import { allowances, firstRefusal, limitsOf } from './limit-check.ts'
import {
  correctTokens,
  free,
  growMoney,
  growTokens,
  lostUsage,
  move,
  newReservation,
  type Pair,
  returnRequest,
  sum,
} from './reservation-moves.ts'
import { advance, use } from './scope-moves.ts'
import { barred, copyOf, figuresOf, newScope, type ReservationState, type ScopeState } from './store-state.ts'

/** The one clock of a book, in milliseconds since 1970. It may step; windows roll only while it is trusted. */
export interface Clock {
  now(): number
  trusted(): boolean
}

/** Who is told of every change. */
export interface Changes {
  scope(scope: ScopeState): void
  /** A reservation began, changed or ended. */
  reservation(reservation: ReservationState): void
  /** An ended one is remembered no longer. */
  forgotten(id: string): void
  /** Figures to add to the usage of a model on the day of the reservation's admission; negative ones correct earlier ones. */
  used(reservation: ReservationState, model: string, figures: UsageFigures): void
  ended(reservation: ReservationState, kind: EndKind, charge: Charge | undefined): void
}

interface Organization {
  readonly scopes: Map<string, ScopeState>
  readonly reservations: Map<string, ReservationState>
  readonly deadlines: Deadlines
}

export class MemoryStore implements ReservationStore {
  private readonly organizations = new Map<string, Organization>()

  constructor(
    private readonly clock: Clock,
    private readonly changes: Changes,
    private readonly terms: Terms = TERMS,
  ) {}

  reserve(account: Account, hold: Hold): ReserveReply {
    checkEstimate(hold.estimate)
    const now = this.clock.now()
    this.reapUntil(account.organization, now)
    const { reservations, deadlines } = this.organization(account.organization)
    const known = reservations.get(hold.id)
    if (known !== undefined && known.state !== 'live') return { outcome: 'ended' }
    const limits = limitsOf(account)
    const scopes = this.tried(account, now)
    if (known !== undefined)
      return { outcome: 'granted', admittedMs: known.admittedMs, allowances: allowances(scopes, limits) }
    const tokens = sum(hold.estimate.inputTokens, hold.estimate.outputTokens)
    const costMicroUsd = hold.estimate.costMicroUsd
    const refused = firstRefusal(scopes, limits, { tokens, costMicroUsd }, now)
    if (refused !== undefined) return { outcome: 'refused', ...refused, allowances: allowances(scopes, limits) }
    // Everything is checked; from here on everything is written.
    const reservation = newReservation(account, hold, tokens, scopes, now, now + this.terms.leaseMs, limits)
    for (const [i, scope] of scopes.entries()) {
      use(scope, limits[i] ?? {}, 1, tokens)
      scope.live += 1
      for (const budget of scope.budgets) budget.held += costMicroUsd
    }
    this.keep(scopes)
    reservations.set(hold.id, reservation)
    deadlines.add(reservation.dueMs, hold.id)
    this.changes.reservation(reservation)
    return { outcome: 'granted', admittedMs: now, allowances: allowances(scopes, limits) }
  }

  extend(account: Account, id: string, soFar: Estimate, wanted: Estimate): ExtendReply {
    checkEstimate(soFar)
    checkEstimate(wanted)
    const reservation = this.organization(account.organization).reservations.get(id)
    if (reservation === undefined) return 'unknown'
    if (reservation.state !== 'live') return 'ended'
    const now = this.clock.now()
    const scopes = this.advanced(account, now)
    const limits = limitsOf(account)
    const fits = growMoney(reservation, scopes, limits, soFar.costMicroUsd, wanted.costMicroUsd)
    growTokens(reservation, scopes, limits, soFar, sum(wanted.inputTokens, wanted.outputTokens))
    reservation.dueMs = Math.max(reservation.dueMs, now + this.terms.leaseMs)
    this.keep(scopes)
    this.changes.reservation(reservation)
    return fits ? 'extended' : 'exhausted'
  }

  settle(admission: Admission, charge: Charge, { isDirect = false }: SettleOptions = {}): SettleReply {
    checkEstimate(charge)
    const now = this.clock.now()
    const { account, id } = admission
    const { reservations } = this.organization(account.organization)
    const known = reservations.get(id)
    if (known === undefined) return isDirect ? this.charge(admission, charge, now) : 'unknown'
    if (known.state === 'settled') return 'already_settled'
    if (known.state === 'cancelled') return 'cancelled'
    const scopes = this.advanced(account, now)
    const isLate = known.state === 'lost'
    if (isLate) this.changes.used(known, known.model, minusUsage(lostUsage(known)))
    free(known, scopes, charge.costMicroUsd)
    correctTokens(known, scopes, limitsOf(account), sum(charge.inputTokens, charge.outputTokens), now)
    this.keep(scopes)
    this.end(known, 'settled', now)
    this.count(known, charge)
    this.changes.ended(known, isLate ? 'late' : 'settled', charge)
    return 'settled'
  }

  cancel(account: Account, id: string): CancelReply {
    const now = this.clock.now()
    const { reservations, deadlines } = this.organization(account.organization)
    const known = reservations.get(id)
    if (known === undefined) {
      const dueMs = now + this.terms.endedMs
      const tombstone = barred(id, account.organization, account.key, now, dueMs)
      reservations.set(id, tombstone)
      deadlines.add(dueMs, id)
      this.changes.reservation(tombstone)
      return 'cancelled'
    }
    if (known.state !== 'live' && known.state !== 'lost') return 'ended'
    const limits = limitsOf(account)
    const scopes = this.advanced(account, now)
    const kind = known.state === 'lost' ? 'withdrawn' : 'cancelled'
    if (known.state === 'lost') this.changes.used(known, known.model, minusUsage(lostUsage(known)))
    free(known, scopes, known.postedMicroUsd)
    correctTokens(known, scopes, limits, sum(known.postedInput, known.postedOutput), now)
    returnRequest(known, scopes, limits, now)
    this.keep(scopes)
    this.end(known, 'cancelled', now)
    if (known.postedMicroUsd > 0) {
      this.changes.used(known, known.model, usageOfLost(known.postedInput, known.postedOutput, known.postedMicroUsd))
    }
    this.changes.ended(known, kind, undefined)
    return 'cancelled'
  }

  reap(organization: string): number {
    return this.reapUntil(organization, this.clock.now())
  }

  figures(account: Account): FiguresOf {
    const now = this.clock.now()
    this.reapUntil(account.organization, now)
    const [organization, key] = this.tried(account, now)
    return { organization: figuresOf(organization), key: figuresOf(key) }
  }

  /** Takes a scope or a reservation from a store, before any verb is called. */
  restore(scopes: readonly ScopeState[], reservations: readonly ReservationState[]): void {
    for (const scope of scopes) this.organization(scope.organization).scopes.set(scope.key, scope)
    for (const reservation of reservations) {
      const { reservations: known, deadlines } = this.organization(reservation.organization)
      known.set(reservation.id, reservation)
      deadlines.add(reservation.dueMs, reservation.id)
    }
  }

  /** Every live reservation is lost, whatever its lease: for a start, after the process that held them has died. */
  loseAll(): void {
    const now = this.clock.now()
    for (const { reservations } of this.organizations.values()) {
      for (const reservation of reservations.values()) if (reservation.state === 'live') this.lose(reservation, now)
    }
  }

  /** Ends what is overdue everywhere; for a timer, so that an organisation that has gone quiet holds nothing for ever. */
  reapAll(): void {
    for (const organization of this.organizations.keys()) this.reap(organization)
  }

  private organization(id: string): Organization {
    const known = this.organizations.get(id)
    if (known !== undefined) return known
    const organization = { scopes: new Map(), reservations: new Map(), deadlines: new Deadlines() }
    this.organizations.set(id, organization)
    return organization
  }

  private scope(organization: string, key: string, now: number): ScopeState {
    return this.organization(organization).scopes.get(key) ?? newScope(organization, key, now)
  }

  private both(organization: string, key: string, now: number): Pair<ScopeState> {
    return [this.scope(organization, '', now), this.scope(organization, `k${key}`, now)]
  }

  /** Both scopes of an account, with the time passed. */
  private advanced(account: Account, now: number): Pair<ScopeState> {
    return this.advance(this.both(account.organization, account.key, now), account, now)
  }

  /** The same, as copies to be kept or dropped. */
  private tried(account: Account, now: number): Pair<ScopeState> {
    const [organization, key] = this.both(account.organization, account.key, now)
    return this.advance([copyOf(organization), copyOf(key)], account, now)
  }

  private advance(scopes: Pair<ScopeState>, account: Account, now: number): Pair<ScopeState> {
    const trusted = this.clock.trusted()
    advance(scopes[0], account.organizationLimits, now, trusted)
    advance(scopes[1], account.keyLimits, now, trusted)
    return scopes
  }

  private keep(scopes: Pair<ScopeState>): void {
    for (const scope of scopes) {
      this.organization(scope.organization).scopes.set(scope.key, scope)
      this.changes.scope(scope)
    }
  }

  private reapUntil(id: string, now: number): number {
    const { reservations, deadlines } = this.organization(id)
    let reaped = 0
    for (let due = deadlines.next(now); due !== undefined; due = deadlines.next(now)) {
      const reservation = reservations.get(due)
      if (reservation === undefined) continue
      if (reservation.dueMs > now) {
        deadlines.add(reservation.dueMs, due)
        continue
      }
      reaped += 1
      if (reservation.state === 'live') this.lose(reservation, now)
      else {
        reservations.delete(due)
        this.changes.forgotten(due)
      }
    }
    return reaped
  }

  /** A lease ran out: what it cost is unknown, so its progress is charged, and its floor at least. */
  private lose(reservation: ReservationState, now: number): void {
    const scopes = this.both(reservation.organization, reservation.key, now)
    free(reservation, scopes, Math.max(reservation.postedMicroUsd, reservation.floorMicroUsd))
    this.keep(scopes)
    this.end(reservation, 'lost', now)
    this.changes.used(reservation, reservation.model, lostUsage(reservation))
    this.changes.ended(reservation, 'lost', undefined)
  }

  /** A settlement without a reservation: only what it cost, into the windows that its request was admitted in. */
  private charge({ account, id, admittedMs }: Admission, charge: Charge, now: number): SettleReply {
    const { reservations, deadlines } = this.organization(account.organization)
    const scopes = this.advanced(account, now)
    // No later than the scope's own window, which stands still while the clocks disagree.
    const admission = [dayOf(admittedMs), monthOf(admittedMs), 0]
    const windows = (scope: ScopeState) => scope.budgets.map(({ window }, i) => Math.min(window, admission[i] ?? 0))
    const hold: Hold = { id, estimate: charge, floorMicroUsd: 0, model: charge.model }
    const reservation: ReservationState = {
      ...newReservation(account, hold, 0, scopes, admittedMs, now + this.terms.endedMs, limitsOf(account)),
      state: 'settled',
      windows: [windows(scopes[0]), windows(scopes[1])],
    }
    move(reservation, scopes, charge.costMicroUsd, 0)
    this.keep(scopes)
    reservations.set(id, reservation)
    deadlines.add(reservation.dueMs, id)
    this.changes.reservation(reservation)
    this.count(reservation, charge)
    this.changes.ended(reservation, 'direct', charge)
    return 'settled'
  }

  private count(reservation: ReservationState, charge: Charge): void {
    const usage = usageOf(charge)
    if (usage !== undefined) this.changes.used(reservation, charge.model, usage)
  }

  private end(reservation: ReservationState, state: RecordEnd, now: number): void {
    const { endedMs, lostMs } = this.terms
    const keptMs = state === 'lost' ? lostMs : endedMs
    const { reservations, deadlines } = this.organization(reservation.organization)
    reservation.state = state
    reservation.dueMs = now + keptMs
    this.changes.reservation(reservation)
    if (keptMs > 0) {
      deadlines.add(reservation.dueMs, reservation.id)
      return
    }
    reservations.delete(reservation.id)
    deadlines.trim(reservations)
    this.changes.forgotten(reservation.id)
  }
}

type RecordEnd = 'settled' | 'lost' | 'cancelled'
