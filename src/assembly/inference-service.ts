/** What a worker serves: the parts that follow from a configuration, and what lives on through all configurations. */

import { Catalog } from '../catalog/catalog.ts'
import type { Config, ProviderConfig } from '../config/config.ts'
import type { TargetRef } from '../core/model-config.ts'
import { chat } from '../dialects/chat/chat.ts'
import { messages } from '../dialects/messages/messages.ts'
import { acceptCount } from '../dialects/messages/request.ts'
import { responses } from '../dialects/responses/responses.ts'
import { Affinity } from '../gateway/affinity.ts'
import { BodyMemory } from '../gateway/body-memory.ts'
import { Breaker, type Rest } from '../gateway/breaker.ts'
import type { Upstream } from '../gateway/gateway.ts'
import { InFlight } from '../gateway/in-flight.ts'
import { AnonymousLog } from '../http/anonymous-log.ts'
import { type App, createApp } from '../http/app.ts'
import type { EdgeParts, EdgeState } from '../http/edge.ts'
import type { ItemStore } from '../items/item-store.ts'
import { itemStorePlace, openItemStore } from '../items/open-item-store.ts'
import { Sealer } from '../items/sealer.ts'
import { Keys } from '../keys/accepted-keys.ts'
import type { FollowedKeys } from '../keys/key-follower.ts'
import { KeyTable } from '../keys/key-table.ts'
import type { Ledger, LedgerHealth } from '../ledger/ledger.ts'
import { errorFields, type Log, type Logger } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'
import { compactionKeys } from './compaction-keys.ts'
import type { PeerUpdate } from './peer-update.ts'
import type { Adapters } from './provider-adapters.ts'
import { remaining } from './targets.ts'

/** A configuration that is well-formed and cannot be served all the same: a line for the operator. */
export class UnusableConfiguration extends Error {
  override readonly name = 'UnusableConfiguration'
}

interface Prepared {
  readonly config: Config
  readonly itemStore: ItemStore | undefined
  readonly parts: EdgeParts
}

/** What lives through all configurations of a worker. */
interface Lasting {
  readonly ledger: Ledger
  readonly logger: Logger
  readonly itemStore: ItemStore | undefined
  readonly breaker: Breaker
  readonly affinity: Affinity
  readonly stored: () => FollowedKeys
  /** Whether the configuration that is served has an organisation, and where a key is named, one of this id that may be used. */
  readonly serves: (organization: string, key?: string) => boolean
}

/** The inference API of one worker. A reload swaps what it serves; running requests keep what they took. */
export class InferenceService {
  readonly state: EdgeState
  readonly fetch: App['fetch']
  private itemStore: ItemStore | undefined
  private prepared: Prepared | undefined
  private stored: FollowedKeys = { table: new KeyTable(), isRead: false, complaint: undefined }
  private readonly breaker: Breaker
  private readonly affinity: Affinity

  /**
   * `adapters` are those of the configuration; `spread` takes what the other workers should know; `claim` says whether this one may find
   * out about a target whose rest is over, and is absent where there are no others. Throws `UnusableConfiguration`.
   */
  constructor(
    private config: Config,
    adapters: Adapters,
    private readonly log: Pick<Log, 'logger' | 'request'>,
    private readonly ledger: Ledger,
    spread: (news: PeerUpdate) => void = () => {},
    claim?: (target: TargetRef) => Promise<boolean>,
  ) {
    this.itemStore = openItemStore(config, sealerOf(config))
    const tell = (rest: Rest) => {
      logRest(log.logger, rest)
      spread({ about: 'rest', rest })
    }
    this.breaker = new Breaker(undefined, tell, claim)
    this.affinity = new Affinity(undefined, (place) => spread({ about: 'place', place }))
    const { itemStore, breaker, affinity } = this
    const { logger } = log
    const stored = () => this.stored
    this.state = {
      current: buildParts(config, adapters, {
        ledger,
        logger,
        itemStore,
        breaker,
        affinity,
        stored,
        serves: this.serves,
      }),
      inFlight: new InFlight(),
      bodies: new BodyMemory(config.listen.bodyBytes),
      log: (line) => log.request(line),
      anonymous: new AnonymousLog(
        (line) => log.request(line),
        (omitted) => logEvent(logger, 'requests.omitted', { ...omitted }),
      ),
      remoteOf: () => 'unknown',
      draining: false,
      crowded: false,
    }
    this.fetch = createApp(this.state).fetch
  }

  get drainSeconds(): number {
    return this.config.drainSeconds
  }

  /** Builds everything that follows from the configuration and keeps it for `commit`. Throws `UnusableConfiguration`. */
  prepare(config: Config, adapters: Adapters): void {
    const { ledger, breaker, affinity } = this
    const { logger } = this.log
    // What callers may refer back to outlives a reload, unless it is to be remembered elsewhere or for another time.
    const itemStore =
      itemStorePlace(config) === itemStorePlace(this.config) ? this.itemStore : openItemStore(config, sealerOf(config))
    const stored = () => this.stored
    const lasting = { ledger, logger, itemStore, breaker, affinity, stored, serves: this.serves }
    this.prepared = { config, itemStore, parts: buildParts(config, adapters, lasting) }
  }

