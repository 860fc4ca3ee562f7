/**
 * For which candidates of a request the ledger reserves: for the first one, for the next if a budget refuses that and
 * lets others take its place, and for each that is called after one that failed.
 */

import type { Key } from '../catalog/catalog.ts'
import type { Candidate } from '../catalog/resolve.ts'
import { CallerError } from '../core/caller-error.ts'
import type { Later } from '../core/later.ts'
import type { Account } from '../ledger/ledger.ts'
import type { RequestLog } from './access-log.ts'
import type { RouteHeader } from './attempt-record.ts'
import type { CandidateTurns } from './candidate-turns.ts'
import type { Gateway } from './gateway.ts'
import type { Quote } from './quote.ts'
import { accountOf, hasSameCounters } from './request-budgets.ts'
import { RequestReservation } from './reservation.ts'
import type { Work } from './work.ts'

export class CandidateReserving {
  constructor(
    private readonly gateway: Gateway,
    private readonly key: Key,
    private readonly work: Work,
    private readonly log: RequestLog,
    private readonly route: RouteHeader | undefined,
  ) {}

  /**
   * `turn`: how many candidates were refused before it. Throws `CallerError`, or rejects with it, if a limit refuses.
   */
  begin(candidate: Candidate | undefined, turn = 0): RequestReservation | Later<RequestReservation> {
    if (candidate === undefined) throw new Error('a resolution without candidates')
    const { gateway, work } = this
    const quote = work.quote(candidate, this.key)
    return RequestReservation.open(gateway.ledger, this.accountFor(candidate), quote, this.log, {
      turn,
      choice: work.choice,
    })
  }

  /** Whether this refusal is that of a budget which lets another candidate take the place of this one. */
  downgrades(refusal: unknown, candidate: Candidate | undefined): boolean {
    return candidate !== undefined && downgrades(refusal, this.accountFor(candidate))
  }

  /** Reserves for the candidates after the first, one after the other. Throws `refusal` if none is admitted. */
  async downgrade(refusal: unknown, turns: CandidateTurns): Promise<RequestReservation> {
    for (const [passed, candidate] of turns.candidates.slice(1).entries()) {
      try {
        // In a turn of its own: a call for a candidate before it that got no reply may still be executed.
        const reservation = await this.begin(candidate, passed + 1)
        for (const before of turns.begin(candidate)) this.route?.add(before, 'over the limit')
        return reservation
      } catch (error) {
        if (!(error instanceof CallerError)) throw error
        if (!this.downgrades(error, candidate)) break
      }
    }
    throw refusal
  }

  /**
   * False if the limits do not allow the candidate that is to be called next. Throws the refusal of a budget that has
   * no other candidate in its place.
   */
  allows(candidate: Candidate, reservation: RequestReservation): boolean | Promise<boolean> {
    const quote = this.work.quote(candidate, this.key)
    const account = this.accountFor(candidate)
    const isSame = hasSameCounters(account, reservation.account)
    return isSame ? reservation.requote(quote) : move(reservation, account, quote)
  }

  /** The owners of the limits that a candidate counts under. */
  private accountFor({ model }: Candidate): Account {
    return accountOf(this.key, this.log.tags?.all, model, this.gateway.overrides)
  }
}

async function move(reservation: RequestReservation, account: Account, quote: Quote): Promise<boolean> {
  try {
    await reservation.move(account, quote)
    return true
  } catch (error) {
    if (downgrades(error, account)) return false
    throw error
  }
}

function downgrades(refusal: unknown, { budgets }: Account): boolean {
  const counter = refusal instanceof CallerError ? refusal.detail.counter : undefined
  return counter !== undefined && budgets?.[counter]?.downgrades === true
}
