/** A Lua script that is sent by its hash, and whole only to a Redis that does not know it, such as a new one. */

import { createHash } from 'node:crypto'
import type { ReservationPipeline } from '../core/redis-config.ts'
import type { RedisClient } from './connect.ts'

type Word = string | number | Buffer

export class StoredScript {
  private readonly sha1: string

  constructor(private readonly lua: string) {
    this.sha1 = createHash('sha1').update(lua).digest('hex')
  }

  /** Rejects if Redis does not answer, or the script fails. */
  call(client: RedisClient, keys: readonly string[], words: readonly Word[]): Promise<unknown> {
    return this.send((command, ...all) => client.call(command, ...all), keys, words)
  }

  /** The same for replies with bytes that are no text. */
  callBuffer(client: RedisClient, keys: readonly string[], words: readonly Word[]): Promise<unknown> {
    return this.send((command, ...all) => client.callBuffer(command, ...all), keys, words)
  }

  /** As `callBuffer`, together with the reservations of this moment. */
  ask(pipeline: ReservationPipeline, keys: readonly string[], words: readonly (string | number)[]): Promise<unknown> {
    return this.send((...all: (string | number)[]) => pipeline.ask(all), keys, words)
  }

  private async send<W extends Word>(
    send: (command: string, ...words: (string | number | W)[]) => Promise<unknown>,
    keys: readonly string[],
    words: readonly W[],
  ): Promise<unknown> {
    try {
      return await send('EVALSHA', this.sha1, keys.length, ...keys, ...words)
    } catch (error) {
      if (!isUnknownScript(error)) throw error
      return await send('EVAL', this.lua, keys.length, ...keys, ...words)
    }
  }
}

/** Whether Redis rejected a call because it does not know the script of this hash. */
export function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}
