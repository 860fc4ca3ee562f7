/**
 * Retries a reservation that is rejected only because of other requests' reservations, for at most 200 ms, with at most
 * 256 waiters per limit. A caller that has its answer may send its next request before the settlement of the first is
 * in Redis: settlements are gathered for up to 20 ms, often by another process than the one that gets the next request.
 */

import { amountOf, placesLimits } from '../../../core/limits.ts'
import type { Account } from '../../ledger.ts'
import type { ReserveReply } from '../../reservation-store.ts'
import type { SettlementsInFlight } from '../delivery/settlements-in-flight.ts'

/** So long for the settlements that this process has under way; they take a commit and a round trip, 25 ms. */
const OWN_MS = 100
/**
 * Those of other processes cannot be seen: asked again after what they take, and once more after what they take on a
 * busy machine.
 */
const OTHERS_MS = [30, 70] as const
/**
 * Requests that may wait for one limit; beyond it they are refused at once: a flood of them is to cost no more than it
 * does.
 */
const WAITING_MAX = 256

type Refused = Extract<ReserveReply, { outcome: 'refused' }>

export class ReserveRetry {
  /** How many wait, by the limit that refuses them. */
  private readonly waiting = new Map<string, number>()

  constructor(
    private readonly settlementsInFlight: SettlementsInFlight,
    /** Resolves after so many milliseconds. */
    private readonly after: (ms: number) => Promise<void>,
  ) {}

  /** Asks again where that may help. Nothing was consumed by the refusal, and nothing is by another. */
  async retry(account: Account, first: Refused, ask: () => Promise<ReserveReply>): Promise<ReserveReply> {
    if (first.held === false) return first
    const { scope, limit } = first.refusal
    const which = `${limit}\0${account.organization}${scope === 'key' ? `\0${account.key}` : ''}`
    const waiting = this.waiting.get(which) ?? 0
    if (waiting >= mostFor(account, scope, limit)) return first
    this.waiting.set(which, waiting + 1)
    try {
      return await this.wait(account.organization, first, ask)
    } finally {
      const left = (this.waiting.get(which) ?? 1) - 1
      if (left > 0) this.waiting.set(which, left)
      else this.waiting.delete(which)
    }
  }

  private async wait(organization: string, first: Refused, ask: () => Promise<ReserveReply>): Promise<ReserveReply> {
    let reply: ReserveReply = first
    const own = this.settlementsInFlight.of(organization)
    if (own !== undefined) {
      await Promise.race([own, this.after(OWN_MS)])
      reply = await ask()
    }
    for (const ms of OTHERS_MS) {
      if (reply.outcome !== 'refused' || reply.held === false) break
      await this.after(ms)
      reply = await ask()
    }
    return reply
  }
}

/** No more places can become free at once than there are. */
function mostFor(account: Account, scope: Refused['refusal']['scope'], name: Refused['refusal']['limit']): number {
  const limits = scope === 'key' ? account.keyLimits : account.organizationLimits
  const places = placesLimits.find((limit) => limit.name === name)
  return Math.min(WAITING_MAX, (places && amountOf(limits, places)) ?? WAITING_MAX)
}
