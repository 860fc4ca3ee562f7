/**
 * What the ledger holds for one request: it grows with time and with the output while the answer runs, and is settled
 * once, however the request ends.
 */

import { CALLER_ERRORS, CallerError } from '../core/caller-error.ts'
import { Later, type LaterListener, laterOf } from '../core/later.ts'
import { type Ticking, ticker } from '../core/ticker.ts'
import {
  type Account,
  type Estimate,
  type Hold,
  type Ledger,
  noCharge,
  type Outcome,
  type Reservation,
} from '../ledger/ledger.ts'
import { rateLimitHeaders } from '../ledger/rate-limit-headers.ts'
import type { RequestLog } from './access-log.ts'
import {
  type Bill,
  chargeOf,
  estimateFor,
  estimateOf,
  isSameQuote,
  MARGIN_TOKENS,
  outputUpTo,
  type Quote,
  SLICE_TOKENS,
} from './quote.ts'
import type { Counted } from './usage-meter.ts'

/** The lease is 30 s: two extensions may be lost. */
const EXTEND_MS = 10_000
/**
 * If a stream uses up its slice within this time, the next slice is twice as large, up to a bound: fewer ledger calls.
 */
const QUICK_MS = 1000
const AHEAD_TOKENS_MAX = 65_536

/** A call whose usage so far is reported to the ledger at each extension. */
export interface Metered {
  used(): Counted
}

/** A stream that the reservation may end. */
interface GuardedStream {
  interrupt(why: 'refused'): void
}

/** Whether the key of a request may still be used. */
interface Revocable {
  isRevoked(): boolean
}

/** Takes the errors of settlements that run in the background. */
export interface ErrorReporter {
  report(error: unknown): void
}

const NOTHING: Estimate = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }

/** One limit that cuts streams is enough. */
function cutsStreams({ organizationLimits, keyLimits, budgets }: Account): boolean {
  return cuts(organizationLimits) || cuts(keyLimits) || budgets?.some(({ limits }) => cuts(limits)) === true
}

function cuts({ spend }: Account['keyLimits']): boolean {
  return spend?.onExhausted === 'cut'
}

function holdOf(id: string, quote: Quote, log: RequestLog, { turn, choice }: Pick<Hold, 'turn' | 'choice'>): Hold {
  return {
    id,
    estimate: estimateOf(quote, 0),
    floorMicroUsd: progressOf({ input: quote.inputTokens, output: 0 }, quote).costMicroUsd,
    model: quote.model,
    tags: log.tags?.held,
    turn,
    choice,
  }
}

/** Not at the price of a cache write, and without tools: what was written to a cache, and run, is not known. */
function progressOf({ input, output }: Counted['usage'], quote: Quote): Estimate {
  const isPlain = quote.cached === undefined && quote.toolsMicroUsd === undefined
  return estimateFor(input, output, isPlain ? quote : { ...quote, cached: undefined, toolsMicroUsd: undefined })
}

/**
 * It renews its lease until it is settled, streamed or not: a whole answer may take minutes, and so may the headers of
 * a stream.
 */
export class RequestReservation implements Ticking {
  place = -1
  /** `x-ratelimit-*`, for an answer and for an error. */
  readonly limitHeaders: Readonly<Record<string, string>>
  private settled = false
  private extendedMs = performance.now()
  /** Output tokens that are reserved, and the count from which more is reserved. */
  heldOutputTokens = 0
  private growAtTokens = 0
  private aheadTokens = SLICE_TOKENS
  private growing: Promise<void> | undefined
  /** Extensions during which a provider was working and nothing of its answer was visible. */
  private unseenExtensions = 0
  /** One limit that cuts streams is enough: the ledger does not report which limit refused an extension. */
  private cutsOnRefusal: boolean
  private call: Metered | undefined
  private stream: GuardedStream | undefined
  private access: Revocable | undefined
  /** Error code of the reason why the stream was cut, if it was. */
  cutFor: string | undefined

  private constructor(
    private readonly ledger: Ledger,
    private reservation: Reservation,
    private quote: Quote,
    private readonly log: RequestLog,
    /** How often it was to be reserved for another candidate. */
    private turn: number,
  ) {
    this.limitHeaders = rateLimitHeaders(reservation)
    this.cutsOnRefusal = cutsStreams(reservation.account)
    this.setReserved(outputUpTo(quote, 0, SLICE_TOKENS))
    ticker.add(this)
  }

