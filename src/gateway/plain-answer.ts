/**
 * The plain answer in one step: a whole answer of nothing but text, which most are, is written from the provider's
 * parsed body, without events. It is only an optimisation: a property test proves that the caller's bytes and the usage
 * are those of the same answer decoded to events and folded.
 */

import { isObject, type JsonValue } from '../core/json.ts'
import type { Exchange, Served } from '../dialects/dialect.ts'
import type { AnswerReader } from '../providers/provider.ts'
import type { UsageMeter } from './usage-meter.ts'

/**
 * The caller's body, and its usage in the meter; undefined, and nothing in the meter, if the answer is
 * more than text, or came with thoughts that are kept or shown. Throws `ProviderError` for an answer far beyond its
 * limit.
 */
export function plainAnswer(
  body: JsonValue,
  provider: Pick<AnswerReader, 'plain'>,
  exchange: Pick<Exchange, 'plain'>,
  meter: UsageMeter,
  served: Served,
  readsThoughts = false,
): string | Uint8Array | undefined {
  if (exchange.plain === undefined || provider.plain === undefined || !isObject(body)) return undefined
  const plain = provider.plain(body)
  if (plain === undefined || (readsThoughts && plain.hasThoughts === true)) return undefined
  meter.addPlain(plain)
  const { usage } = meter.count(true)
  return exchange.plain({ text: plain.text, reason: plain.reason, usage }, served)
}
