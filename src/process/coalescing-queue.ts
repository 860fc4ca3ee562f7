/** Runs a change of weir one at a time. All that are requested during one share the next. */

export class CoalescingQueue<T> {
  private running: Promise<T> | undefined
  private next: Promise<T> | undefined

  constructor(private readonly change: () => Promise<T>) {}

  /** Resolves to the result of a change that began after this call. */
  request(): Promise<T> {
    const { running } = this
    if (running === undefined) return this.begin()
    this.next ??= running.then(() => {
      this.next = undefined
      return this.begin()
    })
    return this.next
  }

  private begin(): Promise<T> {
    const running = this.change().finally(() => {
      if (this.running === running) this.running = undefined
    })
    this.running = running
    return running
  }
}
