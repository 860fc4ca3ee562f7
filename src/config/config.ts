/**
 * The configuration after it was read, checked and given its defaults: plain data that survives JSON, so that it can travel to worker
 * processes. Money is whole micro-dollars; keys are hashes. It holds provider credentials and must never be logged.
 */

import type { Limits } from '../core/limits.ts'
import type { Price } from '../core/money.ts'
import type { AccessRule } from '../core/permission.ts'
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

/** Addresses are `redis://` or `rediss://` URLs and may carry a password. `tls` is for the latter. */
export type RedisConfig = RedisAddresses & {
  readonly tls?: RedisTlsConfig | undefined
  /** How long a reply may take; 250 unless set. */
  readonly timeoutMs?: number | undefined
}

type RedisAddresses =
  | { readonly kind: 'single'; readonly url: string }
  | { readonly kind: 'cluster'; readonly nodes: readonly string[] }
  | { readonly kind: 'sentinel'; readonly sentinels: readonly string[]; readonly name: string }

/** All of it PEM. */
export interface RedisTlsConfig {
  /** The authorities that Redis is trusted by; absent: those of the system. */
  readonly ca?: string | undefined
  /** What weir shows Redis; both or neither. */
  readonly certificate?: string | undefined
  readonly key?: string | undefined
}

/** Fits `Endpoint` of `providers/provider.ts`. */
export interface ProviderConfig {
  readonly name: string
  readonly dialect: ProviderDialect
  /** Without a trailing slash. */
  readonly baseUrl: string
  readonly apiKey?: string | undefined
  readonly apiVersion?: string | undefined
  readonly aws?:
    | {
        readonly region: string
        readonly accessKeyId: string
        readonly secretAccessKey: string
        readonly sessionToken?: string | undefined
      }
    | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly deadlines: {
    /** Infinite where a proxy makes the connections. */
    readonly connectMs: number
    readonly firstByteMs: { readonly stream: number; readonly whole: number }
    readonly idleMs: number
    readonly totalMs: number
  }
}

/** Fits `ModelData` of `catalog/catalog.ts`. */
export interface ModelConfig {
  readonly name: string
  readonly aliases: readonly string[]
  readonly targets: readonly { readonly provider: string; readonly model: string }[]
  readonly fallbacks: readonly string[]
  readonly price?: Price | undefined
  readonly contextWindow?: number | undefined
  readonly maxOutputTokens?: number | undefined
  readonly defaultOutputTokens: number
  readonly supports: readonly ('tools' | 'images' | 'image_generation')[]
  readonly promptCache: { readonly key: boolean; readonly explicit: boolean; readonly ttls: readonly ('5m' | '1h')[] }
}

/** Fits `OrganizationData` of `catalog/catalog.ts`. */
export interface OrganizationConfig {
  readonly id: string
  readonly models?: readonly string[] | undefined
  readonly rules: readonly AccessRule[]
  readonly auto: 'off' | 'available' | 'mandatory'
  readonly limits: Limits
  readonly keys: readonly KeyConfig[]
}

export interface KeyConfig {
  readonly id: string
  /** SHA-256 of the key, 64 lower-case hex digits. */
  readonly sha256: string
  readonly models?: readonly string[] | undefined
  /** The organisation's setting where the key has none of its own. */
  readonly auto: 'off' | 'available' | 'mandatory'
  readonly limits: Limits
  /** Unix milliseconds; from this moment on the key is refused. */
  readonly expiresAtMs?: number | undefined
  readonly disabled: boolean
}
