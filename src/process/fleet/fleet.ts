/**
 * The nodes that share a Redis: each reports every 5 s what it is, and does what another one asks of it. Without Redis
 * there is one node. While Redis is away, the others are forgotten when their lease ends.
 */

import { randomBytes } from 'node:crypto'
import { statSync } from 'node:fs'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import type { FiguresNow, NodeRow, Nodes } from '../../admin/api-shapes.ts'
import { type FleetView, NodeProblem, type ReloadResult } from '../../admin/supervision.ts'
import { versionOf } from '../../assembly/version.ts'
import type { Config } from '../../config/config.ts'
import { messageOf } from '../../core/error-message.ts'
import { isArray, isObject, type JsonObject, stringOf } from '../../core/json.ts'
import type { RedisConfig } from '../../core/redis-config.ts'
import type { Changer } from '../../keys/admin-audit.ts'
import { type DetailedDigests, type Digests, detailsOf, digestsOf, hashesOf, mixedNodes } from './digests.ts'
import { FleetSize } from './fleet-size.ts'
import { FleetStore, LEASE_MS } from './fleet-store.ts'

const BEAT_MS = 5000
/** How often a node looks whether another one asks something of it. */
const LOOK_MS = 1000

interface FleetOptions {
  readonly config: () => Config | undefined
  readonly isDraining: () => boolean
  readonly figures: () => FiguresNow | undefined
  /** Lets this node finish what runs and end. */
  readonly drain: (by: Changer) => void
  readonly reload: (by: Changer) => Promise<ReloadResult>
  /** Writes into the admin audit what was done with this node. */
  readonly audit: (action: 'node.drained' | 'node.reloaded', by: Changer, details: JsonObject) => Promise<void>
  /** Takes how many nodes share the Redis; undefined if that is not known. */
  readonly sized: (nodes: number | undefined) => void
}

/** A command is no node. */
const OBSERVER: FleetOptions = {
  config: () => undefined,
  isDraining: () => false,
  figures: () => undefined,
  drain: () => {},
  reload: async () => ({ problems: [], changes: [] }),
  audit: async () => {},
  sized: () => {},
}

/** What a node reports; `place` is the same for the next gateway of its `data_dir`. */
interface Report {
  readonly row: Omit<NodeRow, 'seen_at'>
  readonly now: FiguresNow
  readonly place: string
}

interface Known extends Report {
  readonly row: NodeRow
}

export class Fleet implements FleetView {
  private readonly id = randomBytes(6).toString('hex')
  private readonly startedMs = Date.now() - performance.now()
  private secret = randomBytes(32).toString('base64url')
  private hashed: { readonly config: Config; readonly hashes: Digests } | undefined
  private store: FleetStore | undefined
  private size: FleetSize | undefined
  private known: readonly Known[] = []
  private heardMs = Number.NEGATIVE_INFINITY
  private readonly details = new Map<string, DetailedDigests>()
  private compared: { readonly key: string; readonly mixed: Nodes['mixed'] } | undefined
  private timers: readonly ReturnType<typeof setInterval>[] = []
  private beating: Promise<void> | undefined
  private looking = false
  private hasLeft = false
  mixedMs: number | undefined

  constructor(private readonly options: FleetOptions) {}

  /** For a command without a gateway: the nodes of this Redis. Throws `RedisUnfitError` if it does not answer. */
  static async observe(place: RedisConfig): Promise<Fleet> {
    const fleet = new Fleet(OBSERVER)
    fleet.store = await FleetStore.once(place)
    await fleet.beatOnce()
    return fleet
  }

  /** Before the workers start, which may not reach Redis: how many nodes there were when it last answered. */
  remember({ ledger, dataDir }: Config): void {
    if (ledger.kind !== 'redis') return
    this.size = new FleetSize(dataDir)
    this.options.sized(this.size.nodes)
  }

  /** weir is ready: the others learn of it. */
  start(): void {
    const ledger = this.options.config()?.ledger
    if (ledger?.kind !== 'redis' || this.store !== undefined) return
    this.store = new FleetStore()
    void this.store.open(ledger.redis, () => void this.beat())
    this.timers = [setInterval(() => void this.beat(), BEAT_MS), setInterval(() => void this.look(), LOOK_MS)]
    for (const timer of this.timers) timer.unref()
  }

  /** Reports now: a reload, or the beginning of a drain. */
  async beat(): Promise<void> {
    // A report that is under way may be of before.
    await this.beating
    this.beating ??= this.beatOnce()
      // Redis is away: the ledger reports that.
      .catch(() => {})
      .finally(() => {
        this.beating = undefined
      })
    await this.beating
  }

