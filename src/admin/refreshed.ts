/**
 * A value that is read from elsewhere when somebody asks for it and it is too old. However many ask, it is read once at
 * a time, and a slow read is repeated less often: reading takes at most a twentieth of the time.
 */
export class Refreshed<T> {
  private value: T | undefined
  private reading: Promise<T> | undefined
  private dueMs = Number.NEGATIVE_INFINITY
  private problem: Error | undefined

  constructor(
    private readonly read: () => Promise<T>,
    /** How old a value may become. */
    private readonly ageMs: number,
  ) {}

  /**
   * The last value, if there is one; reads it again without waiting if it is old. Waits for the first. Rejects as
   * `read` does.
   */
  async get(): Promise<T> {
    if (performance.now() >= this.dueMs) this.refresh()
    if (this.value !== undefined && this.problem === undefined) return this.value
    if (this.reading !== undefined) return await this.reading
    if (this.problem !== undefined) throw this.problem
    throw new Error('Nothing was read.')
  }

  /** The last value without waiting; undefined before the first, and after a read that failed. */
  peek(): T | undefined {
    if (performance.now() >= this.dueMs) this.refresh()
    return this.problem === undefined ? this.value : undefined
  }

  /** The next call reads it again. */
  expire(): void {
    this.dueMs = Number.NEGATIVE_INFINITY
  }

  private refresh(): void {
    if (this.reading !== undefined) return
    const startMs = performance.now()
    const done = () => {
      const endMs = performance.now()
      this.reading = undefined
      this.dueMs = endMs + Math.max(this.ageMs, (endMs - startMs) * 19)
    }
    this.reading = this.read().then(
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
