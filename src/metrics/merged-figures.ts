/**
 * The figures of all workers, added up in the supervisor. They survive the death and replacement of workers; what a
 * killed worker had not posted, at most a second's worth, is lost.
 *
 * `GET /metrics` renders all series; the admin API and the console read the same figures as numbers. Workers post once
 * a second, so figures are up to a second old.
 */

import { targetKey } from '../core/model-config.ts'
import {
  type CounterName,
  counterFamilies,
  counterNames,
  type HistogramName,
  histogramFamilies,
  histogramNames,
  isCounter,
  isHistogram,
  KEYS_MAX,
  OTHER,
  SERIES_MAX,
} from './families.ts'
import type { FiguresPost, LabelValues, TargetError, WorkerGauges } from './figures-post.ts'
import { SeriesTable } from './series-table.ts'
import { TimeCounts } from './time-counts.ts'

/** Sums over all requests that ended since the start. All but `firstToken` are counts; money in micro-dollars. */
interface Totals {
  readonly requests: number
  /** Ended with status 5xx, or with an answer that broke off. */
  readonly errors: number
  /** Refused by a limit or by the provider's limit: status 429. */
  readonly limited: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly costMicroUsd: number
  /** Times to the first token of streams. */
  readonly firstToken: TimeCounts
}

/** What a target has done since the start. */
interface TargetTotals {
  readonly provider: string
  readonly model: string
  /** Attempts by result: `answered`, a kind of provider error, or `caller_left` and `drained` if it was interrupted. */
  readonly attempts: ReadonlyMap<string, number>
  /** Times to the first content, of attempts that were answered. */
  readonly firstByte: TimeCounts
  readonly lastError: TargetError | undefined
}

/** How requests of one class have waited for room at providers. */
export interface QueueTotals {
  /** Now. */
  readonly waiting: number
  /** Those that got room, and how long all of them together waited. */
  readonly waited: number
  readonly waitedSeconds: number
  /** Turned away: too many waited, or a worker was short of memory or CPU time. */
  readonly shed: number
}

/** One series with its value. */
interface CounterSeries {
  readonly labels: LabelValues
  value: number
}

interface HistogramSeries {
  readonly labels: LabelValues
  readonly counts: TimeCounts
}

/** Outcomes of answers that broke off although their status is 200. */
const BROKEN_OFF: ReadonlySet<string> = new Set(['provider_cut', 'timed_out'])

const STATUS = counterFamilies.weir_requests_total.labels.indexOf('status')
const ERROR = counterFamilies.weir_requests_total.labels.indexOf('error')
const OUTCOME = counterFamilies.weir_requests_total.labels.indexOf('outcome')
const TOKEN_TYPE = counterFamilies.weir_tokens_total.labels.indexOf('type')

export class MergedFigures {
  private readonly counters = new Map(counterNames.map((name) => [name, newCounters()]))
  private readonly histograms = new Map(histogramNames.map((name) => [name, newHistograms(name)]))
  /** The gauges of the processes that run, by process id. */
  private readonly workers = new Map<number, WorkerGauges>()
  private readonly errors = new Map<string, TargetError>()
  private readonly keys = new Set<string>()
  private readonly sums = { requests: 0, errors: 0, limited: 0, inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }
  private readonly firstToken = new TimeCounts(histogramFamilies.weir_time_to_first_token_seconds.bounds)

  /** A counter without labels is 0 before it counts anything, so that its first increase shows. */
  constructor() {
    for (const name of counterNames) if (counterFamilies[name].labels.length === 0) this.counters.get(name)?.at([])
  }

  /** Adds what a worker posted. `pid` is that of its process; absent if it has ended meanwhile. */
  add({ counters, histograms, gauges, errors }: FiguresPost, pid?: number): void {
    for (const [name, series] of Object.entries(counters)) {
      if (!isCounter(name)) continue
      for (const [labels, added] of series) this.count(name, labels, added)
    }
    for (const [name, series] of Object.entries(histograms)) {
      if (!isHistogram(name)) continue
      for (const [labels, added, sum] of series) this.observe(name, labels, added, sum)
    }
    if (pid !== undefined) this.workers.set(pid, gauges)
    for (const error of errors) this.keepError(error)
  }

  /** A worker process has ended: what it counted stays. */
  gone(pid: number): void {
    this.workers.delete(pid)
  }

  /** All of it only grows: a rate is the difference of two readings, `TimeCounts.minus` gives percentiles. */
  totals(): Totals {
    return { ...this.sums, firstToken: this.firstToken.copy() }
  }

  /** Sums over the workers that run; the lag is the largest, and what is left of a limit the least. */
  gauges(): WorkerGauges {
    let [inFlight, streams, sockets, socketStateBytes, outboxPending, loopLagSeconds] = [0, 0, 0, 0, 0, 0]
    const waiting: Record<string, number> = {}
    const left: Record<string, number> = {}
    for (const worker of this.workers.values()) {
      for (const [name, count] of Object.entries(worker.waiting ?? {})) waiting[name] = (waiting[name] ?? 0) + count
      for (const [name, part] of Object.entries(worker.left ?? {})) left[name] = Math.min(left[name] ?? 1, part)
      inFlight += worker.inFlight
      streams += worker.streams
      // Workers of an earlier version do not count sockets.
      sockets += worker.sockets ?? 0
      socketStateBytes += worker.socketStateBytes ?? 0
      outboxPending += worker.outboxPending
      loopLagSeconds = Math.max(loopLagSeconds, worker.loopLagSeconds)
    }
    const counts = { inFlight, streams, sockets, socketStateBytes, outboxPending, loopLagSeconds }
    const hasLimits = Object.keys(waiting).length > 0
    return hasLimits ? { ...counts, waiting, left } : counts
  }

