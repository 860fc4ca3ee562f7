/** Calls in the order of their numbers, which is also the order in which they are answered. */

/** Places at the front that are empty before the rest moves up. */
const EMPTY_MAX = 256

export class CallQueue<T> {
  private calls: (T | undefined)[] = []
  /** The place of the first call. */
  private first = 0

  get size(): number {
    return this.calls.length - this.first
  }

  push(call: T): void {
    this.calls.push(call)
  }

  /** The first call; undefined if there is none. */
  peek(): T | undefined {
    return this.calls[this.first]
  }

  /** Removes the first call and returns it. */
  shift(): T | undefined {
    const call = this.calls[this.first]
    if (call === undefined) return undefined
    this.calls[this.first] = undefined
    this.first += 1
    if (this.first === this.calls.length) {
      this.calls.length = 0
      this.first = 0
    } else if (this.first >= EMPTY_MAX && 2 * this.first >= this.calls.length) {
      this.calls = this.calls.slice(this.first)
      this.first = 0
    }
    return call
  }

  /** All calls at this moment. */
  snapshot(): readonly T[] {
    return this.calls.slice(this.first).filter((call) => call !== undefined)
  }
}
