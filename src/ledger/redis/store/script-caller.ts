/**
 * Calls the scripts: sends each by its hash and retries after transient errors. `script-replies.ts` reads the replies.
 */

import { Cluster, type Redis } from 'ioredis'
import { isTimeout, isTransient } from '../../../redis/redis-errors.ts'
import { isUnknownScript } from '../../../redis/stored-script.ts'
import { redisKey } from './redis-keys.ts'
import { ScriptBatch } from './script-batch.ts'
import { type Reply, readLines, readOutcomes, readReply } from './script-replies.ts'
import { type Arguments, type OutcomeOf, type Programs, programs, type ScriptName, scriptKeys } from './scripts.ts'

/**
 * Repeated once if no reply came in time, because all requests of an organisation wait for them. A second call changes
 * nothing.
 */
const REPEATED: ReadonlySet<ScriptName> = new Set(['enter', 'restore'])

/** Transient errors (a failover, a server that loads its data) are retried twice, after 100 ms each. */
const TRANSIENT_RETRIES = 2
const TRANSIENT_RETRY_MS = 100

/** Organisations whose heads are kept; a gateway has few. */
const HEADS_MAX = 10_000

/** What a call needs: a client, and a script with its arguments for one organisation. */
type Call<Name extends ScriptName> = readonly [
  redis: Redis | Cluster,
  name: Name,
  organization: string,
  values: Arguments<Name>,
]
type Words = readonly (string | number)[]
/** The beginning of each script's command, for one organisation. */
type Heads = Partial<Record<ScriptName, string>>

export class ScriptCaller {
  private readonly programs: Programs
  private readonly batches = new Map<Redis, ScriptBatch>()
  private readonly heads = new Map<string, Heads>()

  /** `clockLua` replaces Redis' own clock in tests. */
  constructor(clockLua?: string) {
    this.programs = programs(clockLua)
  }

  /** Calls a script about one thing: its reply is one outcome. */
  call<Name extends ScriptName>(...call: Call<Name>): Promise<Reply<Name>> {
    return this.ask(call, (reply) => readReply(call[1], reply))
  }

  /** Calls a script about many things: its reply is a list of their outcomes. */
  callForMany<Name extends ScriptName>(...call: Call<Name>): Promise<readonly OutcomeOf<Name>[]> {
    return this.ask(call, (reply) => readOutcomes(call[1], reply))
  }

  /** Calls a script about many things: its reply is a text with a line for each of them. */
  callForLines<Name extends ScriptName>(...call: Call<Name>): Promise<readonly Reply<Name>[]> {
    return this.ask(call, (reply) => readLines(call[1], reply))
  }

  /** Sends a script by its hash. One promise for a call that succeeds: every request waits for such calls. */
  private ask<Name extends ScriptName, T>(call: Call<Name>, read: (reply: unknown) => T): Promise<T> {
    return this.send(call).then(read, (error: unknown) => this.askAgain(call, error).then(read))
  }

  /**
   * After an error: sends the script's text if Redis does not know the hash (a new server, SCRIPT FLUSH), or repeats
   * the call if that may help.
   */
  private async askAgain<Name extends ScriptName>(call: Call<Name>, first: unknown): Promise<unknown> {
    const [redis, name, organization, values] = call
    let error = first
    for (let tries = 0; ; tries++) {
      if (isUnknownScript(error)) {
        const { lua } = this.programs.of(name)
        return await redis.eval(lua, scriptKeys.length, ...this.words(name, organization, values))
      }
      if (!isTimeout(error) || !REPEATED.has(name) || tries > 0) {
        if (!isTransient(error) || tries >= TRANSIENT_RETRIES) throw error
        await Bun.sleep(TRANSIENT_RETRY_MS)
      }
      try {
        return await this.send(call)
      } catch (another) {
        error = another
      }
    }
  }

  private send<Name extends ScriptName>([redis, name, organization, values]: Call<Name>): Promise<unknown> {
    if (!(redis instanceof Cluster)) return this.batchOf(redis).send(this.encoded(name, organization, values))
    // The client of a cluster chooses a node for each command and sends it again after a redirection.
    const { sha1 } = this.programs.of(name)
    return redis.evalsha(sha1, scriptKeys.length, ...this.words(name, organization, values))
  }

  /** Sends a command with the script calls of this moment. The strings of its reply are bytes. */
  command(redis: Redis | Cluster, words: Words): Promise<unknown> {
    const [name = '', ...rest] = words
    if (redis instanceof Cluster) return redis.callBuffer(String(name), ...rest)
    return this.batchOf(redis).send(respCommand(words.length) + words.map(respWord).join(''), true)
  }

  private batchOf(redis: Redis): ScriptBatch {
    const known = this.batches.get(redis)
    if (known !== undefined) return known
    const batch = new ScriptBatch(redis)
    this.batches.set(redis, batch)
    return batch
  }

  /** The keys, then the arguments. */
  private words<Name extends ScriptName>(name: Name, organization: string, values: Arguments<Name>): Words {
    const words: (string | number)[] = scriptKeys.map((key) => redisKey(organization, key))
    const named: Readonly<Record<string, string | number>> = values
    for (const argument of this.programs.of(name).arguments) words.push(named[argument] ?? '')
    return words
  }

  /** The whole EVALSHA command as RESP. */
  private encoded<Name extends ScriptName>(name: Name, organization: string, values: Arguments<Name>): string {
    let text = this.headOf(name, organization)
    const named: Readonly<Record<string, string | number>> = values
    for (const argument of this.programs.of(name).arguments) text += respWord(named[argument] ?? '')
    return text
  }

  /** The command up to its keys, which is the same for all calls of a script about an organisation. */
  private headOf(name: ScriptName, organization: string): string {
    let heads = this.heads.get(organization)
    if (heads === undefined) {
      if (this.heads.size >= HEADS_MAX) this.heads.clear()
      heads = {}
      this.heads.set(organization, heads)
    }
    const { sha1, arguments: names } = this.programs.of(name)
    heads[name] ??=
      respCommand(3 + scriptKeys.length + names.length) +
      ['evalsha', sha1, scriptKeys.length, ...scriptKeys.map((key) => redisKey(organization, key))]
        .map(respWord)
        .join('')
    return heads[name]
  }
}

/** The beginning of a command of `count` words. */
function respCommand(count: number): string {
  return `*${count}\r\n`
}

/** One word of a command. */
function respWord(word: string | number): string {
  if (typeof word === 'number') {
    const digits = String(word)
    return `$${digits.length}\r\n${digits}\r\n`
  }
  return `$${Buffer.byteLength(word)}\r\n${word}\r\n`
}
