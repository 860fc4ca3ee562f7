/** The checked file → the configuration: camel case, whole micro-dollars, hashes instead of keys. It checks nothing. */

import { createHash } from 'node:crypto'
import type { HookConfig } from '../core/alerts-config.ts'
import type { CapacityLimits } from '../core/capacity-limits.ts'
import type { ModelConfig } from '../core/model-config.ts'
import type { KeyConfig, OrganizationConfig } from '../core/organization-config.ts'
import type { AccessRule } from '../core/permission.ts'
import type { RedisConfig } from '../core/redis-config.ts'
import { budgetOf, type FileOrganization, limitsOf } from './build-limits.ts'
import type { Config, LedgerConfig, ProviderConfig } from './config.ts'
import { hashOf } from './key-hash.ts'
import { environmentTracing, tracesUrl } from './otel-environment.ts'
import { microUsd, priceOf } from './prices.ts'
import { defaultBaseUrl } from './provider-dialects.ts'
import { type Loose, sound } from './schema-errors.ts'
import type { CompletedFile, File } from './schema-file.ts'
import { FIRST_BYTE_MS } from './schema-models.ts'
import { readServiceAccount } from './service-account.ts'
import { instant } from './timestamps.ts'

type FileProvider = CompletedFile['providers'][string]
type FileModel = CompletedFile['models'][number]
type FileKey = FileOrganization['keys'][number]
type FileRedis = Exclude<CompletedFile['ledger'], 'embedded'>['redis']

type Env = Readonly<Record<string, string | undefined>>

export function build(file: CompletedFile, { cores, env }: { readonly cores: number; readonly env: Env }): Config {
  const { listen, admin, compatibility, routing } = file
  return {
    listen: {
      host: listen.host,
      port: listen.port,
      explainHeader: listen.explain_header,
      bodyBytes: { organizationBytes: listen.organization_body_bytes, workerBytes: listen.worker_body_bytes },
      workerSockets: listen.worker_sockets,
      trustedProxies: listen.trusted_proxies,
      proxyProtocol: listen.proxy_protocol,
    },
    admin: {
      host: admin.host,
      port: admin.port,
      tokens: [
        ...(admin.token === undefined ? [] : [{ name: 'admin', token: admin.token, role: 'operate' } as const]),
        ...admin.tokens,
      ],
      hosts: admin.hosts,
    },
    workers: file.workers === 'auto' ? cores : file.workers,
    dataDir: file.data_dir,
    drainSeconds: file.drain_seconds,
    ...(file.node_name === undefined ? {} : { nodeName: file.node_name }),
    ownedBy: file.owned_by,
    ledger: ledgerOf(file.ledger),
    ledgerUnreachable: file.ledger_unreachable,
    audit: { keepDays: file.audit.keep_days },
    shortcuts: file.shortcuts,
    log: { format: file.log.format },
    ...tracingOf(file, env),
    ...alertsOf(file),
    metrics: { keyLabel: file.metrics.key_label },
    ...tagsOf(file.tags),
    responses: responsesOf(file.responses),
    continuity: {
      keepSeconds: file.continuity.keep_seconds,
      organizationBytes: file.continuity.organization_bytes,
    },
    compatibility: compatibilityOf(compatibility),
    compaction: file.compaction === undefined ? {} : { keys: file.compaction.keys },
    providers: Object.entries(file.providers).map(([name, provider]) => providerOf(name, provider, env)),
    models: file.models.map(modelOf),
    auto: { candidates: file.auto?.candidates ?? [] },
    ...capacityOf(file),
    routing: { maxAttempts: routing.max_attempts, totalTimeoutMs: routing.total_timeout_ms, probe: routing.probe },
    organizations: file.organizations.map(organizationOf),
  }
}

function compatibilityOf({
  tool_result_images: toolResultImages,
  image_urls: imageUrls,
  ...switches
}: CompletedFile['compatibility']): Config['compatibility'] {
  return { ...switches, toolResultImages, imageUrls }
}

/** What the file leaves out is that of the environment. */
function tracingOf({ tracing }: CompletedFile, env: Env): Pick<Config, 'tracing'> {
  const around = environmentTracing(env)
  const url = tracing?.endpoint === undefined ? around.url : tracesUrl(tracing.endpoint)
  if (url === undefined || (tracing === undefined && around.isDisabled)) return {}
  return {
    tracing: {
      url,
      headers: { ...around.headers, ...lowerCased(tracing?.headers ?? {}) },
      sample: tracing?.sample ?? around.sample ?? SAMPLE,
      resource: around.resource,
    },
  }
}

