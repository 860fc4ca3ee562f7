/** The work of the chat endpoints: conversations in any dialect, answered whole or as a stream. */

import { type Needs, needsOf, noNeeds } from '../catalog/capability.ts'
import { isStrict, type Key, type Model, publicName } from '../catalog/catalog.ts'
import { fit } from '../catalog/fitted-request.ts'
import type { Candidate } from '../catalog/resolve.ts'
import { CallerError } from '../core/caller-error.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import * as Kind from '../core/entry-kinds.ts'
import { Later } from '../core/later.ts'
import type { UnitAmounts } from '../core/limits.ts'
import type { TargetRef } from '../core/model-config.ts'
import type { OwnFields } from '../core/own-fields.ts'
import { ProviderError } from '../core/provider-error.ts'
import { isBaseTier, sentTier, type TierApi } from '../core/service-tier.ts'
import type { Issuer, TargetThoughts } from '../core/thoughts.ts'
import type { Exchange } from '../dialects/dialect.ts'
import { estimateAudio, estimateInput } from '../ledger/estimate.ts'
import type { OutputChoice } from '../ledger/ledger.ts'
import type { Learned, Provider, Target } from '../providers/provider.ts'
import { takenBy, takesOwn } from '../providers/taken-request.ts'
import type { RequestLog } from './access-log.ts'
import { ConversationKey } from './affinity.ts'
import { type AskedChat, ChatCall } from './chat-call.ts'
import { chatQuote, largestOutput, type Priced, sentOutputLimit } from './chat-quote.ts'
import { hintOf } from './field-hints.ts'
import type { Gateway, Upstream } from './gateway.ts'
import { ownCost, pricedFields } from './own-prices.ts'
import { missesThoughts, OwnThoughts, rejectsThoughts, thoughtsFor, withThoughts } from './own-thoughts.ts'
import type { Quote } from './quote.ts'
import type { RecalledThoughts } from './recalled-thoughts.ts'
import { checkTier, tierFor } from './request-tier.ts'
import { ShownThoughts, ThoughtSeals } from './shown-thoughts.ts'
import { issuerKey, issuerOf, targetOf } from './thought-issuer.ts'
import type { ThoughtKeeper } from './thought-keeper.ts'
import type { ThoughtMemory } from './thought-memory.ts'
import { UsageMeter } from './usage-meter.ts'
import type { Work } from './work.ts'

/** The request as one model takes it of one API, and what that may cost. */
interface Prepared {
  readonly model: Model
  readonly api: TierApi | undefined
  readonly own: OwnFields | undefined
  readonly request: ChatRequest
  readonly quote: Quote
  /** What of the input are thoughts that are given back. */
  readonly thoughtTokens: number
}

export class ChatWork implements Work, AskedChat, OutputChoice {
  readonly kind = 'chat'
  readonly choice = this
  needs: Needs = noNeeds
  private readonly isCompaction: boolean
  /** The model of the first candidate in the configured order. */
  private requested: Model | undefined
  /** Made once for all candidates of a model with the same tiers. */
  private prepared: Prepared | undefined
  private audioTokens = 0
  /** Pending while thoughts are looked up. */
  fetching: Work['fetching']
  private recalled: RecalledThoughts | undefined
  /** For the first candidate, or one after it. */
  private hasPrepared = false
  /** What the candidate that was called last got back. */
  private sentThoughts: TargetThoughts | undefined
  /** What the caller has sent back itself. */
  private own: OwnThoughts | undefined
  /** What each issuer gets; nothing if it has rejected its own. Absent while none gets anything. */
  private thoughtsOf: Map<string, TargetThoughts | undefined> | undefined
  /** The request as the candidate that was called last takes it. */
  private taken: ChatRequest | undefined
  /** A candidate does not think because the thoughts of earlier turns are missing: the request goes on without. */
  private thinksNot = false
  /** Undefined once a stream has begun, like the caller's request. */
  private named: ConversationKey | undefined

  constructor(
    private readonly gateway: Gateway,
    private readonly key: Key,
    private asked: Exchange | undefined,
    readonly log: RequestLog,
  ) {
    const { exchange } = this
    this.isCompaction = exchange.isCompaction
    this.named = new ConversationKey(key.organization.id, exchange.request)
  }

