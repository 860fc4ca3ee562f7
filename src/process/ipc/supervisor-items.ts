/**
 * The items that workers remember in the memory of the supervisor: the worker's side sends them over the channel
 * between the two. Bounded: what the supervisor has not taken yet counts, and more is dropped.
 */

import type { ItemChannel, ItemText } from '../../items/item-store.ts'
import type { ToSupervisor } from './ipc.ts'
import { PendingReplies } from './pending-replies.ts'

/** Characters of items that may be on their way to the supervisor. */
const UNDERWAY_MAX = 32 * 1024 * 1024
/**
 * Items of this time are sent together: a message between the two processes takes longer than an item in it. If 64 are
 * sent together, each takes 3 µs of both processes, and 6 µs as an object of its own, because Bun then looks through
 * the message for buffers. `PeerItemStore` looks for an item longer than this.
 */
const GATHER_MS = 20
/** How long a request waits for an item. */
const ANSWER_MS_MAX = 1000

type ItemLines = Extract<ToSupervisor, { type: 'item-lines' }>
type Sent = ItemLines | Extract<ToSupervisor, { type: 'remember' | 'recall' }>

/** The worker's side. */
export class SupervisorItems implements ItemChannel {
  /** The supervisor takes `item-lines`. */
  sendsLines = false
  private underway = 0
  /** What waits to be sent, by organisation. */
  private unsent = new Map<string, ItemText[]>()
  private readonly replies = new PendingReplies<{ readonly json: string | undefined } | undefined>(ANSWER_MS_MAX)

  constructor(private readonly send: (message: Sent) => void) {}

  put(organization: string, items: readonly ItemText[], isUrgent = false): void {
    const size = sizeOf(items)
    if (items.length === 0 || this.underway + size > UNDERWAY_MAX) return
    this.underway += size
    if (this.unsent.size === 0) setTimeout(() => this.flush(), GATHER_MS)
    this.unsent.getOrInsert(organization, []).push(...items)
    if (isUrgent) this.flush()
  }

  private flush(): void {
    const { unsent } = this
    if (unsent.size === 0) return
    this.unsent = new Map()
    for (const [organization, items] of unsent)
      this.send(this.sendsLines ? linesOf(organization, items) : { type: 'remember', organization, items })
  }

  /** The supervisor has taken items of this size. */
  taken(size: number): void {
    this.underway -= size
  }

  async get(organization: string, id: string): Promise<string | undefined> {
    this.flush()
    const reply = await this.replies.ask(
      (number) => this.send({ type: 'recall', id: number, organization, item: id }),
      undefined,
    )
    if (reply === undefined) throw new Error('The supervisor does not answer.')
    return reply.json
  }

  answer(number: number, json: string | undefined): void {
    this.replies.answer(number, { json })
  }
}

/** JSON text has no line feed, and neither has an id of weir's. */
function linesOf(organization: string, items: readonly ItemText[]): ItemLines {
  const ids = items.map(({ id }) => id).join('\n')
  return { type: 'item-lines', organization, ids, texts: items.map(({ json }) => json).join('\n') }
}

/** Ids and texts are apart because the store keeps the ids, which keep the string that they were cut from. */
export function itemsOfLines({ ids, texts }: ItemLines): ItemText[] {
  const jsons = texts.split('\n')
  return ids.split('\n').map((id, at) => ({ id, json: jsons[at] ?? '' }))
}

/** Characters of items, as both sides count them. */
export function sizeOf(items: readonly ItemText[]): number {
  return items.reduce((sum, { id, json }) => sum + id.length + json.length, 0)
}
