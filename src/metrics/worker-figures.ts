/**
 * What one worker counts, and what of it the supervisor has not got yet. A request is recorded once, when it ends: its
 * labels find their series in five look-ups by name, and the rest is additions (1 µs a request).
 *
 * Labels are names of the configuration and of weir, never what a caller wrote: a model that does not exist is ''.
 */

import { AUTO, type Catalog } from '../catalog/catalog.ts'
import { type TargetRef, targetKey } from '../core/model-config.ts'
import type { ProviderError } from '../core/provider-error.ts'
import type { RequestLog } from '../gateway/access-log.ts'
import type { AttemptLine, RequestLine } from '../gateway/request-line.ts'
import { ChangedSeries, type Counter, type Histogram } from './changed-series.ts'
import { KEYS_MAX, OTHER, SERIES_MAX } from './families.ts'
import type { FiguresPost, LabelValues, TargetError, WorkerGauges } from './figures-post.ts'

/** The ends that requests of one group had, few of each. */
interface EndCount {
  readonly status: number
  readonly outcome: string
  readonly error: string | undefined
  readonly counter: Counter
}

/** The series of all requests with the same organisation, model, provider and dialect (and key, with its label). */
interface Group {
  readonly labels: GroupLabels
  readonly ends: EndCount[]
  readonly duration: Histogram
  readonly firstToken: Histogram
  readonly outputToken: Histogram
  /** Made at the first charge. */
  charges: Charges | undefined
}

interface GroupLabels {
  readonly organization: string
  /** '' without the label. */
  readonly key: string
  readonly model: string
  readonly provider: string
  readonly dialect: string
}

interface TargetSeries {
  readonly answered: Counter
  readonly firstByte: Histogram
}

interface Charges {
  readonly input: Counter
  readonly cachedInput: Counter
  readonly cacheWrite: Counter
  readonly output: Counter
  readonly reasoning: Counter
  readonly cost: Counter
  readonly estimated: Counter
}

/** Groups by organisation, key, model, provider and dialect. */
type Level<Value> = Map<string, Value>
type Groups = Level<Level<Level<Level<Level<Group>>>>>

export class WorkerFigures {
  private readonly groups: Groups = new Map()
  /** By provider and model. */
  private readonly targets: Level<Level<TargetSeries>> = new Map()
  private readonly series = new ChangedSeries()
  private readonly keys = new Set<string>()
  private groupCount = 0
  private readonly errors = new Map<string, TargetError>()
  private readonly overhead: Histogram
  private readonly socketTurns: Counter

  /** `keyLabel`: requests, tokens and cost are counted by key, too. */
  constructor(private readonly options: { readonly keyLabel: boolean }) {
    this.overhead = this.series.histogram('weir_overhead_seconds', [])
    this.socketTurns = this.series.counter('weir_socket_turns_total', [])
  }

  /** A request has ended. `line` is its log line, `log` has what the line leaves out. */
  record(line: RequestLine, log: RequestLog, catalog: Catalog): void {
    const { status, outcome, error, total_ms, first_byte_ms, streamed } = line
    const model = configuredName(catalog, line.served_model ?? line.requested_model)
    const group = this.group(line.organization ?? '', line.key ?? '', model, line.provider ?? '', line.dialect ?? '')
    this.endOf(group, status, outcome, error).add(1)
    group.duration.observe(total_ms / 1000)
    if (streamed && first_byte_ms !== undefined) {
      group.firstToken.observe(first_byte_ms / 1000)
      const rest = (line.output_tokens ?? 0) - 1
      if (outcome === 'completed' && rest > 0) group.outputToken.observe(log.streamedMs / 1000 / rest)
    }
    if (line.cost_micro_usd !== undefined) this.charge(group, line, log)
    if (log.overheadMs !== undefined) this.overhead.observe(log.overheadMs / 1000)
    for (const attempt of log.attempts) this.attempt(attempt, log)
    if (line.fallbacks !== undefined && line.fallbacks > 0)
      this.series.counter('weir_fallbacks_total', [configuredName(catalog, line.requested_model), model]).add(1)
    if (log.unpricedTier !== undefined)
      this.series.counter('weir_unpriced_requests_total', [model, log.unpricedTier]).add(1)
    if (line.transport === 'websocket') this.socketTurns.add(1)
    if (log.continuity !== undefined) this.continuity(log.continuity)
    if (log.limit !== undefined) this.refusal(line.organization ?? '', log.limit)
  }

