/**
 * What the nodes of a Redis say to each other: reports with a lease, the digests of configurations that differ, and
 * what one node wants of another, with the answer. It takes no other commands of Redis than the ledger does: a user of
 * Redis may be confined to those.
 */

import { randomBytes } from 'node:crypto'
import { isArray, type JsonObject, parseObject } from '../../core/json.ts'
import type { RedisConfig } from '../../core/redis-config.ts'
import clock from '../../redis/clock.lua' with { type: 'text' }
import type { RedisClient } from '../../redis/connect.ts'
import { StoredScript } from '../../redis/stored-script.ts'
import beat from './beat.lua' with { type: 'text' }

const PREFIX = 'weir:{nodes}:'
const KEYS = ['reports', 'seen', 'secret', 'mixed'].map((name) => PREFIX + name)
const BEAT = new StoredScript(clock + beat)

/** How long a node is known after its last report. */
export const LEASE_MS = 20_000
/** Digests stay for nodes that come later; the nodes that differ store them again. */
const DETAILS_MS = 600_000
/** A request that its node does not take meanwhile is forgotten. */
const REQUEST_MS = 10_000
const ANSWER_MS = 60_000
const ASKING_MS = 100

interface Beat {
  /** The key of all digests. */
  readonly secret: string
  /** Since when nodes differ; undefined if they do not. By the clock of Redis. */
  readonly mixedMs: number | undefined
  readonly reports: readonly { readonly report: JsonObject; readonly seenMs: number }[]
}

export class FleetStore {
  private isClosed = false
  private readonly candidate = randomBytes(32).toString('base64url')

  constructor(private client?: RedisClient) {}

  /** For a command. Throws `RedisUnfitError` if Redis does not answer. */
  static async once(place: RedisConfig): Promise<FleetStore> {
    const { connectOnce } = await import('../../redis/connect-once.ts')
    return new FleetStore(await connectOnce(place))
  }

  /** `ready`: called whenever Redis is reached again. The client is loaded only if a configuration needs it. */
  async open(place: RedisConfig, ready: () => void): Promise<void> {
    const { connect } = await import('../../redis/connect.ts')
    if (this.isClosed) return
    this.client = connect(place, 'weir-nodes')
    this.client.on('ready', ready)
  }

  get isReady(): boolean {
    return this.client?.status === 'ready'
  }

  /** An empty report leaves that of the node. Rejects if Redis does not answer. */
  async beat(node: string, report: string, isMixed: boolean): Promise<Beat> {
    const found = await BEAT.call(this.connected, KEYS, [node, report, this.candidate, LEASE_MS, isMixed ? 1 : 0])
    if (!isArray(found)) throw new Error('Redis answered the report of this node with no list.')
    const [secret, mixed, reports, seen] = found
    const texts = pairs(reports)
    const times = pairs(seen)
    return {
      secret: String(secret),
      mixedMs: mixed === '' ? undefined : Number(mixed),
      reports: [...times].flatMap(([id, time]) => {
        const report = parseObject(texts.get(id) ?? '')
        return report === undefined ? [] : [{ report, seenMs: Number(time) }]
      }),
    }
  }

  private get connected(): RedisClient {
    if (this.client === undefined) throw new Error('Redis is not connected yet.')
    return this.client
  }

  private async ask(command: string, ...words: readonly (string | number)[]): Promise<unknown> {
    return await this.connected.call(command, ...words)
  }

  /** The node is gone. */
  async leave(node: string): Promise<void> {
    await this.ask('HDEL', `${PREFIX}reports`, node)
    await this.ask('ZREM', `${PREFIX}seen`, node)
  }

  /** Keeps detailed digests, by the digest of the whole, unless they are there. They may be long. */
  async keepDetails(digest: string, text: () => string): Promise<void> {
    const key = `${PREFIX}details:${digest}`
    if ((await this.ask('PEXPIRE', key, DETAILS_MS)) === 0) await this.ask('SET', key, text(), 'PX', DETAILS_MS)
  }

  async details(digest: string): Promise<JsonObject | undefined> {
    const text = await this.ask('GET', `${PREFIX}details:${digest}`)
    return typeof text === 'string' ? parseObject(text) : undefined
  }

  /** Asks a node for something, and resolves to its answer; undefined if there is none in time. */
  async request(node: string, wanted: JsonObject): Promise<JsonObject | undefined> {
    const id = crypto.randomUUID()
    const inbox = `${PREFIX}wanted:${node}`
    await this.ask('HSET', inbox, id, JSON.stringify(wanted))
    await this.ask('PEXPIRE', inbox, REQUEST_MS)
    const endMs = performance.now() + ANSWER_MS
    while (performance.now() < endMs) {
      await Bun.sleep(ASKING_MS)
      const text = await this.ask('GET', `${PREFIX}answer:${id}`)
      if (typeof text === 'string') return parseObject(text)
      // No node has taken it, and none will.
      if (
        performance.now() > endMs - ANSWER_MS + REQUEST_MS &&
        (await this.ask('EXISTS', `${PREFIX}taken:${id}`)) === 0
      )
        return undefined
    }
    return undefined
  }

  /** What others want of this node, by the ids of their requests. */
  async wanted(node: string): Promise<ReadonlyMap<string, JsonObject>> {
    const inbox = `${PREFIX}wanted:${node}`
    const found = await this.ask('HSCAN', inbox, 0)
    const wanted = new Map<string, JsonObject>()
    for (const [request, text] of pairs(isArray(found) ? found[1] : [])) {
      await this.ask('HDEL', inbox, request)
      await this.ask('SET', `${PREFIX}taken:${request}`, '1', 'PX', ANSWER_MS)
      wanted.set(request, parseObject(text) ?? {})
    }
    return wanted
  }

  async answer(request: string, answer: object): Promise<void> {
    await this.ask('SET', `${PREFIX}answer:${request}`, JSON.stringify(answer), 'PX', ANSWER_MS)
  }

  close(): void {
    this.isClosed = true
    this.client?.disconnect()
  }
}

/** A flat list of names and values. */
function pairs(list: unknown): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  if (!isArray(list)) return found
  for (let at = 0; at + 1 < list.length; at += 2) found.set(String(list[at]), String(list[at + 1]))
  return found
}
