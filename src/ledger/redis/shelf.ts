/** Bytes that all nodes keep for a while in Redis, each under its own key. What they are is for others to know. */

import { Failure } from '../../core/error.ts'
import { connect, type RedisPlace } from './connect.ts'

/** A larger piece is not kept: Redis holds the ledger, and must not fill up with what was said. */
const PIECE_BYTES_MAX = 256 * 1024

export class RedisShelf {
  private readonly client: ReturnType<typeof connect>

  /** Connects by itself, now and whenever Redis comes back. */
  constructor(
    place: RedisPlace,
    private readonly ttlSeconds: number,
  ) {
    this.client = connect(place, 'weir-items')
  }

  /** Nobody waits for it; a piece that cannot be kept, since it is too large or Redis is away, is not. */
  put(key: string, piece: Buffer): void {
    if (piece.length > PIECE_BYTES_MAX) return
    this.client.set(`weir:item:${key}`, piece, 'EX', this.ttlSeconds).catch(() => undefined)
  }

  /** The piece, or undefined where it is not kept (any more). Throws `Failure` `ledger_unavailable` where Redis cannot be asked. */
  async get(key: string): Promise<Buffer | undefined> {
    try {
      return (await this.client.getBuffer(`weir:item:${key}`)) ?? undefined
    } catch (cause) {
      const message = 'What was said before cannot be looked up now; try again, or send whole items.'
      throw new Failure('ledger_unavailable', message, { retryAfterSeconds: 1, cause })
    }
  }

  close(): void {
    this.client.disconnect()
  }
}
