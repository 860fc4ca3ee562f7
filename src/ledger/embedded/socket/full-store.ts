/**
 * The in-memory store with the verbs that it needs if its callers are in other processes, which may outlive it or end
 * before it: it cancels a reservation whose caller gave up, charges a settlement whose reservation it has lost, and
 * takes back reservations that only their callers remember.
 */

import { byUnit } from '../../../core/limits.ts'
import { type Account, type Admission, type Charge, demandOf, type Estimate, type Hold, usedOf } from '../../ledger.ts'
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
import { seriesAt, seriesOf } from '../../usage-series.ts'
import { dayOf, monthOf } from '../../window.ts'
import { advanceBoth, bothAmounts, MemoryStore } from '../memory-store.ts'
import { begin, correctRates, free, grow, lostUsage, move, newReservation, type Pair } from '../reservation-moves.ts'
import { newScope, type ReservationState, type ScopeState } from '../store-state.ts'

const NOTHING = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }

export class FullStore extends MemoryStore {
  /** What was charged for lost reservations that were deleted unsettled, by organisation, day and key. */
  private readonly unclaimed = new Map<string, UsageFigures>()

  override settle(admission: Admission, charge: Charge, { isDirect = false }: SettleOptions = {}): SettleReply {
    const known = this.find(admission.account.organization, admission.id)
    if (known?.state === 'cancelled') return 'cancelled'
    return known === undefined && isDirect ? this.charge(admission, charge) : super.settle(admission, charge)
  }

  /** Frees what is held; what was posted stays spent. An unknown id is barred from being reserved later. */
  cancel(account: Account, id: string): CancelReply {
    const now = this.clock.now()
    const known = this.find(account.organization, id)
    if (known === undefined) {
      const hold = { id, estimate: NOTHING, floorMicroUsd: 0 }
      const empty = (key: string) => newScope(account.organization, key, now)
      const blank = newReservation(
        account,
        hold,
        demandOf(hold),
        [empty(''), empty('k')],
        now,
        now,
        bothAmounts(account),
      )
      this.end(blank, 'cancelled', now)
      return 'cancelled'
    }
    if (known.state !== 'live' && known.state !== 'lost') return 'ended'
    const scopes = this.advanced(account, now)
    const kind = known.state === 'lost' ? 'withdrawn' : 'cancelled'
    const series = seriesAt(known.series, known.admittedMs)
    if (known.state === 'lost') this.changes.used(known, series, minusUsage(lostUsage(known)))
    const { postedInput, postedOutput, postedMicroUsd } = known
    const progress = { inputTokens: postedInput, outputTokens: postedOutput, images: 0, costMicroUsd: postedMicroUsd }
    const used = usedOf(progress, 0)
    const limits = bothAmounts(account)
    free(known, scopes, used, limits)
    correctRates(known, scopes, limits, used, now)
    this.keep(scopes)
    this.end(known, 'cancelled', now)
    if (known.postedMicroUsd > 0) {
      this.changes.used(known, series, usageOfLost(known.postedInput, known.postedOutput, known.postedMicroUsd))
    }
    this.changes.ended(known, kind, undefined, now)
    return 'cancelled'
  }

  /**
   * Takes a reservation that was granted at `admittedMs` and that only its caller still knows, whatever the limits have
   * room for: the request runs. Changes nothing if the store knows it.
   */
  adopt(account: Account, hold: Hold, admittedMs: number, soFar: Estimate): void {
    checkEstimate(hold.estimate)
    checkEstimate(soFar)
    if (this.find(account.organization, hold.id) !== undefined) return
    const now = this.clock.now()
    const scopes = this.advanced(account, now)
    const limits = bothAmounts(account)
    const reservation: ReservationState = {
      ...newReservation(account, hold, demandOf(hold), scopes, admittedMs, now + this.terms.leaseMs, limits),
      windows: windowsAt(scopes, admittedMs),
    }
    begin(reservation, scopes, limits)
    grow(reservation, scopes, limits, soFar, hold.estimate)
    this.keep(scopes)
    this.start(this.organization(account.organization), reservation)
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

  private advanced({ organization, key, ...limits }: Account, now: number) {
    return advanceBoth(this.both(organization, key, now), bothAmounts({ organization, key, ...limits }), now)
  }

  /** Charges a settlement's cost to the windows that its request was admitted in. */
  private charge({ account, id, admittedMs }: Admission, charge: Charge): SettleReply {
    checkEstimate(charge)
    const now = this.clock.now()
    const scopes = this.advanced(account, now)
    const hold: Hold = { id, estimate: charge, floorMicroUsd: 0, model: charge.model }
    const nothing = byUnit(() => 0)
    const limits = bothAmounts(account)
    const reservation: ReservationState = {
      ...newReservation(account, hold, nothing, scopes, admittedMs, now, limits),
      state: 'settled',
      windows: windowsAt(scopes, admittedMs),
    }
    const usage = usageOf(charge)
    const claimed = usage && this.claim(reservation, usage, now)
    move(reservation, scopes, 'micro_usd', charge.costMicroUsd - (claimed?.costMicroUsd ?? 0), 0, limits)
    this.keep(scopes)
    this.end(reservation, 'settled', now)
    this.count(reservation, charge)
    if (claimed !== undefined) {
      this.changes.used(reservation, seriesAt(seriesOf(charge), admittedMs), minusUsage(claimed))
    }
    this.changes.ended(reservation, 'direct', charge, now)
    return 'settled'
  }
}

function unclaimedName({ organization, admittedMs, key }: ReservationState): string {
  return `${organization}\0${dayOf(admittedMs)}\0${key}`
}

/** The budget windows of a request that was admitted at a time, none of which is later than the scopes' own. */
function windowsAt(scopes: Pair<ScopeState>, admittedMs: number): Pair<readonly number[]> {
  const admission = [dayOf(admittedMs), monthOf(admittedMs), 0]
  const windows = (scope: ScopeState) => scope.windows.map((window, i) => Math.min(window, admission[i] ?? 0))
  return [windows(scopes[0]), windows(scopes[1])]
}
