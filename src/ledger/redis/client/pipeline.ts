/**
 * Sends the script calls that one organisation makes in the same microtask in one write to the socket: the write costs
 * as much as the rest of a call.
 */

import type { Cluster, Redis } from 'ioredis'

interface Call {
  readonly words: readonly (string | number)[]
  readonly resolve: (reply: unknown) => void
  readonly reject: (error: unknown) => void
}

export class ScriptPipeline {
  /** By organisation, because two organisations may be on different nodes of a cluster. */
  private readonly batches = new Map<string, Call[]>()

  constructor(private readonly redis: Redis | Cluster) {}

  /** Like the client's `evalsha`. `words`: the keys, then the arguments. */
  evalsha(organization: string, sha1: string, keys: number, words: readonly (string | number)[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const call = { words: [sha1, keys, ...words], resolve, reject }
      const batch = this.batches.get(organization)
      if (batch !== undefined) {
        batch.push(call)
        return
      }
      const calls: Call[] = [call]
      this.batches.set(organization, calls)
      queueMicrotask(() => {
        this.batches.delete(organization)
        void this.send(calls)
      })
    })
  }

  /** Never rejects: each call gets its own reply or error. */
  private async send(calls: readonly Call[]): Promise<void> {
    try {
      const pipeline = this.redis.pipeline(calls.map(({ words }) => ['evalsha', ...words]))
      const replies = (await pipeline.exec()) ?? []
      for (const [i, { resolve, reject }] of calls.entries()) {
        const [error, reply] = replies[i] ?? [new Error('Redis sent fewer replies than the pipeline has calls.')]
        if (error === null) resolve(reply)
        else reject(error)
      }
    } catch (error) {
      for (const { reject } of calls) reject(error)
    }
  }
}