function alertsOf({ alerts }: CompletedFile): Pick<Config, 'alerts'> {
  if (alerts === undefined) return {}
  const { webhook, secret, spend } = alerts
  const plain: readonly HookConfig[] =
    webhook === undefined
      ? []
      : [{ key: 'webhook', label: 'alerts.webhook', format: 'weir', url: webhook, secret, events: ['*'] }]
  const hooks = alerts.hooks.map(({ url: written, format, events, secret: own }, i): HookConfig => {
    const url = format === 'alertmanager' ? alertmanagerUrl(written) : written
    const key = createHash('sha256').update(`${format} ${url}`).digest('hex').slice(0, 32)
    return { key, label: `alerts.hooks[${i}] (${format})`, format, url, secret: own, events }
  })
  return { alerts: { hooks: [...plain, ...hooks], spend } }
}

/** The address of its API, if the file has that of the server. */
function alertmanagerUrl(written: string): string {
  return /\/api\/v2\/alerts\/?$/.test(written) ? written : `${written.replace(/\/+$/, '')}/api/v2/alerts`
}

/** Names of headers that differ in case alone are the same. */
function lowerCased(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}

/** The share of requests that is traced unless the file or the environment names one. */
const SAMPLE = 0.01

function responsesOf(responses: CompletedFile['responses']): Config['responses'] {
  const { remember_items_seconds, websockets, socket_minutes, socket_bytes, redis, tls } = responses
  const own = {
    ...{ rememberItemsSeconds: remember_items_seconds, websockets },
    ...{ socketMinutes: socket_minutes, socketBytes: socket_bytes },
  }
  return redis === undefined ? own : { ...own, redis: { ...addressesOf(redis), ...(tls && { tls }) } }
}

function ledgerOf(ledger: CompletedFile['ledger']): LedgerConfig {
  if (ledger === 'embedded') return { kind: 'embedded' }
  const { tls, timeout_ms: timeoutMs } = ledger
  return { kind: 'redis', redis: { ...addressesOf(ledger.redis), timeoutMs, ...(tls && { tls }) } }
}

function addressesOf(redis: FileRedis): RedisConfig {
  if (typeof redis === 'string') return { kind: 'single', url: redis }
  if ('cluster' in redis) return { kind: 'cluster', nodes: redis.cluster }
  return { kind: 'sentinel', sentinels: redis.sentinels, name: redis.name }
}

function providerOf(name: string, provider: FileProvider, env: Env): ProviderConfig {
  const address = provider.base_url ?? defaultBaseUrl(provider.dialect, provider)
  const firstByte = provider.first_byte_timeout_ms
  return {
    name,
    dialect: provider.dialect,
    baseUrl: new URL(address).href.replace(/\/+$/, ''),
    apiKey: provider.api_key,
    apiVersion: provider.api_version,
    api: provider.api,
    aws: awsOf(provider),
    project: provider.project,
    location: provider.location,
    identity: identityOf(provider, address, env),
    headers: provider.headers ?? {},
    deadlines: {
      connectMs: provider.connect_timeout_ms,
      firstByteMs: { stream: firstByte ?? FIRST_BYTE_MS.stream, whole: firstByte ?? FIRST_BYTE_MS.whole },
      idleMs: provider.idle_timeout_ms,
      totalMs: provider.total_timeout_ms,
    },
    ...(provider.propagate_trace ? { propagateTrace: true } : {}),
  }
}

/** Nothing if there are no limits, and no queue. */
function capacityOf({ providers, models, queue }: CompletedFile): Pick<Config, 'capacity'> {
  const ofProviders = Object.entries(providers).flatMap(([name, { limits }]) =>
    limits === undefined ? [] : [[name, capacityLimitsOf(limits)] as const],
  )
  const targets = models.flatMap((model) =>
    model.targets.flatMap(({ provider, model: name, limits }) =>
      limits === undefined ? [] : [{ provider, model: name, limits: capacityLimitsOf(limits) }],
    ),
  )
  if (ofProviders.length + targets.length === 0 && queue === undefined) return {}
  const waiting = queue && { maxWaitMs: queue.max_wait_ms, maxWaiting: queue.max_waiting }
  return { capacity: { providers: Object.fromEntries(ofProviders), targets, ...(waiting && { queue: waiting }) } }
}

function capacityLimitsOf(limits: NonNullable<FileProvider['limits']>): CapacityLimits {
  const { day, month, total } = limits.spend ?? {}
  return {
    requestsPerMinute: limits.requests_per_minute,
    tokensPerMinute: limits.tokens_per_minute,
    concurrentRequests: limits.concurrent_requests,
    ...(limits.spend && { spend: { day: microUsd(day), month: microUsd(month), total: microUsd(total) } }),
  }
}