  socketClosed(reason: string): void {
    this.series.counter('weir_socket_closed_total', [reason]).add(1)
  }

  /** A turn was to continue an earlier response. */
  continued(result: 'found' | 'not_found'): void {
    this.series.counter('weir_previous_response_total', [result]).add(1)
  }

  private continuity({ found, missing, otherIssuer }: NonNullable<RequestLog['continuity']>): void {
    for (const [result, count] of Object.entries({ found, missing, other_issuer: otherIssuer }))
      if (count > 0) this.series.counter('weir_continuity_total', [result]).add(count)
  }

  /** A target has begun to rest after failures. */
  rested({ provider, model }: TargetRef): void {
    this.series.counter('weir_target_rests_total', [provider, model]).add(1)
  }

  /** A free request has shown whether a target answers. `error`: it counts as its last failure. */
  probed({ provider, model }: TargetRef, result: string, error: ProviderError | undefined): void {
    this.series.counter('weir_target_probes_total', [provider, model, result]).add(1)
    if (error === undefined) return
    const { kind, detail, causeCode } = error
    this.failed({ provider, model, error: kind, status: detail.status, cause: causeCode, atMs: Date.now() })
  }

  private failed(error: TargetError): void {
    this.errors.set(targetKey(error), error)
  }

  /** A request waited for room, and went on. */
  waited(priority: string, ms: number): void {
    this.series.histogram('weir_queue_wait_seconds', [priority]).observe(ms / 1000)
  }

  /** Too many requests waited, and this one was turned away. */
  shed(priority: string): void {
    this.series.counter('weir_queue_shed_total', [priority]).add(1)
  }

  /** Spans of traces could not be delivered. */
  spansDropped(spans: number): void {
    this.series.counter('weir_trace_spans_dropped_total', []).add(spans)
  }

  /** How long a call of the ledger took. */
  ledgerTimes(operation: 'reserve' | 'extend' | 'settle'): { observe(seconds: number): void } {
    return this.series.histogram('weir_ledger_operation_seconds', [operation])
  }

  /** Whether anything was counted since the last post. */
  get hasChanged(): boolean {
    return this.series.hasChanged
  }

  /** What was counted since the last post, for the next one. */
  take(gauges: WorkerGauges): FiguresPost {
    const errors = [...this.errors.values()]
    this.errors.clear()
    return { ...this.series.take(), gauges, errors }
  }

  private endOf({ ends, labels }: Group, status: number, outcome: string, error: string | undefined): Counter {
    for (const end of ends)
      if (end.status === status && end.outcome === outcome && end.error === error) return end.counter
    const { dialect, model, organization, key } = labels
    const values = [dialect, model, organization, String(status), outcome, error ?? '']
    const counter = this.series.counter('weir_requests_total', this.withKey(values, key))
    ends.push({ status, outcome, error, counter })
    return counter
  }

  private charge(group: Group, line: RequestLine, { usage }: RequestLog): void {
    group.charges ??= this.chargesOf(group.labels)
    const { charges } = group
    charges.input.add(line.input_tokens ?? 0)
    charges.cachedInput.add(line.cached_input_tokens ?? 0)
    charges.output.add(line.output_tokens ?? 0)
    charges.cost.add(line.cost_micro_usd ?? 0)
    if (line.usage === 'estimated') charges.estimated.add(1)
    if (usage === undefined) return
    charges.cacheWrite.add((usage.cacheWrite5m ?? 0) + (usage.cacheWrite1h ?? 0))
    charges.reasoning.add(usage.reasoning ?? 0)
  }

