/** This request's reservation: grows while the answer runs, by time and by what is written; settled once on every way out. */

import { CALLER_ERRORS, CallerError } from '../core/caller-error.ts'
import type { Ttl } from '../core/model-config.ts'
import type { Price } from '../core/money.ts'
import { type Ticking, ticker } from '../core/ticker.ts'
import type { Usage } from '../core/token-usage.ts'
import {
  type Account,
  type Charge,
  type Estimate,
  type Ledger,
  noCharge,
  type Outcome,
  type Reservation,
} from '../ledger/ledger.ts'
import { costMicroUsd } from '../ledger/price.ts'
import { rateLimitHeaders } from '../ledger/rate-limit-headers.ts'
import type { RequestLog } from './access-log.ts'
import type { Counted } from './usage-meter.ts'

/** How much output is held at a time, unless the caller's limit is lower (operator.md 3). */
const SLICE_TOKENS = 4096
/** The lease is 30 s: two extensions may be lost. */
const EXTEND_MS = 10_000
/** When no more than this is left of the output that is held, more is asked for. Also the smallest piece: the end of a budget is had in such. */
const MARGIN_TOKENS = 1024
/** A stream that uses up its slice within this time is asked about no more often than so: the next one is twice as large, up to a bound. */
const QUICK_MS = 1000
const AHEAD_TOKENS_MAX = 65_536

/** What a request asks to be held. */
export interface Quote {
  /** The public name: where the gateway dies, the usage is counted under that of the first candidate. */
  readonly model: string
  readonly inputTokens: number
  readonly maxOutputTokens: number | undefined
  readonly price: Price | undefined
  /** Images that were ordered; none for chat. */
  readonly images?: number | undefined
  /** The whole output is held from the start: it does not come bit by bit. */
  readonly atOnce?: boolean | undefined
  /** The input is held at the price of writing it to the provider's cache for so long: where that may happen, and the worst case is wanted. */
  readonly cached?: Ttl | undefined
}

/** Who answered, and what it cost. */
export interface Bill {
  readonly model: string
  readonly provider: string
  readonly price: Price | undefined
  readonly counted: Counted
  /** Images that were made; none for chat. */
  readonly images?: number | undefined
}

const NOTHING: Estimate = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }

/**
 * An `await using` resource: whoever holds it settles it, on every way out. A stream takes it over (`handOver`) and settles it itself.
 * Until then it keeps its lease by itself, streamed or not: a whole answer may take minutes, and so may the headers of a stream.
 */
export class RequestReservation implements AsyncDisposable, Ticking {
  private settled = false
  private handedOver = false
  private extendedMs = performance.now()
  /** Up to how much output is held, and from which on more is asked for. */
  private reach = 0
  private askAt = 0
  private aheadTokens = SLICE_TOKENS
  private growing: Promise<void> | undefined
  /** Beats during which a provider was at work and nothing of its answer could be seen. */
  private unseenBeats = 0
  /** One limit that wants it is enough: which of them refused is not told. */
  private readonly cutsOnRefusal: boolean
  private isRevoked: () => boolean = () => false
  private cut: () => void = () => {}
  private cutFor: string | undefined

  private constructor(
    private readonly ledger: Ledger,
    private readonly reservation: Reservation,
    private quote: Quote,
    private readonly trace: RequestLog,
    private readonly progress: () => Counted | undefined,
  ) {
    const { organizationLimits, keyLimits } = reservation.account
    this.cutsOnRefusal = [organizationLimits, keyLimits].some(({ spend }) => spend?.onExhausted === 'cut')
    this.holds(slice(quote, 0).outputTokens)
  }

  /** `progress` is the use so far; undefined before a provider was asked. Throws the ledger's `CallerError` where a limit does not allow it. */
  static async open(
    ledger: Ledger,
    account: Account,
    quote: Quote,
    trace: RequestLog,
    progress: () => Counted | undefined,
  ): Promise<RequestReservation> {
    const hold = {
      id: trace.requestId,
      estimate: slice(quote, 0),
      floorMicroUsd: cost({ input: quote.inputTokens }, quote.price, quote.images),
      model: quote.model,
    }
    const reservation = await ledger.reserve(account, hold)
    if (reservation.requests ?? reservation.tokens) trace.limitHeaders = rateLimitHeaders(reservation)
    const held = new RequestReservation(ledger, reservation, quote, trace, progress)
    ticker.add(held)
    return held
  }

