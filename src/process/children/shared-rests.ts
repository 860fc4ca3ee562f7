/**
 * Which targets rest and which of their limits are scarce, for all nodes of a Redis: a stream of what each node found
 * out, which the others read, and a lease for the one node that probes a target.
 */

import type { PeerUpdate } from '../../assembly/inference-service.ts'
import { TargetEntries } from '../../assembly/target-entries.ts'
import type { ScarceRoom } from '../../capacity/reported-rooms.ts'
import type { Config } from '../../config/config.ts'
import { isObject, type JsonObject, numberOf, parseObject, stringOf } from '../../core/json.ts'
import { type TargetRef, targetKey } from '../../core/model-config.ts'
import { isErrorKind } from '../../core/provider-error.ts'
import type { RedisConfig } from '../../core/redis-config.ts'
import { PROBE_MS, type Rest } from '../../gateway/breaker.ts'
import type { RedisClient } from '../../redis/connect.ts'
import { PolledRedis } from '../../redis/polled-redis.ts'

const NEWS = 'weir:{targets}:news'
const PROBE = 'weir:{targets}:probe:'

/** How often a node looks for what others have found out. */
const LOOK_MS = 400
/** A rest is at most a minute long, so nothing older matters to a node that starts. */
const PAST_MS = 120_000
/** Messages that are kept, and messages that wait while Redis is away; the oldest go first. */
const KEPT_MAX = 1000
const READ_MAX = 500

type TargetNews = Extract<PeerUpdate, { readonly about: 'rest' | 'room' }>

export class SharedRests extends PolledRedis {
  private readonly node = crypto.randomUUID()
  private entries = new TargetEntries({ providers: [], models: [] })
  /** The last message that was read; undefined before the first look. */
  private last: string | undefined
  private readonly unsent: string[] = []

  constructor(
    place: RedisConfig,
    /** Takes what another node found out about a target of this configuration. */
    private readonly received: (news: TargetNews) => void,
  ) {
    super(place, 'weir-targets', LOOK_MS)
  }

  use(config: Config): void {
    this.entries = new TargetEntries(config)
  }

  /** A worker of this node found something out. */
  send(news: TargetNews): void {
    const { provider, model } = news.about === 'rest' ? news.rest : news.room
    const entry = this.entries.of(provider, model)
    if (entry === '') return
    if (this.unsent.length >= KEPT_MAX) this.unsent.shift()
    const found = news.about === 'rest' ? { rest: news.rest } : { room: news.room }
    this.unsent.push(JSON.stringify({ node: this.node, entry, ...found }))
    if (news.about === 'rest' && !news.rest.probing) void this.release(news.rest)
    void this.look()
  }

  /** Resolves to whether this node may probe a target. Without Redis it may. */
  async claim(target: TargetRef): Promise<boolean> {
    const { client } = this
    if (client === undefined) return true
    try {
      const key = this.probeKey(target)
      if ((await client.set(key, this.node, 'PX', PROBE_MS, 'NX')) === 'OK') return true
      return (await client.get(key)) === this.node
    } catch {
      // Redis is away: the ledger reports that.
      return true
    }
  }

  private probeKey(target: TargetRef): string {
    return `${PROBE}${this.entries.of(target.provider, target.model)}:${targetKey(target)}`
  }

  /** The next probe may be another node's. */
  private async release(target: TargetRef): Promise<void> {
    const { client } = this
    if (client === undefined) return
    try {
      const key = this.probeKey(target)
      if ((await client.get(key)) === this.node) await client.del(key)
    } catch {
      // The lease ends by itself.
    }
  }

  protected async exchange(client: RedisClient): Promise<void> {
    for (let text = this.unsent[0]; text !== undefined; text = this.unsent[0]) {
      await client.xadd(NEWS, 'MAXLEN', '~', KEPT_MAX, '*', 'rest', text)
      this.unsent.shift()
    }
    await this.read(client)
  }

