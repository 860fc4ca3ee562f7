/** The Responses dialect, and the compaction endpoint that comes with it. */

import { spokenText } from '../../core/completion.ts'
import type { JsonObject } from '../../core/json.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import { mintId } from '../answer-ids.ts'
import type { Caller, Dialect, Exchange } from '../dialect.ts'
import { ignoredFields } from '../ignored-fields.ts'
import { messageItem, outputItems } from './answer.ts'
import { compactionItem } from './compaction.ts'
import { CompactionEncoder } from './compaction-stream.ts'
import { type AcceptedResponses, acceptResponses, type Surroundings, TEXT_PLACES } from './request.ts'
import { Resource, type ResourceObject } from './resource.ts'
import { ResponsesEncoder } from './stream.ts'

export interface ResponsesDialect extends Dialect {
  /**
   * Accepts a body of `POST /v1/responses/compact` (Codex: `{model, input, instructions}`) as if its input had a
   * `compaction_trigger`. The answer is whole even if `stream` is true. Throws `CallerError` like `accept`.
   */
  acceptCompact(body: JsonObject, caller: Caller, longTexts?: LongTexts): Exchange | Promise<Exchange>
}

/**
 * The Responses dialect. `sealer` encrypts compaction items; `itemStore` stores the items that callers may refer to.
 */
export function responses(surroundings: Surroundings): ResponsesDialect {
  const accept = (body: JsonObject, caller: Caller, compact: boolean, longTexts: LongTexts | undefined) => {
    const accepted = acceptResponses(body, caller, { ...surroundings, longTexts }, compact)
    const object = compact ? 'response.compaction' : 'response'
    const ignored = ignoredFields('responses', body)
    const exchange = (one: AcceptedResponses) => ({
      ...exchangeOf(one, caller, surroundings, object),
      isCompaction: one.compaction,
      ignored,
    })
    return accepted instanceof Promise ? accepted.then(exchange) : exchange(accepted)
  }
  return {
    name: 'responses',
    textPlaces: TEXT_PLACES,
    accept: (body, caller, longTexts) => accept(body, caller, false, longTexts),
    acceptCompact: (body, caller, longTexts) => accept(body, caller, true, longTexts),
  }
}

function exchangeOf(
  accepted: AcceptedResponses,
  { organization }: Caller,
  { sealer, itemStore }: Surroundings,
  object: ResourceObject,
): Pick<Exchange, 'request' | 'answer' | 'plain' | 'encoder'> {
  const { request, echo, toolbox, compaction } = accepted
  const store = itemStore && ((items: readonly JsonObject[]) => itemStore.put(organization, items))
  const seal = (summary: string) => {
    const item = compactionItem(sealer, organization, summary)
    store?.([item])
    return item
  }
  if (compaction) {
    return {
      request,
      answer: (completion, served) => {
        const item = seal(spokenText(completion))
        return new Resource(served, echo, object).completed(JSON.stringify(item), completion.usage)
      },
      encoder: (served) => new CompactionEncoder(new Resource(served, echo), seal),
    }
  }
  return {
    request,
    answer: (completion, served) => {
      const items = outputItems(completion, toolbox)
      store?.(items)
      return new Resource(served, echo).completed(items.map((item) => JSON.stringify(item)).join(), completion.usage)
    },
    plain: ({ text, usage }, served) => {
      const item = messageItem(mintId('msg'), text)
      store?.([item])
      return new Resource(served, echo).completed(JSON.stringify(item), usage)
    },
    encoder: (served) => new ResponsesEncoder(new Resource(served, echo), toolbox, store),
  }
}
