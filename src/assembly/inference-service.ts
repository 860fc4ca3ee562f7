/** The inference API of one worker: what it serves now, how a reload changes that, and whether it can serve. */

import type { RoomSource } from '../capacity/common-room.ts'
import type { ScarceRoom } from '../capacity/reported-rooms.ts'
import { Rooms } from '../capacity/rooms.ts'
import { PRIORITIES, WaitQueue } from '../capacity/wait-queue.ts'
import type { Config } from '../config/config.ts'
import type { TargetRef } from '../core/model-config.ts'
import { slowTicker } from '../core/ticker.ts'
import { Affinity, type Place } from '../gateway/affinity.ts'
import { BodyMemory } from '../gateway/body-memory.ts'
import { Breaker, type Rest, type TargetTimes } from '../gateway/breaker.ts'
import type { FieldHint } from '../gateway/field-hints.ts'
import { InFlight } from '../gateway/in-flight.ts'
import { ProviderLists } from '../gateway/provider-lists.ts'
import { fieldsOfLine, type RequestLine } from '../gateway/request-line.ts'
import { TagCounts } from '../gateway/request-tags.ts'
import { TargetProber } from '../gateway/target-prober.ts'
import { TargetUsage } from '../gateway/target-usage.ts'
import { ThinkingTargets } from '../gateway/thought-memory.ts'
import { AnonymousLog } from '../http/anonymous-log.ts'
import { type App, createApp } from '../http/app.ts'
import type { EdgeParts, EdgeState } from '../http/request-life.ts'
import type { ItemChannel } from '../items/item-store.ts'
import { ownLimitsWith } from '../keys/budget-overrides.ts'
import type { ConfiguredKeys } from '../keys/configured-revocations.ts'
import type { FollowedKeys } from '../keys/key-follower.ts'
import { KeyTable } from '../keys/key-table.ts'
import type { Account, Ledger, LedgerHealth } from '../ledger/ledger.ts'
import type { Logger } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'
import type { WorkerGauges } from '../metrics/figures-post.ts'
import { TimedLedger } from '../metrics/timed-ledger.ts'
import { WorkerFigures } from '../metrics/worker-figures.ts'
import { FormStore } from '../providers/form-store.ts'
import { SpanExporter } from '../tracing/span-exporter.ts'
import { type ConversationStores, closeStores, openStores, type SharedStores } from './conversation-stores.ts'
import { buildEdgeParts, type LastingParts, sealerOf } from './edge-parts.ts'
import type { Adapters } from './provider-adapters.ts'
import { remaining } from './targets.ts'

/** The status of a WebSocket that is refused. */
const UPGRADE_REFUSED = 426

/**
 * What one worker learns and the others should know: which targets rest after failures, which of their limits are
 * scarce, which target a conversation stays with, and of which model's tier it has warned. The supervisor adds how many
 * nodes there are, if that is known.
 */
export type PeerUpdate =
  | { readonly about: 'rest'; readonly rest: Rest }
  | { readonly about: 'room'; readonly room: ScarceRoom }
  | { readonly about: 'place'; readonly place: Place }
  | { readonly about: 'tier'; readonly model: string }
  | { readonly about: 'fleet'; readonly nodes?: number | undefined }

interface InferenceServiceOptions {
  readonly config: Config
  /** One for each provider of `config`. */
  readonly adapters: Adapters
  readonly log: { readonly logger: Logger; readonly request: (fields: string, level?: 'info' | 'debug') => void }
  readonly ledger: Ledger
  /** Leads to the items that the workers of this machine have sent. */
  readonly items: ItemChannel
  /** What the workers have learned of targets; by default this one keeps its own. */
  readonly forms?: FormStore
  /** Of `ThinkingTargets`, in memory that the workers share; by default this one keeps its own. */
  readonly marks?: Uint8Array
  /** Where room of providers and targets is taken. */
  readonly room: RoomSource
  /** Takes what the other workers should know. */
  readonly publish?: (update: PeerUpdate) => void
  /** Resolves to whether this worker may probe the target. Absent if it is the only worker. */
  readonly claimProbe?: ((target: TargetRef) => Promise<boolean>) | undefined
  /** Hears that a target answers for the first time or again, or begins to fail. */
  readonly targetTurned?: () => void
  /** Hears of keys whose callers send fields that only native mode gives an effect. */
  readonly fieldsIgnored?: ((hint: FieldHint) => void) | undefined
}

