/**
 * The configuration after it was read, checked and given its defaults: plain data that survives JSON, so that it can
 * travel to worker processes. Money is whole micro-dollars; keys are hashes. It holds provider credentials and must
 * never be logged.
 */

import type { Endpoint } from '../core/endpoint.ts'
import type { ModelConfig } from '../core/model-config.ts'
import type { OrganizationConfig } from '../core/organization-config.ts'
import type { RedisConfig } from '../core/redis-config.ts'
import type { ProviderDialect } from './provider-dialects.ts'

export interface Config {
  readonly listen: {
    readonly host: string
    readonly port: number
    readonly explainHeader: boolean
    readonly bodyBytes: { readonly organizationBytes: number; readonly workerBytes: number }
  }
  readonly admin: { readonly host: string; readonly port: number }
  /** `auto` is already the number of cores. */
  readonly workers: number
  /** As written: relative to the working directory of the process. */
  readonly dataDir: string
  readonly drainSeconds: number
  readonly ownedBy: string
  readonly ledger: LedgerConfig
  readonly ledgerUnreachable: 'refuse' | 'allow'
  readonly audit: { readonly keepDays: number }
  /** 0 = nothing is remembered. */
  readonly responses: {
    readonly rememberItemsSeconds: number
    /** Where items are remembered; absent: in the ledger's Redis, else in process. */
    readonly redis?: RedisConfig | undefined
  }
  readonly compatibility: { readonly toolResultImages: 'refuse' | 'pass'; readonly imageUrls: 'public' | 'any' }
  /** 32 bytes each, base64; the first seals, all open. Absent: made once and kept in `dataDir`. */
  readonly compaction: { readonly keys?: readonly string[] | undefined }
  readonly providers: readonly ProviderConfig[]
  /** In the order of the file. */
  readonly models: readonly ModelConfig[]
  /** Public names, in order; empty where nothing is configured. */
  readonly auto: { readonly candidates: readonly string[] }
  readonly routing: { readonly maxAttempts: number; readonly totalTimeoutMs: number }
  readonly organizations: readonly OrganizationConfig[]
}

export type LedgerConfig = { readonly kind: 'embedded' } | { readonly kind: 'redis'; readonly redis: RedisConfig }

export interface ProviderConfig extends Endpoint {
  readonly dialect: ProviderDialect
}
