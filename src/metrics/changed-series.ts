/**
 * The series that a worker counts, and what each has grown by since the worker last posted: a post names only those
 * that have changed.
 */

import { type CounterName, type HistogramName, histogramFamilies } from './families.ts'
import type { FiguresPost, LabelValues } from './figures-post.ts'
import { SeriesTable } from './series-table.ts'
import { TimeCounts } from './time-counts.ts'

/** One series of a counter. */
export class Counter {
  /** Since the last post. */
  added = 0

  constructor(
    readonly name: CounterName,
    readonly labels: LabelValues,
    private readonly changed: Counter[],
  ) {}

  add(amount: number): void {
    if (this.added === 0 && amount > 0) this.changed.push(this)
    this.added += amount
  }
}

/** One series of a histogram. */
export class Histogram {
  /** Since the last post. */
  readonly added: TimeCounts
  private hasChanged = false

  constructor(
    readonly name: HistogramName,
    readonly labels: LabelValues,
    private readonly changed: Histogram[],
  ) {
    this.added = new TimeCounts(histogramFamilies[name].bounds)
  }

  observe(seconds: number): void {
    if (!this.hasChanged) {
      this.hasChanged = true
      this.changed.push(this)
    }
    this.added.observe(seconds)
  }

  posted(): void {
    this.hasChanged = false
    this.added.clear()
  }
}

export class ChangedSeries {
  private readonly counters = new Map<CounterName, SeriesTable<Counter>>()
  private readonly histograms = new Map<HistogramName, SeriesTable<Histogram>>()
  private readonly changedCounters: Counter[] = []
  private readonly changedHistograms: Histogram[] = []

  /** Whether anything was counted since the last `take`. */
  get hasChanged(): boolean {
    return this.changedCounters.length > 0 || this.changedHistograms.length > 0
  }

  /** The series with these labels, made at its first use. */
  counter(name: CounterName, labels: LabelValues): Counter {
    const make = () => new SeriesTable((its) => new Counter(name, its, this.changedCounters))
    return this.counters.getOrInsertComputed(name, make).at(labels)
  }

  /** As `counter`. */
  histogram(name: HistogramName, labels: LabelValues): Histogram {
    const make = () => new SeriesTable((its) => new Histogram(name, its, this.changedHistograms))
    return this.histograms.getOrInsertComputed(name, make).at(labels)
  }

  /** What was counted since the last call, which then counts as posted. */
  take(): Pick<FiguresPost, 'counters' | 'histograms'> {
    const { changedCounters, changedHistograms } = this
    const counters: Record<string, [LabelValues, number][]> = {}
    for (const counter of changedCounters) {
      listIn(counters, counter.name).push([counter.labels, counter.added])
      counter.added = 0
    }
    const histograms: Record<string, [LabelValues, readonly number[], number][]> = {}
    for (const histogram of changedHistograms) {
      const { counts, sum } = histogram.added
      listIn(histograms, histogram.name).push([histogram.labels, counts.slice(), sum])
      histogram.posted()
    }
    changedCounters.length = 0
    changedHistograms.length = 0
    return { counters, histograms }
  }
}

function listIn<Item>(lists: Record<string, Item[]>, name: string): Item[] {
  lists[name] ??= []
  return lists[name]
}
