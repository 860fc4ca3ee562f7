/**
 * The call of one candidate for a chat request: relays the provider's stream, or makes the caller's whole answer from
 * what the provider sent, be it a body or a stream.
 */

import { publicName } from '../catalog/catalog.ts'
import type { Candidate } from '../catalog/resolve.ts'
import { Fold } from '../core/completion.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { StreamEvent } from '../core/event.ts'
import { Pace } from '../core/event-loop.ts'
import { exactValue } from '../core/exact-json.ts'
import type { JsonValue } from '../core/json.ts'
import { NO_OWN_TOOLS, type OwnFields } from '../core/own-fields.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { Issuer } from '../core/thoughts.ts'
import type { Exchange, Served } from '../dialects/dialect.ts'
import type { TextReader } from '../providers/body-readers.ts'
import type { Provider, UpstreamRequest } from '../providers/provider.ts'
import type { RequestLog } from './access-log.ts'
import { ChunkQueue } from './chunk-queue.ts'
import { DecodeStream } from './decode-stream.ts'
import { EventCheck, type EventSink } from './event-check.ts'
import type { Upstream } from './gateway.ts'
import type { Interruption } from './in-flight.ts'
import { callsByPrice, servedPrice } from './own-prices.ts'
import { plainAnswer } from './plain-answer.ts'
import { ProviderCall, parseJson } from './provider-call.ts'
import { Pump, type PumpOpener } from './pump.ts'
import type { Bill } from './quote.ts'
import type { ShownThoughts } from './shown-thoughts.ts'
import { targetOf } from './thought-issuer.ts'
import type { ThoughtKeeper } from './thought-keeper.ts'
import type { Counted, UsageMeter } from './usage-meter.ts'

/** Values in a whole answer with log probabilities: some thousand tokens, each with 20 alternatives and their bytes. */
const LOGPROB_VALUES_MAX = 4_000_000

/** The request that a call is made for, and what the call reports to it. */
export interface AskedChat {
  /** Not after a stream has begun. */
  readonly exchange: Exchange
  readonly log: Pick<RequestLog, 'markFirstByte' | 'markAnswered'>
  /**
   * Notes why the model stopped, and warns the operator of what only the finished answer shows. `tier`: the service
   * tier that the provider was asked for.
   */
  check(candidate: Candidate, tier: string | undefined, meter: UsageMeter, isComplete: boolean): void
  /** How the target of a complete answer reports usage. */
  noteUsage(candidate: Candidate, meter: UsageMeter, isStream: boolean): void
  /** What the target writes in so many milliseconds without sending it, in tokens. */
  hiddenIn(candidate: Candidate, ms: number): number
  /** Keeps the thoughts of the answer, which has not begun. */
  keeper(candidate: Candidate, issuer: Issuer): ThoughtKeeper | undefined
}

export class ChatCall extends ProviderCall implements TextReader, PumpOpener {
  /** Tool names that this provider was sent in another form. */
  private readonly toolNames: UpstreamRequest['toolNames']
  private readonly adapter: Provider
  private readonly endpoint: Endpoint
  /** The provider reports the usage of a stream only if it is asked for, and this request does. */
  private readonly asksUsage: boolean
  /** Absent unless the caller gets a stream. */
  private pump: Pump | undefined
  private hasLeft = false
  /** Of a stream that has not begun, while its request is there. */
  private kept: ThoughtKeeper | undefined

  constructor(
    private readonly work: AskedChat,
    candidate: Candidate,
    { provider, endpoint }: Upstream,
    request: UpstreamRequest,
    /** The service tier that the provider is asked for. */
    private readonly tier: string | undefined,
    /** Fields of the request that multiply its price. */
    private readonly fields: readonly string[],
    /** What only the provider's own API takes of the request. */
    private readonly own: OwnFields | undefined,
    private readonly meter: UsageMeter,
    dueMs: number,
    /** Who issues the thoughts of the answer, which are kept; absent if it has none. */
    private readonly issuer?: Issuer,
    /** Absent if the caller sees no thoughts. */
    private readonly shown?: ShownThoughts,
    /** Hears that the provider has taken the request. */
    private accepted?: () => void,
  ) {
    super(candidate, { provider: request.reader ?? provider, endpoint }, request, work.exchange.request.stream, dueMs)
    this.toolNames = request.toolNames
    this.adapter = provider
    this.endpoint = endpoint
    this.asksUsage = request.asksUsage === true
  }

  used(): Counted {
    return this.meter.count(false)
  }

  bill(isAnswered: boolean): Bill {
    const { candidate, meter, work, pump } = this
    // All of a stream may have come after its caller had left.
    const isComplete = isAnswered || pump?.isComplete === true
    work.check(candidate, this.tier, meter, isComplete)
    if (isComplete) this.noteUsage()
    return {
      model: candidate.model.name,
      provider: candidate.target.provider,
      price: candidate.model.price && servedPrice(candidate.model.price, this.fields, meter.ownUsage),
      asked: this.tier,
      toolCalls: callsByPrice(meter.toolCalls, this.own?.tools ?? NO_OWN_TOOLS, candidate.model.price),
      // A provider that was stopped has not reported its usage.
      counted: isComplete && pump?.hasStopped !== true ? meter.count(true) : this.countCut(),
    }
  }

  private noteUsage(): void {
    const { candidate, meter, work, pump } = this
    work.noteUsage(candidate, meter, pump !== undefined)
    if (this.asksUsage && pump !== undefined && meter.reportsOutput)
      this.adapter.reportedUsage?.(targetOf(candidate.target, this.endpoint))
  }

