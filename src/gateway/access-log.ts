/** What is known of one request for its log line: filled along the walk, written once at the end. Never a key, a credential or content. */

import type { CallerError } from '../core/caller-error.ts'
import type { Charge, Outcome } from '../ledger/ledger.ts'

/** One call to one candidate. */
interface AttemptLine {
  readonly provider: string
  /** The provider's own name of the model. */
  readonly model: string
  readonly status?: number | undefined
  /** The kind of fault; absent where it answered. */
  readonly error?: string | undefined
  readonly ms: number
}

/** The line of operator.md 5. `time` and `level` are the logger's. */
export interface RequestLine {
  readonly request_id: string
  readonly organization?: string | undefined
  readonly key?: string | undefined
  readonly dialect?: string | undefined
  readonly requested_model?: string | undefined
  readonly served_model?: string | undefined
  readonly provider?: string | undefined
  readonly fallbacks?: number | undefined
  readonly attempts?: readonly AttemptLine[] | undefined
  readonly status: number
  readonly streamed: boolean
  readonly first_byte_ms?: number | undefined
  readonly total_ms: number
  readonly input_tokens?: number | undefined
  readonly cached_input_tokens?: number | undefined
  readonly output_tokens?: number | undefined
  readonly usage?: 'provider' | 'estimated' | undefined
  readonly cost_micro_usd?: number | undefined
  /** Fields that were accepted and have no effect; absent where there are none. */
  readonly ignored?: readonly string[] | undefined
  readonly outcome: Outcome
  readonly error?: string | undefined
}

/** What logs say where the caller left before there was an answer: nothing was sent (wire.md C2). */
const STATUS_LEFT = 499

/** A name that a caller made up may be as long as a body. */
const NAME_CHARS_MAX = 256

export class RequestLog {
  organization: string | undefined
  key: string | undefined
  dialect: string | undefined
  servedModel: string | undefined
  provider: string | undefined
  fallbacks: number | undefined
  status = 0
  /** `x-ratelimit-*` for whatever the answer is; set once the ledger has admitted the request. */
  limitHeaders: Readonly<Record<string, string>> = {}
  streamed = false
  ignored: readonly string[] = []
  readonly attempts: AttemptLine[] = []
  private model: string | undefined
  private firstByteMs: number | undefined
  private charged: Charge | undefined
  private failure: string | undefined
  private written = false
  private readonly startedMs = performance.now()

  constructor(
    readonly requestId: string,
    private readonly log: (line: RequestLine) => void,
  ) {}

  set requestedModel(name: string) {
    this.model = name.slice(0, NAME_CHARS_MAX)
  }

  /** The provider has begun to answer. */
  markFirstByte(): void {
    this.firstByteMs ??= this.elapsedMs()
  }

  charge(charged: Charge): void {
    this.charged = charged
  }

  refuse(failure: CallerError): void {
    this.status = failure.row.status
    this.failure = failure.code ?? failure.kind
  }

  /** Writes the line; only the first call does. `cutFor` is the code of what ended a stream that had begun well. */
  end(outcome: Outcome, cutFor?: string): void {
    if (this.written) return
    this.written = true
    const { charged } = this
    const unseen = outcome === 'caller_left' && this.failure !== undefined
    this.log({
      request_id: this.requestId,
      organization: this.organization,
      key: this.key,
      dialect: this.dialect,
      requested_model: this.model,
      served_model: this.servedModel,
      provider: this.provider,
      fallbacks: this.fallbacks,
      attempts: this.attempts.length > 1 || this.attempts[0]?.error !== undefined ? this.attempts : undefined,
      status: unseen ? STATUS_LEFT : this.status,
      streamed: this.streamed,
      first_byte_ms: this.firstByteMs,
      total_ms: this.elapsedMs(),
      input_tokens: charged?.inputTokens,
      cached_input_tokens: charged?.cachedInputTokens,
      output_tokens: charged?.outputTokens,
      usage: charged === undefined ? undefined : charged.estimated ? 'estimated' : 'provider',
      cost_micro_usd: charged?.costMicroUsd,
      ignored: this.ignored.length > 0 ? this.ignored : undefined,
      outcome,
      error: unseen ? undefined : (this.failure ?? cutFor),
    })
  }

  /** Milliseconds since the request came, to a tenth. */
  private elapsedMs(): number {
    return Math.round((performance.now() - this.startedMs) * 10) / 10
  }
}
