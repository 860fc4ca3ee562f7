/** One request, top to bottom: resolve, hold, ask, answer, settle. */

import { fit, needsOf, outputLimit, strictOutputLimit } from '../catalog/capability.ts'
import { AUTO, isStrict, type Key, type Model } from '../catalog/catalog.ts'
import { type Candidate, type Resolution, resolve } from '../catalog/resolve.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import { Fold } from '../core/completion.ts'
import { Pace, SLICE_BYTES } from '../core/event-loop.ts'
import type { JsonObject } from '../core/json.ts'
import type { Ttl } from '../core/model-config.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { Exchange, Served } from '../dialects/dialect.ts'
import { estimateInput } from '../ledger/estimate.ts'
import type { Target, UpstreamRequest } from '../providers/provider.ts'
import { UpstreamCall } from '../providers/upstream.ts'
import type { RequestLog } from './access-log.ts'
import { Conversation } from './affinity.ts'
import { type Answered as Attempted, attempt } from './attempt.ts'
import type { Permit } from './breaker.ts'
import { Feed } from './decode-stream.ts'
import { EventCheck } from './event-check.ts'
import type { Gateway, Upstream } from './gateway.ts'
import type { Flight, Interruption } from './in-flight.ts'
import { Pump, type StreamEnd } from './pump.ts'
import { type Bill, type Quote, RequestReservation } from './reservation.ts'
import { Route } from './route-header.ts'
import { UsageMeter } from './usage-meter.ts'
import { type Answered, accountOf, interruptedFailure, note, readJson, send, upstreamOf } from './walk.ts'

/** Of a whole answer with the probabilities of its tokens. */
const LOGPROB_VALUES_MAX = 4_000_000

/** A request on its way: who asks, what, and how it can be ended from outside. */
interface Order {
  readonly key: Key
  readonly exchange: Exchange
  readonly flight: Flight
  readonly trace: RequestLog
}

export type Answer =
  | (Answered & { readonly kind: 'whole'; readonly body: JsonObject })
  | (Answered & { readonly kind: 'stream'; readonly pump: Pump })

/** What one candidate's call is made of. */
interface Call {
  readonly candidate: Candidate
  readonly upstream: Upstream
  readonly call: UpstreamCall
  readonly tally: UsageMeter
  /** Names of tools that the provider got in another form. */
  readonly toolNames: UpstreamRequest['toolNames']
}

/** A stream that has begun. */
interface Streaming {
  readonly pump: Pump
  readonly call: Call
  readonly permit: Permit
}

/**
 * Answers a request, or throws the `CallerError` that its caller is told. A whole answer is being settled when this returns; a stream
 * settles itself when it ends, and lands the flight.
 */
export function infer(gateway: Gateway, order: Order): Promise<Answer> {
  return new Walk(gateway, order).answer()
}

class Walk {
  private readonly dueMs: number
  private readonly inputTokens: number
  private readonly isStrict: boolean
  /** For how long the request asks a provider to cache what it sends, at the most. */
  private cached: Ttl | undefined
  /** The call that is under way: what is charged where the caller leaves. */
  private current: Call | undefined
  private fit: { readonly model: Model; readonly request: ChatRequest } | undefined
  private readonly conversation: Conversation
  private readonly route: Route | undefined
  private resolution: Resolution = { candidates: [], excluded: [] }

  constructor(
    private readonly gateway: Gateway,
    private readonly order: Order,
  ) {
    this.inputTokens = estimateInput(order.exchange.request)
    this.isStrict = isStrict(order.key)
    this.dueMs = performance.now() + gateway.routing.totalTimeoutMs
    this.conversation = new Conversation(order.key.organization.id, order.exchange.request)
    this.route = gateway.explainRoute ? new Route() : undefined
  }

  private readonly report = (error: unknown): void => this.gateway.report(error, this.order.trace.requestId)