  /**
   * What becomes of a stream whose growth is refused where the operator wants it cut, and of one whose key was revoked meanwhile: it is
   * told at an extension. Without this it goes on, and what it takes is charged all the same.
   */
  onRefusal(isRevoked: () => boolean, cut: () => void): void {
    this.isRevoked = isRevoked
    this.cut = cut
  }

  /** The code of what a stream was last told to end for, for its log line; absent where it never was. */
  get refusedFor(): string | undefined {
    return this.cutFor
  }

  /**
   * Another candidate is to be asked, which may be dearer. False where a limit does not allow the difference, or the ledger cannot be
   * asked: then that candidate is not to be. What was held before stays held.
   */
  requote(quote: Quote): boolean | Promise<boolean> {
    if (isSame(quote, this.quote)) return true
    const [held, wanted] = [slice(this.quote, 0), slice(quote, 0)]
    if (wanted.costMicroUsd > held.costMicroUsd || wanted.outputTokens > held.outputTokens)
      return this.fund(quote, wanted)
    return this.turnTo(quote, wanted)
  }

  private async fund(quote: Quote, wanted: Estimate): Promise<boolean> {
    const isFunded = await this.ledger.extend(this.reservation, NOTHING, wanted).catch(refused)
    return isFunded && this.turnTo(quote, wanted)
  }

  private turnTo(quote: Quote, held: Estimate): true {
    this.quote = quote
    this.unseenBeats = 0
    this.holds(held.outputTokens)
    return true
  }

  /** From here on the disposal leaves it alone: the new holder settles. */
  handOver(): void {
    this.handedOver = true
  }

  /** Moves the lease and records the progress, every 10 s. */
  tick(nowMs: number): void {
    if (nowMs - this.extendedMs < EXTEND_MS) return
    if (this.isRevoked()) this.refuse('unauthenticated')
    if (this.progress()?.usage.output === 0) this.unseenBeats += 1
    void this.extend(nowMs, SLICE_TOKENS).then((granted) => granted === false && this.stopGrowing())
  }

  /**
   * So much output was written: as it comes near what is held, more is. One extension at a time. What is given back is to be awaited before
   * more is read: then a stream that is to be cut has used up what is held for it.
   */
  written(outputTokens: number): Promise<void> | undefined {
    if (outputTokens < this.askAt || this.settled) return undefined
    this.growing ??= this.grow().finally(() => {
      this.growing = undefined
    })
    return this.cutsOnRefusal && outputTokens >= this.reach ? this.growing : undefined
  }

  private async grow(): Promise<void> {
    const nowMs = performance.now()
    const isQuick = nowMs - this.extendedMs < QUICK_MS
    this.aheadTokens = isQuick ? Math.min(2 * this.aheadTokens, AHEAD_TOKENS_MAX) : SLICE_TOKENS
    for (const ahead of new Set([this.aheadTokens, SLICE_TOKENS, MARGIN_TOKENS])) {
      if ((await this.extend(nowMs, ahead)) !== false) return
    }
    this.stopGrowing()
  }

  /** Undefined if the ledger could not be asked. It is asked again a slice later: that call, or the settlement, says the same and more. */
  private async extend(nowMs: number, aheadTokens: number): Promise<boolean | undefined> {
    this.extendedMs = nowMs
    const used = this.progress()?.usage
    const soFar = used === undefined ? NOTHING : amounts(used.input, used.output, this.quote)
    // An answer that cannot be seen before it is whole is taken to be written at a slice a beat.
    const unseenTokens = soFar.outputTokens === 0 ? this.unseenBeats * SLICE_TOKENS : 0
    const wanted = slice(this.quote, soFar.outputTokens, unseenTokens + aheadTokens)
    try {
      const granted = await this.ledger.extend(this.reservation, soFar, wanted)
      if (granted) this.holds(wanted.outputTokens)
      return granted
    } catch (error) {
      letPass(error)
      this.askAt = soFar.outputTokens + aheadTokens
      return undefined
    }
  }