/** How long a worker that ends waits for the collector. */
const SPANS_MS = 3000

interface Prepared {
  readonly config: Config
  readonly stores: ConversationStores
  readonly parts: EdgeParts
}

/** Codex asks for a socket first and goes on without one: no operator has to act on that. */
function levelOf({ status }: RequestLine): 'debug' | 'info' {
  return status === UPGRADE_REFUSED ? 'debug' : 'info'
}

/** A reload swaps the parts; running requests keep those that they began with. */
export class InferenceService {
  readonly state: EdgeState
  readonly app: App
  /** What this worker counts. */
  readonly figures: WorkerFigures
  private config: Config
  private stores: ConversationStores
  private prepared: Prepared | undefined
  private storedKeys: FollowedKeys = { table: new KeyTable(), isRead: false, complaint: undefined }
  private readonly shared: SharedStores
  private readonly lasting: Omit<LastingParts, 'stores'>

  /** Throws `UnusableConfiguration`. */
  constructor({
    config,
    adapters,
    log,
    ledger,
    items,
    forms = new FormStore(),
    marks,
    room,
    publish = () => {},
    claimProbe,
    targetTurned,
    fieldsIgnored,
  }: InferenceServiceOptions) {
    const { logger } = log
    this.config = config
    this.figures = new WorkerFigures({ keyLabel: config.metrics?.keyLabel ?? false })
    this.shared = { channel: items, pipeline: ledger.pipeline }
    this.stores = openStores(config, sealerOf(config), this.shared)
    const publishRest = (rest: Rest) => {
      if (begins(rest)) this.figures.rested(rest)
      logRest(logger, rest)
      publish({ about: 'rest', rest })
    }
    const providerLists = new ProviderLists((provider, { kind, detail }) =>
      logEvent(logger, 'provider.models_unread', { provider, reason: kind, status: detail.status }),
    )
    const rooms = new Rooms(room, (scarce) => publish({ about: 'room', room: scarce }))
    const waiting = new WaitQueue(this.figures)
    rooms.listen(() => waiting.roomChanged())
    this.lasting = {
      ...{ logger, forms, fieldsIgnored, providerLists, rooms, waiting },
      ledger: new TimedLedger(ledger, (operation) => this.figures.ledgerTimes(operation)),
      // Without a clock of their own, both read `performance.now()`.
      breaker: new Breaker(undefined, publishRest, claimProbe, targetTurned),
      affinity: new Affinity(undefined, (place) => publish({ about: 'place', place })),
      targetUsage: new TargetUsage((model) => publish({ about: 'tier', model })),
      thinking: new ThinkingTargets(marks),
      spans: spanExporter(this.figures, logger),
      storedKeys: () => this.storedKeys,
      serves: this.serves,
    }
    if (config.ledger.kind === 'redis') rooms.shareAmong(undefined)
    this.useCapacity(config)
    this.exportSpans()
    const logged = (line: RequestLine) => log.request(fieldsOfLine(line), levelOf(line))
    this.state = {
      current: buildEdgeParts(config, adapters, { ...this.lasting, stores: this.stores }),
      inFlight: new InFlight(),
      bodies: new BodyMemory(config.listen.bodyBytes, () => waiting.shed()),
      log: logged,
      anonymous: new AnonymousLog(logged, (omitted) => logEvent(logger, 'requests.omitted', { ...omitted })),
      tagCounts: new TagCounts({
        limited: (organization, limit) => logEvent(logger, 'tags.limited', { organization, limit }),
      }),
      figures: this.figures,
      socketClosed: (end) => {
        this.figures.socketClosed(end.reason)
        logEvent(logger, 'socket.closed', { ...end })
      },
      // `createApp` puts the function in that asks the server.
      peerOf: () => 'unknown',
      draining: false,
      crowded: false,
    }
    providerLists.use(this.state.current.gateway)
    this.app = createApp(this.state)
  }