  async answer(): Promise<Answer> {
    const { gateway, order } = this
    const { request } = order.exchange
    const needs = needsOf(request, this.inputTokens)
    if (needs.isMarked) this.cached = needs.ttls.includes('1h') ? '1h' : '5m'
    const ask = { name: request.model, kind: 'chat', needs } as const
    this.resolution = resolve(gateway.catalog, order.key, ask)
    const { affinity, breaker } = gateway
    const candidates = affinity.order(this.resolution.candidates, this.conversation, (target) => breaker.isWell(target))
    const first = candidates[0]
    if (first === undefined) throw new Error('a resolution without candidates')
    // What the model cannot honour is said before anything is held.
    this.fitted(first.model)
    await using held = await this.hold(first.model)
    order.flight.onInterrupt(() => this.current?.call.abort())
    try {
      return request.stream ? await this.stream(candidates, held) : await this.whole(candidates, held)
    } catch (error) {
      const { interrupted } = order.flight
      if (interrupted === undefined) {
        held.settleBehind('refused', undefined, this.report)
        throw error
      }
      await this.leave(held, interrupted)
      throw interruptedFailure(interrupted)
    }
  }

  /** The request as a model takes it; made once for candidates of the same model. Only the model that is asked first is strict about marks. */
  private fitted(model: Model): ChatRequest {
    if (this.fit?.model !== model) {
      const { request } = this.order.exchange
      const isFallback = model !== this.resolution.candidates[0]?.model
      const lenient = isFallback && request.cacheStrict ? { ...request, cacheStrict: false } : request
      const limited = this.isStrict ? { ...lenient, maxOutputTokens: this.outputLimit(model) } : lenient
      this.fit = { model, request: fit(limited, model) }
    }
    return this.fit.request
  }

  /** What is held under a strict limit is what the provider is told: it must not write more by its own default. */
  private outputLimit(model: Model): number | undefined {
    const { request } = this.order.exchange
    return this.isStrict ? strictOutputLimit(model, request, this.inputTokens) : outputLimit(model, request)
  }

  private hold(model: Model): Promise<RequestReservation> {
    const { key, trace } = this.order
    const { ledger } = this.gateway
    return RequestReservation.open(ledger, accountOf(key), this.quote(model), trace, () =>
      this.current?.tally.count(false),
    )
  }

  private quote(model: Model): Quote {
    const maxOutputTokens = this.outputLimit(model) ?? model.maxOutputTokens
    const atOnce = this.isStrict && maxOutputTokens !== undefined
    const cached = this.isStrict && model.promptCache.explicit ? this.cached : undefined
    return { model: model.name, inputTokens: this.inputTokens, maxOutputTokens, price: model.price, atOnce, cached }
  }

  /** The candidates in order until one answers; what it may cost is held before it is asked. */
  private async attempt<T>(
    candidates: readonly Candidate[],
    held: RequestReservation,
    ask: (candidate: Candidate) => Promise<T>,
  ): Promise<Attempted<T> & { readonly fallbacks: number }> {
    const { dueMs, route } = this
    const affords = ({ model }: Candidate) => held.requote(this.quote(model))
    const isAutomatic = this.order.exchange.request.model === AUTO
    const asking = { ...this.order, dueMs, route, affords, isAutomatic, drop: () => this.drop() }
    const answered = await attempt(this.gateway, candidates, asking, ask)
    const { candidate } = answered
    this.gateway.affinity.served(candidate, this.conversation)
    // Where the conversation stayed with a later candidate, those before it in the configuration were passed over, too.
    const fallbacks = Math.max(candidates.indexOf(candidate), this.resolution.candidates.indexOf(candidate))
    note(this.order.trace, candidate, fallbacks)
    return { ...answered, fallbacks }
  }

  /** Twenty alternatives with their bytes for each of some thousand tokens are millions of values; nothing else that is asked for is. */
  private get valuesMax(): number | undefined {
    return this.order.exchange.request.sampling.logprobs === true ? LOGPROB_VALUES_MAX : undefined
  }