  private attempt(line: AttemptLine, log: RequestLog): void {
    const { provider, model, error, status, ms } = line
    const { error: failure, cause } = error === undefined && log.streamFailure !== undefined ? log.streamFailure : line
    const target = this.target(provider, model)
    if (failure === undefined) target.answered.add(1)
    else this.series.counter('weir_attempts_total', [provider, model, failure]).add(1)
    if (error === undefined) target.firstByte.observe(ms / 1000)
    if (failure === undefined || failure === 'caller_left' || failure === 'drained') return
    this.failed({ provider, model, error: failure, status, cause, atMs: Date.now() })
  }

  /** Without the key of a series, whose text takes 0.2 µs to make. */
  private target(provider: string, model: string): TargetSeries {
    const models = level(this.targets, provider)
    let target = models.get(model)
    if (target === undefined) {
      target = {
        answered: this.series.counter('weir_attempts_total', [provider, model, 'answered']),
        firstByte: this.series.histogram('weir_target_first_byte_seconds', [provider, model]),
      }
      models.set(model, target)
    }
    return target
  }

  private refusal(organization: string, { name, of }: { readonly name: string; readonly of: string }): void {
    // `organization:acme`, `key:ci`, `budget:person:ann`: values are of callers' making.
    const [scope = ''] = of.split(':', 1)
    this.series.counter('weir_limit_refusals_total', [organization, scope, name]).add(1)
  }

  private group(organization: string, key: string, model: string, provider: string, dialect: string): Group {
    const label = this.options.keyLabel ? this.keyLabel(key) : ''
    const dialects = level(level(level(level(this.groups, organization), label), model), provider)
    const known = dialects.get(dialect)
    if (known !== undefined) return known
    if (this.groupCount >= SERIES_MAX && organization !== OTHER)
      return this.group(OTHER, OTHER, model, provider, dialect)
    const group = this.newGroup({ organization, key: label, model, provider, dialect })
    dialects.set(dialect, group)
    this.groupCount++
    return group
  }

  private newGroup(labels: GroupLabels): Group {
    const served = [labels.dialect, labels.model]
    return {
      labels,
      ends: [],
      duration: this.series.histogram('weir_request_duration_seconds', served),
      firstToken: this.series.histogram('weir_time_to_first_token_seconds', served),
      outputToken: this.series.histogram('weir_time_per_output_token_seconds', served),
      charges: undefined,
    }
  }

  private chargesOf({ organization, key, model, provider }: GroupLabels): Charges {
    const tokens = (type: string) =>
      this.series.counter('weir_tokens_total', this.withKey([type, model, provider, organization], key))
    return {
      input: tokens('input'),
      cachedInput: tokens('cached_input'),
      cacheWrite: tokens('cache_write'),
      output: tokens('output'),
      reasoning: tokens('reasoning'),
      cost: this.series.counter('weir_cost_usd_total', this.withKey([model, provider, organization], key)),
      estimated: this.series.counter('weir_estimated_usage_total', [model, provider]),
    }
  }

  private withKey(labels: LabelValues, key: string): LabelValues {
    return this.options.keyLabel ? [...labels, key] : labels
  }

  private keyLabel(key: string): string {
    if (this.keys.has(key)) return key
    if (this.keys.size >= KEYS_MAX) return OTHER
    this.keys.add(key)
    return key
  }
}

/** The public name, or the pattern, of a model that served or was asked for; '' if it is not configured. */
function configuredName(catalog: Catalog, name: string | undefined): string {
  if (name === undefined) return ''
  if (name === AUTO) return catalog.autoCandidates.length > 0 ? AUTO : ''
  const model = catalog.lookup(name)
  return typeof model === 'string' ? '' : model.name
}

function level<Value>(of: Level<Level<Value>>, name: string): Level<Value> {
  let next = of.get(name)
  if (next === undefined) {
    next = new Map()
    of.set(name, next)
  }
  return next
}