  /** Not after a stream has begun. */
  get exchange(): Exchange {
    return kept(this.asked)
  }

  private get seals(): ThoughtSeals {
    return new ThoughtSeals(this.gateway.sealer, this.key.organization.id)
  }

  private get conversation(): ConversationKey {
    return kept(this.named)
  }

  get model(): string {
    return this.exchange.request.model
  }

  estimate(): void {
    const { request } = this.exchange
    this.needs = needsOf(request, estimateInput(request), this.key.compatibility.structured_output === 'pass')
    this.audioTokens = estimateAudio(request)
    if (request.conversation.sentThoughts !== undefined) this.own = OwnThoughts.open(request.conversation, this.seals)
  }

  conversationWith(model: string): string {
    return this.conversation.of(model)
  }

  order(candidates: readonly Candidate[]): readonly Candidate[] {
    this.requested = candidates[0]?.model
    const { thoughts } = this.gateway
    // What the targets have issued of their thoughts is looked up while the ledger reserves.
    if (thoughts !== undefined && this.exchange.request.conversation.has(Kind.ASSISTANT))
      this.recall(thoughts, candidates)
    return this.ordered(candidates)
  }

  private ordered(candidates: readonly Candidate[]): readonly Candidate[] {
    const { affinity, breaker } = this.gateway
    const last = this.recalled?.lastIssuer
    return affinity.order(candidates, this.conversation, breaker, last === undefined ? undefined : this.isIssuer(last))
  }

  private isIssuer(id: string): (candidate: Candidate) => boolean {
    return (candidate) => this.issuerOf(candidate)?.id === id
  }

  private recall(memory: ThoughtMemory, candidates: readonly Candidate[]): void {
    const issuers = candidates.filter((candidate) => this.issuerOf(candidate) !== undefined)
    const targets = issuers.map(({ target }) => target)
    const found = memory.recall(this.key.organization.id, targets, this.exchange.request.conversation)
    if (!(found instanceof Later)) return this.use(found)
    this.fetching = found.then((recalled) => {
      this.use(recalled)
      return this.ordered(candidates)
    })
  }

  private use(recalled: RecalledThoughts | undefined): void {
    this.recalled = recalled
    this.thoughtsOf = undefined
  }

  private issuerOf(candidate: Candidate, upstream?: Upstream): Issuer | undefined {
    return issuerOf(this.gateway, candidate, this.exchange.request, upstream)
  }

  /** What the candidate has issued of its thoughts. */
  private thoughtsFor(candidate: Candidate, upstream?: Upstream): TargetThoughts | undefined {
    const { recalled, own } = this
    const issuer = recalled === undefined && own === undefined ? undefined : this.issuerOf(candidate, upstream)
    if (issuer === undefined) return undefined
    this.thoughtsOf ??= new Map()
    const { thoughtsOf } = this
    const key = issuerKey(issuer)
    if (!thoughtsOf.has(key))
      thoughtsOf.set(key, thoughtsFor(issuer, this.exchange.request.conversation, recalled, own))
    return thoughtsOf.get(key)
  }

  /** Counts what was found for the candidate that is called. */
  private noteRecalled(issuer: Issuer | undefined): void {
    const found = issuer && this.recalled?.for(issuer)
    if (found !== undefined) this.log.continuity = found.counts
  }

  served(candidate: Candidate): void {
    this.gateway.affinity.served(candidate, this.conversation)
    const { ignored, request } = this.exchange
    const hint = hintOf(this.key, request.conversation.form, ignored)
    if (hint !== undefined) this.gateway.fieldsIgnored?.(hint)
  }

  streams(): void {
    this.asked = undefined
    this.prepared = undefined
    this.named = undefined
    this.recalled = undefined
    this.own = undefined
    this.sentThoughts = undefined
    this.taken = undefined
  }

  quote(candidate: Candidate): Quote {
    const { quote } = this.prepare(candidate)
    const leastOutput = this.leastOutput(candidate.target)
    return (quote.maxOutputTokens ?? leastOutput) >= leastOutput ? quote : { ...quote, maxOutputTokens: leastOutput }
  }