  /**
   * Throws the ledger's `CallerError` if a limit does not allow the request, or the ledger is unavailable. Later only
   * if the ledger has to be asked.
   */
  static open(
    ledger: Ledger,
    account: Account,
    quote: Quote,
    log: RequestLog,
    { turn = 0, choice }: Pick<Hold, 'turn' | 'choice'> = {},
  ): RequestReservation | Later<RequestReservation> {
    const reservation = ledger.reserve(account, holdOf(log.requestId, quote, log, { turn, choice }))
    return reservation instanceof Later
      ? RequestReservation.openLater(ledger, reservation, quote, log, turn)
      : new RequestReservation(ledger, reservation, quote, log, turn)
  }

  private static openLater(
    ledger: Ledger,
    reservation: Later<Reservation>,
    quote: Quote,
    log: RequestLog,
    turn: number,
  ): Later<RequestReservation> {
    return reservation.map((reserved) => new RequestReservation(ledger, reserved, quote, log, turn))
  }

  /**
   * The call whose usage is reported from now on; undefined if the last one failed, so that nothing is charged for it.
   */
  follow(call: Metered | undefined): void {
    this.call = call
  }

  /**
   * Ends the stream if its growth is refused and the operator wants such streams cut, or if its key was revoked.
   * Without this it goes on, and its usage is charged all the same.
   */
  guard(stream: GuardedStream, access: Revocable): void {
    this.stream = stream
    this.access = access
  }

  /**
   * Reserves the difference to another candidate, which may cost more. False if a limit does not allow it or the ledger
   * is unavailable: then that candidate is not called. What was reserved before stays reserved.
   */
  requote(quote: Quote): boolean | Later<boolean> {
    return isSameQuote(quote, this.quote) || laterOf(this.requoted(quote))
  }

  /** The owners of the limits that it counts under. */
  get account(): Account {
    return this.reservation.account
  }

  /**
   * Reserves for another candidate under other budgets, in one step with the release of what was reserved. Throws what
   * a limit refuses: then what was reserved stays reserved.
   */
  async move(account: Account, quote: Quote): Promise<void> {
    this.turn += 1
    const hold = holdOf(this.reservation.id, quote, this.log, { turn: this.turn })
    this.reservation = await this.ledger.reserve(account, hold, this.reservation)
    this.quote = quote
    this.unseenExtensions = 0
    this.cutsOnRefusal = cutsStreams(account)
    this.setReserved(outputUpTo(quote, 0, SLICE_TOKENS))
  }

  private async requoted(quote: Quote): Promise<boolean> {
    const reserved = estimateOf(this.quote, 0)
    const wanted = estimateOf(quote, 0)
    if (wanted.costMicroUsd > reserved.costMicroUsd || wanted.outputTokens > reserved.outputTokens) {
      try {
        if (!(await this.ledger.extend(this.reservation, NOTHING, wanted))) return false
      } catch (error) {
        return falseForCallerError(error)
      }
    }
    this.quote = quote
    this.unseenExtensions = 0
    this.setReserved(wanted.outputTokens)
    return true
  }

  /** Renews the lease and records the usage, every 10 s. */
  tick(nowMs: number): void {
    if (nowMs - this.extendedMs < EXTEND_MS) return
    if (this.access?.isRevoked()) this.cut('unauthenticated')
    if (this.call?.used().usage.output === 0) this.unseenExtensions += 1
    void this.extend(nowMs, SLICE_TOKENS).then((granted) => granted === false && this.stopGrowing())
  }

  /**
   * Reserves more when the output comes near what is reserved, one extension at a time. The caller awaits the returned
   * promise before it reads more: then a stream that is to be cut has used up exactly what was reserved for it.
   *
   * Undefined for nearly every chunk of a stream, which then goes on in the same turn; an await costs 30 ns.
   */
  written(outputTokens: number): Promise<void> | undefined {
    if (!this.growsAt(outputTokens)) return undefined
    this.growing ??= this.grow().finally(() => {
      this.growing = undefined
    })
    return this.cutsOnRefusal && outputTokens >= this.heldOutputTokens ? this.growing : undefined
  }

