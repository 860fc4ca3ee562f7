/**
 * What a node shares with the others by looking at Redis again and again. While Redis is away it goes on with what it
 * knows. The client is loaded only if a configuration needs it.
 */

import type { RedisConfig } from '../core/redis-config.ts'
import type { RedisClient } from './connect.ts'

export abstract class PolledRedis {
  private connection: RedisClient | undefined
  private readonly timer: ReturnType<typeof setInterval>
  private isLooking = false
  private looksAgain = false
  private isClosed = false

  /** `lookMs`: how often it looks. `name`: that of the connection, in the list of Redis. */
  constructor(place: RedisConfig, name: string, lookMs: number) {
    this.timer = setInterval(() => void this.look(), lookMs)
    this.timer.unref()
    void this.open(place, name)
  }

  close(): void {
    this.isClosed = true
    clearInterval(this.timer)
    this.connection?.disconnect()
  }

  /** Undefined while Redis is away. */
  protected get client(): RedisClient | undefined {
    return this.connection?.status === 'ready' ? this.connection : undefined
  }

  /** Sends what is new here, and takes what is new there. What fails is done at the next look. */
  protected abstract exchange(client: RedisClient): Promise<void>

  /** Looks now; once more after a look that is under way. */
  protected async look(): Promise<void> {
    this.looksAgain = this.isLooking
    const { client } = this
    if (client === undefined || this.isLooking) return
    this.isLooking = true
    try {
      await this.exchange(client)
    } catch {
      // Redis is away: the ledger reports that.
    } finally {
      this.isLooking = false
    }
    if (this.looksAgain) void this.look()
  }

  private async open(place: RedisConfig, name: string): Promise<void> {
    const { connect } = await import('./connect.ts')
    if (this.isClosed) return
    this.connection = connect(place, name)
    this.connection.once('ready', () => void this.look())
  }
}
