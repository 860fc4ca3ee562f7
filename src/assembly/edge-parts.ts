/**
 * Wires the parts that follow from one configuration: catalog, dialects, providers and the gateway. A reload wires
 * new ones.
 */

import { hostname } from 'node:os'
import type { Rooms } from '../capacity/rooms.ts'
import type { WaitQueue } from '../capacity/wait-queue.ts'
import { AUTO, Catalog } from '../catalog/catalog.ts'
import { PatternModels } from '../catalog/model-list.ts'
import type { Config, ProviderConfig } from '../config/config.ts'
import { providerDialects } from '../config/provider-dialects.ts'
import { CallerAddress } from '../core/caller-address.ts'
import { DEFAULT_QUEUE } from '../core/capacity-limits.ts'
import { messageOf } from '../core/error-message.ts'
import { chat } from '../dialects/chat/chat.ts'
import { messages } from '../dialects/messages/messages.ts'
import { acceptCount, passesOf } from '../dialects/messages/request.ts'
import { responses } from '../dialects/responses/responses.ts'
import type { Affinity } from '../gateway/affinity.ts'
import type { Breaker } from '../gateway/breaker.ts'
import type { FieldHint } from '../gateway/field-hints.ts'
import type { Upstream } from '../gateway/gateway.ts'
import type { ProviderLists } from '../gateway/provider-lists.ts'
import type { Capacity } from '../gateway/request-room.ts'
import type { TargetUsage } from '../gateway/target-usage.ts'
import { type ThinkingTargets, ThoughtMemory } from '../gateway/thought-memory.ts'
import type { EdgeParts } from '../http/request-life.ts'
import { TagsReader } from '../http/tags-reader.ts'
import type { ItemStore } from '../items/item-store.ts'
import { Sealer } from '../items/sealer.ts'
import { AcceptedKeys } from '../keys/accepted-keys.ts'
import { BudgetOverrides } from '../keys/budget-overrides.ts'
import type { FollowedKeys } from '../keys/key-follower.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { errorFields, type Logger } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'
import type { FormStore } from '../providers/form-store.ts'
import { keepForms } from '../providers/learned-form.ts'
import type { Provider } from '../providers/provider.ts'
import type { SpanExporter } from '../tracing/span-exporter.ts'
import type { ProviderNames } from '../tracing/spans.ts'
import { SpanTracer } from '../tracing/tracer.ts'
import { compactionKeys } from './compaction-keys.ts'
import type { ConversationStores } from './conversation-stores.ts'
import { type Adapters, adapterOfModel } from './provider-adapters.ts'
import { TargetEntries } from './target-entries.ts'
import { targetsOf } from './targets.ts'
import { VERSION } from './version.ts'

/** A valid configuration that cannot be served. The message is for the operator. */
export class UnusableConfiguration extends Error {
  override readonly name = 'UnusableConfiguration'
}

/** What outlives the configurations of a worker. */
export interface LastingParts {
  readonly ledger: Ledger
  readonly logger: Logger
  readonly stores: ConversationStores
  /** What was learned of targets. */
  readonly forms: FormStore
  /** Hears of keys whose callers send fields without effect. */
  readonly fieldsIgnored?: ((hint: FieldHint) => void) | undefined
  readonly breaker: Breaker
  readonly affinity: Affinity
  readonly targetUsage: TargetUsage
  readonly thinking: ThinkingTargets
  /** The limits of providers and targets, and the requests that wait for them. */
  readonly rooms: Rooms
  readonly waiting: WaitQueue
  /** What providers list of the models of patterns. */
  readonly providerLists: ProviderLists
  /** Takes the spans of traced requests. */
  readonly spans: SpanExporter
  /** The keys that commands created, as they are now. */
  readonly storedKeys: () => FollowedKeys
  /** Whether the configuration in force has the organisation and, if a key is given, an enabled key with this id. */
  readonly serves: (organization: string, key?: string) => boolean
}

/** Throws `UnusableConfiguration`. */
export function buildEdgeParts(config: Config, adapters: Adapters, lasting: LastingParts): EdgeParts {
  const { ledger, logger, stores, breaker, affinity, targetUsage, spans, storedKeys, serves } = lasting
  const catalog = Catalog.from(config)
  const keys = new AcceptedKeys(catalog, storedKeys, serves)
  const entries = new TargetEntries(config)
  for (const provider of config.providers)
    keepForms(provider, lasting.forms, (model) => entries.of(provider.name, model))
  return {
    patterns: new PatternModels(catalog, lasting.providerLists),
    keys,
    dialects: dialectsOf(config, stores.items),
    imageUrls: config.compatibility.imageUrls,
    callerAddress: new CallerAddress(config.listen.trustedProxies ?? []),
    tags: tagsReader(config),
    acceptCount: (body, caller) =>
      acceptCount(body, {
        ...config.compatibility,
        takesContent: caller.compatibility?.content === 'pass',
        takesReasoning: caller.compatibility?.reasoning === 'pass',
        passes: passesOf(caller),
      }),
    tracer: tracerOf(config, catalog, spans),
    sockets: socketsOf(config),
    gateway: {
      node: config.nodeName ?? hostname(),
      catalog,
      upstreams: new Map(config.providers.map((provider) => [provider.name, upstreamOf(provider, config, adapters)])),
      ledger,
      routing: config.routing,
      breaker,
      affinity,
      targetUsage,
      thoughts: stores.thoughts && new ThoughtMemory(stores.thoughts, lasting.thinking),
      sealer: sealerOf(config),
      capacity: capacityOf(config, lasting),
      random: Math.random,
      explainRoute: config.listen.explainHeader,
      report: (error, requestId) =>
        logEvent(logger, 'internal.error', { request_id: requestId, ...errorFields(error) }),
      logEvent: (event, fields) => logEvent(logger, event, fields),
      fieldsIgnored: lasting.fieldsIgnored,
      isRevoked: (key) => keys.isRevoked(key),
      overrides: new BudgetOverrides(() => storedKeys().table),
    },
  }
}

