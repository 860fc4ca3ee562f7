/**
 * What the access log shows of one request: filled in while the request runs, written once when it ends. It never holds
 * a key, a provider's credential or content.
 */

import { publicName } from '../catalog/catalog.ts'
import type { Candidate } from '../catalog/resolve.ts'
import type { CallerError } from '../core/caller-error.ts'
import type { FinishReason } from '../core/event.ts'
import { tagsByName, tierOfTags } from '../core/tags.ts'
import type { Usage } from '../core/token-usage.ts'
import type { Charge, Outcome } from '../ledger/ledger.ts'
import type { ToolCalls } from './own-prices.ts'
import type { RecallCounts } from './recalled-thoughts.ts'
import type { AttemptFailure, AttemptLine, RefusedLine, RequestLine } from './request-line.ts'
import type { RequestTags } from './request-tags.ts'
import type { RequestHead, RequestTrace } from './request-trace.ts'

/** How a request ended. */
export interface RequestEnd {
  readonly outcome: Outcome
  /** Error code of the reason why we cut a stream, if we did. */
  readonly cutFor?: string | undefined
}

export const COMPLETED: RequestEnd = { outcome: 'completed' }

/** The status that is logged if the caller left before an answer: none was sent. */
const STATUS_LEFT = 499

/** A provider answered; a stream may have broken off later. */
const STATUS_ANSWERED = 200

/** A model's name comes from the caller, and may be as long as the body. */
const NAME_CHARS_MAX = 256

/** The longest path of a log line. */
const PATH_CHARS_MAX = 100

