/**
 * What a chat request may cost with a model, by what it needs alone, and the largest output limit with which limits
 * would leave room for it.
 */

import { type Needs, outputLimit, strictOutputLimit } from '../catalog/capability.ts'
import { AUTO, type Catalog, isStrict, type Key, type Model } from '../catalog/catalog.ts'
import { resolve } from '../catalog/resolve.ts'
import { CallerError } from '../core/caller-error.ts'
import type { UnitAmounts } from '../core/limits.ts'
import type { Ttl } from '../core/model-config.ts'
import type { Price } from '../core/money.ts'
import { demandOf } from '../ledger/ledger.ts'
import { estimateOf, type Quote } from './quote.ts'

/** The output limit that the provider is sent, if any. */
export function sentOutputLimit(key: Key, model: Model, needs: Needs): number | undefined {
  return isStrict(key) ? strictOutputLimit(model, needs, needs.inputTokens) : outputLimit(model, needs)
}

/** What a request means for its price besides its tokens: as in `Quote`. */
export interface Priced extends Pick<Quote, 'asked' | 'audioTokens' | 'toolsMicroUsd'> {
  /** With the fields that multiply it; absent: that of the model. */
  readonly price?: Price | undefined
  /** The least output limit that the provider takes, which is reserved for a lower one. */
  readonly leastOutput?: number
}

export function chatQuote(key: Key, model: Model, needs: Needs, of: Priced = {}): Quote {
  const { asked, audioTokens, leastOutput = 0, price = model.price, toolsMicroUsd } = of
  const limit = sentOutputLimit(key, model, needs) ?? model.maxOutputTokens
  const maxOutputTokens = limit === undefined ? undefined : Math.max(limit, leastOutput)
  return {
    model: model.name,
    inputTokens: needs.inputTokens,
    maxOutputTokens,
    price,
    asked,
    toolsMicroUsd,
    audioTokens: model.price?.audioInput === undefined ? undefined : audioTokens,
    images: undefined,
    atOnce: isStrict(key) && maxOutputTokens !== undefined,
    cached: isStrict(key) && model.promptCache.explicit ? longestTtl(needs) : undefined,
  }
}

/** For how long the request asks the provider to cache its input, at the most. */
function longestTtl({ isMarked, ttls }: Needs): Ttl | undefined {
  if (!isMarked) return undefined
  return ttls.includes('1h') ? '1h' : '5m'
}

/** A chat request that a limit has refused. */
interface RefusedChat {
  readonly catalog: Catalog
  readonly key: Key
  /** Its model as the caller wrote it. */
  readonly name: string
  readonly needs: Needs
  /** The model whose reservation was refused. */
  readonly model: Model
  /** Undefined if the model cannot be charged for it. */
  priced(model: Model): Priced | undefined
}

/** As `OutputChoice.largestOutput`. */
export function largestOutput(refused: RefusedChat, room: UnitAmounts): number | undefined {
  const { key, needs, model } = refused
  const passes = (chosen: Model, limit: number) => {
    const priced = refused.priced(chosen)
    if (priced === undefined) return false
    const estimate = estimateOf(chatQuote(key, chosen, { ...needs, maxOutputTokens: limit }, priced), 0)
    const demand = demandOf({ estimate })
    return demand.requests <= room.requests && demand.tokens <= room.tokens && demand.micro_usd <= room.micro_usd
  }
  const asked = needs.maxOutputTokens ?? estimateOf(chatQuote(key, model, needs, refused.priced(model)), 0).outputTokens
  // A smaller output may fit into the context window of a model that `auto` prefers, and that may cost more.
  for (let most = asked - 1; most > 0; ) {
    const chosen = modelWith(refused, most)
    if (chosen === undefined) return undefined
    const isChosen = (limit: number) => modelWith(refused, limit) === chosen
    const least = firstOf(1, most, isChosen)
    // One that fits into the room fits with less output, too.
    const tooMany = firstOf(least, most + 1, (limit) => limit > most || !passes(chosen, limit))
    if (tooMany > least) return tooMany - 1
    most = least - 1
  }
  return undefined
}

/** The model that is reserved for with an output limit. */
function modelWith({ catalog, key, name, needs, model }: RefusedChat, limit: number): Model | undefined {
  if (name !== AUTO) return model
  try {
    const limited = { ...needs, maxOutputTokens: limit }
    return resolve(catalog, key, { name, kind: 'chat', needs: limited }).candidates[0]?.model
  } catch (error) {
    if (error instanceof CallerError) return undefined
    throw error
  }
}

/** The first number from `low` to `high` for which a condition holds that holds for all after it, and for `high`. */
function firstOf(low: number, high: number, holds: (limit: number) => boolean): number {
  let [first, last] = [low, high]
  while (first < last) {
    const middle = first + Math.floor((last - first) / 2)
    if (holds(middle)) last = middle
    else first = middle + 1
  }
  return first
}
