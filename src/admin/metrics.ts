/**
 * The metrics as Prometheus text. Nothing is counted here: the values are read when the text is requested. Labels are
 * names of the configuration, never what a caller wrote.
 */

import { counterFamilies, counterNames, histogramFamilies, histogramNames } from '../metrics/families.ts'
import type { LabelValues } from '../metrics/figures-post.ts'
import type { TimeCounts } from '../metrics/time-counts.ts'
import { type Figures, type Labels, systemSeries } from './system-series.ts'

export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Every metric with its help and type, also those without a series at the moment. */
export function metricsText(figures: Figures): string {
  const { counted } = figures
  const ofSystem = systemSeries.map(({ name, type, help, samples }) => [
    ...opening(name, type, help),
    ...samples(figures).map(({ labels, value }) => line(name, labels, value)),
  ])
  const counters = counterNames.map((name) => {
    const { help, labels, byKey, scale = 1 } = counterFamilies[name]
    const names = byKey === true ? [...labels, 'key'] : labels
    const series = Array.from(counted.counterSeries(name), (each) =>
      line(name, labelled(names, each.labels), scale === 1 ? each.value : rounded(each.value * scale)),
    )
    return [...opening(name, 'counter', help), ...series]
  })
  const histograms = histogramNames.map((name) => {
    const { help, labels: names } = histogramFamilies[name]
    const series = [...counted.histogramSeries(name)].flatMap(({ labels, counts }) =>
      histogramLines(name, labelled(names, labels), counts),
    )
    return [...opening(name, 'histogram', help), ...series]
  })
  return `${[...ofSystem, ...counters, ...histograms].map((lines) => lines.join('\n')).join('\n\n')}\n`
}

function opening(name: string, type: string, help: string): readonly string[] {
  return [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} ${type}`]
}

/** `weir_workers{…} 2` */
function line(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text).replaceAll('"', '\\"')}"`)
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

/** The lines of one series: each bucket with all that is below its bound, the sum, and the count. */
function histogramLines(name: string, labels: Labels, { bounds, counts, sum }: TimeCounts): readonly string[] {
  let below = 0
  const buckets = counts.map((count, bucket) => {
    below += count
    return line(`${name}_bucket`, { ...labels, le: `${bounds[bucket] ?? '+Inf'}` }, below)
  })
  return [...buckets, line(`${name}_sum`, labels, rounded(sum)), line(`${name}_count`, labels, below)]
}

/** Without the key, if the series has none. */
function labelled(names: readonly string[], values: LabelValues): Labels {
  return Object.fromEntries(values.map((value, index) => [names[index] ?? '', value]))
}

/** Sums of decimals without the digits that binary fractions add. Never less than a smaller sum. */
function rounded(value: number): number {
  return Number(value.toPrecision(15))
}