function awsOf(provider: FileProvider): ProviderConfig['aws'] {
  const { region, access_key_id: accessKeyId, secret_access_key: secretAccessKey } = provider
  if (region === undefined) return undefined
  if (provider.credentials === 'default') return { region }
  if (accessKeyId === undefined || secretAccessKey === undefined) return undefined
  return { region, keys: { accessKeyId, secretAccessKey, sessionToken: provider.session_token } }
}

/** The clouds of Azure have a token service each. */
const AZURE_CLOUD = /\.azure\.(us|cn)$/

function identityOf(provider: FileProvider, address: string, env: Env): ProviderConfig['identity'] {
  const { dialect, credentials, service_account: key } = provider
  if (dialect === 'azure' && credentials === 'default') return azureIdentity(address, env)
  if (dialect !== 'vertex') return undefined
  return { cloud: 'google', serviceAccount: key === undefined ? undefined : readServiceAccount(key) }
}

/** The names of the variables are those of Azure's SDKs and of its Kubernetes webhook. */
function azureIdentity(address: string, env: Env): ProviderConfig['identity'] {
  const [, suffix = 'com'] = AZURE_CLOUD.exec(new URL(address).hostname) ?? []
  return {
    cloud: 'azure',
    scope: `https://cognitiveservices.azure.${suffix}/.default`,
    clientId: env['AZURE_CLIENT_ID'] || undefined,
    isWorkload: (env['AZURE_FEDERATED_TOKEN_FILE'] ?? '') !== '',
  }
}

function modelOf(model: FileModel): ModelConfig {
  return {
    name: model.name,
    aliases: model.aliases,
    targets: model.targets.map(({ provider, model: name, api }) => ({ provider, model: name, ...(api && { api }) })),
    weights: model.spread === 'weighted' ? model.targets.map(({ weight }) => weight ?? 1) : undefined,
    fallbacks: model.fallbacks,
    price: model.price === undefined ? undefined : priceOf(model.price),
    contextWindow: model.context_window,
    maxOutputTokens: model.max_output_tokens,
    defaultOutputTokens: model.default_output_tokens,
    supports: model.supports,
    promptCache: model.prompt_cache,
  }
}

function tagsOf(tags: CompletedFile['tags']): Pick<Config, 'tags' | 'tagRules'> {
  const rules = tags.flatMap((tag) => {
    if (typeof tag === 'string') return []
    const { name, from, required, counted } = tag
    return [[name, { from, required, counted }] as const]
  })
  return { tags: tags.map((tag) => (typeof tag === 'string' ? tag : tag.name)), tagRules: Object.fromEntries(rules) }
}

function organizationOf(organization: FileOrganization): OrganizationConfig {
  return {
    id: organization.id,
    models: organization.models,
    rules: rulesOf(organization.rules),
    auto: organization.auto,
    limits: limitsOf(organization.limits),
    timezone: organization.timezone,
    ...(organization.budgets.length === 0 ? {} : { budgets: organization.budgets.map(budgetOf) }),
    ...(organization.weight === undefined ? {} : { weight: organization.weight }),
    ...(organization.compatibility && { compatibility: organization.compatibility }),
    keys: organization.keys.map((key) => keyOf(key, organization.auto)),
  }
}

/**
 * The rules in the form that requests are judged by; also those of a file with mistakes, in which a mistyped list
 * counts as empty.
 */
export function rulesOf(rules: Loose<File['organizations'][number]>['rules']): readonly AccessRule[] {
  return (rules ?? []).flatMap((rule) => {
    if (rule === undefined) return []
    const effect = rule.deny === undefined ? 'allow' : 'deny'
    const models = sound(rule.deny ?? rule.allow) ?? []
    return rule.keys === undefined ? { effect, models } : { effect, models, keys: sound(rule.keys) ?? [] }
  })
}

function keyOf(key: FileKey, auto: OrganizationConfig['auto']): KeyConfig {
  return {
    id: key.id,
    sha256: key.key === undefined ? (key.sha256 ?? '').toLowerCase() : hashOf(key.key),
    models: key.models,
    auto: key.auto ?? auto,
    limits: limitsOf(key.limits),
    ...(key.compatibility && { compatibility: key.compatibility }),
    tags: key.tags,
    ...(key.fixed_tags && { fixedTags: key.fixed_tags }),
    ...(key.priority && { priority: key.priority }),
    ...(key.max_wait_ms === undefined ? {} : { maxWaitMs: key.max_wait_ms }),
    expiresAtMs: key.expires_at === undefined ? undefined : instant(key.expires_at),
    disabled: key.disabled,
  }
}
