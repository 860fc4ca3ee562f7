/**
 * Which server is the master, and whether a failover could lose what it has. Redis acknowledges a write before its
 * replicas have it; and in a failover that an operator orders, the old master takes writes for another ten seconds,
 * all of which are lost. Sentinels and the nodes of a cluster are asked who the master is, and every server for its
 * role and its position.
 */

import { Cluster, type Redis } from 'ioredis'
import { isArray } from '../core/json.ts'
import type { RedisConfig } from '../core/redis-config.ts'
import { type Address, connectDirectly, endpointsOf, type RedisClient } from './connect.ts'
import { field } from './server-check.ts'

/** How often replicas are asked whether they have caught up, and the pause between. */
const CATCH_UP_TRIES = 5
const CATCH_UP_PAUSE_MS = 20
/** A replica that has had no connection to its master for longer is broken, and holds up nothing. */
const BROKEN_AFTER_SECONDS = 60

/** What the master has, and why a failover could lose it; no doubt if every server that could take over has it. */
interface Settled<T> {
  readonly value: T
  readonly doubt: string | undefined
}

/** No server is the master in the view of most of those who decide. `message`: why, without a full stop. */
class NoMasterError extends Error {
  override readonly name = 'NoMasterError'
}

/** What a sentinel, or a node of a cluster, knows. */
interface View {
  readonly master: string
  /** `host:port` of all servers that could be master, itself included. */
  readonly servers: readonly string[]
  readonly isFailingOver: boolean
}

/**
 * Reads from the master that all nodes of weir follow or will follow in a moment. `hashKey` decides about the part of a
 * cluster. Throws `NoMasterError`, and what `read` throws. `client` is used if the place has one server only.
 */
export async function readSettled<T>(
  place: RedisConfig,
  client: RedisClient,
  hashKey: string,
  read: (master: RedisClient) => Promise<T>,
): Promise<Settled<T>> {
  if (place.kind === 'single') return { value: await read(client), doubt: undefined }
  const views = client instanceof Cluster ? await clusterViews(client, hashKey) : await sentinelViews(place)
  const { master, servers, doubt } = agreed(views)
  const open = await Promise.all(servers.map((at) => connected(place, 'server', addressOf(at))))
  try {
    const found = open[servers.indexOf(master)]
    if (found === undefined) throw new NoMasterError(`the master ${master} does not answer`)
    const value = await read(found)
    const others = new Map(servers.flatMap((at, i) => (open[i] && at !== master ? [[at, open[i]]] : [])))
    return { value, doubt: (await lag(found, others)) ?? doubt }
  } finally {
    for (const one of open) one?.disconnect()
  }
}

/** The server that most views call the master. */
function agreed(views: readonly View[]): { master: string; servers: readonly string[]; doubt: string | undefined } {
  const votes = new Map<string, number>()
  for (const { master } of views) votes.set(master, (votes.get(master) ?? 0) + 1)
  const [first] = [...votes].sort(([, one], [, other]) => other - one)
  if (first === undefined || 2 * first[1] <= views.length)
    throw new NoMasterError(`it is not agreed who is the master (${[...votes.keys()].join(' or ') || 'none answers'})`)
  const [master] = first
  const isMoving = votes.size > 1 || views.some(({ isFailingOver }) => isFailingOver)
  const servers = [...new Set([master, ...views.flatMap((view) => view.servers)])]
  return { master, servers, doubt: isMoving ? 'a failover is in progress' : undefined }
}

/** Why a server that could take over lacks what the master has at this moment; undefined if none does. */
async function lag(master: Redis, others: ReadonlyMap<string, Redis>): Promise<string | undefined> {
  const own = await master.info()
  if (field(own, 'role') !== 'master') return 'the master has become a replica'
  const history = field(own, 'master_replid')
  const offset = Number(field(own, 'master_repl_offset'))
  const doubts = [...others].map(async ([at, server]) => {
    for (let i = 1; ; i++) {
      const info = await server.info().catch(() => undefined)
      const doubt = info === undefined ? undefined : doubtOf(at, info, history, offset)
      if (doubt === undefined || i === CATCH_UP_TRIES) return doubt
      await Bun.sleep(CATCH_UP_PAUSE_MS)
    }
  })
  return (await Promise.all(doubts)).find((doubt) => doubt !== undefined)
}

function doubtOf(at: string, info: string, history: string, offset: number): string | undefined {
  if (field(info, 'role') === 'master') return `${at} is a master, too`
  const hasLess = field(info, 'master_replid') !== history || Number(field(info, 'slave_repl_offset')) < offset
  if (field(info, 'master_link_status') === 'up') return hasLess ? `the replica ${at} has not caught up` : undefined
  // Without a connection since its start, it has no such time.
  const down = Number(field(info, 'master_link_down_since_seconds') || -1)
  const seconds = down < 0 ? Number(field(info, 'uptime_in_seconds')) : down
  return seconds > BROKEN_AFTER_SECONDS ? undefined : `the replica ${at} is not connected to its master`
}