  get drainSeconds(): number {
    return this.config.drainSeconds
  }

  /** Builds everything that follows from a new configuration, for `commit`. Throws `UnusableConfiguration`. */
  prepare(config: Config, adapters: Adapters): void {
    const stores = openStores(config, sealerOf(config), this.shared, { config: this.config, stores: this.stores })
    this.prepared = { config, stores, parts: buildEdgeParts(config, adapters, { ...this.lasting, stores }) }
  }

  /** Serves what was prepared, from the next request on. */
  commit(): void {
    if (this.prepared === undefined) return
    const remains = remaining(this.config, this.prepared.config)
    this.lasting.breaker.keep(remains)
    this.lasting.targetUsage.keep(remains)
    this.config = this.prepared.config
    this.useCapacity(this.config)
    this.exportSpans()
    closeStores(this.stores, this.prepared.stores)
    this.stores = this.prepared.stores
    this.state.current = this.prepared.parts
    this.lasting.providerLists.use(this.prepared.parts.gateway)
    this.prepared = undefined
  }

  private useCapacity({ capacity, models, workers }: Config): void {
    // Without limits and without a queue, requests do not look for room.
    const targets = capacity === undefined ? [] : models.flatMap((model) => model.targets)
    if (capacity === undefined) slowTicker.remove(this.lasting.waiting.strain)
    else slowTicker.add(this.lasting.waiting.strain)
    this.lasting.rooms.use(capacity ?? { providers: {}, targets: [] }, targets, workers)
  }

  /** Drops what was prepared. */
  abort(): void {
    if (this.prepared !== undefined) closeStores(this.prepared.stores, this.stores)
    this.prepared = undefined
  }

  /**
   * Accepts the keys that commands create, too, from now on. `keys` changes when they do, so one call is enough.
   */
  follow(keys: FollowedKeys): void {
    this.storedKeys = keys
  }

  /** Whether the configuration in force has a key with this id, enabled or not. */
  isConfigured(organization: string, key: string): boolean {
    const found = this.config.organizations.find(({ id }) => id === organization)
    return found?.keys.some(({ id }) => id === key) ?? false
  }

  /**
   * Finds the limits of organisations and keys by their ids, with the configuration in force; a key that is gone has
   * none. Undefined as long as the stored keys are not read.
   */
  accounts(): ((organization: string, key: string) => Account | undefined) | undefined {
    const { table, isRead } = this.storedKeys
    if (!isRead) return undefined
    const configured = new Map(this.config.organizations.map((one) => [one.id, one]))
    return (organization, key) => {
      const known = configured.get(organization)
      const owner = known ?? table.organization(organization)
      if (owner === undefined) return undefined
      const own = known?.keys.find(({ id }) => id === key) ?? table.get(key)
      const organizationLimits = ownLimitsWith(table.budgets(organization), owner.limits ?? {})
      return { organization, organizationLimits, key, keyLimits: own?.limits ?? {} }
    }
  }

  /** The keys of the configuration in force, for the follower of the key store. */
  readonly configuredKeys: ConfiguredKeys = {
    ids: () => this.config.organizations.flatMap(({ keys }) => keys.map(({ id }) => id)),
    has: (organization, key) => this.serves(organization, key),
  }

  /** The targets that are not healthy. */
  rests(): readonly Rest[] {
    return this.lasting.breaker.rests()
  }

  /** Requests that wait for room, and what is left of the limits of providers. Nothing without such limits. */
  waiting(): Pick<WorkerGauges, 'waiting' | 'left'> {
    if (this.config.capacity === undefined) return {}
    const counts = PRIORITIES.map((priority) => [priority, this.lasting.waiting.sizeOf(priority)] as const)
    return { waiting: Object.fromEntries(counts), left: this.lasting.rooms.left() }
  }

  /** Asks idle targets that failed whether they answer again. One worker of a node has one. */
  prober(): TargetProber {
    return new TargetProber({
      breaker: this.lasting.breaker,
      upstreams: () => (this.config.routing.probe === false ? undefined : this.state.current.gateway.upstreams),
      ended: (target, result, error) => {
        this.figures.probed(target, result, error)
        if (error?.kind === 'credential') logEvent(this.lasting.logger, 'provider.credential_rejected', { ...target })
      },
    })
  }

