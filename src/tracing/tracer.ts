/**
 * Decides which requests are traced, follows those, and makes spans of each when it has ended. One for each
 * configuration; running requests keep the one that they began with.
 */

import type { Candidate } from '../catalog/resolve.ts'
import type { Usage } from '../core/token-usage.ts'
import type { TracingConfig } from '../core/tracing-config.ts'
import { loggedPath } from '../gateway/access-log.ts'
import type { RequestLine } from '../gateway/request-line.ts'
import type { CallEnd, CallTrace, RequestHead, RequestTrace, Tracer } from '../gateway/request-trace.ts'
import type { Span } from './otlp.ts'
import { type EndedCall, type EndedRequest, type ProviderNames, resourceOf, spansOf } from './spans.ts'
import {
  newSpanId,
  newTraceId,
  parseTraceparent,
  parseTracestate,
  SAMPLED,
  type TraceContext,
  traceparent,
} from './trace-context.ts'

/**
 * Without a valid key, a caller's sampled flag counts for so many requests a second in one worker. Anyone can send it,
 * and the queue of spans is for the callers that the operator knows.
 */
const ANONYMOUS_MAX = 20
const SECOND_MS = 1000

interface SpanTracerOptions {
  readonly config: TracingConfig
  readonly providers: ReadonlyMap<string, ProviderNames>
  /** Whether the configuration has a model of this name. */
  readonly isModel: (name: string) => boolean
  /** Takes the spans of one request. */
  readonly take: (spans: readonly Span[]) => void
  /** From 0 to 1, 1 excluded. */
  readonly random?: () => number
}

export class SpanTracer implements Tracer {
  private readonly resource: Span['resource']
  private readonly random: () => number
  private anonymous = 0
  private anonymousSinceMs = Number.NEGATIVE_INFINITY

  constructor(private readonly options: SpanTracerOptions) {
    this.resource = resourceOf(options.config.resource)
    this.random = options.random ?? Math.random
  }

  begin(request: RequestHead): RequestTrace | undefined {
    const header = request.headers.get('traceparent')
    const caller = header === null ? undefined : parseTraceparent(header)
    if (caller === undefined && this.random() >= this.options.config.sample) return undefined
    return new TracedRequest(this, request, caller)
  }

  /** The names of one provider in spans; undefined if the configuration does not have it. */
  provider(name: string): ProviderNames | undefined {
    return this.options.providers.get(name)
  }

  /** A sampled request has ended. */
  ended(request: TracedRequest, { method, url }: RequestHead, line: RequestLine, usage: Usage | undefined): void {
    if (line.organization === undefined && !this.admitsAnonymous()) return
    const { providers, isModel, take } = this.options
    const { traceId, caller, state, flags, calls } = request
    const endMs = performance.now()
    const ended: EndedRequest = {
      ...{ traceId, flags, state, method, line, usage },
      spanId: newSpanId(),
      parentId: caller?.parentId,
      startMs: unixMs(request.startMs),
      endMs: unixMs(endMs),
      path: loggedPath(url),
      isModelKnown: isModel(line.requested_model ?? ''),
      calls: calls.map((call) => endedCall(call, endMs)),
    }
    take(spansOf(ended, providers, this.resource))
  }

  private admitsAnonymous(): boolean {
    const nowMs = performance.now()
    if (nowMs - this.anonymousSinceMs >= SECOND_MS) {
      this.anonymousSinceMs = nowMs
      this.anonymous = 0
    }
    return ++this.anonymous <= ANONYMOUS_MAX
  }
}

/**
 * A request that is traced, or one whose caller's trace is not sampled: then it has no spans, but its trace is in the
 * log line and goes on to providers. Ids of spans are made when they are needed.
 */
class TracedRequest implements RequestTrace {
  readonly traceId: string
  readonly flags: number
  /** `performance.now()` */
  readonly startMs = performance.now()
  readonly calls: TracedCall[] = []

  constructor(
    private readonly tracer: SpanTracer,
    private readonly request: RequestHead,
    readonly caller: TraceContext | undefined,
  ) {
    this.traceId = caller?.traceId ?? newTraceId()
    this.flags = caller?.flags ?? SAMPLED
  }

  call(candidate: Candidate): CallTrace {
    const { provider, model } = candidate.target
    const propagates = this.tracer.provider(provider)?.propagates === true
    if (!propagates && !this.isSampled) return UNTRACED
    const call = new TracedCall(this, provider, model, propagates)
    this.calls.push(call)
    return call
  }

  end(line: RequestLine, usage?: Usage): void {
    if (this.isSampled) this.tracer.ended(this, this.request, line, usage)
  }

  private get isSampled(): boolean {
    return (this.flags & SAMPLED) !== 0
  }

  /** The caller's list of other vendors' positions in the trace. It belongs to a trace of the caller's alone. */
  get state(): string | undefined {
    return this.caller === undefined ? undefined : parseTracestate(this.request.headers.get('tracestate'))
  }
}

/** A call without a span, to a provider that does not get the trace. */
const UNTRACED: CallTrace = { headers: undefined, began() {}, ended() {} }

class TracedCall implements CallTrace {
  readonly startMs = performance.now()
  beganMs: number | undefined
  endMs: number | undefined
  end: CallEnd | undefined
  private madeId: string | undefined

  constructor(
    private readonly request: TracedRequest,
    readonly provider: string,
    readonly model: string,
    private readonly propagates: boolean,
  ) {}

  get spanId(): string {
    this.madeId ??= newSpanId()
    return this.madeId
  }

  get headers(): Readonly<Record<string, string>> | undefined {
    if (!this.propagates) return undefined
    const { traceId, flags, state } = this.request
    const parent = { traceparent: traceparent(traceId, this.spanId, flags) }
    return state === undefined ? parent : { ...parent, tracestate: state }
  }

  began(): void {
    this.beganMs = performance.now()
  }

  ended(end: CallEnd): void {
    this.endMs = performance.now()
    this.end = end
  }
}

/** A whole answer ends when it begins; a call that an error of our own ended, with its request. */
function endedCall({ spanId, startMs, beganMs, endMs, provider, model, end }: TracedCall, nowMs: number): EndedCall {
  return {
    ...{ spanId, provider, model, end },
    startMs: unixMs(startMs),
    beganMs: beganMs === undefined ? undefined : unixMs(beganMs),
    endMs: unixMs(endMs ?? beganMs ?? nowMs),
  }
}

/** What is added to `performance.now()` for Unix time. */
let offsetMs = performance.timeOrigin

/**
 * Unix milliseconds with fractions, of a time of `performance.now()`. `Date.now()` has no fractions: a span would begin
 * before its parent. The clock may be set while the process runs, so the two are compared each time.
 */
function unixMs(monotonicMs: number): number {
  const now = Date.now()
  const drift = now - (performance.now() + offsetMs)
  if (drift > 1 || drift < -2) offsetMs += drift
  return monotonicMs + offsetMs
}
