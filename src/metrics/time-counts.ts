/** A histogram of times: how many lie in each bucket, and their sum. */

export class TimeCounts {
  /** One more than there are bounds: the last counts what is above the last bound. */
  readonly counts: number[]
  /** Seconds. */
  sum = 0

  constructor(
    /** The upper bounds in seconds, ascending. */
    readonly bounds: readonly number[],
  ) {
    this.counts = new Array<number>(bounds.length + 1).fill(0)
  }

  get count(): number {
    return this.counts.reduce((sum, each) => sum + each, 0)
  }

  observe(seconds: number): void {
    const { bounds, counts } = this
    let bucket = 0
    while (bucket < bounds.length && seconds > (bounds[bucket] ?? 0)) bucket++
    counts[bucket] = (counts[bucket] ?? 0) + 1
    this.sum += seconds
  }

  /** Adds the counts of another histogram with the same bounds. */
  add(counts: readonly number[], sum: number): void {
    for (const [bucket, added] of counts.entries()) this.counts[bucket] = (this.counts[bucket] ?? 0) + added
    this.sum += sum
  }

  clear(): void {
    this.counts.fill(0)
    this.sum = 0
  }

  copy(): TimeCounts {
    const copy = new TimeCounts(this.bounds)
    copy.add(this.counts, this.sum)
    return copy
  }

  /** What was counted since an earlier copy of the same histogram. */
  minus(earlier: TimeCounts): TimeCounts {
    const since = this.copy()
    const counted = earlier.counts.map((count) => -count)
    since.add(counted, -earlier.sum)
    return since
  }

  /**
   * The time that a share of all times does not pass, in seconds, evenly spread within its bucket, as Prometheus
   * computes it. Beyond the last bound it is that bound. Undefined without times.
   */
  quantileSeconds(share: number): number | undefined {
    const { bounds, counts, count } = this
    if (count === 0) return undefined
    const rank = share * count
    let below = 0
    for (const [bucket, bound] of bounds.entries()) {
      const here = counts[bucket] ?? 0
      if (here > 0 && below + here >= rank) {
        const start = bounds[bucket - 1] ?? 0
        return start + (bound - start) * Math.max(0, (rank - below) / here)
      }
      below += here
    }
    return bounds.at(-1)
  }
}