/** OpenAI's words, which operators know. */
const FINISH_REASONS: Readonly<Record<FinishReason, string>> = {
  stop: 'stop',
  length: 'length',
  'tool-call': 'tool_calls',
  'content-filter': 'content_filter',
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
  /** The caller's address. */
  remote = 'unknown'
  /** The name of this node, for the audit trail. */
  node = ''
  /** The id of the socket that the request came over; absent for HTTP. */
  socket: string | undefined
  status = 0
  streamed = false
  ignored = NOTHING_IGNORED
  /** How many answers of the history had thoughts for the target; absent if none were looked up. */
  continuity: RecallCounts | undefined
  /** Those that the provider that was called last does not have. */
  leftOut: readonly string[] | undefined
  /** How often the provider has run its own tools. */
  toolCalls: ToolCalls | undefined
  /** A service tier without a price that the request asked for or was served by; its names are bounded. */
  unpricedTier: string | undefined
  tags: RequestTags | undefined
  /** Absent unless the request is traced. */
  trace: RequestTrace | undefined
  /** Why the model stopped, if it did. */
  finishReason: FinishReason | undefined
  readonly attempts: AttemptLine[] = []
  /** Why the stream of the candidate that answered broke off, if it did. */
  streamFailure: AttemptFailure | undefined
  /** With the figures that the line leaves out; present if the request was charged. */
  usage: Usage | undefined
  /** The limit that refused the request, if one did: its name, and whose it is (`organization:acme`). */
  limit: { readonly name: string; readonly of: string } | undefined
  private servedModel: string | undefined
  private provider: string | undefined
  private fallbacks: number | undefined
  private model: string | undefined
  private firstByteMs: number | undefined
  private waitedMs: number | undefined
  private waitsSinceMs: number | undefined
  private charged: Charge | undefined
  private errorCode: string | undefined
  private refusal: Omit<RefusedLine, keyof RequestLine> | undefined
  private written = false
  /** When the request began (`performance.now()`), and when its body had arrived. */
  readonly startedMs = performance.now()
  receivedMs = this.startedMs
  /** When the first provider was called, the whole answer of the last had arrived, and the line was written. */
  private askedMs: number | undefined
  private answeredMs: number | undefined
  private endedMs = 0

  constructor(
    readonly requestId: string,
    private readonly writer: LineWriter,
  ) {}

  get requestedModel(): string {
    return this.model ?? ''
  }

  set requestedModel(name: string) {
    this.model = name.length > NAME_CHARS_MAX ? name.slice(0, NAME_CHARS_MAX) : name
  }

  /** The provider has begun to answer. */
  markFirstByte(): void {
    this.firstByteMs ??= tenths(this.heardMs - this.startedMs)
  }

  /** The body has arrived. */
  markReceived(): void {
    this.receivedMs = performance.now()
  }

  /** A provider is called. */
  markAsked(nowMs: number): void {
    this.askedMs ??= nowMs
    this.answeredMs = undefined
  }

  /** The provider that was called last has answered to the end. */
  markAnswered(): void {
    this.answeredMs = performance.now()
  }

  /** Now, or when the provider answered to the end: what is done with a whole answer takes no time of its own. */
  get heardMs(): number {
    return this.answeredMs ?? performance.now()
  }

  /**
   * Milliseconds that an answered request spent in weir alone, before the first provider was called and after the last
   * one had answered; undefined before the end, and without an answer.
   */
  get overheadMs(): number | undefined {
    const { askedMs, answeredMs, receivedMs, endedMs } = this
    if (askedMs === undefined || answeredMs === undefined || this.status !== STATUS_ANSWERED) return undefined
    return askedMs - receivedMs + endedMs - answeredMs
  }

  /** Milliseconds from the first content of a stream to the provider's end. */
  get streamedMs(): number {
    return Math.max(0, (this.answeredMs ?? this.endedMs) - this.startedMs - (this.firstByteMs ?? 0))
  }

  /** It waits for room, or no longer. */
  markWaiting(isWaiting: boolean): void {
    const nowMs = performance.now()
    if (!isWaiting && this.waitsSinceMs !== undefined) this.waitedMs = (this.waitedMs ?? 0) + nowMs - this.waitsSinceMs
    this.waitsSinceMs = isWaiting ? nowMs : undefined
  }

  /** The candidate that answered, or that was called last. */
  servedBy({ model, target }: Candidate, fallbacks: number | undefined): void {
    this.servedModel = publicName(model)
    this.provider = target.provider
    this.fallbacks = fallbacks
  }

  charge(charged: Charge, usage: Usage): void {
    this.charged = charged
    this.usage = usage
  }

  reject(error: CallerError, { method, url }: RequestHead): void {
    this.status = error.status
    this.errorCode = error.code ?? error.kind
    const { param, limit, refusedKey } = error.detail
    this.limit = limit
    this.key ??= refusedKey?.id
    this.refusal = {
      ...{ method, path: loggedPath(url), param },
      ...{ limit: limit?.name, limit_of: limit?.of, key_state: refusedKey?.state },
    }
  }

  /** Absent if the first candidate answered, and its answer did not break off. */
  private attemptLines(): readonly AttemptLine[] | undefined {
    const { attempts, streamFailure } = this
    const last = attempts.at(-1)
    if (streamFailure !== undefined && last !== undefined)
      return [...attempts.slice(0, -1), { ...last, ...streamFailure }]
    return attempts.length > 1 || last?.error !== undefined ? attempts : undefined
  }

  /** Writes the line. Later calls change nothing. */
  end({ outcome, cutFor }: RequestEnd): void {
    if (this.written) return
    this.written = true
    this.endedMs = performance.now()
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
      attempts: this.attemptLines(),
      status: isErrorUnsent ? STATUS_LEFT : this.status,
      streamed: this.streamed,
      waited_ms: this.waitedMs && tenths(this.waitedMs),
      first_byte_ms: this.firstByteMs,
      total_ms: tenths(this.endedMs - this.startedMs),
      input_tokens: charged?.inputTokens,
      cached_input_tokens: charged?.cachedInputTokens,
      output_tokens: charged?.outputTokens,
      usage: charged === undefined ? undefined : charged.estimated ? 'estimated' : 'provider',
      cost_micro_usd: charged?.costMicroUsd,
      service_tier: charged && tierOfTags(charged.tags),
      tool_calls: this.toolCalls && Object.fromEntries(this.toolCalls),
      ignored: this.allIgnored,
      outcome,
      finish_reason: this.finishReason && FINISH_REASONS[this.finishReason],
      tags: this.tags && tagsByName(this.tags.all),
      trace_id: this.trace?.traceId,
      remote: this.remote,
      transport: this.socket === undefined ? undefined : 'websocket',
      socket: this.socket,
      error: isErrorUnsent ? undefined : (this.errorCode ?? cutFor),
    }
    this.trace?.end(line, this.usage)
    this.writer.write(outcome === 'refused' && this.refusal !== undefined ? { ...line, ...this.refusal } : line)
  }

  private get allIgnored(): readonly string[] | undefined {
    const { ignored, leftOut = NOTHING_IGNORED } = this
    if (leftOut.length === 0) return ignored.length > 0 ? ignored : undefined
    return [...ignored, ...leftOut]
  }
}

/** Milliseconds to a tenth. */
function tenths(ms: number): number {
  return Math.round(ms * 10) / 10
}

/** The path of an address without its query, at most 100 characters of it. */
export function loggedPath(url: string): string {
  const path = url.replace(/^[a-z]+:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '')
  return (path || '/').slice(0, PATH_CHARS_MAX)
}
