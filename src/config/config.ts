/**
 * The configuration after validation, with all defaults: plain data that survives JSON, because it is sent to the
 * workers. Money is in whole micro-dollars; keys are hashes. It holds provider credentials and must never be logged.
 */

import type { AlertsConfig } from '../core/alerts-config.ts'
import type { CapacityConfig } from '../core/capacity-limits.ts'
import type { CompatibilitySettings } from '../core/compatibility.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { ModelConfig } from '../core/model-config.ts'
import type { OrganizationConfig } from '../core/organization-config.ts'
import type { ProviderDialect } from '../core/provider-dialect.ts'
import type { RedisConfig } from '../core/redis-config.ts'
import type { TagRule } from '../core/tags.ts'
import type { TracingConfig } from '../core/tracing-config.ts'

export interface Config {
  readonly listen: {
    readonly host: string
    readonly port: number
    readonly explainHeader: boolean
    readonly bodyBytes: { readonly organizationBytes: number; readonly workerBytes: number }
    /** The most WebSockets of one worker. Absent if the supervisor is of a version without it. */
    readonly workerSockets?: number
    /** Addresses and networks in CIDR form. Absent if the supervisor is of a version without it: then none. */
    readonly trustedProxies?: readonly string[]
    /** Whether connections begin with a header of the PROXY protocol. Absent: the same, then they do not. */
    readonly proxyProtocol?: boolean
  }
  readonly admin: {
    readonly host: string
    readonly port: number
    /** Callers of the admin port must present one; empty = the port is for this machine alone. */
    readonly tokens: readonly AdminToken[]
    /** Names under which browsers reach its pages. */
    readonly hosts: readonly string[]
  }
  /** `auto` is already replaced by the number of cores. */
  readonly workers: number
  /** As written: a relative path is relative to the working directory of the process. */
  readonly dataDir: string
  readonly drainSeconds: number
  /** Absent = the name of the host. */
  readonly nodeName?: string
  readonly ownedBy: string
  readonly ledger: LedgerConfig
  readonly ledgerUnreachable: 'refuse' | 'allow'
  /** Absent if the supervisor is of a version without it: then true. */
  readonly shortcuts?: boolean
  readonly audit: { readonly keepDays: number }
  /** Absent if the supervisor is of a version without it: then `auto`. */
  readonly log?: { readonly format: 'json' | 'pretty' | 'auto' }
  /** Absent = no traces. */
  readonly tracing?: TracingConfig | undefined
  /** Absent = no alerts. Only the supervisor sends them. */
  readonly alerts?: AlertsConfig | undefined
  /** Absent if the supervisor is of a version without it: then false. */
  readonly metrics?: { readonly keyLabel: boolean }
  /** Names of tags. Absent if the supervisor is of a version without them: then there are none. */
  readonly tags?: readonly string[]
  /** Of the tags that have some, by name. Absent likewise. */
  readonly tagRules?: Readonly<Record<string, TagRule>>
  /** 0 = items are not stored. */
  readonly responses: {
    readonly rememberItemsSeconds: number
    /** Absent if the supervisor is of a version without them: then true. */
    readonly websockets?: boolean
    /** How long one lives. Absent: the same. */
    readonly socketMinutes?: number
    /** What those of one organisation keep in one worker. Absent: the same. */
    readonly socketBytes?: number
    /** Where items are stored; absent = in the ledger's Redis, else in the process. */
    readonly redis?: RedisConfig | undefined
  }
  /** How long and how much of the thoughts of models is kept. Absent from a supervisor of before: nothing. */
  readonly continuity?: { readonly keepSeconds: number; readonly organizationBytes: number }
  readonly compatibility: CompatibilitySettings & {
    readonly toolResultImages: 'refuse' | 'pass'
    readonly imageUrls: 'public' | 'any'
  }
  /** 32 bytes each, base64; the first encrypts, all decrypt. Absent = one is created and kept in `dataDir`. */
  readonly compaction: { readonly keys?: readonly string[] | undefined }
  readonly providers: readonly ProviderConfig[]
  /** In the order of the file. */
  readonly models: readonly ModelConfig[]
  /** Public names, in order of preference; may be empty. */
  readonly auto: { readonly candidates: readonly string[] }
  /** Absent = no limits of providers and targets, and nothing waits for any. */
  readonly capacity?: CapacityConfig | undefined
  readonly routing: {
    readonly maxAttempts: number
    readonly totalTimeoutMs: number
    /** False: idle targets that failed are not asked whether they answer. Absent from a supervisor of before. */
    readonly probe?: boolean
  }
  readonly organizations: readonly OrganizationConfig[]
}

/** Who may use the admin port. */
export interface AdminToken {
  /** `admin` for `admin.token`. */
  readonly name: string
  readonly token: string
  /** `read` changes nothing. */
  readonly role: 'read' | 'operate'
}

export type LedgerConfig = { readonly kind: 'embedded' } | { readonly kind: 'redis'; readonly redis: RedisConfig }

export interface ProviderConfig extends Endpoint {
  readonly dialect: ProviderDialect
  /** Absent = false. */
  readonly propagateTrace?: boolean
}
