/** One request, top to bottom: resolve, hold, ask, answer, settle. */

import { fit, needsOf, outputLimit } from '../catalog/capability.ts'
import type { Key, Model } from '../catalog/catalog.ts'
import { type Candidate, resolve } from '../catalog/resolve.ts'
import { Fold } from '../core/completion.ts'
import { Failure } from '../core/error.ts'
import type { StreamEvent } from '../core/event.ts'
import { Fault } from '../core/fault.ts'
import type { JsonObject, JsonValue } from '../core/json.ts'
import type { ChatRequest } from '../core/request.ts'
import type { Exchange, Served } from '../dialects/dialect.ts'
import { estimateInput } from '../ledger/estimate.ts'
import { restoreToolName, type Target, type UpstreamRequest } from '../providers/provider.ts'
import { UpstreamCall } from '../providers/upstream.ts'
import { attempt } from './attempt.ts'
import { Feed } from './feed.ts'
import type { Gateway, Upstream } from './gateway.ts'
import { type Bill, Held } from './held.ts'
import type { Flight, Interruption } from './in-flight.ts'
import { Pump } from './pump.ts'
import { Tally } from './tally.ts'
import type { Trace } from './trace.ts'

/** A request on its way: who asks, what, and how it can be ended from outside. */
export interface Order {
  readonly key: Key
  readonly exchange: Exchange
  readonly flight: Flight
  readonly trace: Trace
}

/** What every answer says of itself. */
interface Answered {
  readonly requestedModel: string
  readonly servedModel: string
  readonly fallbacks: number
}

export type Answer =
  | (Answered & { readonly kind: 'whole'; readonly body: JsonObject })
  | (Answered & { readonly kind: 'stream'; readonly pump: Pump })

/** What one candidate's call is made of. */
interface Call {
  readonly candidate: Candidate
  readonly upstream: Upstream
  readonly call: UpstreamCall
  readonly tally: Tally
  /** Names of tools that the provider got in another form. */
  readonly toolNames: UpstreamRequest['toolNames']
}

/**
 * Answers a request, or throws the `Failure` that its caller is told. A whole answer is settled when this returns; a stream settles
 * itself when it ends, and lands the flight.
 */
export async function infer(gateway: Gateway, order: Order): Promise<Answer> {
  return new Walk(gateway, order).answer()
}

class Walk {
  private readonly inputTokens: number
  private readonly dueMs: number
  /** The call that is under way: what is charged where the caller leaves. */
  private current: Call | undefined
  private fit: { readonly model: Model; readonly request: ChatRequest } | undefined

  constructor(
    private readonly gateway: Gateway,
    private readonly order: Order,
  ) {
    this.inputTokens = estimateInput(order.exchange.request)
    this.dueMs = performance.now() + gateway.routing.totalTimeoutMs
  }

  async answer(): Promise<Answer> {
    const { gateway, order } = this
    const { request } = order.exchange
    const ask = { name: request.model, kind: 'chat', needs: needsOf(request, this.inputTokens) } as const
    const { candidates } = resolve(gateway.catalog, order.key, ask, gateway.resting)
    const first = candidates[0]
    if (first === undefined) throw new Failure('overloaded', 'No provider of this model can answer now.')
    // What the model cannot honour is said before anything is held.
    this.fitted(first.model)
    await using held = await this.hold(first.model)
    order.flight.onInterrupt(() => this.current?.call.abort())
    try {
      return request.stream ? await this.stream(candidates, held) : await this.whole(candidates, held)
    } catch (error) {
      // After an error of our own the call may still be under way.
      this.current?.call.abort()
      const { interrupted } = order.flight
      if (interrupted === undefined) throw error
      await this.leave(held, interrupted)
      throw interruptedFailure(interrupted)
    }
  }

  /** The request as a model takes it; made once for candidates of the same model. */
  private fitted(model: Model): ChatRequest {
    if (this.fit?.model !== model) this.fit = { model, request: fit(this.order.exchange.request, model) }
    return this.fit.request
  }

  private hold(model: Model): Promise<Held> {
    const { key, exchange, trace } = this.order
    const { organization } = key
    const account = {
      organization: organization.id,
      organizationLimits: organization.limits,
      key: key.id,
      keyLimits: key.limits,
    }
    const maxOutputTokens = outputLimit(model, exchange.request)
    return Held.open(
      this.gateway.ledger,
      account,
      { inputTokens: this.inputTokens, maxOutputTokens, price: model.price },
      trace,
      () => this.current?.tally.count(false),
    )
  }

  private async whole(candidates: readonly Candidate[], held: Held): Promise<Answer> {
    const { trace } = this.order
    const answered = await attempt(this.gateway, candidates, this.order, (candidate) => this.askWhole(candidate))
    const { value, candidate, fallbacks } = answered
    this.mark(candidate, fallbacks)
    trace.status = 200
    await held.settle('completed', this.bill(value.call, true))
    return { kind: 'whole', body: value.body, ...this.answered(candidate, fallbacks) }
  }

  private async askWhole(candidate: Candidate): Promise<{ readonly body: JsonObject; readonly call: Call }> {
    const call = await this.open(candidate, false)
    const fold = new Fold()
    const take = (told: StreamEvent) => {
      const event = restoreToolName(told, call.toolNames)
      call.tally.add(event)
      fold.add(event)
    }
    if (isStream(call)) await readStream(call, take)
    else for (const event of call.upstream.provider.events(await readJson(call))) take(event)
    const { completion } = fold
    if (completion === undefined) throw new Fault('cut', 'the answer is not whole', { status: call.call.status })
    this.order.trace.markFirstByte()
    const usage = { ...completion.usage, ...call.tally.count(true).usage }
    // A dialect refuses an answer that it cannot show, such as arguments that are no JSON: then this candidate failed.
    const body = this.order.exchange.answer({ ...completion, usage }, served(candidate.model))
    return { body, call }
  }

