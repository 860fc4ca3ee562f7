/** Bytes that all nodes keep for a while in Redis, so much of each owner and no more. What they are is for others to know. */

import { createHash } from 'node:crypto'
import { CallerError } from '../core/caller-error.ts'
import type { RedisConfig } from '../core/redis-config.ts'
import clock from '../redis/clock.lua' with { type: 'text' }
import { connect } from '../redis/connect.ts'
import take from './get-item.lua' with { type: 'text' }
import put from './put-item.lua' with { type: 'text' }

/** A larger piece is not kept: Redis holds the ledger, and must not fill up with what was said. */
const PIECE_BYTES_MAX = 256 * 1024
/** Of one owner. */
const OWNER_BYTES_MAX = 64 * 1024 * 1024

/** Larger answers are kept in several calls, so that none holds Redis up. */
const CALL_BYTES_MAX = 1024 * 1024

interface Piece {
  readonly id: string
  readonly bytes: Buffer
}

interface ShelfOptions {
  readonly ttlSeconds: number
  readonly ownerBytesMax?: number
}

/**
 * Each owner has a hash of its pieces and an index of when they expire, both in one slot of a cluster. A piece is kept by a script that
 * first forgets what has expired, then the oldest until there is room; both keys expire by themselves with the youngest piece. So an owner
 * never has more than its bytes, and nothing once it is silent for the time that a piece lives.
 */
export class RedisItems {
  private readonly client: ReturnType<typeof connect>
  private readonly ttlMs: number
  private readonly ownerBytesMax: number

  /** Connects by itself, now and whenever Redis comes back. */
  constructor(place: RedisConfig, { ttlSeconds, ownerBytesMax = OWNER_BYTES_MAX }: ShelfOptions) {
    this.client = connect(place, 'weir-items')
    this.ttlMs = ttlSeconds * 1000
    this.ownerBytesMax = ownerBytesMax
  }

  /** Nobody waits for it; a piece that cannot be kept, because it is too large or Redis is away, is not. */
  put(owner: string, pieces: readonly Piece[]): void {
    let batch: Piece[] = []
    let size = 0
    for (const piece of pieces) {
      if (piece.bytes.length > PIECE_BYTES_MAX) continue
      if (size + piece.bytes.length > CALL_BYTES_MAX) {
        this.send(owner, batch)
        batch = []
        size = 0
      }
      batch.push(piece)
      size += piece.bytes.length
    }
    if (batch.length > 0) this.send(owner, batch)
  }

  /** The piece, or undefined if it is not kept (any more). Throws `CallerError` `ledger_unavailable` if Redis cannot be asked. */
  async get(owner: string, id: string): Promise<Buffer | undefined> {
    try {
      const piece = await this.run(scripts.get, owner, [id])
      return piece instanceof Buffer ? piece : undefined
    } catch (cause) {
      const message = 'What was said before cannot be looked up now; try again, or send whole items.'
      throw new CallerError('ledger_unavailable', message, { retryAfterSeconds: 1, cause })
    }
  }

  close(): void {
    this.client.disconnect()
  }

  private send(owner: string, pieces: readonly Piece[]): void {
    const fields = pieces.flatMap(({ id, bytes }) => [id, bytes])
    this.run(scripts.put, owner, [this.ttlMs, this.ownerBytesMax, ...fields]).catch(() => undefined)
  }

  private async run(
    { lua, sha1 }: Script,
    owner: string,
    words: readonly (string | number | Buffer)[],
  ): Promise<unknown> {
    const tag = `weir:items:{${createHash('sha256').update(owner).digest('base64url')}}`
    const keys = [tag, `${tag}:order`]
    try {
      return await this.client.callBuffer('EVALSHA', sha1, keys.length, ...keys, ...words)
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
      return await this.client.callBuffer('EVAL', lua, keys.length, ...keys, ...words)
    }
  }
}

interface Script {
  readonly lua: string
  readonly sha1: string
}

function script(body: string): Script {
  const lua = clock + body
  return { lua, sha1: createHash('sha1').update(lua).digest('hex') }
}

const scripts = { put: script(put), get: script(take) } as const
