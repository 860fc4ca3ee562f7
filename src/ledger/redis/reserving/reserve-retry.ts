/**
 * Retries a reservation that is rejected only because of other requests' reservations, for at most 200 ms, with at most
 * 256 waiters per limit. A client that has its response may send its next request before the settlement of the first is
 * in Redis: the outbox gathers settlements for up to 20 ms, often in another process than the one that gets that
 * request.
 */

import { amountOf, concurrencyLimits } from '../../../core/limits.ts'
import type { Account } from '../../ledger.ts'
import type { ReserveReply } from '../../reservation-store.ts'
import type { SettlementsInFlight } from '../delivery/settlements-in-flight.ts'

/** The longest wait for this process's settlements in flight. They take a commit and a round trip, about 25 ms. */
const OWN_MS = 100
/**
 * Settlements of other processes are not visible here: retries after the time that they usually take, then after the
 * time that they take on a busy machine.
 */
const OTHERS_MS = [30, 70] as const
/**
 * Requests that may wait for one limit; more are rejected at once, so that a flood of requests does not multiply the
 * calls to Redis.
 */
const WAITING_MAX = 256

type Refused = Extract<ReserveReply, { outcome: 'refused' }>

export class ReserveRetry {
  /** How many wait, by the limit that rejects them. */
  private readonly waiting = new Map<string, number>()

  constructor(
    private readonly settlementsInFlight: SettlementsInFlight,
    /** Resolves after a number of milliseconds. */
    private readonly after: (ms: number) => Promise<void>,
  ) {}

  /** Retries if that may help. A rejected reservation consumes nothing, however often it is sent. */
  async retry(account: Account, first: Refused, reserve: () => Promise<ReserveReply>): Promise<ReserveReply> {
    if (first.held === false) return first
    const { scope, limit } = first.refusal
    const name = `${limit}\0${account.organization}${scope === 'key' ? `\0${account.key}` : ''}`
    const waiting = this.waiting.get(name) ?? 0
    if (waiting >= waitersMax(account, scope, limit)) return first
    this.waiting.set(name, waiting + 1)
    try {
      return await this.wait(account.organization, first, reserve)
    } finally {
      const left = (this.waiting.get(name) ?? 1) - 1
      if (left > 0) this.waiting.set(name, left)
      else this.waiting.delete(name)
    }
  }

  private async wait(
    organization: string,
    first: Refused,
    reserve: () => Promise<ReserveReply>,
  ): Promise<ReserveReply> {
    let reply: ReserveReply = first
    const own = this.settlementsInFlight.of(organization)
    if (own !== undefined) {
      await Promise.race([own, this.after(OWN_MS)])
      reply = await reserve()
    }
    for (const ms of OTHERS_MS) {
      if (reply.outcome !== 'refused' || reply.held === false) break
      await this.after(ms)
      reply = await reserve()
    }
    return reply
  }
}

/** A limit of concurrent requests frees at most as many at once as it allows: more waiters would wait in vain. */
function waitersMax(account: Account, scope: Refused['refusal']['scope'], name: Refused['refusal']['limit']): number {
  const limits = scope === 'key' ? account.keyLimits : account.organizationLimits
  const concurrency = concurrencyLimits.find((limit) => limit.name === name)
  return Math.min(WAITING_MAX, (concurrency && amountOf(limits, concurrency)) ?? WAITING_MAX)
}