  private async stream(candidates: readonly Candidate[], held: Held): Promise<Answer> {
    const { trace, flight } = this.order
    const answered = await attempt(this.gateway, candidates, this.order, (candidate) => this.askStream(candidate))
    const { candidate, fallbacks } = answered
    const { pump, call } = answered.value
    call.call.found()
    this.mark(candidate, fallbacks)
    trace.streamed = true
    trace.status = 200
    trace.markFirstByte()
    held.handOver()
    flight.onInterrupt((why) => pump.interrupt(why))
    void this.settleStream(pump, call, held)
    return { kind: 'stream', pump, ...this.answered(candidate, fallbacks) }
  }

  private async askStream(candidate: Candidate): Promise<{ readonly pump: Pump; readonly call: Call }> {
    const call = await this.open(candidate, true)
    const encoder = this.order.exchange.encoder(served(candidate.model))
    const { provider } = call.upstream
    const pump = new Pump(call.call, call.toolNames, provider, encoder, call.tally)
    if (isStream(call)) await pump.open()
    else pump.openWhole(provider.events(await readJson(call)))
    return { pump, call }
  }

  /** Runs beside the stream until it has ended; nobody awaits it. */
  private async settleStream(pump: Pump, call: Call, held: Held): Promise<void> {
    const { trace, flight } = this.order
    const { outcome, bug } = await pump.ended
    if (bug !== undefined) this.gateway.report(bug, trace.requestId)
    try {
      await held.settle(outcome, this.bill(call, outcome === 'completed'))
    } catch (error) {
      this.gateway.report(error, trace.requestId)
    } finally {
      trace.end(outcome)
      flight.land()
    }
  }

  /** The caller left, or the process ends, before there was an answer: what a provider was asked is charged all the same. */
  private async leave(held: Held, why: Interruption): Promise<void> {
    const { current } = this
    if (current !== undefined) this.mark(current.candidate, undefined)
    await held.settle(why, current === undefined ? undefined : this.bill(current, false))
  }

  /** Sends the request to a candidate; throws a `Fault` where it answers with an error. */
  private async open(candidate: Candidate, stream: boolean): Promise<Call> {
    const { upstreams } = this.gateway
    const upstream = upstreams.get(candidate.target.provider)
    if (upstream === undefined) throw new Error(`no upstream for provider ${candidate.target.provider}`)
    const { provider, endpoint } = upstream
    const target: Target = { endpoint, model: candidate.target.model }
    const request = await provider.request(this.fitted(candidate.model), target)
    // Looked at last: who was interrupted while the request was being made would have nothing yet to stop.
    const { interrupted } = this.order.flight
    if (interrupted !== undefined) throw interruptedFailure(interrupted)
    const call = new UpstreamCall(request, endpoint, stream, this.dueMs)
    const { toolNames } = request
    this.current = { candidate, upstream, call, toolNames, tally: new Tally(this.inputTokens) }
    await call.open()
    if (call.status >= 200 && call.status < 300) return this.current
    const text = await call.errorText()
    if (call.status < 400) throw new Fault('failed', `the provider answered ${call.status}`, { status: call.status })
    throw provider.fault(call.status, call.headers, text)
  }

  private mark(candidate: Candidate, fallbacks: number | undefined): void {
    const { trace } = this.order
    trace.servedModel = candidate.model.name
    trace.provider = candidate.target.provider
    trace.fallbacks = fallbacks
  }

  private bill({ candidate, tally }: Call, whole: boolean): Bill {
    const { model, target } = candidate
    return { model: model.name, provider: target.provider, price: model.price, counted: tally.count(whole) }
  }

  private answered(candidate: Candidate, fallbacks: number): Answered {
    return { requestedModel: this.order.exchange.request.model, servedModel: candidate.model.name, fallbacks }
  }
}

function served(model: Model): Served {
  return { model: model.name, createdAt: Math.floor(Date.now() / 1000) }
}

/** Whether the provider streams, by its content type; throws a `Fault` for what is neither a stream nor JSON, such as a proxy's page. */
function isStream({ call, upstream }: Call): boolean {
  const type = (call.headers.get('content-type') ?? '').toLowerCase()
  if (type.startsWith(upstream.provider.streamType)) return true
  if (type.includes('json')) return false
  call.abort()
  throw new Fault('broken', `the provider answered with content type '${type.slice(0, 100)}'`, { status: call.status })
}

async function readStream({ call, upstream }: Call, take: (event: StreamEvent) => void): Promise<void> {
  const texts = () => {
    throw new Error('nothing is copied where every frame is decoded')
  }
  const feed = new Feed(upstream.provider, { event: take, texts }, 'decoded')
  while (!feed.ended) {
    const chunk = await call.read()
    if (chunk === undefined) feed.close()
    else feed.push(chunk)
  }
  void call.release()
}

async function readJson({ call }: Call): Promise<JsonValue> {
  const text = await call.text()
  try {
    const body: JsonValue = JSON.parse(text)
    return body
  } catch (cause) {
    throw new Fault('broken', 'the answer is not JSON', { status: call.status, cause })
  }
}

/** Nobody sees it where the caller left; a caller that waits while the process ends does. */
function interruptedFailure(why: Interruption): Failure {
  const message =
    why === 'drained' ? 'The gateway is shutting down; try again.' : 'The caller left before there was an answer.'
  return new Failure('shutting_down', message, { retryAfterSeconds: 1 })
}