  /** False if so much output needs no more than is reserved, and `written` does nothing. */
  growsAt(outputTokens: number): boolean {
    return outputTokens >= this.growAtTokens && !this.settled
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

  /**
   * Undefined if the ledger is unavailable: the next extension, a slice later, or the settlement reports the same
   * usage.
   */
  private async extend(nowMs: number, aheadTokens: number): Promise<boolean | undefined> {
    this.extendedMs = nowMs
    const used = this.call?.used().usage
    const soFar = used === undefined ? NOTHING : progressOf(used, this.quote)
    // An answer that is not visible before it is complete is assumed to grow by a slice at each extension.
    const unseenTokens = soFar.outputTokens === 0 ? this.unseenExtensions * SLICE_TOKENS : 0
    const wanted = estimateOf(this.quote, soFar.outputTokens, unseenTokens + aheadTokens)
    try {
      const granted = await this.ledger.extend(this.reservation, soFar, wanted)
      if (granted) this.setReserved(wanted.outputTokens, soFar.outputTokens)
      return granted
    } catch (error) {
      falseForCallerError(error)
      this.growAtTokens = soFar.outputTokens + aheadTokens
      return undefined
    }
  }

  private setReserved(outputTokens: number, writtenTokens = 0): void {
    this.heldOutputTokens = outputTokens
    // Of a small piece the second half is the margin: with all of it, each event of a stream beyond its limit would ask
    // the ledger for more.
    const margin = Math.min(MARGIN_TOKENS, (outputTokens - writtenTokens) / 2)
    if (outputTokens !== this.quote.maxOutputTokens) this.growAtTokens = outputTokens - margin
    // A provider may write beyond its limit; a stream that is to be cut must not do so beyond its budget.
    else this.growAtTokens = this.cutsOnRefusal ? outputTokens : Number.POSITIVE_INFINITY
  }

  /**
   * No limit allows more. The stream may use up what is reserved; then it is cut, or goes on until the next extension.
   */
  private stopGrowing(): void {
    const written = this.call?.used().usage.output ?? 0
    if (!this.cutsOnRefusal) this.growAtTokens = Number.POSITIVE_INFINITY
    else if (written >= this.heldOutputTokens) this.cut('quota_exhausted')
    else this.growAtTokens = this.heldOutputTokens
  }

  /** Ends the stream of the request, if it has begun. */
  cut(why: 'unauthenticated' | 'quota_exhausted'): void {
    this.cutFor ??= CALLER_ERRORS[why].code ?? undefined
    this.stream?.interrupt('refused')
  }

  /**
   * Ends the reservation with the usage; without a bill nothing is charged. Repeated calls change nothing. Later
   * only if the ledger has to be asked.
   */
  settle(outcome: Outcome, bill: Bill | undefined): Later<unknown> | undefined {
    if (this.settled) return undefined
    this.settled = true
    ticker.remove(this)
    const { log } = this
    const charge =
      bill === undefined
        ? noCharge(outcome, log.tags?.text, log.remote, log.node)
        : chargeOf(bill, outcome, log.tags?.charged() ?? '', log)
    if (bill !== undefined) log.charge(charge, bill.counted.usage)
    const settling = this.ledger.settle(this.reservation, charge)
    return settling instanceof Later ? settling : undefined
  }

  /**
   * Settles while the answer goes out: with Redis a settlement is a commit and a round trip, and no answer waits for
   * them.
   */
  settleInBackground(outcome: Outcome, bill: Bill | undefined, reporter: ErrorReporter): void {
    try {
      const settling = this.settle(outcome, bill)
      settling?.listen(new FailureListener(reporter))
    } catch (error) {
      reporter.report(error)
    }
  }
}

class FailureListener implements LaterListener<unknown> {
  constructor(private readonly reporter: ErrorReporter) {}

  resolved(): void {}

  rejected(error: unknown): void {
    this.reporter.report(error)
  }
}

/** False for a refusal; throws any other error, which is a bug. */
function falseForCallerError(error: unknown): false {
  if (!(error instanceof CallerError)) throw error
  return false
}
