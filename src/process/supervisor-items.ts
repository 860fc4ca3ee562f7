/**
 * The items that workers remember in the memory of the supervisor: the worker's side sends them over the channel
 * between the two. Bounded: what the supervisor has not taken yet counts, and more is dropped.
 */

import type { ItemText } from '../items/item-store.ts'
import type { ItemChannel } from '../items/peer-item-store.ts'
import type { ToSupervisor } from './ipc.ts'

/** Characters of items that may be on their way to the supervisor. */
const UNDERWAY_MAX = 32 * 1024 * 1024
/**
 * Items of this time are sent together: a message between the two processes takes longer than an item in it. 64 items
 * in a message take 5 µs each, 16 take 10, in both processes together. `PeerItemStore` looks for an item longer.
 */
const GATHER_MS = 20
/** How long a request waits for an item. */
const ANSWER_MS_MAX = 1000

type Sent = Extract<ToSupervisor, { type: 'remember' | 'recall' }>

/** The worker's side. */
export class SupervisorItems implements ItemChannel {
  private underway = 0
  /** What waits to be sent, by organisation. */
  private unsent = new Map<string, ItemText[]>()
  private next = 0
  private readonly waiting = new Map<number, (json: string | undefined) => void>()

  constructor(private readonly send: (message: Sent) => void) {}

  put(organization: string, items: readonly ItemText[]): void {
    const size = sizeOf(items)
    if (items.length === 0 || this.underway + size > UNDERWAY_MAX) return
    this.underway += size
    if (this.unsent.size === 0) setTimeout(() => this.flush(), GATHER_MS)
    const waiting = this.unsent.get(organization)
    if (waiting === undefined) this.unsent.set(organization, [...items])
    else waiting.push(...items)
  }

  private flush(): void {
    const { unsent } = this
    if (unsent.size === 0) return
    this.unsent = new Map()
    for (const [organization, items] of unsent) this.send({ type: 'remember', organization, items })
  }

  /** The supervisor has taken items of this size. */
  taken(size: number): void {
    this.underway -= size
  }

  async get(organization: string, id: string): Promise<string | undefined> {
    const number = this.next++
    const { promise, resolve, reject } = Promise.withResolvers<string | undefined>()
    const late = setTimeout(() => reject(new Error('The supervisor does not answer.')), ANSWER_MS_MAX)
    this.waiting.set(number, resolve)
    this.flush()
    this.send({ type: 'recall', id: number, organization, item: id })
    try {
      return await promise
    } finally {
      clearTimeout(late)
      this.waiting.delete(number)
    }
  }

  answer(number: number, json: string | undefined): void {
    this.waiting.get(number)?.(json)
  }
}

/** Characters of items, as both sides count them. */
export function sizeOf(items: readonly ItemText[]): number {
  return items.reduce((sum, { id, json }) => sum + id.length + json.length, 0)
}