  /** What a strict limit reserves at least. */
  private leastOutput(target: TargetRef | undefined): number {
    const upstream = target && isStrict(this.key) ? this.gateway.upstreams.get(target.provider) : undefined
    if (target === undefined || upstream === undefined) return 0
    return upstream.provider.leastOutput?.(this.exchange.request, targetOf(target, upstream.endpoint)) ?? 0
  }

  largestOutput(room: UnitAmounts): number | undefined {
    const { catalog } = this.gateway
    const { key, model: name, requested: model } = this
    const needs = this.needsWith(this.prepared?.thoughtTokens ?? 0)
    const priced = (chosen: Model): Priced | undefined => {
      const [target] = chosen.targets
      const api = target && catalog.tierApi(target.provider)
      const own = target && this.ownFor({ target })
      const cost = own && ownCost(own, chosen, key)
      if (cost instanceof CallerError) return undefined
      return {
        ...cost,
        asked: sentTier(api, this.exchange.request.hints.serviceTier, isStrict(key)),
        audioTokens: this.audioTokens,
        leastOutput: this.leastOutput(target),
      }
    }
    return model && largestOutput({ catalog, key, name, needs, model, priced }, room)
  }

  ask(candidate: Candidate, upstream: Upstream, dueMs: number): ChatCall {
    const { request, quote } = this.prepare(candidate)
    const { provider, endpoint } = upstream
    this.noteIgnored(request.hints.serviceTier)
    const target = targetOf(candidate.target, endpoint)
    const issuer = this.issuerOf(candidate, upstream)
    const thoughts = this.thoughtsFor(candidate, upstream)
    this.noteRecalled(issuer)
    this.sentThoughts = thoughts
    const plain = this.sentRequest(candidate)
    this.taken = undefined
    const { request: taken, leftOut } = takenBy(provider, withThoughts(plain, thoughts), target)
    this.taken = taken
    const sent = provider.request(taken, target)
    const own = sent.own ?? taken.own
    const notThought = this.thinksNot ? request.reasoning?.field : undefined
    const isWhole = leftOut.length === 0 && sent.ignored === undefined && notThought === undefined
    this.log.leftOut = isWhole ? undefined : [...leftOut, ...(sent.ignored ?? []), ...(notThought ? [notThought] : [])]
    return new ChatCall(
      this,
      candidate,
      upstream,
      sent,
      quote.asked,
      own === undefined ? NO_FIELDS : pricedFields(own),
      own,
      new UsageMeter(quote.inputTokens, quote.maxOutputTokens),
      dueMs,
      this.gateway.thoughts && issuer,
      this.shownOf(issuer),
      taken.own && sent.own && this.noteAccepted(provider, target, taken.own, sent.own),
    )
  }

  private noteAccepted(provider: Provider, target: Target, asked: OwnFields, sent: OwnFields) {
    const { id: organization } = this.key.organization
    return provider.accepted && (() => provider.accepted?.({ target, asked, sent, organization }))
  }

  keeper({ target }: Candidate, issuer: Issuer): ThoughtKeeper | undefined {
    return this.gateway.thoughts?.keeper(this.key.organization.id, this.exchange.request.conversation, target, issuer)
  }

  private sentRequest(candidate: Candidate): ChatRequest {
    const { request } = this.prepare(candidate)
    const { reasoning } = request
    if (!this.thinksNot || reasoning === undefined) return request
    return { ...request, reasoning: { ...reasoning, thinking: 'disabled' } }
  }

  private shownOf(issuer: Issuer | undefined): ShownThoughts | undefined {
    const { reasoning } = this.exchange.request
    if (reasoning === undefined || this.isCompaction) return undefined
    const { shows } = reasoning
    return shows.texts || shows.seals ? new ShownThoughts(shows, issuer, this.seals) : undefined
  }

  learn(candidate: Candidate, upstream: Upstream, error: ProviderError, sentMs: number): Learned | undefined {
    const { provider, endpoint } = upstream
    const { taken } = this
    const learned =
      taken &&
      provider.learn?.({
        error,
        target: targetOf(candidate.target, endpoint),
        request: taken,
        organization: this.key.organization.id,
        sentMs,
      })
    if (learned !== undefined) return learned
    if (missesThoughts(error) && !this.thinksNot && this.exchange.request.reasoning !== undefined) {
      this.thinksNot = true
      return { provider, field: 'thinking', seen: error.message, keep: () => undefined }
    }
    const issuer = this.sentThoughts && this.issuerOf(candidate, upstream)
    if (issuer === undefined || !rejectsThoughts(error)) return undefined
    // The issuer does not take back what it issued, such as after a change of its keys.
    this.thoughtsOf ??= new Map()
    this.thoughtsOf.set(issuerKey(issuer), undefined)
    return { provider, field: 'thoughts', seen: error.message, keep: () => undefined }
  }

