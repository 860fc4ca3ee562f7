/** The service tier of a request: which one a provider is asked for, and what is reported of one without a price. */

import { type Catalog, isSpendLimited, isStrict, type Key, type Model, publicName } from '../catalog/catalog.ts'
import type { Candidate } from '../catalog/resolve.ts'
import { CallerError } from '../core/caller-error.ts'
import { beginningOf } from '../core/error-message.ts'
import { BASE_TIER, boundedTier, sentTier, type TierApi } from '../core/service-tier.ts'
import { isPricedTier, isUnpricedAnswer, pricedTiers } from '../ledger/price.ts'
import type { RequestLog } from './access-log.ts'
import type { Gateway } from './gateway.ts'

/** The most characters of a tier that an event shows. */
const SHOWN_MAX = 64

/**
 * The tier that the provider is asked for; `named` is the caller's. Under a spend limit one without a price is the
 * caller's mistake, whether the provider's API has it or not; a candidate after the first (`isLater`) is asked without
 * it, so that a fallback never fails for it. Throws `CallerError` `unpriced_service_tier`.
 */
export function tierFor(
  key: Key,
  model: Model,
  api: TierApi | undefined,
  named: string | undefined,
  isLater: boolean,
): string | undefined {
  const { price } = model
  const isRefused = named !== undefined && price !== undefined && !isPricedTier(price, named) && isSpendLimited(key)
  if (!isRefused) return sentTier(api, named, isStrict(key))
  if (!isLater) throw unpricedTier(model, named, pricedTiers(price))
  return sentTier(api, undefined, isStrict(key))
}

/** Notes a tier without a price, which the answer names (`served`) or the provider was asked for. */
export function checkTier(
  { catalog, targetUsage, logEvent }: Gateway,
  log: RequestLog,
  { model, target }: Candidate,
  asked: string | undefined,
  served: string | undefined,
): void {
  const { price } = model
  if (price === undefined) return
  if (isUnpricedAnswer(price, served)) {
    log.unpricedTier = labelOf(served, catalog)
    if (!targetUsage.isNewTier(model.name)) return
    const tier = served.slice(0, SHOWN_MAX)
    logEvent('price.tier_unknown', { model: publicName(model), provider: target.provider, tier })
  } else if (asked !== undefined && !isPricedTier(price, asked)) log.unpricedTier = labelOf(asked, catalog)
}

/** A label of a metric: a name of the table or of the configuration, or one for all others. */
function labelOf(tier: string, { tierNames }: Catalog): string {
  return tierNames.has(tier) ? tier : boundedTier(tier)
}

function unpricedTier(model: Model, tier: string, priced: readonly string[]): CallerError {
  const tiers = ['auto', BASE_TIER, 'flex', ...priced.filter((name) => name !== 'flex')].map((name) => `'${name}'`)
  const message =
    `The service tier '${beginningOf(tier)}' of model '${publicName(model)}' has no price, and a spend limit ` +
    `applies. Use one of ${tiers.join(', ')}, or leave service_tier out.`
  return new CallerError('unpriced_service_tier', message, { param: 'service_tier' })
}