  private drop(): void {
    this.current?.call.abort()
    this.current = undefined
  }

  private async whole(candidates: readonly Candidate[], held: RequestReservation): Promise<Answer> {
    const { trace } = this.order
    const answered = await this.attempt(candidates, held, (candidate) => this.askWhole(candidate, held))
    const { value, candidate, fallbacks } = answered
    trace.status = 200
    held.settleBehind('completed', this.bill(value.call, true), this.report)
    return { kind: 'whole', body: value.body, ...this.answered(candidate, fallbacks) }
  }

  private async askWhole(
    candidate: Candidate,
    held: RequestReservation,
  ): Promise<{ readonly body: JsonObject; readonly call: Call }> {
    const call = await this.open(candidate, false)
    const fold = new Fold()
    const check = new EventCheck(
      {
        event: (event) => {
          call.tally.add(event)
          fold.add(event)
        },
        texts: () => {
          throw new Error('nothing is copied where every frame is decoded')
        },
      },
      call.toolNames,
    )
    if (isStream(call)) await readStream(call, check, () => held.written(call.tally.written))
    else
      for (const event of call.upstream.provider.events(await readJson(call.call, this.valuesMax))) check.event(event)
    const { completion } = fold
    if (completion === undefined)
      throw new ProviderError('cut', 'the answer is not whole', { status: call.call.status })
    this.order.trace.markFirstByte()
    const usage = { ...completion.usage, ...call.tally.count(true).usage }
    // A dialect may reject an answer that it cannot show, such as an empty summary: then this candidate failed.
    const body = this.order.exchange.answer({ ...completion, usage }, served(candidate.model))
    return { body, call }
  }

  private async stream(candidates: readonly Candidate[], held: RequestReservation): Promise<Answer> {
    const { trace, flight } = this.order
    const answered = await this.attempt(candidates, held, (candidate) => this.askStream(candidate))
    const { candidate, fallbacks, permit } = answered
    const { pump, call } = answered.value
    call.call.found()
    trace.streamed = true
    trace.status = 200
    trace.markFirstByte()
    held.handOver()
    const { key } = this.order
    held.onRefusal(
      () => this.gateway.isRevoked(key),
      () => pump.interrupt('refused'),
    )
    pump.onWritten((outputTokens) => held.written(outputTokens))
    flight.onInterrupt((why) => pump.interrupt(why))
    void this.settleStream({ pump, call, permit }, held)
    return { kind: 'stream', pump, ...this.answered(candidate, fallbacks) }
  }

  private async askStream(candidate: Candidate): Promise<{ readonly pump: Pump; readonly call: Call }> {
    const call = await this.open(candidate, true)
    const encoder = this.order.exchange.encoder(served(candidate.model), call.tally)
    const { provider } = call.upstream
    const pump = new Pump(call.call, call.toolNames, provider, encoder, call.tally)
    if (isStream(call)) await pump.open()
    else pump.openWhole(provider.events(await readJson(call.call, this.valuesMax)))
    return { pump, call }
  }

  /** Runs beside the stream until it has ended; nobody awaits it. */
  private async settleStream({ pump, call, permit }: Streaming, held: RequestReservation): Promise<void> {
    const { trace, flight } = this.order
    const end = await pump.ended
    const { outcome, bug } = end
    const fault = providersFault(end)
    if (fault !== undefined) permit.failed(fault)
    if (bug !== undefined) this.gateway.report(bug, trace.requestId)
    try {
      await held.settle(outcome, this.bill(call, outcome === 'completed'))
    } catch (error) {
      this.gateway.report(error, trace.requestId)
    } finally {
      trace.end(outcome, outcome === 'refused' ? held.refusedFor : undefined)
      flight.land()
    }
  }

