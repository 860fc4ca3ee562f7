/** The Responses dialect, and the compaction endpoint that comes with it. */

import { CallerError } from '../../core/caller-error.ts'
import type { ChatRequest } from '../../core/chat-request.ts'
import type { Compatibility } from '../../core/compatibility.ts'
import type { Completion, PlainAnswer } from '../../core/completion.ts'
import { Later } from '../../core/later.ts'
import type { Usage } from '../../core/token-usage.ts'
import type { ItemStore, ItemText } from '../../items/item-store.ts'
import type { RequestBody } from '../../wire/request-body.ts'
import { mintId } from '../answer-ids.ts'
import type { Caller, Dialect, Exchange, Served, TurnEncoder } from '../dialect.ts'
import { ignoredFields } from '../ignored-fields.ts'
import { withoutReasoning } from '../read-reasoning.ts'
import { messageItem, outputItems } from './answer.ts'
import { checkSummary, compactionItem, type SummaryAnswer } from './compaction.ts'
import { CompactionEncoder } from './compaction-stream.ts'
import {
  type AcceptedResponses,
  acceptResponses,
  type ReadTurn,
  type Surroundings,
  UNPARSED,
  withoutFormat,
} from './request.ts'
import { COMPLETED, endingOf, Resource, type ResourceObject } from './resource.ts'
import { ResponsesEncoder } from './stream.ts'

export interface ResponsesDialect extends Dialect {
  /**
   * Accepts a body of `POST /v1/responses/compact` (Codex: `{model, input, instructions}`) as if its input had a
   * `compaction_trigger`. The answer is whole even if `stream` is true. Throws `CallerError` like `accept`.
   */
  readCompact(body: RequestBody, caller: Caller): Exchange | Later<Exchange>
  /**
   * Accepts a turn on a socket, whose input has all that it continues: it is always a stream. Throws `CallerError` like
   * `read`.
   */
  readTurn(body: RequestBody, caller: Caller, turn: Turn): Exchange | Later<Exchange>
}

/** One turn on a socket, which hears of its answer. */
export interface Turn extends ReadTurn {
  /** The answer begins, perhaps once more, by another provider. */
  encodes(encoder: TurnEncoder): void
  /** All items of the answer. The turn is not complete before its last event is written. */
  made(items: readonly ItemText[], isCompaction: boolean): void
}

/**
 * The Responses dialect. `sealer` encrypts compaction items; `itemStore` stores the items that callers may refer to.
 */
export function responses(surroundings: Surroundings): ResponsesDialect {
  const { sealer, itemStore, imageUrls } = surroundings
  const read = (body: RequestBody, caller: Caller, compact: boolean, turn?: Turn) => {
    const accepted = acceptResponses(body, { sealer, itemStore, imageUrls, caller, compact, turn })
    const takesFormat = caller.compatibility?.structured_output === 'pass'
    const formatted = takesFormat ? withoutFormat(body.settings) : body.settings
    const takesReasoning = caller.compatibility?.reasoning === 'pass'
    const ignored = ignoredFields('responses', takesReasoning ? withoutReasoning(formatted) : formatted)
    const object = compact ? 'response.compaction' : 'response'
    const exchange = (one: AcceptedResponses) => {
      const { members = {} } = one.request.own ?? {}
      const others = ignored.filter((field) => !Object.hasOwn(members, field))
      return one.compaction
        ? new CompactionExchange(one, others, caller, surroundings, object, turn)
        : new ResponsesExchange(one, others, caller, itemStore, turn)
    }
    return accepted instanceof Later ? accepted.map(exchange) : exchange(accepted)
  }
  return {
    name: 'responses',
    unparsed: UNPARSED,
    read: (body, caller) => read(body, caller, false),
    readCompact: (body, caller) => read(body, caller, true),
    readTurn(body, caller, turn) {
      const own = Object.entries(body.settings).filter(([name]) => !OF_THE_SOCKET.has(name))
      return read({ ...body, settings: { ...Object.fromEntries(own), stream: true } }, caller, false, turn)
    },
  }
}

/** Members of a frame that are the socket's, or have no effect on it. */
const OF_THE_SOCKET: ReadonlySet<string> = new Set([
  'type',
  'stream_id',
  'generate',
  'previous_response_id',
  'background',
  'client_metadata',
  'stream_options',
])

