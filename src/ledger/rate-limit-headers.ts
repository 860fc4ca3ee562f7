/** What is left of a rate: which of two scopes' figures counts, and how callers are told. */

import type { Allowance } from './ledger.ts'
import type { Allowances } from './reservation-store.ts'

/** The one with less left; of equals the first. */
export function tighter(a: Allowance | undefined, b: Allowance | undefined): Allowance | undefined {
  if (a === undefined || b === undefined) return a ?? b
  return b.remaining < a.remaining ? b : a
}

/** `x-ratelimit-*` as OpenAI names them and official SDKs' users expect; none where no rate is limited. Takes a `Reservation`, too. */
export function rateLimitHeaders({ requests, tokens }: Allowances): Readonly<Record<string, string>> {
  return { ...headersOf('requests', requests), ...headersOf('tokens', tokens) }
}

function headersOf(name: 'requests' | 'tokens', allowance: Allowance | undefined): Readonly<Record<string, string>> {
  if (allowance === undefined) return {}
  return {
    [`x-ratelimit-limit-${name}`]: String(allowance.limit),
    [`x-ratelimit-remaining-${name}`]: String(allowance.remaining),
    [`x-ratelimit-reset-${name}`]: duration(allowance.resetMs),
  }
}

/** `120ms`, `1.5s`, `1m0s`: the way of writing a duration that those headers have. */
function duration(ms: number): string {
  if (ms < 1000) return `${ms}ms`
  if (ms < 60_000) return `${ms / 1000}s`
  return `${Math.floor(ms / 60_000)}m${Math.ceil((ms % 60_000) / 1000)}s`
}
