/**
 * The lines of the requests that ended in this worker, for those who watch: the last 200 are kept, and while somebody
 * watches, new ones are sent in batches. More than the supervisor asked for are counted instead.
 */

/** How many lines are kept. */
const KEPT = 200
const BATCH_MS = 250
const BATCHES_A_SECOND = 1000 / BATCH_MS

export class RequestFeed {
  private readonly kept: string[] = []
  /** The place of the oldest line, once the list is full. */
  private oldest = 0
  private linesABatch = 0
  private batch: string[] = []
  private omitted = 0
  private timer: ReturnType<typeof setInterval> | undefined

  /** `send` gets lines without their line ends, and how many others ended since the last call. */
  constructor(private readonly send: (lines: readonly string[], omitted: number) => void) {}

  /** Takes the line of a request, with its line end. */
  add(line: string): void {
    if (this.kept.length < KEPT) this.kept.push(line)
    else {
      this.kept[this.oldest] = line
      this.oldest = (this.oldest + 1) % KEPT
    }
    if (this.timer === undefined) return
    if (this.batch.length < this.linesABatch) this.batch.push(line.trimEnd())
    else this.omitted++
  }

  /** The last lines, the oldest first. */
  recent(): readonly string[] {
    return [...this.kept.slice(this.oldest), ...this.kept.slice(0, this.oldest)].map((line) => line.trimEnd())
  }

  /** From now on sends at most this many lines a second, evenly over the second; 0: none. */
  watch(linesASecond: number): void {
    this.linesABatch = Math.ceil(linesASecond / BATCHES_A_SECOND)
    if (linesASecond > 0) this.timer ??= setInterval(() => this.flush(), BATCH_MS).unref()
    else this.stop()
  }

  /** Sends nothing more until the next `watch`. */
  stop(): void {
    clearInterval(this.timer)
    this.timer = undefined
    this.batch = []
    this.omitted = 0
  }

  private flush(): void {
    if (this.batch.length === 0 && this.omitted === 0) return
    this.send(this.batch, this.omitted)
    this.batch = []
    this.omitted = 0
  }
}