  /** When calls of targets answered and failed, of those that were called since this was last called. */
  takeTargetTimes(): readonly TargetTimes[] {
    return this.lasting.breaker.takeTimes()
  }

  /** Applies what another worker learned. */
  apply(update: PeerUpdate): void {
    if (update.about === 'rest') this.lasting.breaker.receive(update.rest)
    else if (update.about === 'room') this.lasting.rooms.receive(update.room)
    else if (update.about === 'place') this.lasting.affinity.receive(update.place)
    else if (update.about === 'tier') this.lasting.targetUsage.receiveTier(update.model)
    else if (update.about === 'fleet') this.lasting.rooms.shareAmong(update.nodes)
  }

  /** The health of the ledger and of the key store, as far as it is known without asking them. */
  health(): LedgerHealth {
    return this.withKeys(this.lasting.ledger.health())
  }

  /**
   * Why the worker cannot serve, empty if it can, each the end of a sentence: `worker 0 …`; and whether the ledger
   * takes reservations and settlements. Asks the ledger.
   */
  async status(): Promise<{ readonly reasons: readonly string[]; readonly ledgerUp: boolean }> {
    const health = await this.lasting.ledger.askHealth()
    const { ready, complaint } = this.withKeys(health)
    const reasons = this.state.crowded ? ['is nearly out of file descriptors'] : []
    if (!ready) reasons.push(`cannot serve: ${complaint ?? 'the ledger does not answer'}`)
    else if (!this.storedKeys.isRead && !this.servesWithout(health)) reasons.push('has not read all API keys yet')
    return { reasons, ledgerUp: health.up }
  }

  /** Call after the last request: the ledger stores what it still holds in memory, and the last spans are sent. */
  async close(): Promise<void> {
    this.lasting.providerLists.stop()
    this.lasting.rooms.close()
    await Promise.all([this.lasting.ledger.close(), this.lasting.spans.close(SPANS_MS)])
  }

  /** Without `tracing`, spans of requests that still run go to the collector of the configuration before. */
  private exportSpans(): void {
    const { tracing } = this.config
    if (tracing !== undefined) this.lasting.spans.use(tracing)
  }

  /** Whether the configuration in force has the organisation and, if a key is given, an enabled key with this id. */
  private readonly serves = (organization: string, key?: string): boolean => {
    const found = this.config.organizations.find(({ id }) => id === organization)
    if (found === undefined || key === undefined) return found !== undefined
    return found.keys.some(({ id, disabled }) => id === key && !disabled)
  }

  /**
   * A key store that cannot be read counts as a ledger that is down: revoked keys may still be accepted, and the log
   * must say so.
   */
  private withKeys(health: LedgerHealth): LedgerHealth {
    const { complaint } = this.storedKeys
    if (complaint === undefined) return health
    const ready = health.ready && this.servesWithout(health)
    return { ...health, ready, up: false, complaint: health.complaint ?? complaint }
  }

  /** Whether the store is unreachable and the operator chose to serve without it. */
  private servesWithout({ up }: LedgerHealth): boolean {
    return !up && this.config.ledgerUnreachable === 'allow'
  }
}

function spanExporter(figures: WorkerFigures, logger: Logger): SpanExporter {
  return new SpanExporter({
    dropped: (spans) => figures.spansDropped(spans),
    dropping: (fields) => logEvent(logger, 'traces.dropping', fields),
    recovered: (fields) => logEvent(logger, 'traces.recovered', fields),
  })
}

/** Whether a target begins to rest; probes in between do not. */
function begins({ restMs, rests, probing }: Rest): boolean {
  return rests > 0 && restMs > 0 && !probing
}

/** Logs that a target rests, and that it answers again. */
function logRest(logger: Logger, rest: Rest): void {
  const { provider, model, restMs, rests, asked, reason, status, cause } = rest
  if (rests === 0) logEvent(logger, 'target.closed', { provider, model })
  else if (begins(rest))
    logEvent(logger, 'target.open', { provider, model, reason, status, cause, asked, rest_ms: restMs })
}
