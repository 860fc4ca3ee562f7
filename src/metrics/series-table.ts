/** The series of one metric, by the values of their labels. */

import { OTHER, SERIES_MAX } from './families.ts'
import type { LabelValues } from './figures-post.ts'

export class SeriesTable<Series> {
  private readonly known = new Map<string, Series>()

  constructor(private readonly make: (labels: LabelValues) => Series) {}

  /** Beyond the bound on series, one series of others takes the rest. */
  at(labels: LabelValues): Series {
    const own = keyOf(labels)
    const found = this.known.get(own)
    if (found !== undefined) return found
    const isFull = this.known.size >= SERIES_MAX
    const its = isFull ? labels.map(() => OTHER) : labels
    const key = isFull ? keyOf(its) : own
    const series = this.known.get(key) ?? this.make(its)
    this.known.set(key, series)
    return series
  }

  /** Undefined if nothing was counted with these labels. */
  find(labels: LabelValues): Series | undefined {
    return this.known.get(keyOf(labels))
  }

  all(): Iterable<Series> {
    return this.known.values()
  }
}

/** Names of the configuration have no control characters. */
function keyOf(labels: LabelValues): string {
  return labels.join('\0')
}