  /** This node, or the command, has ended. */
  async leave(): Promise<void> {
    this.hasLeft = true
    for (const timer of this.timers) clearInterval(timer)
    await this.beating
    if (this.store?.isReady === true) await this.store.leave(this.id).catch(() => {})
    this.store?.close()
  }

  list(): Nodes {
    const nodes = this.rows()
    return { nodes, mixed: this.mixedOf(nodes) }
  }

  others(): readonly FiguresNow[] {
    return this.living().flatMap(({ row, now }) => (row.id === this.id ? [] : [now]))
  }

  async drain(name: string, by: Changer): Promise<NodeRow> {
    const node = this.named(name)
    if (node.id === this.id) await this.drainThis(by)
    else await this.ask(node, { action: 'drain', ...by })
    return { ...node, state: 'draining' }
  }

  async reload(name: string | undefined, by: Changer): ReturnType<FleetView['reload']> {
    const nodes = name === undefined ? this.rows() : [this.named(name)]
    if (nodes.length === 0) throw new NodeProblem('unknown', 'No node has reported to this Redis.')
    const results = nodes.map(async (node) => {
      if (node.id === this.id) return await this.reloadThis(by)
      if (name !== undefined) return await this.ask(node, { action: 'reload', ...by })
      // One that does not answer is no reason to hide what the others did.
      return await this.ask(node, { action: 'reload', ...by }).catch((error) => ({ problems: [messageOf(error)] }))
    })
    return (await Promise.all(results)).map((answer, at) => ({
      id: nodes[at]?.id ?? '',
      name: nodes[at]?.name ?? '',
      changes: lines(Reflect.get(answer, 'changes')),
      problems: lines(Reflect.get(answer, 'problems')),
    }))
  }

  /** Compared again only if something that is compared is new: configurations may be long. */
  private mixedOf(nodes: readonly NodeRow[]): Nodes['mixed'] {
    const compared = nodes.map(({ id, state, version, commit, digests }) => [id, state, version, commit, digests])
    const key = JSON.stringify([compared, [...this.details.keys()]])
    if (key !== this.compared?.key)
      this.compared = { key, mixed: mixedNodes(nodes, (digest) => this.details.get(digest)) }
    return this.compared.mixed
  }

