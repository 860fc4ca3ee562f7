/** Maps what the book refuses to the error that the caller gets: which limit, whose, and when it lets the request pass. */

import { CallerError } from '../core/caller-error.ts'
import type { Limits } from '../core/money.ts'
import type { Account, Hold } from './ledger.ts'
import { rateLimitHeaders } from './rate-limit-headers.ts'
import type { Allowances, ExtendReply, LimitName, Refusal } from './reservation-store.ts'

const DAY_MS = 86_400_000
/** decisions.md: `retry-after` is 1 to 60 whole seconds. */
const RETRY_AFTER_MAX = 60

/** Whether an extension has grown. Throws `ledger_unavailable` if there was nothing left to grow: the lease ran out, or the book lost it. */
export function isHeld(reply: ExtendReply): boolean {
  if (reply === 'extended' || reply === 'exhausted') return reply === 'extended'
  throw new CallerError('ledger_unavailable', 'The ledger holds nothing for this request any more.', {
    retryAfterSeconds: 1,
  })
}

/** `nowMs` is used to name the moment at which a spend limit renews. */
export function refusalFailure(
  account: Account,
  hold: Hold,
  refusal: Refusal,
  allowances: Allowances,
  nowMs: number,
): CallerError {
  const isOrganization = refusal.scope === 'organization'
  const whose = isOrganization ? `organisation '${account.organization}'` : `key '${account.key}'`
  const limits = isOrganization ? account.organizationLimits : account.keyLimits
  const headers = rateLimitHeaders(allowances)
  switch (refusal.limit) {
    case 'requests':
    case 'tokens':
    case 'concurrent_requests': {
      const limit = rateWords(refusal.limit, limits, whose)
      if (refusal.waitMs === undefined) {
        return new CallerError('exceeds_limit', tooLarge(refusal.limit, limit, hold), { type: refusal.limit, headers })
      }
      const retryAfterSeconds = retrySeconds(refusal.waitMs)
      const message = `Rate limit reached: ${limit}. Try again in ${retryAfterSeconds} s.`
      return new CallerError('rate_limited', message, { type: refusal.limit, retryAfterSeconds, headers })
    }
    case 'day':
    case 'month':
    case 'total': {
      const limit = spendLimit(refusal.limit, limits, whose)
      if (refusal.held && refusal.waitMs !== undefined) {
        const retryAfterSeconds = retrySeconds(refusal.waitMs)
        const cost = dollars(hold.estimate.costMicroUsd)
        const message =
          `This request may cost ${cost}, more than running requests leave of ${limit.words}. ` +
          `Try again in ${retryAfterSeconds} s.`
        return new CallerError('rate_limited', message, { type: 'spend', retryAfterSeconds, headers })
      }
      return new CallerError('quota_exhausted', spentWords(refusal, limit, hold, nowMs), { headers })
    }
  }
}

function retrySeconds(waitMs: number): number {
  return Math.min(RETRY_AFTER_MAX, Math.max(1, Math.ceil(waitMs / 1000)))
}

function rateWords(limit: 'requests' | 'tokens' | 'concurrent_requests', limits: Limits, whose: string): string {
  switch (limit) {
    case 'requests':
      return `${limits.requestsPerMinute ?? 0} requests a minute for ${whose}`
    case 'tokens':
      return `${limits.tokensPerMinute ?? 0} tokens a minute for ${whose}`
    case 'concurrent_requests':
      return `${limits.concurrentRequests ?? 0} concurrent requests for ${whose}`
  }
}

function tooLarge(name: LimitName, limit: string, hold: Hold): string {
  if (name !== 'tokens') return `Nothing passes a limit of ${limit}.`
  const tokens = hold.estimate.inputTokens + hold.estimate.outputTokens
  return (
    `This request needs up to ${tokens} tokens, more than the whole limit of ${limit}. ` +
    'Waiting does not help: send less, or ask for a smaller output limit.'
  )
}

interface SpendLimit {
  readonly mostMicroUsd: number
  readonly words: string
}

function spendLimit(window: 'day' | 'month' | 'total', limits: Limits, whose: string): SpendLimit {
  const mostMicroUsd = limits.spend?.[window] ?? 0
  const name = { day: 'daily', month: 'monthly', total: 'total' }[window]
  return { mostMicroUsd, words: `the ${name} spend limit of ${dollars(mostMicroUsd)} for ${whose}` }
}

function spentWords({ waitMs }: Refusal, limit: SpendLimit, { estimate }: Hold, nowMs: number): string {
  const cost = `This request may cost ${dollars(estimate.costMicroUsd)}, more than`
  if (estimate.costMicroUsd > limit.mostMicroUsd) return `${cost} ${limit.words}. Waiting does not help.`
  const left = `${cost} is left of ${limit.words}`
  if (waitMs === undefined) return `${left}. The limit does not renew.`
  // Windows end at midnight UTC, whichever clock is a little off.
  const renewsAt = new Date(Math.round((nowMs + waitMs) / DAY_MS) * DAY_MS)
  return `${left}. The limit renews at ${renewsAt.toISOString().slice(0, 19)}Z.`
}

/** Micro-dollars as dollars, to the cent or as far as there are digits: `$5.00`, `$0.000125`. */
export function dollars(microUsd: number): string {
  const micro = BigInt(microUsd)
  const fraction = (micro % 1_000_000n)
    .toString()
    .padStart(6, '0')
    .replace(/0{1,4}$/, '')
  return `$${micro / 1_000_000n}.${fraction}`
}
