/** This request's reservation: grows while the answer runs, settled once on every way out. */

import { Failure } from '../core/error.ts'
import type { Price } from '../core/money.ts'
import { type Ticking, ticker } from '../core/ticker.ts'
import type { Usage } from '../core/usage.ts'
import type { Account, Amounts, Ledger, Outcome, Reservation } from '../ledger/ledger.ts'
import { costMicroUsd } from '../ledger/price.ts'
import type { Counted } from './tally.ts'
import type { Charged, Trace } from './trace.ts'

/** How much output is held at a time, unless the caller's limit is lower (operator.md 3). */
const SLICE_TOKENS = 4096
/** The lease is 30 s: two extensions may be lost. */
const EXTEND_MS = 10_000

/** What a request asks to be held. */
export interface Quote {
  readonly inputTokens: number
  readonly maxOutputTokens: number | undefined
  readonly price: Price | undefined
}

/** Who answered, and what it cost. */
export interface Bill {
  readonly model: string
  readonly provider: string
  readonly price: Price | undefined
  readonly counted: Counted
}

const NOTHING: Amounts = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }

/**
 * An `await using` resource: whoever holds it settles it, on every way out. A stream takes it over (`handOver`) and settles it itself.
 * Until then it keeps its lease by itself, streamed or not: a whole answer may take minutes, and so may the headers of a stream.
 */
export class Held implements AsyncDisposable, Ticking {
  private settled = false
  private handedOver = false
  private extendedMs = performance.now()

  private constructor(
    private readonly ledger: Ledger,
    private readonly reservation: Reservation,
    private readonly quote: Quote,
    private readonly trace: Trace,
    private readonly progress: () => Counted | undefined,
  ) {}

  /** `progress` is the use so far; undefined before a provider was asked. Throws the ledger's `Failure` where a limit does not allow it. */
  static async open(
    ledger: Ledger,
    account: Account,
    quote: Quote,
    trace: Trace,
    progress: () => Counted | undefined,
  ): Promise<Held> {
    const hold = {
      id: trace.requestId,
      amounts: slice(quote, 0),
      floorMicroUsd: cost({ input: quote.inputTokens }, quote.price),
    }
    const held = new Held(ledger, await ledger.reserve(account, hold), quote, trace, progress)
    ticker.add(held)
    return held
  }

  /** From here on the disposal leaves it alone: the new holder settles. */
  handOver(): void {
    this.handedOver = true
  }

  /** Moves the lease and records the progress, every 10 s. A refusal changes nothing: the answer is under way. */
  tick(nowMs: number): void {
    if (nowMs - this.extendedMs < EXTEND_MS) return
    this.extendedMs = nowMs
    const usage = this.progress()?.usage
    const soFar =
      usage === undefined
        ? NOTHING
        : { inputTokens: usage.input, outputTokens: usage.output, costMicroUsd: cost(usage, this.quote.price) }
    this.ledger.extend(this.reservation, soFar, slice(this.quote, soFar.outputTokens)).catch(letPass)
  }

  /** Ends the reservation with what was really used: nothing, where no provider's answer is to be paid. Later calls change nothing. */
  async settle(outcome: Outcome, bill: Bill | undefined): Promise<void> {
    if (this.settled) return
    this.settled = true
    ticker.remove(this)
    const charged = bill === undefined ? undefined : chargeOf(bill)
    if (charged !== undefined) this.trace.charge(charged)
    await this.ledger.settle(this.reservation, {
      amounts: charged ?? NOTHING,
      cachedInputTokens: charged?.cachedInputTokens ?? 0,
      images: 0,
      estimated: charged?.estimated ?? false,
      outcome,
      model: bill?.model,
      provider: bill?.provider,
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.handedOver) await this.settle('refused', undefined)
  }
}

/** A ledger that cannot be asked now misses this extension; the next one, or the settlement, says the same and more. */
function letPass(error: unknown): void {
  if (!(error instanceof Failure)) throw error
}

/** The input, and output up to the next slice beyond what is written. */
function slice(quote: Quote, writtenTokens: number): Amounts {
  const outputTokens = Math.min(quote.maxOutputTokens ?? Number.MAX_SAFE_INTEGER, writtenTokens + SLICE_TOKENS)
  const usage = { input: quote.inputTokens, output: outputTokens }
  return { inputTokens: quote.inputTokens, outputTokens, costMicroUsd: cost(usage, quote.price) }
}

function chargeOf({ counted, price }: Bill): Charged {
  const { usage, estimated } = counted
  return {
    inputTokens: usage.input,
    cachedInputTokens: usage.cachedInput ?? 0,
    outputTokens: usage.output,
    costMicroUsd: cost(usage, price),
    estimated,
  }
}

function cost(usage: Usage, price: Price | undefined): number {
  return price === undefined ? 0 : costMicroUsd(usage, price)
}
