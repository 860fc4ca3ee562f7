/** What serves requests: everything that one configuration makes, put together. */

import type { Catalog, Key } from '../catalog/catalog.ts'
import type { Candidate } from '../catalog/resolve.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { ThoughtSealer } from '../core/thoughts.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Provider } from '../providers/provider.ts'
import type { Affinity } from './affinity.ts'
import type { Breaker } from './breaker.ts'
import type { FieldHint } from './field-hints.ts'
import type { LimitOverrides } from './request-budgets.ts'
import type { Capacity } from './request-room.ts'
import type { TargetUsage } from './target-usage.ts'
import type { ThoughtMemory } from './thought-memory.ts'

/** A provider of the configuration with the adapter of its API. */
export interface Upstream {
  readonly provider: Provider
  readonly endpoint: Endpoint
  /** For the provider's models that speak another API than the rest; absent if there are none. */
  readonly byModel?: ReadonlyMap<string, Upstream>
}

/** Events of the log that the request path reports. */
type GatewayEvent =
  | 'provider.credential_rejected'
  | 'provider.credit_exhausted'
  | 'provider.usage_implausible'
  | 'compaction.truncated'
  | 'price.tier_unknown'
  | 'target.form_learned'

export interface Gateway {
  /** Its name in the audit trail. */
  readonly node: string
  readonly catalog: Catalog
  /** By the provider's name in the configuration. */
  readonly upstreams: ReadonlyMap<string, Upstream>
  readonly ledger: Ledger
  /** Limits of counters that are raised at present; absent: none. */
  readonly overrides?: LimitOverrides | undefined
  readonly routing: { readonly maxAttempts: number; readonly totalTimeoutMs: number }
  /** Which targets rest. It outlives the configuration. */
  readonly breaker: Breaker
  /** Which target a conversation stays with. It outlives the configuration, too. */
  readonly affinity: Affinity
  /** How targets report usage. It outlives the configuration, too. */
  readonly targetUsage: TargetUsage
  /** Absent if no provider has limits, and nothing waits for any. */
  readonly capacity?: Capacity | undefined
  /** Absent if thoughts are not kept. */
  readonly thoughts?: ThoughtMemory | undefined
  /** Seals the thoughts that callers get. */
  readonly sealer: ThoughtSealer
  /** From 0 to 1, 1 excluded. */
  readonly random: () => number
  /** Whether answers report how their model was chosen. */
  readonly explainRoute: boolean
  /** Whether a key that was accepted no longer is. */
  readonly isRevoked: (key: Key) => boolean
  /** Logs an error of our own. */
  readonly report: (error: unknown, requestId: string) => void
  /** Hears of a key whose callers send fields that only native mode gives an effect. */
  readonly fieldsIgnored?: ((hint: FieldHint) => void) | undefined
  /** Logs an event for the operator. */
  readonly logEvent: (event: GatewayEvent, fields: Readonly<Record<string, string | undefined>>) => void
}

/** Throws if there is no such provider: the configuration is checked before it is served. */
export function upstreamOf({ upstreams }: Pick<Gateway, 'upstreams'>, { target }: Pick<Candidate, 'target'>): Upstream {
  const upstream = upstreams.get(target.provider)
  if (upstream === undefined) throw new Error(`no upstream for provider ${target.provider}`)
  return upstream.byModel?.get(target.model) ?? upstream
}
