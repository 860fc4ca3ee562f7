/** What a request walks through: everything that one configuration makes, put together. */

import type { Catalog, Key } from '../catalog/catalog.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Provider } from '../providers/provider.ts'
import type { Affinity } from './affinity.ts'
import type { Breaker } from './breaker.ts'

/** A provider of the configuration with the adapter that speaks its API. */
export interface Upstream {
  readonly provider: Provider
  readonly endpoint: Endpoint
}

/** Events of the log that the request path reports. */
type GatewayEvent = 'provider.credential_rejected' | 'provider.usage_implausible' | 'compaction.truncated'

export interface Gateway {
  readonly catalog: Catalog
  /** By the provider's name in the configuration. */
  readonly upstreams: ReadonlyMap<string, Upstream>
  readonly ledger: Ledger
  readonly routing: { readonly maxAttempts: number; readonly totalTimeoutMs: number }
  /** Which targets are to be passed over for now. It outlives the configuration. */
  readonly breaker: Breaker
  /** Where conversations stay. It outlives the configuration, too. */
  readonly affinity: Affinity
  /** From 0 to 1, 1 not in it. */
  readonly random: () => number
  /** Whether answers say how their model was chosen. */
  readonly explainRoute: boolean
  /** Whether a key that was accepted no longer is. */
  readonly isRevoked: (key: Key) => boolean
  /** Takes an error of our own, for the log. */
  readonly report: (error: unknown, requestId: string) => void
  /** Logs an event for the operator. */
  readonly logEvent: (event: GatewayEvent, fields: Readonly<Record<string, string>>) => void
}
