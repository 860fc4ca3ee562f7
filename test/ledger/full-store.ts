/**
 * The in-memory store plus the verbs that only the Redis store has, to stand in for a server: it can cancel a
 * reservation, and charge a settlement that has no reservation.
 */

import { byUnit } from '../../src/core/limits.ts'
import { advanceBoth, bothAmounts, MemoryStore } from '../../src/ledger/embedded/memory-store.ts'
import { correctRates, free, lostUsage, move, newReservation } from '../../src/ledger/embedded/reservation-moves.ts'
import { newScope, type ReservationState, type ScopeState } from '../../src/ledger/embedded/store-state.ts'
import { type Account, type Admission, type Charge, demandOf, type Hold, usedOf } from '../../src/ledger/ledger.ts'
import {
  type CancelReply,
  checkEstimate,
  type SettleOptions,
  type SettleReply,
} from '../../src/ledger/reservation-store.ts'
import { minusUsage, usageOfLost } from '../../src/ledger/usage-figures.ts'
import { dayOf, monthOf } from '../../src/ledger/window.ts'

const NOTHING = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }

export class FullStore extends MemoryStore {
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
    if (known.state === 'lost') this.changes.used(known, known.model, minusUsage(lostUsage(known)))
    const { postedInput, postedOutput, postedMicroUsd } = known
    const progress = { inputTokens: postedInput, outputTokens: postedOutput, images: 0, costMicroUsd: postedMicroUsd }
    const used = usedOf(progress, 0)
    free(known, scopes, used)
    correctRates(known, scopes, bothAmounts(account), used, now)
    this.keep(scopes)
    this.end(known, 'cancelled', now)
    if (known.postedMicroUsd > 0) {
      this.changes.used(known, known.model, usageOfLost(known.postedInput, known.postedOutput, known.postedMicroUsd))
    }
    this.changes.ended(known, kind, undefined, now)
    return 'cancelled'
  }

  private advanced({ organization, key, ...limits }: Account, now: number) {
    return advanceBoth(this.both(organization, key, now), bothAmounts({ organization, key, ...limits }), now)
  }

  /** Charges a settlement's cost to the windows that its request was admitted in. */
  private charge({ account, id, admittedMs }: Admission, charge: Charge): SettleReply {
    checkEstimate(charge)
    const now = this.clock.now()
    const scopes = this.advanced(account, now)
    const admission = [dayOf(admittedMs), monthOf(admittedMs), 0]
    const windows = (scope: ScopeState) => scope.windows.map((window, i) => Math.min(window, admission[i] ?? 0))
    const hold: Hold = { id, estimate: charge, floorMicroUsd: 0, model: charge.model }
    const nothing = byUnit(() => 0)
    const reservation: ReservationState = {
      ...newReservation(account, hold, nothing, scopes, admittedMs, now, bothAmounts(account)),
      state: 'settled',
      windows: [windows(scopes[0]), windows(scopes[1])],
    }
    move(reservation, scopes, 'micro_usd', charge.costMicroUsd, 0)
    this.keep(scopes)
    this.end(reservation, 'settled', now)
    this.count(reservation, charge)
    this.changes.ended(reservation, 'direct', charge, now)
    return 'settled'
  }
}
