/**
 * Scripts of one organisation that are called at the same moment, put in one write: writing costs as much as all the
 * rest of a call.
 */

import type { Cluster, Redis } from 'ioredis'

interface Call {
  readonly words: readonly (string | number)[]
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
}

export class ScriptPipeline {
  /** By organisation, as those of another may lie on another server of a cluster. */
  private readonly gathering = new Map<string, Call[]>()

  constructor(private readonly redis: Redis | Cluster) {}

  /** As `evalsha` of the client, whose words these are after the hash and the number of keys. */
  evalsha(organization: string, sha1: string, keys: number, words: readonly (string | number)[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const call = { words: [sha1, keys, ...words], resolve, reject }
      const gathering = this.gathering.get(organization)
      if (gathering !== undefined) {
        gathering.push(call)
        return
      }
      const calls: Call[] = [call]
      this.gathering.set(organization, calls)
      queueMicrotask(() => {
        this.gathering.delete(organization)
        void this.send(calls)
      })
    })
  }

  /** Never rejects: each call has its own answer or error. */
  private async send(calls: readonly Call[]): Promise<void> {
    try {
      const pipeline = this.redis.pipeline(calls.map(({ words }) => ['evalsha', ...words]))
      const answers = (await pipeline.exec()) ?? []
      for (const [i, { resolve, reject }] of calls.entries()) {
        const [error, answer] = answers[i] ?? [new Error('A pipeline ended without an answer to each of its calls.')]
        if (error === null) resolve(answer)
        else reject(error)
      }
    } catch (error) {
      for (const { reject } of calls) reject(error)
    }
  }
}
