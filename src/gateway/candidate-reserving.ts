/**
 * For which candidates of a request the ledger reserves: for the first one, for the next if a budget refuses that and
 * lets others take its place, and for each that is called after one that failed.
 */

import type { Candidate } from '../catalog/resolve.ts'
import { CallerError } from '../core/caller-error.ts'
import { type Later, laterOf } from '../core/later.ts'
import type { Account } from '../ledger/ledger.ts'
import type { RouteHeader } from './attempt-record.ts'
import type { CandidateTurns } from './candidate-turns.ts'
import type { Quote } from './quote.ts'
import { accountOf, hasSameCounters } from './request-budgets.ts'
import { RequestReservation } from './reservation.ts'
import type { RunningWork } from './work.ts'

/** `turn`: how many candidates were refused before it. Throws `CallerError`, or rejects with it, if a limit refuses. */
export function reserve(
  of: RunningWork,
  candidate: Candidate | undefined,
  turn = 0,
): RequestReservation | Later<RequestReservation> {
  if (candidate === undefined) throw new Error('a resolution without candidates')
  const { gateway, work, key, log } = of
  const quote = work.quote(candidate, key)
  const { choice } = work
  return RequestReservation.open(gateway.ledger, accountFor(of, candidate), quote, log, { turn, choice })
}

/** Whether this refusal is that of a budget which lets another candidate take the place of this one. */
export function mayDowngrade(of: RunningWork, refusal: unknown, candidate: Candidate | undefined): boolean {
  return candidate !== undefined && downgrades(refusal, accountFor(of, candidate))
}

/** Reserves for the candidates after the first, one after the other. Throws `refusal` if none is admitted. */
export async function downgrade(
  of: RunningWork,
  refusal: unknown,
  turns: CandidateTurns,
  route: RouteHeader | undefined,
): Promise<RequestReservation> {
  for (const [passed, candidate] of turns.candidates.slice(1).entries()) {
    try {
      // In a turn of its own: a call for a candidate before it that got no reply may still be executed.
      const reservation = await reserve(of, candidate, passed + 1)
      for (const before of turns.begin(candidate)) route?.add(before, 'over the limit')
      return reservation
    } catch (error) {
      if (!(error instanceof CallerError)) throw error
      if (!mayDowngrade(of, error, candidate)) break
    }
  }
  throw refusal
}

/**
 * False if the limits do not allow the candidate that is to be called next. Throws the refusal of a budget that has no
 * other candidate in its place.
 */
export function allows(
  of: RunningWork,
  candidate: Candidate,
  reservation: RequestReservation,
): boolean | Later<boolean> {
  const quote = of.work.quote(candidate, of.key)
  const account = accountFor(of, candidate)
  const isSame = hasSameCounters(account, reservation.account)
  return isSame ? reservation.requote(quote) : laterOf(move(reservation, account, quote))
}

/** The owners of the limits that a candidate counts under. */
function accountFor({ gateway, key, log }: RunningWork, { model }: Candidate): Account {
  return accountOf(key, log.tags?.all, model, gateway.overrides)
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