class ResponsesExchange implements Exchange {
  readonly isCompaction = false
  readonly request: ChatRequest

  constructor(
    private readonly accepted: AcceptedResponses,
    readonly ignored: readonly string[],
    private readonly caller: Caller,
    private readonly itemStore: ItemStore | undefined,
    private readonly turn: Turn | undefined,
  ) {
    this.request = accepted.request
  }

  answer(completion: Completion, served: Served): string | Uint8Array {
    const ending = endingOf(completion.reason, this.status)
    const items = outputItems(completion, this.accepted.toolbox, ending, this.request.reasoning?.shows)
    this.store(items)
    const output = items.map(({ json }) => json).join()
    return new Resource(served, this.accepted.echo).whole(output, completion.usage, ending)
  }

  plain({ text, reason, usage }: PlainAnswer & { readonly usage: Usage }, served: Served): string | Uint8Array {
    const ending = endingOf(reason, this.status)
    const item = messageItem(mintId('msg'), text, ending)
    this.store([item])
    return new Resource(served, this.accepted.echo).whole(item.json, usage, ending)
  }

  encoder(served: Served): ResponsesEncoder {
    const { echo, toolbox } = this.accepted
    const { caller, itemStore, turn, status } = this
    // Without a reference to this exchange: a stream would hold the body of its request for minutes.
    const put = itemStore && ((items: readonly ItemText[]) => itemStore.put(caller.organization, items.filter(hasId)))
    const shows = this.request.reasoning?.shows
    if (turn === undefined) return new ResponsesEncoder(new Resource(served, echo), toolbox, put, { status, shows })
    const store = (items: readonly ItemText[]) => {
      put?.(items)
      turn.made(items, false)
    }
    const encoder = new ResponsesEncoder(new Resource(served, echo), toolbox, store, { status, shows, isTurn: true })
    turn.encodes(encoder)
    return encoder
  }

  warmUp(served: Served): string {
    const encoder = new ResponsesEncoder(new Resource(served, this.accepted.echo), this.accepted.toolbox, undefined, {
      status: this.status,
    })
    this.turn?.encodes(encoder)
    this.turn?.made([], false)
    return encoder.start() + encoder.endEmpty()
  }

  private get status(): Compatibility['status'] {
    return this.caller.compatibility?.status ?? 'completed'
  }

  private store(items: readonly ItemText[]): void {
    this.itemStore?.put(this.caller.organization, items.filter(hasId))
  }
}

/** Items of a provider's own tools may have none, and no reference can name them then. */
function hasId({ id }: ItemText): boolean {
  return id !== ''
}

/** The stream of a turn that only prepares the next one: no provider is asked, and the answer is empty. */
export function warmUpStream(exchange: Exchange, served: Served): string {
  if (!(exchange instanceof ResponsesExchange)) {
    throw new CallerError('invalid_field', "'generate' may not be false in a compaction.", { param: 'generate' })
  }
  return exchange.warmUp(served)
}

/** The answer is one compaction item, so it is never plain. */
class CompactionExchange implements Exchange {
  readonly isCompaction = true
  readonly request: ChatRequest

  constructor(
    private readonly accepted: AcceptedResponses,
    readonly ignored: readonly string[],
    private readonly caller: Caller,
    private readonly surroundings: Surroundings,
    private readonly object: ResourceObject,
    private readonly turn: Turn | undefined,
  ) {
    this.request = accepted.request
  }

  answer(completion: Completion, served: Served): string | Uint8Array {
    const { text, refusal = '', reason } = completion
    const item = this.seal({ text, hasRefused: refusal !== '', reason })
    return new Resource(served, this.accepted.echo, this.object).whole(item, completion.usage, COMPLETED)
  }

  encoder(served: Served): CompactionEncoder {
    const seal = (answer: SummaryAnswer) => this.seal(answer)
    const encoder = new CompactionEncoder(new Resource(served, this.accepted.echo), seal)
    this.turn?.encodes(encoder)
    return encoder
  }

  /** The JSON text of the item. Throws a `ProviderError` for no summary, and for what a filter left of one. */
  private seal(answer: SummaryAnswer): string {
    checkSummary(answer)
    const { sealer, itemStore } = this.surroundings
    const item = compactionItem(sealer, this.caller.organization, answer.text)
    itemStore?.put(this.caller.organization, [item])
    this.turn?.made([item], true)
    return item.json
  }
}