/** The views of the sentinels that see most of the others: only those can order a failover. */
async function sentinelViews(place: RedisConfig): Promise<readonly View[]> {
  if (place.kind !== 'sentinel') return []
  const asked = new Set<string>()
  const views: View[] = []
  let next = endpointsOf(place).map(textOf)
  while (next.length > 0) {
    for (const at of next) asked.add(at)
    const answers = await Promise.all(next.map((at) => sentinelAnswer(place, place.name, at)))
    const found = answers.filter((answer) => answer !== undefined)
    views.push(...found.filter(({ seesMost }) => seesMost).map(({ view }) => view))
    // The configuration may name some of them only.
    next = [...new Set(found.flatMap(({ others }) => others))].filter((at) => !asked.has(at)).slice(0, SENTINELS_MAX)
    if (asked.size >= SENTINELS_MAX) break
  }
  if (views.length === 0) throw new NoMasterError('no Sentinel answers that sees most of the others')
  return views
}

const SENTINELS_MAX = 16

interface SentinelAnswer {
  readonly view: View
  readonly seesMost: boolean
  /** Addresses of other sentinels. */
  readonly others: readonly string[]
}

/** Undefined if it does not answer or does not know the master. */
async function sentinelAnswer(place: RedisConfig, name: string, at: string): Promise<SentinelAnswer | undefined> {
  const client = await connected(place, 'sentinel', addressOf(at))
  if (client === undefined) return undefined
  const ask = (word: string) => client.call('SENTINEL', word, name)
  try {
    const [address, watched, replicas, sentinels] = await Promise.all([
      ask('GET-MASTER-ADDR-BY-NAME'),
      ask('MASTER'),
      ask('REPLICAS'),
      ask('SENTINELS'),
    ])
    if (!isArray(address)) return undefined
    const before = fieldsOf(watched)
    const master = textOf({ host: String(address[0]), port: Number(address[1]) })
    const known = [before, ...listOf(replicas).filter(({ flags }) => !isDown(flags))].map(placeOf)
    // One without a connection is not counted as seen, but may have an opinion of its own.
    const others = listOf(sentinels)
    const seen = others.filter(({ flags }) => !isDown(flags)).length
    return {
      view: {
        master,
        servers: [master, ...known],
        // It advertises the new master some moments before it announces the failover.
        isFailingOver: /failover_in_progress|[os]_down/.test(before['flags'] ?? '') || placeOf(before) !== master,
      },
      seesMost: 2 * (seen + 1) > others.length + 1,
      others: others.map(placeOf),
    }
  } catch {
    return undefined
  } finally {
    client.disconnect()
  }
}

function isDown(flags = ''): boolean {
  return /[os]_down|disconnected/.test(flags)
}

type Fields = Readonly<Record<string, string>>

function listOf(reply: unknown): readonly Fields[] {
  return isArray(reply) ? reply.map(fieldsOf) : []
}

function fieldsOf(reply: unknown): Fields {
  const words = isArray(reply) ? reply.map(String) : []
  return Object.fromEntries(words.flatMap((name, i) => (i % 2 === 0 ? [[name, words[i + 1] ?? '']] : [])))
}

function placeOf({ ip = '', port = '' }: Fields): string {
  return textOf({ host: ip, port: Number(port) })
}

/** The views of the nodes of a cluster that answer. */
async function clusterViews(client: Cluster, hashKey: string): Promise<readonly View[]> {
  const slot = Number(await client.cluster('KEYSLOT', hashKey))
  const answers = client.nodes('all').map(async (node): Promise<View | undefined> => {
    const ranges: unknown = await node.cluster('SLOTS').catch(() => undefined)
    const range = isArray(ranges) ? ranges.find((one) => isArray(one) && holds(one, slot)) : undefined
    if (!isArray(range)) return undefined
    // A node that does not know its own address leaves it out.
    const { host = '' } = node.options
    const servers = range.slice(2).map((one) => {
      const [ip, port] = isArray(one) ? one : []
      return textOf({ host: String(ip || host), port: Number(port) })
    })
    const [master] = servers
    return master === undefined ? undefined : { master, servers, isFailingOver: false }
  })
  return (await Promise.all(answers)).filter((view) => view !== undefined)
}

function holds(range: readonly unknown[], slot: number): boolean {
  return Number(range[0]) <= slot && slot <= Number(range[1])
}

async function connected(place: RedisConfig, kind: 'server' | 'sentinel', at: Address): Promise<Redis | undefined> {
  return await connectDirectly(place, kind, at).catch(() => undefined)
}

function textOf({ host, port }: Address): string {
  return `${host}:${port}`
}

/** Of `host:port`; the host may be an IPv6 address. */
function addressOf(text: string): Address {
  const colon = text.lastIndexOf(':')
  return { host: text.slice(0, colon), port: Number(text.slice(colon + 1)) }
}
