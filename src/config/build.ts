/** The checked file → the configuration: defaults, camel case, whole micro-dollars, hashes instead of keys. It checks nothing. */

import type { ModelConfig } from '../core/model-config.ts'
import type { Limits, Price } from '../core/money.ts'
import type { KeyConfig, OrganizationConfig } from '../core/organization-config.ts'
import type { AccessRule } from '../core/permission.ts'
import type { RedisConfig } from '../core/redis-config.ts'
import type { Config, LedgerConfig, ProviderConfig } from './config.ts'
import { hashOf } from './key-hash.ts'
import { defaultBaseUrl } from './provider-dialects.ts'
import type { Loose } from './schema-errors.ts'
import { type File, ORGANIZATION_BODY_BYTES, WORKER_BODY_BYTES } from './schema-file.ts'
import { instant } from './timestamps.ts'

type FileOrganization = File['organizations'][number]
type FileKey = NonNullable<FileOrganization['keys']>[number]
type FileLimits = NonNullable<FileOrganization['limits']>

type Env = Readonly<Record<string, string | undefined>>

export function build(file: File, { cores, env }: { readonly cores: number; readonly env: Env }): Config {
  return {
    listen: {
      host: file.listen?.host ?? '127.0.0.1',
      port: file.listen?.port ?? 8080,
      explainHeader: file.listen?.explain_header ?? false,
      bodyBytes: {
        organizationBytes: file.listen?.organization_body_bytes ?? ORGANIZATION_BODY_BYTES,
        workerBytes: file.listen?.worker_body_bytes ?? WORKER_BODY_BYTES,
      },
    },
    admin: { host: file.admin?.host ?? '127.0.0.1', port: file.admin?.port ?? 9090 },
    workers: file.workers === 'auto' ? cores : (file.workers ?? 1),
    dataDir: file.data_dir ?? './data',
    drainSeconds: file.drain_seconds ?? 600,
    ownedBy: file.owned_by ?? 'weir',
    ledger: ledgerOf(file.ledger),
    ledgerUnreachable: file.ledger_unreachable ?? 'refuse',
    audit: { keepDays: file.audit?.keep_days ?? 90 },
    responses: responsesOf(file.responses),
    compatibility: {
      toolResultImages: file.compatibility?.tool_result_images ?? 'refuse',
      imageUrls: file.compatibility?.image_urls ?? 'public',
    },
    compaction: file.compaction === undefined ? {} : { keys: file.compaction.keys },
    providers: Object.entries(file.providers).map(([name, provider]) => providerOf(name, provider, env)),
    models: file.models.map(modelOf),
    auto: { candidates: file.auto?.candidates ?? [] },
    routing: {
      maxAttempts: file.routing?.max_attempts ?? 3,
      totalTimeoutMs: file.routing?.total_timeout_ms ?? 600_000,
    },
    organizations: file.organizations.map(organizationOf),
  }
}

function responsesOf(responses: File['responses']): Config['responses'] {
  const rememberItemsSeconds = responses?.remember_items_seconds ?? 3600
  if (responses?.redis === undefined) return { rememberItemsSeconds }
  const { redis, tls } = responses
  return { rememberItemsSeconds, redis: { ...addressesOf(redis), ...(tls === undefined ? {} : { tls }) } }
}

function ledgerOf(ledger: File['ledger']): LedgerConfig {
  if (ledger === undefined || ledger === 'embedded') return { kind: 'embedded' }
  const { tls, timeout_ms: timeoutMs } = ledger
  const more = { ...(tls === undefined ? {} : { tls }), ...(timeoutMs === undefined ? {} : { timeoutMs }) }
  return { kind: 'redis', redis: { ...addressesOf(ledger.redis), ...more } }
}

function addressesOf(redis: Exclude<NonNullable<File['ledger']>, 'embedded'>['redis']): RedisConfig {
  if (typeof redis === 'string') return { kind: 'single', url: redis }
  if ('cluster' in redis) return { kind: 'cluster', nodes: redis.cluster }
  return { kind: 'sentinel', sentinels: redis.sentinels, name: redis.name }
}

function providerOf(name: string, provider: File['providers'][string], env: Env): ProviderConfig {
  const address = provider.base_url ?? defaultBaseUrl(provider.dialect, provider.region ?? '')
  const firstByte = provider.first_byte_timeout_ms
  return {
    name,
    dialect: provider.dialect,
    baseUrl: new URL(address).href.replace(/\/+$/, ''),
    apiKey: provider.api_key,
    apiVersion: provider.api_version,
    aws: awsOf(provider),
    headers: provider.headers ?? {},
    deadlines: {
      connectMs: isProxied(address, env) ? Number.POSITIVE_INFINITY : (provider.connect_timeout_ms ?? 3000),
      firstByteMs: { stream: firstByte ?? 60_000, whole: firstByte ?? 600_000 },
      idleMs: provider.idle_timeout_ms ?? 60_000,
      totalMs: provider.total_timeout_ms ?? 3_600_000,
    },
  }
}

