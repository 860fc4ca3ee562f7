/**
 * What the access log shows of one request: filled in while the request runs, written once when it ends. It never holds
 * a key, a provider's credential or content.
 */

import type { Candidate } from '../catalog/resolve.ts'
import type { CallerError } from '../core/caller-error.ts'
import type { Charge, Outcome } from '../ledger/ledger.ts'
import type { AttemptLine, RefusedLine, RequestLine } from './request-line.ts'

/** How a request ended. */
export interface RequestEnd {
  readonly outcome: Outcome
  /** Error code of the reason why we cut a stream, if we did. */
  readonly cutFor?: string | undefined
}

export const COMPLETED: RequestEnd = { outcome: 'completed' }

/** The status that is logged if the caller left before an answer: none was sent. */
const STATUS_LEFT = 499

/** A model's name comes from the caller, and may be as long as the body. */
const NAME_CHARS_MAX = 256

/** The longest path of a log line. */
const PATH_CHARS_MAX = 100

/** What the log line of a refused request shows of it. */
export interface Sender {
  readonly method: string
  readonly url: string
  readonly remote: string
}

/** Takes the line of a request. */
export interface LineWriter {
  write(line: RequestLine): void
}

const NOTHING_IGNORED: readonly string[] = []

export class RequestLog {
  organization: string | undefined
  key: string | undefined
  dialect: string | undefined
  status = 0
  streamed = false
  ignored = NOTHING_IGNORED
  readonly attempts: AttemptLine[] = []
  private servedModel: string | undefined
  private provider: string | undefined
  private fallbacks: number | undefined
  private model: string | undefined
  private firstByteMs: number | undefined
  private charged: Charge | undefined
  private errorCode: string | undefined
  private refusal: Omit<RefusedLine, keyof RequestLine> | undefined
  private written = false
  private readonly startedMs = performance.now()

  constructor(
    readonly requestId: string,
    private readonly writer: LineWriter,
  ) {}

  set requestedModel(name: string) {
    this.model = name.length > NAME_CHARS_MAX ? name.slice(0, NAME_CHARS_MAX) : name
  }

  /** The provider has begun to answer. */
  markFirstByte(): void {
    this.firstByteMs ??= this.elapsedMs()
  }

  /** The candidate that answered, or that was called last. */
  servedBy({ model, target }: Candidate, fallbacks: number | undefined): void {
    this.servedModel = model.name
    this.provider = target.provider
    this.fallbacks = fallbacks
  }

  charge(charged: Charge): void {
    this.charged = charged
  }

  reject(error: CallerError, { method, url, remote }: Sender): void {
    this.status = error.row.status
    this.errorCode = error.code ?? error.kind
    const { param, limit, refusedKey } = error.detail
    this.key ??= refusedKey?.id
    this.refusal = {
      ...{ method, path: pathOf(url), remote, param },
      ...{ limit: limit?.name, limit_of: limit?.of, key_state: refusedKey?.state },
    }
  }

  /** Writes the line. Later calls change nothing. */
  end({ outcome, cutFor }: RequestEnd): void {
    if (this.written) return
    this.written = true
    const { charged } = this
    const isErrorUnsent = outcome === 'caller_left' && this.errorCode !== undefined
    const line: RequestLine = {
      request_id: this.requestId,
      organization: this.organization,
      key: this.key,
      dialect: this.dialect,
      requested_model: this.model,
      served_model: this.servedModel,
      provider: this.provider,
      fallbacks: this.fallbacks,
      attempts: this.attempts.length > 1 || this.attempts[0]?.error !== undefined ? this.attempts : undefined,
      status: isErrorUnsent ? STATUS_LEFT : this.status,
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
      error: isErrorUnsent ? undefined : (this.errorCode ?? cutFor),
    }
    this.writer.write(outcome === 'refused' && this.refusal !== undefined ? { ...line, ...this.refusal } : line)
  }

  /** Milliseconds since the request arrived, to a tenth. */
  private elapsedMs(): number {
    return Math.round((performance.now() - this.startedMs) * 10) / 10
  }
}

/** The path of an address without its query. */
function pathOf(url: string): string {
  const path = url.replace(/^[a-z]+:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '')
  return (path || '/').slice(0, PATH_CHARS_MAX)
}
