/**
 * A value that is read from elsewhere when somebody asks for it and it is too old. However many ask, it is read once at
 * a time; reading takes at most 2 % of the time. Who asks after a pause gets a new value, and never the one that the
 * last asker saw hours ago. What could not be read is tried again as soon as a value would be.
 */

import { within } from '../core/wait-limit.ts'
import { pauseAfterReading } from '../reports/reading-pause.ts'

interface RefreshedOptions<T> {
  readonly read: () => Promise<T>
  /** It is not read again before it is this old. */
  readonly ageMs: number
  /** From then on it is read again although nothing seems to have changed. */
  readonly ageMsMax: number
  /** A number that is another one if the value has probably changed; NaN if it changes all the time. */
  readonly version: () => number
  /** `performance.now` if absent. */
  readonly clock?: (() => number) | undefined
}

export class Refreshed<T> {
  private value: T | undefined
  private problem: Error | undefined
  private reading: Promise<T> | undefined
  /** When the last reading began: the value is as of then. */
  private begunMs = Number.NEGATIVE_INFINITY
  private endedMs = Number.NEGATIVE_INFINITY
  private pauseMs = 0
  private version = Number.NaN
  /** Nothing had changed since the reading before. A change is counted a moment before it can be read in the ledger. */
  private isSettled = false
  private readonly clock: () => number

  constructor(private readonly options: RefreshedOptions<T>) {
    this.clock = options.clock ?? (() => performance.now())
  }

  /** The value; waits for a reading if it is too old. Rejects as `read` does. */
  async get(): Promise<T> {
    const reading = this.refreshed()
    if (reading !== undefined) return await reading
    if (this.value !== undefined && this.problem === undefined) return this.value
    throw this.problem ?? new Error('Nothing was read.')
  }

  /**
   * As `get`, but waits at most `waitMs`: if a reading takes longer, resolves to the value that somebody else got a
   * moment ago. Undefined if there is none, and if the value cannot be read.
   */
  async fresh(waitMs: number): Promise<T | undefined> {
    const read = this.refreshed()?.catch(() => {})
    if (read !== undefined && (await within(waitMs, read)) === undefined && this.reading !== undefined) {
      if (this.clock() - this.begunMs > this.options.ageMsMax + this.pauseMs) return undefined
    }
    return this.problem === undefined ? this.value : undefined
  }

  /** The reading that must be waited for; undefined if the value is new enough. */
  private refreshed(): Promise<T> | undefined {
    if (this.reading === undefined && this.isDue()) this.reading = this.read()
    return this.reading
  }

  private isDue(): boolean {
    const now = this.clock()
    const ageMs = now - this.begunMs
    if (ageMs < this.options.ageMs || now - this.endedMs < this.pauseMs) return false
    return ageMs >= this.options.ageMsMax || !this.isSettled || this.version !== this.options.version()
  }

  private read(): Promise<T> {
    const begunMs = this.clock()
    const version = this.options.version()
    const ended = (pauseMs?: number) => {
      this.reading = undefined
      this.endedMs = this.clock()
      this.pauseMs = pauseMs ?? pauseAfterReading(this.endedMs - begunMs)
      this.begunMs = begunMs
      this.isSettled = this.version === version
      this.version = version
    }
    const reading = this.options.read().then(
      (value) => {
        ended()
        this.value = value
        this.problem = undefined
        return value
      },
      (error: unknown) => {
        // It waited for seconds and read nothing. After the pause of a reading that long, a ledger would be called
        // away for minutes after its return.
        ended(this.options.ageMs)
        // The next asker tries again: a ledger that is back is no change that can be seen from here.
        this.version = Number.NaN
        this.problem = error instanceof Error ? error : new Error(String(error))
        throw error
      },
    )
    // A caller that waits for it gets the rejection, too.
    reading.catch(() => {})
    return reading
  }
}
