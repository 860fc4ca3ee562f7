/** The work of the image endpoints. Providers are asked for whole answers only. */

import { isSpendLimited, type Key, type Model, publicName } from '../catalog/catalog.ts'
import type { Candidate } from '../catalog/resolve.ts'
import { BytePieces } from '../core/byte-pieces.ts'
import { CallerError } from '../core/caller-error.ts'
import type { ImageFigures, ImageRequest, MadeImages } from '../core/image-request.ts'
import { isObject } from '../core/json.ts'
import { sentModel } from '../core/model-config.ts'
import type { Price } from '../core/money.ts'
import { ProviderError } from '../core/provider-error.ts'
import { believed, type Usage } from '../core/token-usage.ts'
import { estimateImages, type ImageTokens } from '../ledger/estimate.ts'
import { imagePrice } from '../ledger/price.ts'
import type { Dispatch, ImageMaker } from '../providers/provider.ts'
import type { RequestLog } from './access-log.ts'
import type { Upstream } from './gateway.ts'
import { parseJson } from './provider-call.ts'
import type { Bill, Quote } from './quote.ts'
import type { Counted } from './usage-meter.ts'
import { WholeCall, WholeWork } from './whole-call.ts'
import type { Work } from './work.ts'

export class ImageWork extends WholeWork implements Work {
  readonly kind = 'image'
  tokens: ImageTokens = { input: 0, output: 0 }
  private isQuoted = false

  constructor(
    readonly image: ImageRequest,
    /** The caller's body of an answer. */
    readonly bodyOf: (made: MadeImages) => string,
    log: RequestLog,
  ) {
    super(log)
  }

  get model(): string {
    return this.image.model
  }

  get answersInEvents(): boolean {
    return this.image.stream
  }

  estimate(): void {
    this.tokens = estimateImages(this.image)
  }

  quote({ model }: Candidate, key: Key): Quote {
    const { name, price } = model
    const priced = price && imagePrice(price, {}, this.image)
    if (price !== undefined && priced === undefined && isSpendLimited(key)) {
      const error = unpricedImage(model, this.image)
      if (!this.isQuoted) throw error
      // Another candidate may have a price for it.
      throw new ProviderError('rejected', error.message, { unsent: true, code: 'unpriced_image' })
    }
    this.isQuoted = true
    return {
      model: name,
      inputTokens: this.tokens.input,
      maxOutputTokens: this.tokens.output,
      price: priced,
      images: this.image.images,
      atOnce: true,
    }
  }

  ask(candidate: Candidate, upstream: Upstream, dueMs: number): ImageCall {
    const { images } = upstream.provider
    if (images === undefined) throw new ProviderError('failed', 'the dialect of this provider makes no images')
    const request = images.request(this.image, { endpoint: upstream.endpoint, model: sentModel(candidate.target) })
    return new ImageCall(this, images, candidate, upstream, sentOnce(request), dueMs)
  }
}

/** Images are expensive: a body in pieces shows whether any of it was sent, and it is not sent again. */
function sentOnce(request: Dispatch): Dispatch {
  const { body } = request
  return { ...request, body: typeof body === 'string' ? BytePieces.of([Buffer.from(body)]) : body, isSentOnce: true }
}

class ImageCall extends WholeCall {
  /** Absent until the provider has answered. */
  private figures: ImageFigures | undefined

  constructor(
    protected readonly work: ImageWork,
    private readonly images: ImageMaker,
    candidate: Candidate,
    upstream: Upstream,
    request: Dispatch,
    dueMs: number,
  ) {
    super(candidate, upstream, request, false, dueMs)
  }

  protected bodyOf(text: string): string {
    const { connection, work } = this
    const { status } = connection
    const body = parseJson(text, status)
    const figures = this.images.figures(body)
    if (!isObject(body)) throw new ProviderError('broken', 'the answer is no JSON object', { status })
    // As a whole answer it is passed on; a stream of it would have no event, and would end as if all were well.
    if (work.image.stream && !figures.images)
      throw new ProviderError('broken', 'the answer holds no images', { status })
    this.figures = figures
    return work.bodyOf({ text, body, model: publicName(this.candidate.model) })
  }

  used(): Counted {
    const { figures } = this
    const { tokens } = this.work
    const { input, output } = this.plausible()
    return {
      usage: { input: input ?? tokens.input, output: output ?? tokens.output },
      estimated: input === undefined || output === undefined || figures?.images === undefined,
    }
  }

  /**
   * What the order took. Without figures, because the caller left before the answer, what was ordered: the provider
   * makes the images, and charges for them, all the same.
   */
  bill(): Bill {
    const { model, target } = this.candidate
    return {
      model: model.name,
      provider: target.provider,
      price: model.price && this.priceOf(model.price),
      counted: this.used(),
      images: this.figures?.images ?? this.work.image.images,
    }
  }

  /** By the kind of image that the answer names; of one without a row, the dearest that the order allowed. */
  private priceOf(price: Price): Price | undefined {
    const { image } = this.work
    const usage = this.plausible()
    const { quality = image.quality, size = image.size } = this.figures ?? {}
    return imagePrice(price, usage, { quality, size }) ?? imagePrice(price, usage, image)
  }

  /** Implausible figures count as not reported. */
  private plausible(): Usage {
    const { usage: { input, output } = {}, images } = this.figures ?? {}
    const { tokens } = this.work
    return {
      input: believed(input, tokens.input),
      output: believed(output, images === 0 ? 0 : tokens.output),
    }
  }
}

function unpricedImage(model: Model, { quality, size }: ImageRequest): CallerError {
  const rows = Object.keys(model.price?.images ?? {}).map((name) => `'${name}'`)
  const given = [quality === undefined ? [] : `quality '${quality}'`, size === undefined ? [] : `size '${size}'`].flat()
  const message =
    `Images ${given.length === 0 ? '' : `of ${given.join(' and ').slice(0, 200)} `}have no price for model ` +
    `'${publicName(model)}', and a spend limit applies. Prices (quality:size): ${rows.join(', ') || 'none'}.`
  return new CallerError('unpriced_image', message, { param: size === undefined ? 'quality' : 'size' })
}
