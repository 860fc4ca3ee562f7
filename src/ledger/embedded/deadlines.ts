/** What falls due when: a binary heap of ids by time. An id may be in it several times; whoever takes it out asks whether it is still due. */

interface Entry {
  readonly dueMs: number
  readonly id: string
}

/** So few are not worth the walk. */
const TRIMMED_FROM = 256

export class Deadlines {
  private readonly heap: Entry[] = []

  get size(): number {
    return this.heap.length
  }

  add(dueMs: number, id: string): void {
    const heap = this.heap
    const entry = { dueMs, id }
    let at = heap.length
    heap.push(entry)
    while (at > 0) {
      const above = (at - 1) >> 1
      const parent = heap[above]
      if (parent === undefined || parent.dueMs <= dueMs) break
      heap[at] = parent
      at = above
    }
    heap[at] = entry
  }

  /** Lets go of the ids that are no longer in `known`, where they are the greater part. */
  trim(known: ReadonlyMap<string, unknown>): void {
    if (this.heap.length <= 2 * known.size + TRIMMED_FROM) return
    const kept = this.heap.filter(({ id }) => known.has(id))
    this.heap.length = 0
    for (const { dueMs, id } of kept) this.add(dueMs, id)
  }

  /** The id that falls due first, taken out, where that is not after `now`. */
  next(now: number): string | undefined {
    const first = this.heap[0]
    if (first === undefined || first.dueMs > now) return undefined
    const last = this.heap.pop()
    if (last !== undefined && this.heap.length > 0) this.sink(last)
    return first.id
  }

  /** Puts an entry at the top and lets it down to its place. */
  private sink(entry: Entry): void {
    const heap = this.heap
    let at = 0
    for (;;) {
      let below = 2 * at + 1
      const left = heap[below]
      const right = heap[below + 1]
      if (left !== undefined && right !== undefined && right.dueMs < left.dueMs) below += 1
      const child = heap[below]
      if (child === undefined || child.dueMs >= entry.dueMs) break
      heap[at] = child
      at = below
    }
    heap[at] = entry
  }
}