  /** The caller left, or the process ends, before there was an answer: what a provider was sent is charged all the same. */
  private async leave(held: RequestReservation, why: Interruption): Promise<void> {
    const { current } = this
    if (current !== undefined) note(this.order.trace, current.candidate, undefined)
    const isSent = current !== undefined && (await current.call.wasSent())
    held.settleBehind(why, isSent ? this.bill(current, false) : undefined, this.report)
  }

  /** Sends the request to a candidate; throws a `ProviderError` where it answers with an error. */
  private async open(candidate: Candidate, stream: boolean): Promise<Call> {
    const upstream = upstreamOf(this.gateway, candidate)
    const { provider, endpoint } = upstream
    const target: Target = { endpoint, model: candidate.target.model }
    const request = provider.request(this.fitted(candidate.model), target)
    // Looked at last: who was interrupted while the request was being made would have nothing yet to stop.
    const { interrupted } = this.order.flight
    if (interrupted !== undefined) throw interruptedFailure(interrupted)
    const call = new UpstreamCall(request, endpoint, stream, this.dueMs)
    const { toolNames } = request
    const tally = new UsageMeter(this.inputTokens, this.quote(candidate.model).maxOutputTokens)
    this.current = { candidate, upstream, call, toolNames, tally }
    await send(call, provider)
    this.order.flight.sent()
    return this.current
  }

  private bill({ candidate, tally }: Call, whole: boolean): Bill {
    const { model, target } = candidate
    if (whole && tally.reason === 'length' && this.order.exchange.isCompaction) this.warnOfCutSummary(candidate)
    if (tally.disbelieved) this.gateway.logEvent('provider.usage_implausible', { ...target })
    return { model: model.name, provider: target.provider, price: model.price, counted: tally.count(whole) }
  }

  /** The caller goes on from half a summary and has no way to see it. */
  private warnOfCutSummary({ model, target }: Candidate): void {
    const { key, trace } = this.order
    this.gateway.logEvent('compaction.truncated', {
      request_id: trace.requestId,
      organization: key.organization.id,
      key: key.id,
      served_model: model.name,
      provider: target.provider,
    })
  }

  private answered(candidate: Candidate, fallbacks: number): Answered {
    const { model: requestedModel } = this.order.exchange.request
    const route = this.route?.text(this.resolution.excluded)
    return { requestedModel, servedModel: candidate.model.name, fallbacks, route }
  }
}

/** What the provider did to a stream that had begun; undefined where it was not the provider that ended it. */
function providersFault({ outcome, fault }: StreamEnd): ProviderError | undefined {
  return outcome === 'provider_cut' || fault?.kind === 'timeout' ? fault : undefined
}

function served(model: Model): Served {
  return { model: model.name, createdAt: Math.floor(Date.now() / 1000) }
}

/** Whether the provider streams, by its content type; throws a `ProviderError` for what is neither a stream nor JSON, such as a proxy's page. */
function isStream({ call, upstream }: Call): boolean {
  const type = (call.headers.get('content-type') ?? '').toLowerCase()
  if (type.startsWith(upstream.provider.streamType)) return true
  if (type.includes('json')) return false
  call.abort()
  throw new ProviderError('broken', `the provider answered with content type '${type.slice(0, 100)}'`, {
    status: call.status,
  })
}

async function readStream(
  { call, upstream }: Call,
  check: EventCheck,
  fund: () => Promise<void> | undefined,
): Promise<void> {
  const feed = new Feed(upstream.provider, check, 'decoded')
  const pace = new Pace()
  while (!feed.ended) {
    const chunk = await call.read()
    if (chunk === undefined) feed.close()
    else if (pace.admits(chunk.length)) feed.push(chunk)
    else await pushInSlices(feed, chunk, pace)
    await fund()
  }
  void call.release()
}

async function pushInSlices(feed: Feed, chunk: Uint8Array, pace: Pace): Promise<void> {
  for (let at = 0; at < chunk.length && !feed.ended; at += SLICE_BYTES) {
    const slice = chunk.subarray(at, at + SLICE_BYTES)
    await pace.turn(slice.length)
    feed.push(slice)
  }
}
