/**
 * What a worker posts to the supervisor once a second: what changed since its last post. Plain data for JSON. Names on
 * the wire do not change, and a supervisor ignores series that it does not know.
 */

/** The values of a series' labels, in the order of its family; then the key, with `metrics.key_label`. */
export type LabelValues = readonly string[]

/** The last failure of a target. */
export interface TargetError {
  readonly provider: string
  /** The provider's own name of the model. */
  readonly model: string
  /** The kind of provider error. */
  readonly error: string
  /** The provider's HTTP status, if it sent one. */
  readonly status?: number | undefined
  /** Why it could not be reached: `ECONNREFUSED`, `connect_timeout`, … */
  readonly cause?: string | undefined
  /** Unix milliseconds. */
  readonly atMs: number
}

export interface FiguresPost {
  /** By how much each series grew, in the unit that is counted. */
  readonly counters: Readonly<Record<string, readonly (readonly [labels: LabelValues, added: number])[]>>
  /** How many observations each bucket got, one number more than there are bounds, and their sum in seconds. */
  readonly histograms: Readonly<
    Record<string, readonly (readonly [labels: LabelValues, added: readonly number[], sum: number])[]>
  >
  readonly gauges: WorkerGauges
  readonly errors: readonly TargetError[]
}

/** What is true of one worker at the moment of the post. */
export interface WorkerGauges {
  /** Requests that run, streams included. */
  readonly inFlight: number
  /** Streams that have begun and run. */
  readonly streams: number
  /** WebSockets of callers that are open, and the bytes of the conversations that they keep. */
  readonly sockets: number
  readonly socketStateBytes: number
  /** Settlements that have not reached the ledger's store. */
  readonly outboxPending: number
  /** Requests that wait for room at a provider, by class. Absent without limits of providers. */
  readonly waiting?: Readonly<Record<string, number>> | undefined
  /** What is left of limits of providers and targets, from 0 to 1, by their names. Absent likewise. */
  readonly left?: Readonly<Record<string, number>> | undefined
  /** The longest time that the event loop was late since the last post, in seconds. */
  readonly loopLagSeconds: number
}
