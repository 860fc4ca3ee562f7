/** The work of the chat endpoints: conversations in any dialect, answered whole or as a stream. */

import { fit, type Needs, needsOf, noNeeds, outputLimit, strictOutputLimit } from '../catalog/capability.ts'
import { isStrict, type Key, type Model } from '../catalog/catalog.ts'
import type { Candidate } from '../catalog/resolve.ts'
import { type ChatRequest, changed } from '../core/chat-request.ts'
import { Fold } from '../core/completion.ts'
import type { StreamEvent } from '../core/event.ts'
import { Pace } from '../core/event-loop.ts'
import type { JsonValue } from '../core/json.ts'
import type { Ttl } from '../core/model-config.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { Exchange, Served } from '../dialects/dialect.ts'
import { estimateInput } from '../ledger/estimate.ts'
import type { UpstreamRequest } from '../providers/provider.ts'
import type { TextReader } from '../providers/upstream.ts'
import type { RequestLog } from './access-log.ts'
import { Conversation } from './affinity.ts'
import { ChunkQueue } from './chunk-queue.ts'
import { DecodeStream } from './decode-stream.ts'
import { EventCheck, type EventSink } from './event-check.ts'
import type { Gateway, Upstream } from './gateway.ts'
import { plainAnswer } from './plain-answer.ts'
import { plainRequest } from './plain-request.ts'
import { ProviderCall, parseJson } from './provider-call.ts'
import { Pump, type PumpOpener } from './pump.ts'
import type { Bill, Quote } from './reservation.ts'
import { type Counted, UsageMeter } from './usage-meter.ts'
import type { Work } from './work.ts'

/** Values in a whole answer with log probabilities: some thousand tokens, each with 20 alternatives and their bytes. */
const LOGPROB_VALUES_MAX = 4_000_000

/** The request as one model takes it, and what that may cost. */
interface Prepared {
  readonly model: Model
  readonly request: ChatRequest
  readonly quote: Quote
}

export class ChatWork implements Work {
  readonly kind = 'chat'
  needs: Needs = noNeeds
  private readonly isStrict: boolean
  private readonly isCompaction: boolean
  /** The model of the first candidate in the configured order. */
  private requested: Model | undefined
  /** Made once for all candidates of a model. */
  private prepared: Prepared | undefined
  /** Undefined once a stream has begun, like the caller's request. */
  private named: Conversation | undefined

  constructor(
    private readonly gateway: Gateway,
    private readonly key: Key,
    private asked: Exchange | undefined,
    private readonly log: RequestLog,
  ) {
    const { exchange } = this
    this.isStrict = isStrict(key)
    this.isCompaction = exchange.isCompaction
    this.named = new Conversation(key.organization.id, exchange.request)
  }

  /** Not after a stream has begun. */
  get exchange(): Exchange {
    return kept(this.asked)
  }

  private get conversation(): Conversation {
    return kept(this.named)
  }

  get model(): string {
    return this.exchange.request.model
  }

  estimate(): void {
    const { request } = this.exchange
    this.needs = needsOf(request, estimateInput(request))
  }

  conversationWith(model: string): string {
    return this.conversation.of(model)
  }

  order(candidates: readonly Candidate[]): readonly Candidate[] {
    this.requested = candidates[0]?.model
    return this.gateway.affinity.order(candidates, this.conversation, this.gateway.breaker)
  }

  served(candidate: Candidate): void {
    this.gateway.affinity.served(candidate, this.conversation)
  }

  streams(): void {
    this.asked = undefined
    this.prepared = undefined
    this.named = undefined
  }

  quote(model: Model): Quote {
    return this.prepare(model).quote
  }

  ask(candidate: Candidate, upstream: Upstream, dueMs: number): ChatCall {
    const { request, quote } = this.prepare(candidate.model)
    const { provider, endpoint } = upstream
    const target = { endpoint, model: candidate.target.model }
    const sent = plainRequest(request, provider, target) ?? provider.request(request, target)
    return new ChatCall(
      this,
      candidate,
      upstream,
      sent,
      new UsageMeter(quote.inputTokens, quote.maxOutputTokens),
      dueMs,
    )
  }

  markFirstByte(): void {
    this.log.markFirstByte()
  }

  /** The provider's whole answer is there. */
  markAnswered(): void {
    this.log.markAnswered()
  }

  /** Notes why the model stopped, and warns the operator of what only the finished answer shows. */
  check(candidate: Candidate, meter: UsageMeter, isComplete: boolean): void {
    this.log.finishReason = meter.reason
    if (isComplete && meter.reason === 'length' && this.isCompaction) this.warnOfCutSummary(candidate)
    if (meter.disbelieved) this.gateway.logEvent('provider.usage_implausible', { ...candidate.target })
  }

  /** The caller continues from half a summary and cannot see it. */
  private warnOfCutSummary({ model, target }: Candidate): void {
    const { key, log } = this
    this.gateway.logEvent('compaction.truncated', {
      request_id: log.requestId,
      organization: key.organization.id,
      key: key.id,
      served_model: model.name,
      provider: target.provider,
    })
  }