  commit(): void {
    if (this.prepared === undefined) return
    this.breaker.keep(remaining(this.config, this.prepared.config))
    this.config = this.prepared.config
    if (this.itemStore !== this.prepared.itemStore) this.itemStore?.close?.()
    this.itemStore = this.prepared.itemStore
    this.state.current = this.prepared.parts
    this.prepared = undefined
  }

  abort(): void {
    if (this.prepared !== undefined && this.prepared.itemStore !== this.itemStore) this.prepared.itemStore?.close?.()
    this.prepared = undefined
  }

  /** Accepts the keys of the store, too. */
  follow(keys: FollowedKeys): void {
    this.stored = keys
  }

  /** Whether the configuration that is served has a key of this id, disabled ones too. */
  isConfigured(organization: string, key: string): boolean {
    const found = this.config.organizations.find(({ id }) => id === organization)
    return found?.keys.some(({ id }) => id === key) ?? false
  }

  private readonly serves = (organization: string, key?: string): boolean => {
    const found = this.config.organizations.find(({ id }) => id === organization)
    if (found === undefined || key === undefined) return found !== undefined
    return found.keys.some(({ id, disabled }) => id === key && !disabled)
  }

  /** Which targets are not well. */
  rests(): readonly Rest[] {
    return this.breaker.rests()
  }

  /** Takes over what another worker found out. */
  hear(news: PeerUpdate): void {
    if (news.about === 'rest') this.breaker.hear(news.rest)
    else this.affinity.hear(news.place)
  }

  /** How the ledger and the store of the keys are, as far as is known without asking. */
  health(): LedgerHealth {
    return this.withKeys(this.ledger.health())
  }

  /** Why it cannot serve, asked now; none if it can. */
  async reasons(): Promise<readonly string[]> {
    const health = await this.ledger.askHealth()
    const { ready, complaint } = this.withKeys(health)
    const reasons = this.state.crowded ? ['is nearly out of file descriptors'] : []
    if (!ready) reasons.push(complaint ?? 'the ledger does not answer')
    else if (!this.stored.isRead && !this.servesWithout(health)) reasons.push('has not read all API keys yet')
    return reasons
  }

  private withKeys(health: LedgerHealth): LedgerHealth {
    const { complaint } = this.stored
    if (complaint === undefined) return health
    const ready = health.ready && this.servesWithout(health)
    return { ...health, ready, up: false, complaint: health.complaint ?? complaint }
  }

  /** The store is away, and the operator has chosen to serve all the same. */
  private servesWithout({ up }: LedgerHealth): boolean {
    return !up && this.config.ledgerUnreachable === 'allow'
  }

  /** After the last request: what the ledger still holds back reaches its store. */
  async close(): Promise<void> {
    await this.ledger.close()
  }
}

function buildParts(config: Config, adapters: Adapters, lasting: Lasting): EdgeParts {
  const { ledger, logger, itemStore, breaker, affinity, stored, serves } = lasting
  const catalog = Catalog.from(config)
  const sealer = sealerOf(config)
  const keys = new Keys(catalog, stored, serves)
  return {
    catalog,
    keys,
    dialects: {
      chat: chat(config.compatibility),
      messages: messages(config.compatibility),
      responses: responses({ sealer, itemStore }),
    },
    imageUrls: config.compatibility.imageUrls,
    acceptCount: (body) => acceptCount(body, config.compatibility),
    gateway: {
      catalog,
      upstreams: new Map(config.providers.map((provider) => [provider.name, upstreamOf(provider, adapters)])),
      ledger,
      routing: config.routing,
      breaker,
      affinity,
      random: Math.random,
      explainRoute: config.listen.explainHeader,
      report: (error, requestId) =>
        logEvent(logger, 'internal.error', { request_id: requestId, ...errorFields(error) }),
      logEvent: (event, fields) => logEvent(logger, event, fields),
      isRevoked: (key) => keys.isRevoked(key),
    },
  }
}

/** The beginning of a rest, and its end by a success; that a target is probed is of no interest. */
function logRest(logger: Logger, { provider, model, restMs, rests, asked, reason, probing }: Rest): void {
  if (rests === 0) logEvent(logger, 'target.closed', { provider, model })
  else if (restMs > 0 && !probing) logEvent(logger, 'target.open', { provider, model, reason, asked, rest_ms: restMs })
}

/** Throws `UnusableConfiguration` where the key of this machine can be neither read nor made. */
function sealerOf(config: Config): Sealer {
  try {
    return new Sealer(compactionKeys(config))
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new UnusableConfiguration(`data_dir: the key that seals compacted conversations cannot be used: ${why}`)
  }
}

function upstreamOf(config: ProviderConfig, adapters: Adapters): Upstream {
  const provider = adapters.get(config.dialect)
  if (provider === undefined) throw new Error(`no adapter was loaded for dialect ${config.dialect}`)
  return { provider, endpoint: config }
}
