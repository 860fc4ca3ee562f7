/**
 * The in-memory store with the verbs that it needs if its callers are in other processes, which may outlive it or end
 * before it: it cancels a reservation whose caller gave up, charges a settlement whose reservation it has lost, and
 * takes back reservations that only their callers remember.
 */

import { limitUnits, rateLimits } from '../../../core/limits.ts'
import {
  type Account,
  type Admission,
  type Charge,
  demandOf,
  type Estimate,
  type Hold,
  turnOf,
  usedOf,
} from '../../ledger.ts'
import {
  type CancelReply,
  CLOCK_SKEW_MS,
  checkEstimate,
  type SettleOptions,
  type SettleReply,
} from '../../reservation-store.ts'
import {
  addUsage,
  figuresOf,
  minusUsage,
  noUsage,
  type UsageFigures,
  usageOf,
  usageOfLost,
} from '../../usage-figures.ts'
import { seriesOf } from '../../usage-series.ts'
import { budgetWindows, dayOf, windowsIn } from '../../window.ts'
import { countsIn } from '../account-state.ts'
import { MemoryStore, NOTHING } from '../memory-store.ts'
import {
  begin,
  free,
  grow,
  type LimitedScopes,
  lostUsage,
  move,
  newReservation,
  type Scopes,
} from '../reservation-moves.ts'
import { NO_COUNTERS, type ReservationState } from '../store-state.ts'

const NO_ESTIMATE = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }

export class FullStore extends MemoryStore {
  /** What was charged for lost reservations that were deleted unsettled, by organisation, day and key. */
  private readonly unclaimed = new Map<string, UsageFigures>()

  override settle(admission: Admission, charge: Charge, { isDirect = false }: SettleOptions = {}): SettleReply {
    const known = this.find(admission.account.organization, admission.id)
    if (known?.state === 'cancelled') return 'cancelled'
    if (known === undefined && isDirect) return this.charge(admission, charge)
    // The journal may have had an earlier turn of the request when its owner died, which counts in other counters.
    const isMoved = known !== undefined && !countsIn(admission.account, known.counters)
    if (!isMoved || known.state === 'settled') return super.settle(admission, charge)
    checkEstimate(charge)
    this.leaveCounters(admission.account, known)
    const outcome = super.settle(admission, charge)
    this.chargeCounters(admission, charge)
    return outcome
  }

  /** Releases all that a reservation has of its counters, in which it counts no more. */
  private leaveCounters(account: Account, known: ReservationState): void {
    const now = this.clock.now()
    const state = this.advanced(account, now, known)
    const places = 2 * rateLimits.length
    const left = { ...known, windows: known.windows.slice(2), idled: known.idled.slice(places) }
    free(left, countersOf(state), NOTHING, now)
    this.changed(state)
    const [windows, idled] = [known.windows.slice(0, 2), known.idled.slice(0, places)]
    Object.assign(known, { counters: NO_COUNTERS, windows, idled })
  }

  /** Charges the counters of a request that holds nothing in them. */
  private chargeCounters({ account, admittedMs }: Admission, charge: Charge): void {
    const state = this.advanced(account, this.clock.now())
    const windows = windowsAt(state.scopes, account, admittedMs).slice(2)
    const [counters, used] = [countersOf(state), usedOf(charge, 1)]
    for (const unit of limitUnits) move({ windows }, counters, unit, used[unit], 0)
    this.changed(state)
  }

  /** Frees what is held; what was posted stays spent. An unknown id is barred from being reserved later. */
  cancel(account: Account, id: string): CancelReply {
    const now = this.clock.now()
    const known = this.find(account.organization, id)
    if (known === undefined) {
      const hold = { id, estimate: NO_ESTIMATE, floorMicroUsd: 0 }
      this.end(newReservation(account, hold, demandOf(hold), this.stateOf(account, now), now, now), 'cancelled', now)
      return 'cancelled'
    }
    if (known.state !== 'live' && known.state !== 'lost') return 'ended'
    const state = this.advanced(account, now, known)
    const isLost = known.state === 'lost'
    if (isLost) this.used(known, minusUsage(lostUsage(known)))
    const { postedInput, postedOutput, postedMicroUsd } = known
    const progress = { inputTokens: postedInput, outputTokens: postedOutput, images: 0, costMicroUsd: postedMicroUsd }
    free(known, state, usedOf(progress, 0), now)
    this.changed(state)
    this.end(known, 'cancelled', now)
    if (postedMicroUsd > 0) this.used(known, usageOfLost(postedInput, postedOutput, postedMicroUsd))
    this.changes.ended(known, isLost ? 'withdrawn' : 'cancelled', undefined, now)
    return 'cancelled'
  }

