/**
 * What a request may cost, and what it did cost: how much is reserved for a quote, a slice of its output at a time, and
 * what is charged for a bill.
 */

import type { Demand } from '../capacity/meter.ts'
import type { Ttl } from '../core/model-config.ts'
import type { Price } from '../core/money.ts'
import { withTier } from '../core/tags.ts'
import type { Charge, Estimate, Outcome } from '../ledger/ledger.ts'
import { chargedMicroUsd, MICRO_USD_MAX, reservedMicroUsd, servedTier } from '../ledger/price.ts'
import { type ToolCalls, toolsMicroUsd } from './own-prices.ts'
import type { Counted } from './usage-meter.ts'

/** How much output is reserved at a time, unless the caller's limit is lower. */
export const SLICE_TOKENS = 4096
/**
 * More is reserved when this much of the reserved output is left. Also the smallest piece, for a budget without room
 * for a slice.
 */
export const MARGIN_TOKENS = 1024

/** What a request may cost. */
export interface Quote {
  /** The public name. If the process dies, the usage is counted under that of the first candidate. */
  readonly model: string
  readonly inputTokens: number
  readonly maxOutputTokens: number | undefined
  readonly price: Price | undefined
  /** The service tier that the provider is asked for. */
  readonly asked?: string | undefined
  /** Input that is audio. */
  readonly audioTokens?: number | undefined
  /** Images that were ordered; none for chat. */
  readonly images?: number | undefined
  /** The whole output is reserved from the start: it does not arrive in pieces, or the limit is strict. */
  readonly atOnce?: boolean | undefined
  /** The input is reserved at the price of a cache write with this TTL: the worst case, for strict limits. */
  readonly cached?: Ttl | undefined
  /** What calls of the provider's own tools may cost. */
  readonly toolsMicroUsd?: number | undefined
}

/** Who answered, and what it cost. */
export interface Bill {
  readonly model: string
  readonly provider: string
  readonly price: Price | undefined
  /** The service tier that the provider was asked for. */
  readonly asked?: string | undefined
  readonly counted: Counted
  /** Images that were made; none for chat. */
  readonly images?: number | undefined
  /** Calls of the provider's own tools. */
  readonly toolCalls?: ToolCalls | undefined
}

/** What a call took of the limits of its provider. */
export function usedOf(bill: Bill): Demand {
  const { usage } = bill.counted
  return { tokens: usage.input + usage.output, microUsd: costOf(bill) }
}

/** What the provider takes for a call, with its own tools. */
function costOf({ counted: { usage }, price, asked, images = 0, toolCalls }: Bill): number {
  if (price === undefined) return 0
  const tools = toolCalls === undefined ? 0 : toolsMicroUsd(toolCalls, price)
  return bounded(chargedMicroUsd(price, { usage, asked, images }) + tools)
}

/** Whether the same is reserved for both. Their models do not count. */
export function isSameQuote(one: Quote, other: Quote): boolean {
  return (
    one === other ||
    (one.price === other.price &&
      one.inputTokens === other.inputTokens &&
      one.maxOutputTokens === other.maxOutputTokens &&
      one.asked === other.asked &&
      one.audioTokens === other.audioTokens &&
      one.images === other.images &&
      one.cached === other.cached &&
      one.toolsMicroUsd === other.toolsMicroUsd &&
      one.atOnce === other.atOnce)
  )
}

/** The input, and output up to the next slice beyond what is written. */
export function estimateOf(quote: Quote, writtenTokens: number, aheadTokens = SLICE_TOKENS): Estimate {
  return estimateFor(quote.inputTokens, outputUpTo(quote, writtenTokens, aheadTokens), quote)
}

/** The tokens of output to reserve: those that are written and `aheadTokens` more, at most the output limit. */
export function outputUpTo({ maxOutputTokens, atOnce }: Quote, writtenTokens: number, aheadTokens: number): number {
  const limit = maxOutputTokens ?? Number.MAX_SAFE_INTEGER
  // The provider writes beyond its limit, or our own count is too high.
  if (writtenTokens > 0 && writtenTokens >= limit) return writtenTokens + Math.min(aheadTokens, MARGIN_TOKENS)
  return Math.min(limit, atOnce === true ? limit : writtenTokens + aheadTokens)
}

/** So many tokens at the dearest price that they may have. */
export function estimateFor(inputTokens: number, outputTokens: number, quote: Quote): Estimate {
  const { price, toolsMicroUsd: tools = 0 } = quote
  const microUsd = price === undefined ? 0 : reservedMicroUsd(price, inputTokens, outputTokens, quote) + tools
  return { inputTokens, outputTokens, costMicroUsd: bounded(microUsd) }
}

function bounded(microUsd: number): number {
  return Math.min(microUsd, MICRO_USD_MAX)
}

export function chargeOf(
  bill: Bill,
  outcome: Outcome,
  tags: string,
  { remote, node }: Pick<Charge, 'remote' | 'node'>,
): Charge {
  const { model, provider, counted, price, images = 0 } = bill
  const { usage, estimated } = counted
  return {
    model,
    provider,
    inputTokens: usage.input,
    cachedInputTokens: usage.cachedInput ?? 0,
    cacheWriteTokens: (usage.cacheWrite5m ?? 0) + (usage.cacheWrite1h ?? 0),
    outputTokens: usage.output,
    images,
    costMicroUsd: costOf(bill),
    estimated,
    outcome,
    tags: withTier(tags, servedTier(price, usage)),
    remote,
    node,
  }
}
