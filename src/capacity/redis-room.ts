/** The room of providers and targets that all nodes of a Redis share. */

import type { RedisConfig } from '../core/redis-config.ts'
import clock from '../redis/clock.lua' with { type: 'text' }
import type { RedisClient } from '../redis/connect.ts'
import { StoredScript } from '../redis/stored-script.ts'
import type { Amount, Ask, RoomReport, RoomSource, Taken } from './common-room.ts'
import type { Contender } from './organization-turns.ts'
import lua from './take-room.lua' with { type: 'text' }

const SCRIPT = new StoredScript(`${clock}\n${lua}`)
/** How long the first request waits for the connection. */
const OPEN_MS_MAX = 1000
const PREFIX = 'weir:{capacity}:'

export class RedisRoom implements RoomSource {
  private client: RedisClient | undefined
  private opening: Promise<void> | undefined
  private isClosed = false
  private readonly holder = crypto.randomUUID()

  constructor(private readonly place: RedisConfig) {}

  async take(asks: readonly Ask[], isLow: boolean, contenders: readonly Contender[] = []): Promise<Taken> {
    const words = asks.flatMap(({ meter, need, spare, lows = 0, each = 0 }) => {
      return [meter.kind, meter.limit, need, spare, lows, each]
    })
    const named = contenders.flatMap(({ organization, weight, waitedMs }) => [
      organization,
      weight,
      Math.floor(waitedMs),
    ])
    const names = asks.map(({ meter }) => meter.name)
    const [waitMs = 0, number = 0, ...rest] = (await this.run('take', names, isLow, words, named)).map(Number)
    const [amounts, left] = [rest.filter((_, i) => i % 2 === 0), rest.filter((_, i) => i % 2 === 1)]
    if (waitMs > 0) return { waitMs, waits: amounts, granted: [], left }
    return { waitMs, organization: contenders[number - 1]?.organization, granted: amounts, left }
  }

  give(amounts: readonly Amount[]): void {
    this.send('give', amounts)
  }

  renew(held: readonly Amount[]): void {
    this.send('renew', held)
  }

  report(reports: readonly RoomReport[]): void {
    for (const isRefusal of [false, true]) {
      const chosen = reports.filter((one) => one.isRefusal === isRefusal)
      const words = chosen.flatMap(({ meter, level, closedMs }) => [
        'rate',
        meter.limit,
        level,
        Math.ceil(closedMs),
        0,
        0,
      ])
      const names = chosen.map(({ meter }) => meter.name)
      if (chosen.length > 0) void this.run('report', names, isRefusal, words).catch(() => undefined)
    }
  }

  close(): void {
    this.isClosed = true
    this.client?.disconnect()
  }

  /** The Redis client is loaded only if a configuration has limits. */
  private async open(): Promise<void> {
    const { connect } = await import('../redis/connect.ts')
    if (this.isClosed) return
    const client = connect(this.place, 'weir-capacity')
    this.client = client
    await Promise.race([new Promise((resolve) => client.once('ready', resolve)), Bun.sleep(OPEN_MS_MAX)])
  }

  private send(operation: 'give' | 'renew', amounts: readonly Amount[]): void {
    const words = amounts.flatMap(({ meter, amount }) => [meter.kind, meter.limit, Math.floor(amount), 0, 0, 0])
    const names = amounts.map(({ meter }) => meter.name)
    // If Redis is away, places are free again after 20 s, and a rate by itself.
    void this.run(operation, names, false, words).catch(() => undefined)
  }

  private async run(
    operation: string,
    names: readonly string[],
    isLow: boolean,
    words: readonly (string | number)[],
    /** Of organisations. */
    contenders: readonly (string | number)[] = [],
  ): Promise<readonly string[]> {
    this.opening ??= this.open()
    await this.opening
    const { client } = this
    if (client?.status !== 'ready') throw new Error('Redis cannot be reached')
    const keys = names.map((name) => PREFIX + name)
    if (contenders.length > 0) keys.push(...keys.map((key) => `${key}:${isLow ? 'low-turns' : 'turns'}`))
    const start = [operation, this.holder, isLow ? '1' : '0', names.length]
    const reply = await SCRIPT.call(client, keys, [...start, ...words, ...contenders])
    return Array.isArray(reply) ? reply.map(String) : []
  }
}
