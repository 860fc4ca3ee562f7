/** What a load generator counts: answers, events, failures and latencies. */

import { percentile } from './statistics.ts'

export interface Counts {
  /** Complete and correct answers. */
  readonly answers: number
  readonly events: number
  readonly bytes: number
  /** Streams that have sent an event and not ended. */
  readonly started: number
  readonly failures: number
  /** The first few failures, in words. */
  readonly reasons: readonly string[]
  /**
   * Percentiles since the last `read`, in microseconds: from the request to the last byte of the answer, or of each
   * event from the provider to the caller. All values would be a message of 100 KB.
   */
  readonly latency: Readonly<Record<'p50' | 'p99', number>>
}

const LATENCIES_MAX = 20_000

/** The counts of all connections of one load. */
export class Counter {
  answers = 0
  events = 0
  bytes = 0
  started = 0
  failures = 0
  readonly reasons: string[] = []
  private latencies: number[] = []
  private seen = 0

  fail(reason: string): void {
    this.failures++
    if (this.reasons.length < 5) this.reasons.push(reason)
  }

  /** Keeps a uniform sample of what may be millions of latencies. */
  latency(microseconds: number): void {
    this.seen++
    if (this.latencies.length < LATENCIES_MAX) this.latencies.push(microseconds)
    else {
      const at = Math.floor(Math.random() * this.seen)
      if (at < LATENCIES_MAX) this.latencies[at] = microseconds
    }
  }

  read(): Counts {
    const { answers, events, bytes, started, failures, reasons } = this
    const latency = { p50: percentile(this.latencies, 50), p99: percentile(this.latencies, 99) }
    this.latencies = []
    this.seen = 0
    return { answers, events, bytes, started, failures, reasons, latency }
  }
}
