/**
 * Calls the scripts: sends each by its hash, retries after transient errors, and checks the reply against the table of
 * scripts.
 */

import type { Cluster, Redis } from 'ioredis'
import { isTimeout, isTransient } from '../../../redis/redis-errors.ts'
import { ScriptPipeline } from '../client/pipeline.ts'
import { redisKey } from './redis-keys.ts'
import type { Numbers } from './reply-readers.ts'
import {
  type Arguments,
  type OutcomeOf,
  type Program,
  programs,
  type ScriptName,
  scriptKeys,
  scripts,
} from './scripts.ts'

/**
 * Repeated once if no reply came in time, because all requests of an organisation wait for them. A second call changes
 * nothing.
 */
const REPEATED: ReadonlySet<ScriptName> = new Set(['enter', 'restore'])

/** Transient errors (a failover, a server that loads its data) are retried twice, after 100 ms each. */
const TRANSIENT_RETRIES = 2
const TRANSIENT_RETRY_MS = 100

/** How many words follow an outcome before the numbers begin; 0 if not listed. */
const WORD_COUNTS: Readonly<Record<string, number>> = { refused: 2 }

interface Reply<Name extends ScriptName> {
  readonly outcome: OutcomeOf<Name>
  readonly words: readonly string[]
  readonly numbers: Numbers
}

/** A reply that the table of scripts does not list: another version of the scripts, or a bug. */
class ScriptReplyError extends Error {
  constructor(name: ScriptName, reply: unknown) {
    super(`Unexpected reply from script '${name}': ${JSON.stringify(reply)}.`)
    this.name = 'ScriptReplyError'
  }
}

export class ScriptCaller {
  private readonly programs: Readonly<Record<ScriptName, Program>>
  private readonly settlements: ScriptPipeline

  /** `other` carries settlements, several in one write. `clockLua` replaces Redis' own clock in tests. */
  constructor(other: Redis | Cluster, clockLua?: string) {
    this.programs = programs(clockLua)
    this.settlements = new ScriptPipeline(other)
  }

  /** Sends a script by its hash, or its text if Redis does not know the hash (a new server, SCRIPT FLUSH). */
  async call<Name extends ScriptName>(
    redis: Redis | Cluster,
    name: Name,
    organization: string,
    values: Arguments<Name>,
  ): Promise<Reply<Name>> {
    const { lua, sha1, arguments: names } = this.programs[name]
    const words: (string | number)[] = scriptKeys.map((key) => redisKey(organization, key))
    const named: Readonly<Record<string, string | number>> = values
    for (const argument of names) words.push(named[argument] ?? '')
    for (let tries = 0; ; tries++) {
      try {
        // A commit of the outbox releases many settlements at once; other calls come one by one.
        const reply =
          name === 'settle'
            ? this.settlements.evalsha(organization, sha1, scriptKeys.length, words)
            : redis.evalsha(sha1, scriptKeys.length, ...words)
        return readReply(name, await reply)
      } catch (error) {
        if (error instanceof Error && error.message.startsWith('NOSCRIPT')) {
          return readReply(name, await redis.eval(lua, scriptKeys.length, ...words))
        }
        if (isTimeout(error) && REPEATED.has(name) && tries === 0) continue
        if (!isTransient(error) || tries >= TRANSIENT_RETRIES) throw error
        await Bun.sleep(TRANSIENT_RETRY_MS)
      }
    }
  }
}

/** Checks a reply against the table of scripts. Throws `ScriptReplyError`. */
function readReply<Name extends ScriptName>(name: Name, reply: unknown): Reply<Name> {
  if (!Array.isArray(reply)) throw new ScriptReplyError(name, reply)
  const [word, ...rest]: unknown[] = reply
  const outcomes: readonly OutcomeOf<Name>[] = scripts[name].outcomes
  const outcome = outcomes.find((known) => known === word)
  const words = rest.slice(0, WORD_COUNTS[outcome ?? ''] ?? 0).map(String)
  const numbers = rest.slice(words.length).map(Number)
  if (outcome === undefined || !numbers.every(Number.isFinite)) throw new ScriptReplyError(name, reply)
  return { outcome, words, numbers }
}