/**
 * Whether requests may go through a proxy of the environment, as the runtime sends them. The connection is the proxy's to make then, and
 * whether it could be made from here says nothing. Hosts that `NO_PROXY` names do without the deadline, too.
 */
function isProxied(address: string, env: Env): boolean {
  const scheme = new URL(address).protocol === 'https:' ? 'https' : 'http'
  return [env[`${scheme}_proxy`], env[`${scheme.toUpperCase()}_PROXY`]].some(
    (proxy) => proxy !== undefined && proxy !== '',
  )
}

function awsOf(provider: File['providers'][string]): ProviderConfig['aws'] {
  const { region, access_key_id: accessKeyId, secret_access_key: secretAccessKey } = provider
  if (region === undefined || accessKeyId === undefined || secretAccessKey === undefined) return undefined
  return { region, accessKeyId, secretAccessKey, sessionToken: provider.session_token }
}

function modelOf(model: File['models'][number]): ModelConfig {
  return {
    name: model.name,
    aliases: model.aliases ?? [],
    targets: model.targets,
    fallbacks: model.fallbacks ?? [],
    price: model.price === undefined ? undefined : priceOf(model.price),
    contextWindow: model.context_window,
    maxOutputTokens: model.max_output_tokens,
    defaultOutputTokens: model.default_output_tokens ?? 4096,
    supports: model.supports ?? [],
    promptCache: {
      key: model.prompt_cache?.key ?? false,
      explicit: model.prompt_cache?.explicit ?? false,
      ttls: model.prompt_cache?.ttls ?? [],
    },
  }
}

function priceOf(price: NonNullable<File['models'][number]['price']>): Price {
  return {
    input: microUsd(price.input),
    cachedInput: microUsd(price.cached_input),
    cacheWrite: microUsd(price.cache_write),
    cacheWrite1h: microUsd(price.cache_write_1h),
    output: microUsd(price.output),
    image: microUsd(price.image),
  }
}

/** Dollars → whole micro-dollars: $0.25 a million tokens is 250,000 micro-dollars a million tokens. */
function microUsd(dollars: number): number
function microUsd(dollars: number | undefined): number | undefined
function microUsd(dollars: number | undefined): number | undefined {
  return dollars === undefined ? undefined : Math.round(dollars * 1_000_000)
}

function organizationOf(organization: FileOrganization): OrganizationConfig {
  const auto = organization.auto ?? 'off'
  return {
    id: organization.id,
    models: organization.models,
    rules: rulesOf(organization.rules),
    auto,
    limits: limitsOf(organization.limits),
    keys: organization.keys?.map((key) => keyOf(key, auto)) ?? [],
  }
}

/** Rules as they are judged; also of a file that is only in part sound, where a list that is not counts as empty. */
export function rulesOf(rules: Loose<FileOrganization>['rules']): readonly AccessRule[] {
  return (rules ?? []).flatMap((rule) => {
    if (rule === undefined) return []
    const effect = rule.deny === undefined ? 'allow' : 'deny'
    const models = sound(rule.deny ?? rule.allow ?? [])
    return rule.keys === undefined ? { effect, models } : { effect, models, keys: sound(rule.keys) }
  })
}

function sound(globs: readonly (string | undefined)[]): readonly string[] {
  return globs.filter((glob) => glob !== undefined)
}

function keyOf(key: FileKey, auto: OrganizationConfig['auto']): KeyConfig {
  return {
    id: key.id,
    sha256: key.key === undefined ? (key.sha256 ?? '').toLowerCase() : hashOf(key.key),
    models: key.models,
    auto: key.auto ?? auto,
    limits: limitsOf(key.limits),
    expiresAtMs: key.expires_at === undefined ? undefined : instant(key.expires_at),
    disabled: key.disabled ?? false,
  }
}

function limitsOf(limits: FileLimits | undefined): Limits {
  const spend = limits?.spend
  return {
    requestsPerMinute: limits?.requests_per_minute,
    tokensPerMinute: limits?.tokens_per_minute,
    concurrentRequests: limits?.concurrent_requests,
    spend:
      spend === undefined
        ? undefined
        : {
            day: microUsd(spend.day),
            month: microUsd(spend.month),
            total: microUsd(spend.total),
            strict: spend.strict ?? false,
            onExhausted: spend.on_exhausted ?? 'finish',
          },
  }
}