  /** Notes why the model stopped, and warns the operator of what only the finished answer shows. */
  check(candidate: Candidate, tier: string | undefined, meter: UsageMeter, isComplete: boolean): void {
    this.log.finishReason = meter.reason
    this.log.toolCalls = meter.toolCalls
    if (isComplete && meter.reason === 'length' && this.isCompaction) this.warnOfCutSummary(candidate)
    checkTier(this.gateway, this.log, candidate, tier, meter.serviceTier)
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

  private prepare(candidate: Candidate): Prepared {
    const { model, target } = candidate
    const api = this.gateway.catalog.tierApi(target.provider)
    const thoughtTokens = this.thoughtsFor(candidate)?.tokens ?? 0
    const { prepared } = this
    const own = this.ownFor(candidate)
    const isKnown = prepared?.model === model && prepared.api === api && prepared.own === own
    if (!isKnown || prepared.thoughtTokens !== thoughtTokens) {
      const needs = this.needsWith(thoughtTokens)
      const asked = tierFor(this.key, model, api, this.exchange.request.hints.serviceTier, this.hasPrepared)
      const request = withServiceTier(fit(this.limited(model, needs), model, needs), asked)
      const { audioTokens } = this
      const cost = own && ownCost(own, model, this.key)
      // The caller's mistake; a candidate after the first cannot take the request then.
      if (cost instanceof CallerError)
        throw this.hasPrepared ? new ProviderError('rejected', cost.message, { unsent: true }) : cost
      const priced = cost === undefined ? { asked, audioTokens } : { asked, audioTokens, ...cost }
      this.hasPrepared = true
      const quote = chatQuote(this.key, model, needs, priced)
      this.prepared = { model, api, own, request, quote, thoughtTokens }
      return this.prepared
    }
    return prepared
  }

  /** What is given back of a candidate's thoughts is input, too. */
  private needsWith(thoughtTokens: number): Needs {
    const { needs } = this
    return thoughtTokens === 0 ? needs : { ...needs, inputTokens: needs.inputTokens + thoughtTokens }
  }

  /** What the candidate takes of what only the caller's own API has. */
  private ownFor({ target }: Pick<Candidate, 'target'>): OwnFields | undefined {
    const { request } = this.exchange
    const upstream = request.own && this.gateway.upstreams.get(target.provider)
    if (request.own === undefined || upstream === undefined) return undefined
    return takesOwn(upstream.provider, request, targetOf(target, upstream.endpoint)) ? request.own : undefined
  }

  /** The log line shows that the provider does not get the tier that the caller asked for. */
  private noteIgnored(sent: string | undefined): void {
    const { ignored, request } = this.exchange
    const { serviceTier } = request.hints
    const isLeftOut = serviceTier !== sent && !isBaseTier(serviceTier)
    this.log.ignored = isLeftOut ? [...ignored, 'service_tier'] : ignored
  }

  /**
   * Only the requested model is strict about cache marks. A strict limit is sent to the provider: it must not write
   * more.
   */
  private limited(model: Model, needs: Needs): ChatRequest {
    const { request } = this.exchange
    const isLenient = model !== this.requested && request.cacheStrict
    const lenient = isLenient ? { ...request, cacheStrict: false } : request
    if (!isStrict(this.key)) return lenient
    return { ...lenient, maxOutputTokens: sentOutputLimit(this.key, model, needs) }
  }
}

const NO_FIELDS: readonly string[] = []

function kept<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a stream has begun, and its request was dropped')
  return value
}

function withServiceTier(request: ChatRequest, serviceTier: string | undefined): ChatRequest {
  return request.hints.serviceTier === serviceTier ? request : { ...request, hints: { ...request.hints, serviceTier } }
}