  private prepare(model: Model): Prepared {
    if (this.prepared?.model !== model) {
      const maxOutputTokens = this.outputLimit(model)
      const request = fit(this.limited(model, maxOutputTokens), model, this.needs)
      this.prepared = { model, request, quote: this.quoteOf(model, maxOutputTokens ?? model.maxOutputTokens) }
    }
    return this.prepared
  }

  /**
   * Only the requested model is strict about cache marks. A strict limit is sent to the provider: it must not write
   * more.
   */
  private limited(model: Model, maxOutputTokens: number | undefined): ChatRequest {
    const { request } = this.exchange
    const isLenient = model !== this.requested && request.cacheStrict
    const lenient = isLenient ? changed(request, { cacheStrict: false }) : request
    return this.isStrict ? changed(lenient, { maxOutputTokens }) : lenient
  }

  private outputLimit(model: Model): number | undefined {
    const { request } = this.exchange
    return this.isStrict ? strictOutputLimit(model, request, this.needs.inputTokens) : outputLimit(model, request)
  }

  private quoteOf(model: Model, maxOutputTokens: number | undefined): Quote {
    return {
      model: model.name,
      inputTokens: this.needs.inputTokens,
      maxOutputTokens,
      price: model.price,
      images: undefined,
      atOnce: this.isStrict && maxOutputTokens !== undefined,
      cached: this.isStrict && model.promptCache.explicit ? longestTtl(this.needs) : undefined,
    }
  }
}

function kept<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a stream has begun, and its request was dropped')
  return value
}

/** For how long the request asks the provider to cache its input, at the most. */
function longestTtl({ isMarked, ttls }: Needs): Ttl | undefined {
  if (!isMarked) return undefined
  return ttls.includes('1h') ? '1h' : '5m'
}

class ChatCall extends ProviderCall implements TextReader, PumpOpener {
  /** Tool names that this provider was sent in another form. */
  private readonly toolNames: UpstreamRequest['toolNames']
  /** Absent unless the caller gets a stream. */
  private pump: Pump | undefined

  constructor(
    private readonly work: ChatWork,
    candidate: Candidate,
    upstream: Upstream,
    request: UpstreamRequest,
    private readonly meter: UsageMeter,
    dueMs: number,
  ) {
    super(candidate, upstream, request, work.exchange.request.stream, dueMs)
    this.toolNames = request.toolNames
  }

  used(): Counted {
    return this.meter.count(false)
  }

  bill(isComplete: boolean): Bill {
    const { candidate, meter } = this
    this.work.check(candidate, meter, isComplete)
    return {
      model: candidate.model.name,
      provider: candidate.target.provider,
      price: candidate.model.price,
      counted: meter.count(isComplete),
    }
  }

  protected answered(): void {
    const { connection, provider, toolNames, meter, work } = this
    const isStream = this.isStream()
    if (!work.exchange.request.stream) {
      if (isStream) void this.fold()
      else connection.readText(this)
      return
    }
    this.pump = new Pump(connection, toolNames, provider, work.exchange.encoder(this.servedBy(), meter), meter)
    if (isStream) this.pump.open(this)
    else connection.readText(this)
  }

  opened(): void {
    if (this.pump !== undefined) this.began(this.pump)
  }

  failed(error: unknown): void {
    this.fail(error)
  }

  /** The text of a whole answer. */
  text(text: string): void {
    this.work.markAnswered()
    try {
      const body = parseJson(text, this.connection.status, this.valuesMax)
      if (this.pump !== undefined) return this.pump.openWhole(this.provider.events(body), this)
      this.began(this.plainBody(body) ?? this.foldedBody(body))
    } catch (error) {
      this.fail(error)
    }
  }

  /** Undefined if the answer is more than text. */
  private plainBody(body: JsonValue): string | undefined {
    const { provider, meter, work } = this
    const plain = plainAnswer(body, provider, work.exchange, meter, this.servedBy())
    if (plain !== undefined) work.markFirstByte()
    return plain
  }

  private foldedBody(body: JsonValue): string {
    const answer = new WholeAnswer(this.meter)
    const check = new EventCheck(answer, this.toolNames)
    for (const event of this.provider.events(body)) check.event(event)
    return this.bodyOf(answer)
  }

  private bodyOf({ fold }: WholeAnswer): string {
    const { completion } = fold
    const { connection, meter, work } = this
    if (completion === undefined)
      throw new ProviderError('cut', 'the answer is not whole', { status: connection.status })
    work.markFirstByte()
    const usage = { ...completion.usage, ...meter.count(true).usage }
    // A dialect throws if it cannot render the answer, such as an empty summary: then this candidate failed.
    return work.exchange.answer({ ...completion, usage }, this.servedBy())
  }

  /** Reads the answer of a provider that streams although a whole answer was asked for. */
  private async fold(): Promise<void> {
    try {
      const answer = new WholeAnswer(this.meter)
      await this.readStream(new DecodeStream(this.provider, new EventCheck(answer, this.toolNames), 'decoded'))
      this.work.markAnswered()
      this.began(this.bodyOf(answer))
    } catch (error) {
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
    this.connection.release()
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

  private get valuesMax(): number | undefined {
    return this.work.exchange.request.sampling.logprobs === true ? LOGPROB_VALUES_MAX : undefined
  }

  private servedBy(): Served {
    return { model: this.candidate.model.name, createdAt: Math.floor(Date.now() / 1000) }
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
