/**
 * The table of what workers count: the name, help, labels and buckets of each metric. The recording in the worker, the
 * merging in the supervisor and the text of `GET /metrics` are made from it.
 *
 * Names and labels are an interface: dashboards and alerts use them, and after an upgrade the supervisor of one version
 * merges what workers of another version post.
 */

interface Family {
  readonly help: string
  readonly labels: readonly string[]
  /** Has the label `key`, too, with `metrics.key_label`. */
  readonly byKey?: true
}

interface CounterFamily extends Family {
  /** What one counted unit is worth in the metric's unit, if it is not 1: money is counted in micro-dollars. */
  readonly scale?: number
}

interface HistogramFamily extends Family {
  /** The upper bounds of the buckets in seconds, ascending; one more bucket counts what is above the last. */
  readonly bounds: readonly number[]
}

const TARGET = ['provider', 'model'] as const
const SERVED = ['dialect', 'model'] as const

const counters = {
  weir_requests_total: {
    help: 'Requests that ended.',
    labels: ['dialect', 'model', 'organization', 'status', 'outcome', 'error'],
    byKey: true,
  },
  weir_tokens_total: {
    help: 'Tokens that were charged. input includes cached_input and cache_write, output includes reasoning.',
    labels: ['type', 'model', 'provider', 'organization'],
    byKey: true,
  },
  weir_cost_usd_total: {
    help: 'Dollars that were charged.',
    labels: ['model', 'provider', 'organization'],
    byKey: true,
    scale: 1e-6,
  },
  weir_estimated_usage_total: {
    help: 'Requests whose tokens were counted by weir, in whole or in part, because the provider did not report them.',
    labels: ['model', 'provider'],
  },
  weir_attempts_total: {
    help: 'Calls of targets. model is the provider’s own name; result is answered or the kind of failure.',
    labels: [...TARGET, 'result'],
  },
  weir_fallbacks_total: {
    help: 'Requests that another candidate than the first answered. requested and served are public names.',
    labels: ['requested', 'served'],
  },
  weir_unpriced_requests_total: {
    help: 'Requests of a service tier without a price, charged at the base price. tier is the name, or other.',
    labels: ['model', 'tier'],
  },
  weir_limit_refusals_total: {
    help: 'Requests that a limit refused.',
    labels: ['organization', 'scope', 'limit'],
  },
  weir_target_rests_total: {
    help: 'How often the target began to rest after failures.',
    labels: TARGET,
  },
  weir_target_probes_total: {
    help:
      'Free requests, such as lists of models, that showed whether an idle target answers again. result is answered, ' +
      'none (the provider has no such request, or does not allow it) or the kind of failure.',
    labels: [...TARGET, 'result'],
  },
  weir_socket_turns_total: {
    help: 'Turns on WebSockets that ended. Each is one of weir_requests_total, too.',
    labels: [],
  },
  weir_socket_closed_total: {
    help: 'WebSockets that ended, by the reason of their log line.',
    labels: ['reason'],
  },
  weir_previous_response_total: {
    help: 'Turns with previous_response_id, by whether their WebSocket still had that response: found or not_found.',
    labels: ['result'],
  },
  weir_continuity_total: {
    help:
      'Answers in the histories of requests whose thoughts were looked up. result is found, missing (they had none, ' +
      'or these are not kept any more) or other_issuer.',
    labels: ['result'],
  },
  weir_queue_shed_total: {
    help:
      'Requests that were turned away because too many waited for room, or the worker was short of memory or CPU ' +
      'time. class is interactive or batch.',
    labels: ['class'],
  },
  weir_trace_spans_dropped_total: {
    help: 'Spans that the collector of traces did not take, or not fast enough.',
    labels: [],
  },
} as const satisfies Record<string, CounterFamily>

/** The conventions of OpenTelemetry for generative AI have these buckets, for the three metrics that have them here. */
const DURATION = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92] as const
const FIRST_TOKEN = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10] as const
const OUTPUT_TOKEN = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5] as const
const SHORT = [
  0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1,
] as const

const histograms = {
  weir_request_duration_seconds: {
    help: 'Time from the arrival of a request to its end.',
    labels: SERVED,
    bounds: DURATION,
  },
  weir_time_to_first_token_seconds: {
    help: 'Time from the arrival of a streamed request to the first content of its answer.',
    labels: SERVED,
    bounds: FIRST_TOKEN,
  },
  weir_time_per_output_token_seconds: {
    help: 'Time per output token after the first, of complete streams.',
    labels: SERVED,
    bounds: OUTPUT_TOKEN,
  },
  weir_overhead_seconds: {
    help:
      'Time of an answered request in weir alone: from its body to the call of the first provider, and from the end ' +
      'of the provider’s answer to the end of the request.',
    labels: [],
    bounds: SHORT,
  },
  weir_target_first_byte_seconds: {
    help: 'Time from the call of a target to its first content; to the end of an answer that is not streamed.',
    labels: TARGET,
    bounds: FIRST_TOKEN,
  },
  weir_queue_wait_seconds: {
    help: 'Time that requests waited for room at a provider, of those that got it.',
    labels: ['class'],
    bounds: DURATION,
  },
  weir_ledger_operation_seconds: {
    help: 'Time of a call of the ledger: reserve, extend or settle.',
    labels: ['operation'],
    bounds: SHORT,
  },
} as const satisfies Record<string, HistogramFamily>

export type CounterName = keyof typeof counters
export type HistogramName = keyof typeof histograms

export const counterFamilies: Readonly<Record<CounterName, CounterFamily>> = counters
export const histogramFamilies: Readonly<Record<HistogramName, HistogramFamily>> = histograms
export const counterNames = Object.keys(counterFamilies).filter(isCounter)
export const histogramNames = Object.keys(histogramFamilies).filter(isHistogram)

export function isCounter(name: string): name is CounterName {
  return Object.hasOwn(counterFamilies, name)
}

export function isHistogram(name: string): name is HistogramName {
  return Object.hasOwn(histogramFamilies, name)
}

/** The value of every label of a series beyond a bound on the number of series, and of keys beyond theirs. */
export const OTHER = '(other)'

/** Series of one metric. A configuration of this many models and organisations is split no further. */
export const SERIES_MAX = 50_000
/** Keys with series of their own, with `metrics.key_label`. Commands may create 500,000 keys. */
export const KEYS_MAX = 2000