  private holds(outputTokens: number): void {
    this.reach = outputTokens
    if (outputTokens !== this.quote.maxOutputTokens) this.askAt = outputTokens - MARGIN_TOKENS
    // A provider may write beyond its limit: a stream that is to be cut is not allowed to beyond its budget.
    else this.askAt = this.cutsOnRefusal ? outputTokens : Number.POSITIVE_INFINITY
  }

  /** No limit allows more: what is held may be used up. After that the stream is cut, or goes on and is asked about at the next beat. */
  private stopGrowing(): void {
    const written = this.progress()?.usage.output ?? 0
    if (!this.cutsOnRefusal) this.askAt = Number.POSITIVE_INFINITY
    else if (written >= this.reach) this.refuse('quota_exhausted')
    else this.askAt = this.reach
  }

  private refuse(why: 'unauthenticated' | 'quota_exhausted'): void {
    this.cutFor ??= CALLER_ERRORS[why].code ?? undefined
    this.cut()
  }

  /** Ends the reservation with what was really used: nothing, where no provider's answer is to be paid. Later calls change nothing. */
  async settle(outcome: Outcome, bill: Bill | undefined): Promise<void> {
    if (this.settled) return
    this.settled = true
    ticker.remove(this)
    const charge = bill === undefined ? noCharge(outcome) : chargeOf(bill, outcome)
    if (bill !== undefined) this.trace.charge(charge)
    await this.ledger.settle(this.reservation, charge)
  }

  /**
   * The same behind the caller's back: with a ledger elsewhere the settlement is a commit and a round trip away, and an answer does not wait
   * for either. `report` takes what goes wrong with it.
   */
  settleBehind(outcome: Outcome, bill: Bill | undefined, report: (error: unknown) => void): void {
    this.settle(outcome, bill).catch(report)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.handedOver) await this.settle('refused', undefined)
  }
}

function letPass(error: unknown): void {
  if (!(error instanceof CallerError)) throw error
}

function refused(error: unknown): false {
  letPass(error)
  return false
}

/** The first candidate's is held already, as a rule: nothing is to be counted again. */
function isSame(one: Quote, other: Quote): boolean {
  return (
    one.price === other.price &&
    one.inputTokens === other.inputTokens &&
    one.maxOutputTokens === other.maxOutputTokens &&
    one.images === other.images &&
    one.cached === other.cached &&
    one.atOnce === other.atOnce
  )
}

/** The input, and output up to the next slice beyond what is written. */
function slice(quote: Quote, writtenTokens: number, aheadTokens = SLICE_TOKENS): Estimate {
  const { inputTokens, price, images } = quote
  const outputTokens = outputUpTo(quote, writtenTokens, aheadTokens)
  if (quote.cached === undefined) return amounts(inputTokens, outputTokens, quote)
  const written = quote.cached === '1h' ? { cacheWrite1h: inputTokens } : { cacheWrite5m: inputTokens }
  const usage = { input: inputTokens, output: outputTokens, ...written }
  return { inputTokens, outputTokens, costMicroUsd: cost(usage, price, images) }
}

function outputUpTo({ maxOutputTokens, atOnce }: Quote, writtenTokens: number, aheadTokens: number): number {
  const limit = maxOutputTokens ?? Number.MAX_SAFE_INTEGER
  // A provider that writes beyond its limit, or a count of ours that is too high.
  if (writtenTokens > 0 && writtenTokens >= limit) return writtenTokens + Math.min(aheadTokens, MARGIN_TOKENS)
  return Math.min(limit, atOnce === true ? limit : writtenTokens + aheadTokens)
}

function amounts(inputTokens: number, outputTokens: number, { price, images }: Quote): Estimate {
  return { inputTokens, outputTokens, costMicroUsd: cost({ input: inputTokens, output: outputTokens }, price, images) }
}

function chargeOf({ model, provider, counted, price, images }: Bill, outcome: Outcome): Charge {
  const { usage, estimated } = counted
  return {
    outcome,
    model,
    provider,
    inputTokens: usage.input,
    cachedInputTokens: usage.cachedInput ?? 0,
    outputTokens: usage.output,
    images: images ?? 0,
    costMicroUsd: cost(usage, price, images),
    estimated,
  }
}

function cost(usage: Usage, price: Price | undefined, images: number | undefined): number {
  return price === undefined ? 0 : costMicroUsd(usage, price, images)
}