  /**
   * Takes a reservation that was granted at `admittedMs` and that only its caller still knows, whatever the limits have
   * room for: the request runs. Changes nothing if the store knows it in this turn.
   */
  adopt(account: Account, hold: Hold, admittedMs: number, soFar: Estimate): void {
    checkEstimate(hold.estimate)
    checkEstimate(soFar)
    const known = this.find(account.organization, hold.id)
    if (known !== undefined && (known.state !== 'live' || turnOf(hold) <= known.turn)) return
    const now = this.clock.now()
    const released = known && this.release(account, known, now)
    const state = this.advanced(account, now)
    const reservation: ReservationState = {
      ...newReservation(account, hold, demandOf(hold), state, admittedMs, now + this.terms.leaseMs),
      windows: windowsAt(state.scopes, account, admittedMs),
    }
    begin(reservation, state)
    grow(reservation, state, soFar, hold.estimate)
    if (released !== undefined) this.changed(released.state)
    this.changed(state)
    this.start(state.organization, reservation, known)
  }

  protected override deletedLost(reservation: ReservationState): void {
    const name = unclaimedName(reservation)
    this.unclaimed.set(name, addUsage(this.unclaimed.get(name) ?? noUsage, lostUsage(reservation)))
  }

  /** As in `store.lua`. */
  private claim(reservation: ReservationState, figures: UsageFigures, now: number): UsageFigures {
    const name = unclaimedName(reservation)
    const totals = this.unclaimed.get(name)
    if (totals === undefined || now - reservation.admittedMs < this.terms.lostMs - CLOCK_SKEW_MS) return noUsage
    const claimed = figuresOf(({ field }) => Math.min(totals[field], figures[field]))
    this.unclaimed.set(name, addUsage(totals, minusUsage(claimed)))
    return claimed
  }

  /** Charges a settlement to the windows that its request was admitted in. */
  private charge({ account, id, admittedMs }: Admission, charge: Charge): SettleReply {
    checkEstimate(charge)
    const now = this.clock.now()
    const state = this.advanced(account, now)
    const hold: Hold = { id, estimate: charge, floorMicroUsd: 0, model: charge.model }
    const reservation: ReservationState = {
      ...newReservation(account, hold, NOTHING, state, admittedMs, now),
      state: 'settled',
      windows: windowsAt(state.scopes, account, admittedMs),
    }
    const usage = usageOf(charge)
    const claimed = usage && this.claim(reservation, usage, now)
    const used = usedOf({ ...charge, costMicroUsd: charge.costMicroUsd - (claimed?.costMicroUsd ?? 0) }, 1)
    for (const unit of limitUnits) move(reservation, state, unit, used[unit], 0)
    this.changed(state)
    this.end(reservation, 'settled', now)
    this.count(reservation, charge)
    if (claimed !== undefined) this.used(reservation, minusUsage(claimed), seriesOf(charge))
    this.changes.ended(reservation, 'direct', charge, now)
    return 'settled'
  }
}

function countersOf({ scopes, limits }: LimitedScopes): LimitedScopes {
  return { scopes: scopes.slice(2), limits: limits.slice(2) }
}

function unclaimedName({ organization, admittedMs, key }: ReservationState): string {
  return `${organization}\0${dayOf(admittedMs)}\0${key}`
}

/** The windows of a request that was admitted at a time, none of which is later than the scopes' own. */
function windowsAt(scopes: Scopes, { timeZone = 'UTC' }: Account, admittedMs: number): readonly (readonly number[])[] {
  const ofOwners = budgetWindows(admittedMs)
  const ofCounters = scopes.length === 2 ? ofOwners : windowsIn(timeZone, admittedMs).windows
  return scopes.map((scope, s) =>
    scope.windows.map((window, i) => Math.min(window, (s < 2 ? ofOwners : ofCounters)[i] ?? 0)),
  )
}
