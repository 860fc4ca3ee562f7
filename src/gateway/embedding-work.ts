/** The work of the embeddings endpoint: the request and the answer are passed on, and the input tokens are charged. */

import { publicName } from '../catalog/catalog.ts'
import type { Candidate } from '../catalog/resolve.ts'
import type { EmbeddingRequest, MadeEmbeddings } from '../core/embedding-request.ts'
import { isObject } from '../core/json.ts'
import { sentModel } from '../core/model-config.ts'
import { ProviderError } from '../core/provider-error.ts'
import { believed, type Usage } from '../core/token-usage.ts'
import { estimateText } from '../ledger/estimate.ts'
import type { EmbeddingMaker } from '../providers/provider.ts'
import type { RequestLog } from './access-log.ts'
import type { Upstream } from './gateway.ts'
import { parseJson } from './provider-call.ts'
import type { Bill, Quote } from './quote.ts'
import type { Counted } from './usage-meter.ts'
import { WholeCall, WholeWork } from './whole-call.ts'
import type { Work } from './work.ts'

/** 2,048 embeddings of 3,072 dimensions take 34 MB in base64, and more as numbers. */
const ANSWER_BYTES_MAX = 128 * 1024 * 1024
const ANSWER_VALUES_MAX = 8_000_000

export class EmbeddingWork extends WholeWork implements Work {
  readonly kind = 'embedding'
  /** Our estimate. Texts that the caller has cut into tokens are counted exactly. */
  tokens = 0

  constructor(
    readonly embedding: EmbeddingRequest,
    /** The caller's body of an answer. */
    readonly bodyOf: (made: MadeEmbeddings) => string,
    log: RequestLog,
  ) {
    super(log)
  }

  get model(): string {
    return this.embedding.model
  }

  estimate(): void {
    for (const input of this.embedding.inputs)
      this.tokens += typeof input === 'string' ? estimateText(input) : input.length
  }

  quote({ model: { name, price } }: Candidate): Quote {
    return { model: name, inputTokens: this.tokens, maxOutputTokens: 0, price, atOnce: true }
  }

  ask(candidate: Candidate, upstream: Upstream, dueMs: number): EmbeddingCall {
    const { embeddings } = upstream.provider
    if (embeddings === undefined) throw new ProviderError('failed', 'the dialect of this provider makes no embeddings')
    return new EmbeddingCall(this, embeddings, candidate, upstream, dueMs)
  }
}

class EmbeddingCall extends WholeCall {
  protected override readonly answerBytesMax = ANSWER_BYTES_MAX
  /** Empty until the provider has answered. */
  private usage: Usage = {}

  constructor(
    protected readonly work: EmbeddingWork,
    private readonly embeddings: EmbeddingMaker,
    candidate: Candidate,
    upstream: Upstream,
    dueMs: number,
  ) {
    const target = { endpoint: upstream.endpoint, model: sentModel(candidate.target) }
    super(candidate, upstream, embeddings.request(work.embedding, target), false, dueMs)
  }

  protected bodyOf(text: string): string {
    const { status } = this.connection
    const body = parseJson(text, status, ANSWER_VALUES_MAX)
    this.usage = this.embeddings.usage(body)
    if (!isObject(body)) throw new ProviderError('broken', 'the answer is no JSON object', { status })
    const { usage, estimated } = this.used()
    const countedTokens = estimated ? usage.input : undefined
    return this.work.bodyOf({ text, body, model: publicName(this.candidate.model), countedTokens })
  }

  used(): Counted {
    const { tokens } = this.work
    const reported = believed(this.usage.input, tokens)
    return { usage: { input: reported ?? tokens, output: 0 }, estimated: reported === undefined }
  }

  /** If the caller left before the answer, the estimate is charged: the provider computes and charges all the same. */
  bill(): Bill {
    const { model, target } = this.candidate
    return { model: model.name, provider: target.provider, price: model.price, counted: this.used() }
  }
}