/** Reads the tags of requests; undefined without any in the configuration. */
export function tagsReader({ tags = [], tagRules = {} }: Config): TagsReader | undefined {
  return tags.length === 0 ? undefined : new TagsReader(tags, tagRules)
}

/** Without limits of providers, and without a queue, requests need not look for room. */
function capacityOf({ capacity }: Config, { rooms, waiting: queue }: LastingParts): Capacity | undefined {
  if (capacity === undefined) return undefined
  const { maxWaitMs, maxWaiting } = capacity.queue ?? DEFAULT_QUEUE
  return { rooms, queue, maxWaitMs, maxWaiting, waitsForProviders: capacity.queue !== undefined }
}

/** The defaults are for a supervisor of a version without the settings. */
function socketsOf({ listen, responses }: Config): EdgeParts['sockets'] {
  const { websockets = true, socketMinutes = 60, socketBytes = 64 * 1024 * 1024 } = responses
  const { workerSockets: max = 20_000 } = listen
  return { isOffered: websockets, max, lifeMs: socketMinutes * 60_000, continuableBytes: socketBytes }
}

function dialectsOf(config: Config, itemStore: ItemStore | undefined): EdgeParts['dialects'] {
  return {
    chat: chat(config.compatibility),
    messages: messages(config.compatibility),
    responses: responses({ sealer: sealerOf(config), itemStore, imageUrls: config.compatibility.imageUrls }),
  }
}

function tracerOf({ tracing, providers }: Config, catalog: Catalog, spans: SpanExporter): SpanTracer | undefined {
  if (tracing === undefined) return undefined
  return new SpanTracer({
    config: { ...tracing, resource: { ...processAttributes(), ...tracing.resource } },
    providers: new Map(providers.map((provider) => [provider.name, tracedProvider(provider)])),
    // A name that only matches a pattern is the caller's word.
    isModel: (name) => {
      const model = name === AUTO ? undefined : catalog.lookup(name)
      return model !== 'unknown' && (typeof model !== 'object' || model.asked === undefined)
    },
    take: (taken) => spans.take(taken),
  })
}

/** Throws `UnusableConfiguration` if the key of this machine can be neither read nor created. */
export function sealerOf(config: Config): Sealer {
  try {
    return new Sealer(compactionKeys(config))
  } catch (error) {
    const why = messageOf(error)
    throw new UnusableConfiguration(`data_dir: the key that encrypts compacted conversations cannot be used: ${why}`)
  }
}

function upstreamOf(endpoint: ProviderConfig, config: Config, adapters: Adapters): Upstream {
  const { name, dialect } = endpoint
  const adapter = adapters.get(dialect)
  if (adapter === undefined) throw new Error(`no adapter was loaded for dialect ${dialect}`)
  const used = (one: Provider) => (config.shortcuts === false ? withoutShortcuts(one) : one)
  const provider = used(adapter)
  const own = targetsOf(config).flatMap((target) => {
    const other = target.provider === name ? adapterOfModel(dialect, target.model) : undefined
    return other === undefined ? [] : [[target.model, { provider: used(other), endpoint }] as const]
  })
  return own.length === 0 ? { provider, endpoint } : { provider, endpoint, byModel: new Map(own) }
}

/** How a provider appears in traces. */
function tracedProvider({ dialect, baseUrl, propagateTrace }: ProviderConfig): ProviderNames {
  const { hostname: address, port, protocol } = new URL(baseUrl)
  return {
    system: providerDialects[dialect].system,
    address,
    port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
    propagates: propagateTrace === true,
  }
}

/** Distinguishes the workers of all nodes. */
const INSTANCE = crypto.randomUUID()

/** Attributes of everything that this process sends to a collector. */
function processAttributes(): Readonly<Record<string, string>> {
  return { 'service.version': VERSION, 'service.instance.id': INSTANCE, 'host.name': hostname() }
}

/**
 * An adapter without its fast paths (`shortcuts: false`): every event is decoded and encoded. An operator who suspects
 * a fast path can rule it out. What is sent is the same.
 */
export function withoutShortcuts(provider: Provider): Provider {
  // Frames that are not offered to a shortcut are decoded.
  return { ...provider, plain: undefined, framer: () => provider.framer() }
}
