/** The work of the chat endpoints: conversations in any dialect, answered whole or as a stream. */

import { type Needs, needsOf, noNeeds } from '../catalog/capability.ts'
import { isStrict, type Key, type Model, publicName } from '../catalog/catalog.ts'
import { fit } from '../catalog/fitted-request.ts'
import type { Candidate } from '../catalog/resolve.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { UnitAmounts } from '../core/limits.ts'
import { sentModel } from '../core/model-config.ts'
import type { ProviderError } from '../core/provider-error.ts'
import type { Exchange } from '../dialects/dialect.ts'
import { estimateInput } from '../ledger/estimate.ts'
import type { OutputChoice } from '../ledger/ledger.ts'
import type { Learned, Target } from '../providers/provider.ts'
import type { RequestLog } from './access-log.ts'
import { ConversationKey } from './affinity.ts'
import { type AskedChat, ChatCall } from './chat-call.ts'
import { chatQuote, largestOutput, sentOutputLimit } from './chat-quote.ts'
import type { Gateway, Upstream } from './gateway.ts'
import type { Quote } from './quote.ts'
import { UsageMeter } from './usage-meter.ts'
import type { Work } from './work.ts'

/** The request as one model takes it, and what that may cost. */
interface Prepared {
  readonly model: Model
  readonly request: ChatRequest
  readonly quote: Quote
}

export class ChatWork implements Work, AskedChat, OutputChoice {
  readonly kind = 'chat'
  readonly choice = this
  needs: Needs = noNeeds
  private readonly isCompaction: boolean
  /** The model of the first candidate in the configured order. */
  private requested: Model | undefined
  /** Made once for all candidates of a model. */
  private prepared: Prepared | undefined
  /** Undefined once a stream has begun, like the caller's request. */
  private named: ConversationKey | undefined

  constructor(
    private readonly gateway: Gateway,
    private readonly key: Key,
    private asked: Exchange | undefined,
    private readonly log: RequestLog,
  ) {
    const { exchange } = this
    this.isCompaction = exchange.isCompaction
    this.named = new ConversationKey(key.organization.id, exchange.request)
  }

  /** Not after a stream has begun. */
  get exchange(): Exchange {
    return kept(this.asked)
  }

  private get conversation(): ConversationKey {
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

  largestOutput(room: UnitAmounts): number | undefined {
    const { catalog } = this.gateway
    const { key, needs, model: name, requested: model } = this
    return model && largestOutput({ catalog, key, name, needs, model }, room)
  }

  ask(candidate: Candidate, upstream: Upstream, dueMs: number): ChatCall {
    const { request, quote } = this.prepare(candidate.model)
    const { provider, endpoint } = upstream
    const target = targetOf(candidate, endpoint)
    const sent = provider.request(request, target)
    this.log.leftOut = sent.ignored
    return new ChatCall(
      this,
      candidate,
      upstream,
      sent,
      new UsageMeter(quote.inputTokens, quote.maxOutputTokens),
      dueMs,
    )
  }

  learn(candidate: Candidate, upstream: Upstream, error: ProviderError, sentMs: number): Learned | undefined {
    const { provider, endpoint } = upstream
    return provider.learn?.({
      error,
      target: targetOf(candidate, endpoint),
      request: this.prepare(candidate.model).request,
      organization: this.key.organization.id,
      sentMs,
    })
  }

  markFirstByte(): void {
    this.log.markFirstByte()
  }

  /** The provider's whole answer has arrived. */
  markAnswered(): void {
    this.log.markAnswered()
  }

  /** Notes why the model stopped, and warns the operator of what only the finished answer shows. */
  check(candidate: Candidate, meter: UsageMeter, isComplete: boolean): void {
    this.log.finishReason = meter.reason
    if (isComplete && meter.reason === 'length' && this.isCompaction) this.warnOfCutSummary(candidate)
    if (meter.disbelieved) this.gateway.logEvent('provider.usage_implausible', { ...candidate.target })
  }

  noteUsage({ target }: Candidate, meter: UsageMeter, isStream: boolean): void {
    const { targetUsage } = this.gateway
    const hidden = meter.hidden(isStream)
    if (hidden !== undefined) targetUsage.thoughtHidden(target, hidden.tokens, hidden.ms)
  }

  hiddenIn({ target }: Candidate, ms: number): number {
    return this.gateway.targetUsage.hiddenIn(target, ms)
  }

  /** The caller continues from half a summary and cannot see it. */
  private warnOfCutSummary({ model, target }: Candidate): void {
    const { key, log } = this
    this.gateway.logEvent('compaction.truncated', {
      request_id: log.requestId,
      organization: key.organization.id,
      key: key.id,
      served_model: publicName(model),
      provider: target.provider,
    })
  }

  private prepare(model: Model): Prepared {
    if (this.prepared?.model !== model) {
      const request = fit(this.limited(model), model, this.needs)
      this.prepared = { model, request, quote: chatQuote(this.key, model, this.needs) }
    }
    return this.prepared
  }

  /**
   * Only the requested model is strict about cache marks. A strict limit is sent to the provider: it must not write
   * more.
   */
  private limited(model: Model): ChatRequest {
    const { request } = this.exchange
    const isLenient = model !== this.requested && request.cacheStrict
    const lenient = isLenient ? { ...request, cacheStrict: false } : request
    if (!isStrict(this.key)) return lenient
    return { ...lenient, maxOutputTokens: sentOutputLimit(this.key, model, this.needs) }
  }
}

function targetOf({ target }: Candidate, endpoint: Endpoint): Target {
  const model = sentModel(target)
  return target.api === undefined ? { endpoint, model } : { endpoint, model, api: target.api }
}

function kept<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a stream has begun, and its request was dropped')
  return value
}
