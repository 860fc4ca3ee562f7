/** What a request walks through: everything that one configuration makes, put together. */

import type { Catalog, TargetRef } from '../catalog/catalog.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Endpoint, Provider } from '../providers/provider.ts'

/** A provider of the configuration with the adapter that speaks its API. */
export interface Upstream {
  readonly provider: Provider
  readonly endpoint: Endpoint
}

export interface Gateway {
  readonly catalog: Catalog
  /** By the provider's name in the configuration. */
  readonly upstreams: ReadonlyMap<string, Upstream>
  readonly ledger: Ledger
  readonly routing: { readonly maxAttempts: number; readonly totalTimeoutMs: number }
  /** Whether a target is to be passed over for now. */
  readonly resting: (target: TargetRef) => boolean
  /** Takes an error of our own, for the log. */
  readonly report: (error: unknown, requestId: string) => void
  /** Takes what the operator must know: a provider that rejects our credential. */
  readonly alarm: (message: string, fields: Readonly<Record<string, string>>) => void
}
