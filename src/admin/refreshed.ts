/**
 * A value that is read from elsewhere when somebody asks for it and it is too old. However many ask, it is read once at
 * a time; reading takes at most 2 % of the time.
 */

import { within } from '../core/wait-limit.ts'
import { pauseAfterReading } from '../reports/reading-pause.ts'

interface RefreshedOptions<T> {
  readonly read: () => Promise<T>
  /** It is not read again before it is this old. */
  readonly ageMs: number
  /** From then on it is read again although nothing seems to have changed. */
  readonly ageMsMax: number
  /** A number that is another one if the value has probably changed. */
  readonly version: () => number
}

export class Refreshed<T> {
  private value: T | undefined
  private problem: Error | undefined
  private reading: Promise<T> | undefined
  private readMs = Number.NEGATIVE_INFINITY
  private pauseMs = 0
  private version = Number.NaN

  constructor(private readonly options: RefreshedOptions<T>) {}

  /**
   * The last value, if there is one; reads it again without waiting if it is old. Waits for the first. Rejects as
   * `read` does.
   */
  async get(): Promise<T> {
    if (this.isDue()) this.refresh()
    if (this.value !== undefined && this.problem === undefined) return this.value
    if (this.reading !== undefined) return await this.reading
    throw this.problem ?? new Error('Nothing was read.')
  }

  /**
   * As `get`, for readers that come rarely and should not get an old value: waits for a reading, at most `waitMs`, and
   * resolves to the last value if it takes longer. Undefined if the value cannot be read.
   */
  async fresh(waitMs: number): Promise<T | undefined> {
    if (this.isDue()) this.refresh()
    const { reading } = this
    if (reading !== undefined) await within(waitMs, reading).catch(() => {})
    return this.problem === undefined ? this.value : undefined
  }

  private isDue(): boolean {
    const ageMs = performance.now() - this.readMs
    if (ageMs < Math.max(this.options.ageMs, this.pauseMs)) return false
    return ageMs >= this.options.ageMsMax || this.version !== this.options.version()
  }

  private refresh(): void {
    if (this.reading !== undefined) return
    const startMs = performance.now()
    this.version = this.options.version()
    const done = () => {
      this.reading = undefined
      this.readMs = performance.now()
      this.pauseMs = pauseAfterReading(this.readMs - startMs)
    }
    this.reading = this.options.read().then(
      (value) => {
        done()
        this.value = value
        this.problem = undefined
        return value
      },
      (error: unknown) => {
        done()
        this.problem = error instanceof Error ? error : new Error(String(error))
        throw error
      },
    )
    // A caller that waits for it gets the rejection, too.
    this.reading.catch(() => {})
  }
}