  private countCut(): Counted {
    const { candidate, meter, work } = this
    return meter.countCut((ms) => work.hiddenIn(candidate, ms), this.reservation?.heldOutputTokens ?? 0)
  }

  override interrupt(why: Interruption): void {
    super.interrupt(why)
    if (why !== 'caller_left') return
    this.hasLeft = true
    this.pump?.leave()
  }

  protected answered(): void {
    const { connection, provider, toolNames, meter, work } = this
    const isStream = this.isStream()
    this.accepted?.()
    this.accepted = undefined
    if (!work.exchange.request.stream) {
      if (isStream) void this.fold()
      else connection.readText(this)
      return
    }
    this.kept = this.keeper()
    this.pump = new Pump(
      connection,
      toolNames,
      provider,
      work.exchange.encoder(this.servedBy(), meter),
      meter,
      this.kept,
      this.shown,
    )
    if (this.hasLeft) this.pump.leave()
    if (isStream) this.pump.open(this)
    else connection.readText(this)
  }

  opened(): void {
    const { pump, kept } = this
    if (pump === undefined) return
    this.kept = undefined
    if (!pump.isComplete) kept?.leaveRequest()
    this.began(pump)
  }

  private keeper(): ThoughtKeeper | undefined {
    return this.issuer && this.work.keeper(this.candidate, this.issuer)
  }

  /** The text of a whole answer. */
  text(text: string): void {
    this.work.log.markAnswered()
    try {
      const { logprobs } = this.work.exchange.request.sampling
      const valuesMax = logprobs === true ? LOGPROB_VALUES_MAX : undefined
      const body = parseJson(text, this.connection.status, valuesMax, JSON.parse)
      if (this.pump !== undefined) return this.pump.openWhole(this.provider.events(exactValue(text, body)), this)
      this.began(this.plainBody(body) ?? this.foldedBody(exactValue(text, body)))
    } catch (error) {
      this.fail(error)
    }
  }

  /** Undefined if the answer is more than text. */
  private plainBody(body: JsonValue): string | Uint8Array | undefined {
    const { provider, meter, work } = this
    const readsThoughts = this.issuer !== undefined || this.shown !== undefined
    const plain = plainAnswer(body, provider, work.exchange, meter, this.servedBy(), readsThoughts)
    if (plain !== undefined) work.log.markFirstByte()
    return plain
  }

  private foldedBody(body: JsonValue): string | Uint8Array {
    const answer = new WholeAnswer(this.meter)
    const check = new EventCheck(answer, this.toolNames, this.keeper(), this.shown)
    for (const event of this.provider.events(body)) check.event(event)
    return this.bodyOf(answer)
  }

  private bodyOf({ fold }: WholeAnswer): string | Uint8Array {
    const { completion } = fold
    const { connection, meter, work } = this
    if (completion === undefined)
      throw new ProviderError('cut', 'the answer is not whole', { status: connection.status })
    work.log.markFirstByte()
    const usage = { ...completion.usage, ...meter.count(true).usage }
    // A dialect throws if it cannot render the answer, such as an empty summary: then this candidate failed.
    return work.exchange.answer({ ...completion, usage }, this.servedBy())
  }

  /** Reads the answer of a provider that streams although a whole answer was asked for. */
  private async fold(): Promise<void> {
    const answer = new WholeAnswer(this.meter)
    const decoder = new DecodeStream(
      this.provider,
      new EventCheck(answer, this.toolNames, this.keeper(), this.shown),
      'decoded',
    )
    try {
      await this.readStream(decoder)
      this.work.log.markAnswered()
      this.began(this.bodyOf(answer))
    } catch (error) {
      if (this.hasLeft) decoder.breakOff()
      this.fail(error)
    }
  }

  private async readStream(decoder: DecodeStream): Promise<void> {
    const chunks = new ChunkQueue(this.connection)
    const pace = new Pace()
    while (!decoder.ended) {
      const chunk = await chunks.read()
      if (chunk !== undefined && !pace.admits(chunk.length)) await pace.turn(chunk.length)
      if (chunk === undefined) decoder.close()
      else decoder.push(chunk)
      await this.reservation?.written(this.meter.written)
    }
    if (decoder.hasStopped) this.connection.abort()
    else this.connection.release()
  }

  /**
   * Whether the provider streams, by its content type. Throws `ProviderError` for a type such as that of a proxy's
   * page.
   */
  private isStream(): boolean {
    const { connection } = this
    const sent = connection.headers.get('content-type') ?? ''
    if (sent === 'application/json') return false
    const type = sent.toLowerCase()
    if (type.startsWith(this.provider.streamType)) return true
    if (type.includes('json')) return false
    connection.abort()
    throw new ProviderError('broken', `the provider answered with content type '${type.slice(0, 100)}'`, {
      status: connection.status,
    })
  }

  private servedBy(): Served {
    const createdAt = Math.floor(Date.now() / 1000)
    return { model: publicName(this.candidate.model), createdAt, takesOwn: this.own !== undefined }
  }
}

class WholeAnswer implements EventSink {
  readonly fold = new Fold()

  constructor(private readonly meter: UsageMeter) {}

  event(event: StreamEvent): void {
    this.meter.add(event)
    this.fold.add(event)
  }

  texts(): void {
    throw new Error('nothing is copied if every frame is decoded')
  }
}