  /** Requests that wait for room, by class; all but `waiting` since the start. Empty without limits of providers. */
  queue(): Readonly<Record<string, QueueTotals>> {
    const { waiting = {} } = this.gauges()
    const shedOf = (name: string) => this.counters.get('weir_queue_shed_total')?.find([name])?.value ?? 0
    return Object.fromEntries(
      Object.entries(waiting).map(([name, count]) => {
        const waits = this.histograms.get('weir_queue_wait_seconds')?.find([name])?.counts
        const [waited, waitedSeconds] = [waits?.count ?? 0, waits?.sum ?? 0]
        return [name, { waiting: count, waited, waitedSeconds, shed: shedOf(name) }]
      }),
    )
  }

  gaugesOf(pid: number): WorkerGauges | undefined {
    return this.workers.get(pid)
  }

  /** The targets that were called since the start, also those that are no longer configured. */
  targets(): readonly TargetTotals[] {
    const found = new Map<string, { attempts: Map<string, number>; provider: string; model: string }>()
    for (const { labels, value } of this.counterSeries('weir_attempts_total')) {
      const [provider = '', model = '', result = ''] = labels
      const key = targetKey({ provider, model })
      const target = found.get(key) ?? { provider, model, attempts: new Map<string, number>() }
      target.attempts.set(result, (target.attempts.get(result) ?? 0) + value)
      found.set(key, target)
    }
    return [...found].map(([key, target]) => ({
      ...target,
      firstByte: this.firstByteOf(target.provider, target.model),
      lastError: this.errors.get(key),
    }))
  }

  counterSeries(name: CounterName): Iterable<CounterSeries> {
    return this.counters.get(name)?.all() ?? []
  }

  histogramSeries(name: HistogramName): Iterable<HistogramSeries> {
    return this.histograms.get(name)?.all() ?? []
  }

  private firstByteOf(provider: string, model: string): TimeCounts {
    const series = this.histograms.get('weir_target_first_byte_seconds')?.find([provider, model])
    return series?.counts.copy() ?? new TimeCounts(histogramFamilies.weir_target_first_byte_seconds.bounds)
  }

  private count(name: CounterName, labels: LabelValues, added: number): void {
    const { labels: names, byKey } = counterFamilies[name]
    const { sums } = this
    const own = this.bounded(labels, names.length, byKey === true)
    if (own === undefined) return
    const series = this.counters.get(name)?.at(own)
    if (series === undefined) return
    series.value += added
    if (name === 'weir_requests_total') this.sumRequests(labels, added)
    else if (name === 'weir_cost_usd_total') sums.costMicroUsd += added
    else if (name === 'weir_tokens_total' && labels[TOKEN_TYPE] === 'input') sums.inputTokens += added
    else if (name === 'weir_tokens_total' && labels[TOKEN_TYPE] === 'output') sums.outputTokens += added
  }

  private observe(name: HistogramName, labels: LabelValues, added: readonly number[], sum: number): void {
    const { labels: names, bounds } = histogramFamilies[name]
    if (labels.length !== names.length || added.length !== bounds.length + 1) return
    this.histograms.get(name)?.at(labels).counts.add(added, sum)
    if (name === 'weir_time_to_first_token_seconds') this.firstToken.add(added, sum)
  }

  private sumRequests(labels: LabelValues, added: number): void {
    const status = Number(labels[STATUS])
    this.sums.requests += added
    // A provider's limit is none of the operator's: all of its targets being limited is an outage.
    const isProvidersLimit = labels[ERROR] === 'upstream_rate_limited'
    const isBrokenOff = status < 400 && BROKEN_OFF.has(labels[OUTCOME] ?? '')
    if (status >= 500 || isBrokenOff || isProvidersLimit) this.sums.errors += added
    else if (status === 429) this.sums.limited += added
  }

  /**
   * The labels with the key, if there is one, replaced beyond the bound: each worker bounds its own keys, but many
   * workers have had their turn. Undefined for another number of labels, which another version has.
   */
  private bounded(labels: LabelValues, length: number, byKey: boolean): LabelValues | undefined {
    if (labels.length === length) return labels
    const key = labels[length]
    if (!byKey || labels.length !== length + 1 || key === undefined) return undefined
    if (this.keys.size < KEYS_MAX) this.keys.add(key)
    return this.keys.has(key) ? labels : [...labels.slice(0, length), OTHER]
  }

  private keepError(error: TargetError): void {
    const key = targetKey(error)
    if (!this.errors.has(key) && this.errors.size >= SERIES_MAX) return
    const known = this.errors.get(key)
    if (known === undefined || known.atMs <= error.atMs) this.errors.set(key, error)
  }
}

function newCounters(): SeriesTable<CounterSeries> {
  return new SeriesTable((labels) => ({ labels, value: 0 }))
}

function newHistograms(name: HistogramName): SeriesTable<HistogramSeries> {
  const { bounds } = histogramFamilies[name]
  return new SeriesTable((labels) => ({ labels, counts: new TimeCounts(bounds) }))
}
