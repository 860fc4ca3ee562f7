/**
 * The input of a turn as it was read, so that a turn that continues it reads what is new alone. Only what is usual is
 * kept: an input with anything that later items may change or refer to in another way is read again as a whole.
 */

import type { Arena } from '../../core/arena.ts'
import type { Compatibility } from '../../core/compatibility.ts'
import { ENTRY_INTS } from '../../core/conversation.ts'
import { LONG_NUMBERS_MAX } from '../../core/exact-json.ts'
import type { SentItems } from '../../core/sent-items.ts'
import type { SharedBytes } from '../../core/shared-bytes.ts'
import { VALUES_MAX } from '../../wire/json-shape.ts'
import type { ImageUrls } from '../image-url.ts'
import type { LimitCounts } from '../request-limits.ts'
import type { OrderState } from './turn-order.ts'

/** What a reader has found in an input. */
export interface ReadState {
  readonly order: OrderState
  /** A message without text was left out. */
  readonly hasEmpty: boolean
  /** How many items there are. */
  readonly items: number
  readonly counts: LimitCounts
  /** Structural bytes of all documents, and numbers of many digits: a body has limits of both. */
  readonly structure: number
  readonly longNumbers: number
  /** Some of it stands under a name that depends on the tools of the turn. */
  readonly hasLifted: boolean
}

/** What decides, beside the bytes, how an input is read: the same input is read again if it is another now. */
interface ReadCase {
  /** What the key of the caller may. */
  readonly rights: string
  /** The list of tools in the body, if there is one. */
  readonly tools: Uint8Array
}

/** What of a key's rights decides how its input is read. */
export function readRights(compatibility: Compatibility | undefined, imageUrls: ImageUrls): string {
  return [compatibility?.content, compatibility?.tools, compatibility?.reasoning, imageUrls].join()
}

/** The same of one turn, with the bytes that its entries are in. */
export interface ReadInput extends ReadCase {
  readonly state: ReadState
  readonly arena: Arena
  readonly sent: SentItems | undefined
}

/** The input of an earlier turn: places in its entries are those among `bytes`. */
export interface EarlierInput extends ReadCase {
  readonly state: ReadState
  readonly bytes: SharedBytes
  readonly sent: SentItems | undefined
}

/** The items of an input: their place in the body of their turn, and the place that they have been copied to. */
interface MovedItems {
  readonly from: number
  readonly to: number
  readonly newFrom: number
}

/**
 * The input for the turn that continues this one. `bytes` begin with those of earlier turns and have the items of this
 * one. Undefined if a body with all of it may exceed a limit.
 */
export function earlierInput(
  { state, arena, sent, rights, tools }: ReadInput,
  bytes: SharedBytes,
  items: MovedItems,
): EarlierInput | undefined {
  if (state.structure > VALUES_MAX || state.longNumbers > LONG_NUMBERS_MAX) return undefined
  const { order } = state
  const places = new Places(arena, items, bytes.size)
  const moved = {
    ...order,
    entries: places.ofEntries(order.entries),
    calls: places.ofEntries(order.calls),
    callIds: order.callIds.flatMap((from, index) =>
      index % 2 === 0 ? places.span(from, order.callIds[index + 1] ?? from) : [],
    ),
  }
  return {
    ...{ state: { ...state, order: moved }, bytes: bytes.with([arena.addition]), sent: sent?.settle(), rights },
    // A copy: the body is not kept.
    tools: state.hasLifted ? Buffer.from(tools) : NO_BYTES,
  }
}

const NO_BYTES = Buffer.alloc(0)

/** The places of addresses among the kept bytes. */
class Places {
  private readonly earlier: number
  private readonly body: number

  constructor(
    arena: Arena,
    private readonly items: MovedItems,
    /** Where what was added to the body begins. */
    private readonly added: number,
  ) {
    this.earlier = arena.earlier.size
    this.body = arena.bytes.length
  }

  /** What has no bytes, such as the role of a message, is at none of them. */
  private of(at: number): number {
    if (at < 0) return at + this.earlier
    if (at >= this.body) return at - this.body + this.added
    const { from, to, newFrom } = this.items
    return at >= from && at < to ? at - from + newFrom : 0
  }

  /** Where a span is. Its end may be an address of bytes after it, which are elsewhere now. */
  span(from: number, to: number): readonly [from: number, to: number] {
    const place = this.of(from)
    return [place, place + to - from]
  }

  ofEntries(entries: Int32Array): Int32Array {
    const moved = entries.slice()
    for (let at = 0; at < moved.length; at += ENTRY_INTS) {
      const from = entries[at + 1] ?? 0
      const place = this.of(from)
      moved[at + 1] = place
      moved[at + 2] = place + (entries[at + 2] ?? 0) - from
    }
    return moved
  }
}