  private async read(client: RedisClient): Promise<void> {
    if (this.last === undefined) {
      const nowMs = await timeOf(client)
      // Of each target the newest message counts.
      const past = (await client.xrange(NEWS, nowMs - PAST_MS, '+', 'COUNT', 2 * KEPT_MAX)).toReversed()
      this.last = past[0]?.[0] ?? `${nowMs - PAST_MS}`
      const newest = new Map<string, Rest>()
      for (const entry of past) {
        const rest = this.restOf(entry, nowMs)
        if (rest !== undefined && !newest.has(targetKey(rest))) newest.set(targetKey(rest), rest)
      }
      for (const rest of newest.values()) this.received({ about: 'rest', rest })
      return
    }
    for (const entry of await client.xrange(NEWS, `(${this.last}`, '+', 'COUNT', READ_MAX)) {
      this.last = entry[0]
      const rest = this.restOf(entry)
      if (rest !== undefined) this.received({ about: 'rest', rest })
      const room = this.roomOf(entry)
      if (room !== undefined) this.received({ about: 'room', room })
    }
  }

  /** Whether a message is of another node, and of a target that this node has with the same settings. */
  private concerns(message: JsonObject | undefined, { provider, model }: TargetRef): boolean {
    const entry = this.entries.of(provider, model)
    return message?.['node'] !== this.node && entry !== '' && stringOf(message?.['entry']) === entry
  }

  private roomOf([, fields]: [id: string, fields: string[]]): ScarceRoom | undefined {
    const message = parseObject(fields[1] ?? '')
    const room = roomOfJson(message?.['room'])
    return room !== undefined && this.concerns(message, room) ? room : undefined
  }

  private restOf([id, fields]: [id: string, fields: string[]], nowMs?: number): Rest | undefined {
    const message = parseObject(fields[1] ?? '')
    const rest = restOfJson(message?.['rest'])
    if (rest === undefined || !this.concerns(message, rest)) return undefined
    const ageMs = nowMs === undefined ? 0 : Math.max(0, nowMs - Number.parseInt(id, 10))
    const restMs = Math.max(0, rest.restMs - ageMs)
    return { ...rest, restMs, probing: rest.probing && restMs > 0 }
  }
}

/** The time of Redis, in Unix milliseconds: that of its streams. */
async function timeOf(client: RedisClient): Promise<number> {
  const [seconds, micros] = await client.time()
  return (numberOf(Number(seconds)) ?? 0) * 1000 + Math.floor(Number(micros) / 1000)
}

/** A scarce limit that another node sent as JSON; undefined if the value is none. */
function roomOfJson(value: unknown): ScarceRoom | undefined {
  if (!isObject(value)) return undefined
  const { provider, model, unit } = value
  const [limit, ms] = [numberOf(value['limit']), numberOf(value['ms'])]
  if (typeof provider !== 'string' || typeof model !== 'string' || limit === undefined || limit <= 0) return undefined
  if ((unit !== 'requests' && unit !== 'tokens') || ms === undefined) return undefined
  return { provider, model, unit, limit, ms }
}

/** A rest that another node sent as JSON; undefined if the value is none. */
function restOfJson(value: unknown): Rest | undefined {
  if (!isObject(value)) return undefined
  const { provider, model, reason } = value
  const [restMs, rests] = [numberOf(value['restMs']), numberOf(value['rests'])]
  if (typeof provider !== 'string' || typeof model !== 'string' || !isErrorKind(reason)) return undefined
  if (restMs === undefined || rests === undefined) return undefined
  const flags = { asked: value['asked'] === true, probing: value['probing'] === true }
  const failure = { reason, status: numberOf(value['status']), cause: stringOf(value['cause']) }
  const counts = { failures: numberOf(value['failures']), cuts: numberOf(value['cuts']) }
  return { provider, model, restMs, rests, ...flags, ...failure, ...counts }
}