  private rows(): NodeRow[] {
    const own = this.report()
    const rows = this.living().flatMap(({ row }) => (row.id === this.id ? [] : [row]))
    if (own !== undefined) rows.push({ ...own.row, seen_at: new Date().toISOString() })
    return rows.sort(
      (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }) || a.since.localeCompare(b.since),
    )
  }

  /** While Redis is away, those whose lease has not ended. */
  private living(): readonly Known[] {
    return performance.now() - this.heardMs > LEASE_MS ? [] : this.known
  }

  private report(): Report | undefined {
    const { config: configOf, figures, isDraining } = this.options
    const [config, now] = [configOf(), figures()]
    if (config === undefined || now === undefined) return undefined
    const { version, commit = null } = versionOf()
    return {
      row: {
        ...{ id: this.id, host: hostname(), name: config.nodeName ?? hostname(), version, commit },
        since: new Date(this.startedMs).toISOString(),
        workers: config.workers,
        state: isDraining() ? 'draining' : 'ready',
        digests: this.digestsOf(config),
        requests_per_second: now.requests_per_second,
        open_streams: now.open_streams,
        failed_ratio: now.error_share,
        spend_micro_usd_per_hour: Math.round(now.cost_micro_usd_per_second * 3600),
      },
      now,
      place: placeOf(config.dataDir),
    }
  }

  private digestsOf(config: Config): Digests {
    if (this.hashed?.config !== config) this.hashed = { config, hashes: hashesOf(config) }
    return digestsOf(this.hashed.hashes, this.secret)
  }

  private async beatOnce(): Promise<void> {
    const { store } = this
    const report = this.report()
    const isObserver = this.options === OBSERVER
    if (store?.isReady !== true || (report === undefined && !isObserver) || this.hasLeft) return
    const isMixed = this.list().mixed.length > 0
    const beat = await store.beat(this.id, report === undefined ? '' : JSON.stringify(report), isMixed)
    // A start does not wait for the checker of schemas to load.
    const checks = await import('../../admin/node-reports.ts')
    this.known = beat.reports.flatMap(({ report: json, seenMs }) => knownOf(json, seenMs, checks) ?? [])
    this.heardMs = performance.now()
    if (beat.secret !== this.secret) {
      // The digests of this report were made with another key.
      this.secret = beat.secret
      this.details.clear()
      return await this.beatOnce()
    }
    if (report !== undefined) await this.forgetBefore(store, report)
    this.size?.saw(Math.max(1, this.known.length))
    this.options.sized(this.size?.nodes)
    const { mixed } = this.list()
    this.mixedMs = mixed.length === 0 ? undefined : (beat.mixedMs ?? Date.now())
    await this.shareDetails(store)
  }

  /** A gateway of this `data_dir` that was killed. One that drains is still there. */
  private async forgetBefore(store: FleetStore, { place, row }: Report): Promise<void> {
    const gone = this.known.filter(
      (other) => other.place === place && other.row.since < row.since && other.row.state === 'ready',
    )
    for (const each of gone) await store.leave(each.row.id)
    this.known = this.known.filter((other) => !gone.includes(other))
  }

  /** Only nodes that differ say, and ask, where. */
  private async shareDetails(store: FleetStore): Promise<void> {
    const config = this.options.config()
    const digests = new Set(this.known.map(({ row }) => row.digests.configuration))
    for (const digest of this.details.keys()) if (!digests.has(digest)) this.details.delete(digest)
    if (digests.size < 2) return
    if (config !== undefined) {
      const own = this.digestsOf(config).configuration
      const details = this.details.getOrInsertComputed(own, () => detailsOf(config, this.secret))
      await store.keepDetails(own, () => JSON.stringify(details))
    }
    for (const digest of digests) {
      const found = this.details.has(digest) ? undefined : await store.details(digest)
      if (found !== undefined && isDetailed(found)) this.details.set(digest, found)
    }
  }

  /** Throws `NodeProblem`. */
  private named(name: string): NodeRow {
    const rows = this.rows()
    const exact = rows.find(({ id }) => id === name)
    if (exact !== undefined) return exact
    const [found, another] = rows.filter((row) => row.name === name)
    if (found === undefined) throw new NodeProblem('unknown', `No node is '${name}'. weir nodes lists all of them.`)
    if (another !== undefined) throw new NodeProblem('unknown', `Several nodes are called '${name}'. Take an id.`)
    return found
  }

  /** Throws `NodeProblem`. */
  private async ask({ id, name }: NodeRow, wanted: JsonObject): Promise<JsonObject> {
    const { store } = this
    const answer = store?.isReady === true ? await store.request(id, wanted).catch(() => undefined) : undefined
    if (answer === undefined) throw new NodeProblem('silent', `The node '${name}' (${id}) does not answer.`)
    return answer
  }

  /** Does what other nodes ask of this one. */
  private async look(): Promise<void> {
    const { store } = this
    if (store?.isReady !== true || this.looking || this.hasLeft) return
    this.looking = true
    try {
      for (const [request, wanted] of await store.wanted(this.id))
        await store.answer(request, await this.carryOut(wanted))
    } catch {
      // Redis is away: the node that asked learns of no answer.
    } finally {
      this.looking = false
    }
  }

  private async carryOut({ action, source, actor }: JsonObject): Promise<object> {
    const by: Changer = { source: source === 'cli' ? 'cli' : 'api', actor: stringOf(actor) ?? 'unknown' }
    if (action === 'drain') {
      await this.drainThis(by)
      return { state: 'draining' }
    }
    return action === 'reload' ? await this.reloadThis(by) : { problems: [`unknown action: ${String(action)}`] }
  }

  private async drainThis(by: Changer): Promise<void> {
    if (this.options.isDraining()) return
    await this.options.audit('node.drained', by, { result: 'draining' })
    this.options.drain(by)
  }

  private async reloadThis(by: Changer): Promise<ReloadResult> {
    const result = await this.options.reload(by)
    const { problems, changes } = result
    const details = problems.length > 0 ? { result: 'rejected' } : { result: 'reloaded', changes: changes.length }
    await this.options.audit('node.reloaded', by, details)
    return result
  }
}

/** The same for one `data_dir` alone, also among containers whose host and path have the same names. */
function placeOf(dataDir: string): string {
  const found = statSync(dataDir, { throwIfNoEntry: false })
  return [hostname(), resolve(dataDir), found?.dev, found?.ino, found?.birthtimeMs].join(':')
}

type Checks = typeof import('../../admin/node-reports.ts')

/** Undefined for a report of a version whose shape this one does not know. */
function knownOf(report: JsonObject, seenMs: number, { isNodeRow, isFigures }: Checks): Known | undefined {
  const { row, now, place } = report
  const seen = { ...(isObject(row) ? row : {}), seen_at: new Date(seenMs).toISOString() }
  if (!isNodeRow(seen) || !isFigures(now)) return undefined
  return { row: seen, now, place: stringOf(place) ?? '' }
}

function isDetailed(value: JsonObject): value is JsonObject & DetailedDigests {
  return isObject(value['settings']) && isObject(value['lists']) && Object.values(value['lists']).every(isArray)
}

function lines(value: unknown): string[] {
  return isArray(value) ? value.map(String) : []
}
