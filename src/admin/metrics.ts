/**
 * The metrics as Prometheus text. Nothing is counted here: the values are read when the text is requested. Labels are
 * names of the configuration, never what a caller wrote.
 */

import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import {
  type CounterName,
  counterFamily,
  counterNames,
  type HistogramName,
  histogramFamily,
  histogramNames,
} from '../metrics/families.ts'
import type { LabelValues } from '../metrics/figures-post.ts'
import type { TimeCounts } from '../metrics/time-counts.ts'
import { type Figures, type Sample, systemSeries } from './system-series.ts'

interface Text {
  readonly text: string
  readonly type: string
}

/** A line of a histogram: its buckets and sums have names of their own. */
interface NamedSample extends Sample {
  readonly metricName: string
}

interface Description {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
  readonly registers: Registry[]
}

export class Metrics {
  private readonly registry = new Registry()
  private current: Figures | undefined

  constructor(private readonly figures: () => Promise<Figures>) {
    for (const { name, help, labels, type, samples } of systemSeries) {
      const values = () => (this.current === undefined ? [] : samples(this.current))
      const its = this.described(name, help, labels)
      if (type === 'counter') new ReadCounter(its, values)
      else new ReadGauge(its, values)
    }
    for (const name of counterNames) this.addCounter(name)
    for (const name of histogramNames) this.addHistogram(name)
  }

  /** The text and its content type. Rejects as the figures do. */
  async text(): Promise<Text> {
    this.current = await this.figures()
    return { text: await this.registry.metrics(), type: this.registry.contentType }
  }

  private addCounter(name: CounterName): void {
    const { help, labels, byKey, scale = 1 } = counterFamily(name)
    const names = byKey ? [...labels, 'key'] : labels
    new ReadCounter(this.described(name, help, names), () =>
      Array.from(this.current?.counted.counterSeries(name) ?? [], (series) => ({
        labels: labelled(names, series.labels),
        value: scale === 1 ? series.value : rounded(series.value * scale),
      })),
    )
  }

  private addHistogram(name: HistogramName): void {
    const { help, labels: names } = histogramFamily(name)
    new ReadHistogram(this.described(name, help, names), () =>
      Array.from(this.current?.counted.histogramSeries(name) ?? []).flatMap(({ labels, counts }) =>
        linesOf(name, labelled(names, labels), counts),
      ),
    )
  }

  private described(name: string, help: string, labelNames: readonly string[]): Description {
    return { name, help, labelNames, registers: [this.registry] }
  }
}

/** The package's metrics count by themselves; these read what was counted elsewhere. */
class ReadGauge extends Gauge {
  constructor(
    its: Description,
    private readonly values: () => readonly Sample[],
  ) {
    super(its)
  }

  override async get() {
    return { ...(await super.get()), values: [...this.values()] }
  }
}

class ReadCounter extends Counter {
  constructor(
    its: Description,
    private readonly values: () => readonly Sample[],
  ) {
    super(its)
  }

  override async get() {
    return { ...(await super.get()), values: [...this.values()] }
  }
}

class ReadHistogram extends Histogram {
  constructor(
    private readonly its: Description,
    private readonly values: () => readonly NamedSample[],
  ) {
    super(its)
  }

  override async get() {
    return { ...(await super.get()), values: [...this.values()] }
  }

  /** The package calls this one for the text. */
  async getForPromString() {
    const { name, help } = this.its
    return { name, help, type: 'histogram', values: this.values() }
  }
}

/** The lines of one series: each bucket with all that is below its bound, the sum, and the count. */
function linesOf(name: string, labels: Sample['labels'], { bounds, counts, sum }: TimeCounts): readonly NamedSample[] {
  let below = 0
  const buckets = counts.map((count, bucket) => {
    below += count
    const le = bounds[bucket]
    return {
      metricName: `${name}_bucket`,
      labels: { ...labels, le: le === undefined ? '+Inf' : `${le}` },
      value: below,
    }
  })
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: rounded(sum) },
    { metricName: `${name}_count`, labels, value: below },
  ]
}

/** Without the key, if the series has none. */
function labelled(names: readonly string[], values: LabelValues): Sample['labels'] {
  return Object.fromEntries(values.map((value, index) => [names[index] ?? '', value]))
}

/** Sums of decimals without the digits that binary fractions add. Never less than a smaller sum. */
function rounded(value: number): number {
  return Number(value.toPrecision(15))
}
