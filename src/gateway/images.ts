/** One request for images, top to bottom: resolve, hold, ask, answer, settle. Providers are asked for whole answers only. */

import { noNeeds } from '../catalog/capability.ts'
import { AUTO, type Key, type Model } from '../catalog/catalog.ts'
import { type Candidate, type Resolution, resolve } from '../catalog/resolve.ts'
import type { ImageFigures, ImageRequest } from '../core/image-request.ts'
import { isObject, type JsonObject } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'
import { isAbsurd, type Usage } from '../core/token-usage.ts'
import { estimateImages, type ImageTokens } from '../ledger/image-estimate.ts'
import { imagePrice } from '../ledger/price.ts'
import { UpstreamCall } from '../providers/upstream.ts'
import type { RequestLog } from './access-log.ts'
import { attempt } from './attempt.ts'
import type { Gateway } from './gateway.ts'
import type { Flight, Interruption } from './in-flight.ts'
import { type Bill, type Quote, RequestReservation } from './reservation.ts'
import { Route } from './route-header.ts'
import type { Counted } from './usage-meter.ts'
import { type Answered, accountOf, interruptedFailure, note, parseJson, send, upstreamOf } from './walk.ts'

/** A request for images on its way: who asks, what, and how it can be ended from outside. */
interface ImageOrder {
  readonly key: Key
  readonly image: ImageRequest
  readonly flight: Flight
  readonly trace: RequestLog
}

/** The provider's body, as it came and as what it says. */
export interface ImageAnswer extends Answered {
  readonly text: string
  readonly body: JsonObject
}

interface Made {
  readonly text: string
  readonly body: JsonObject
  readonly figures: ImageFigures
}

/** Answers a request, or throws the `CallerError` that its caller is told. */
export async function makeImages(gateway: Gateway, order: ImageOrder): Promise<ImageAnswer> {
  return new ImageWalk(gateway, order).answer()
}

class ImageWalk {
  private readonly estimate: ImageTokens
  private readonly dueMs: number
  /** The call that is under way: what is charged where the caller leaves. */
  private current: { readonly candidate: Candidate; readonly call: UpstreamCall } | undefined

  constructor(
    private readonly gateway: Gateway,
    private readonly order: ImageOrder,
  ) {
    this.estimate = estimateImages(order.image)
    this.dueMs = performance.now() + gateway.routing.totalTimeoutMs
  }

  private readonly report = (error: unknown): void => this.gateway.report(error, this.order.trace.requestId)

  async answer(): Promise<ImageAnswer> {
    const { gateway, order } = this
    const ask = { name: order.image.model, kind: 'image', needs: noNeeds } as const
    const { candidates, excluded } = resolve(gateway.catalog, order.key, ask)
    const first = candidates[0]
    if (first === undefined) throw new Error('a resolution without candidates')
    await using held = await this.hold(first)
    order.flight.onInterrupt(() => this.current?.call.abort())
    try {
      return await this.ask(candidates, excluded, held)
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

  /** The caller left, or the process ends, before there was an answer: what a provider was sent is charged all the same. */
  private async leave(held: RequestReservation, why: Interruption): Promise<void> {
    const { current } = this
    if (current !== undefined) note(this.order.trace, current.candidate, undefined)
    const isSent = current !== undefined && (await current.call.wasSent())
    held.settleBehind(why, isSent ? this.bill(current.candidate, undefined) : undefined, this.report)
  }

  private hold({ model }: Candidate): Promise<RequestReservation> {
    const { key, trace } = this.order
    return RequestReservation.open(this.gateway.ledger, accountOf(key), this.quote(model), trace, () =>
      this.current === undefined ? undefined : this.count(undefined),
    )
  }

  private quote({ name, price }: Model): Quote {
    return {
      model: name,
      inputTokens: this.estimate.input,
      maxOutputTokens: this.estimate.output,
      price: price && imagePrice(price, {}),
      images: this.order.image.images,
      atOnce: true,
    }
  }

  private async ask(
    candidates: readonly Candidate[],
    excluded: Resolution['excluded'],
    held: RequestReservation,
  ): Promise<ImageAnswer> {
    const { dueMs, gateway, order } = this
    const { image, trace } = order
    const route = gateway.explainRoute ? new Route() : undefined
    const affords = ({ model }: Candidate) => held.requote(this.quote(model))
    const asking = { ...order, dueMs, route, affords, isAutomatic: image.model === AUTO, drop: () => this.drop() }
    const { candidate, value } = await attempt(gateway, candidates, asking, (each) => this.make(each))
    const fallbacks = candidates.indexOf(candidate)
    note(trace, candidate, fallbacks)
    trace.status = 200
    held.settleBehind('completed', this.bill(candidate, value.figures), this.report)
    const { text, body } = value
    const answered = { requestedModel: image.model, servedModel: candidate.model.name, fallbacks }
    return { text, body, ...answered, route: route?.text(excluded) }
  }

  private drop(): void {
    this.current?.call.abort()
    this.current = undefined
  }

  private async make(candidate: Candidate): Promise<Made> {
    const { provider, endpoint } = upstreamOf(this.gateway, candidate)
    const { images } = provider
    if (images === undefined) throw new ProviderError('failed', 'the dialect of this provider makes no images')
    const made = images.request(this.order.image, { endpoint, model: candidate.target.model })
    // In pieces it is known whether any of them left, and an image is dear.
    const request = { ...made, body: typeof made.body === 'string' ? [Buffer.from(made.body)] : made.body }
    const { interrupted } = this.order.flight
    if (interrupted !== undefined) throw interruptedFailure(interrupted)
    const call = new UpstreamCall(request, endpoint, false, this.dueMs)
    this.current = { candidate, call }
    await send(call, provider)
    this.order.flight.sent()
    const text = await call.text()
    this.order.trace.markFirstByte()
    const body = parseJson(text, call.status)
    const figures = images.figures(body)
    if (!isObject(body)) throw new ProviderError('broken', 'the answer is no JSON object', { status: call.status })
    // Whole, such an answer is the provider's to give; a stream of it would have no event, and end as if all were well.
    if (this.order.image.stream && !figures.images) {
      throw new ProviderError('broken', 'the answer holds no images', { status: call.status })
    }
    return { text, body, figures }
  }

  /**
   * What an order took; without figures, where the caller left before the answer, what was ordered: the provider makes it, and
   * bills for it, all the same.
   */
  private bill({ model, target }: Candidate, figures: ImageFigures | undefined): Bill {
    return {
      model: model.name,
      provider: target.provider,
      price: model.price && imagePrice(model.price, this.believed(figures?.usage ?? {})),
      counted: this.count(figures),
      images: figures?.images ?? this.order.image.images,
    }
  }

  /** What a provider's mistake would be counts as not reported. */
  private believed({ input, output }: Usage): Usage {
    return {
      input: isAbsurd(input, this.estimate.input) ? undefined : input,
      output: isAbsurd(output, this.estimate.output) ? undefined : output,
    }
  }

  private count(figures: ImageFigures | undefined): Counted {
    const { input, output } = this.believed(figures?.usage ?? {})
    return {
      usage: { input: input ?? this.estimate.input, output: output ?? this.estimate.output },
      estimated: input === undefined || output === undefined || figures?.images === undefined,
    }
  }
}
