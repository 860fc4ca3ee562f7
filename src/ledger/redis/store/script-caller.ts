/**
 * Calls the scripts: sends each by its hash, retries after transient errors, and checks the reply against the table of
 * scripts.
 */

import { Cluster, type Redis } from 'ioredis'
import { isTimeout, isTransient } from '../../../redis/redis-errors.ts'
import { respCommand, respWord } from '../client/resp.ts'
import { ScriptBatch } from '../client/script-batch.ts'
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

/** Organisations whose heads are kept; a gateway has few. */
const HEADS_MAX = 10_000

type Words = readonly (string | number)[]
/** The beginning of each script's command, for one organisation. */
type Heads = Partial<Record<ScriptName, string>>

export interface Reply<Name extends ScriptName> {
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
  private readonly batches = new Map<Redis, ScriptBatch>()
  private readonly heads = new Map<string, Heads>()

  /** `clockLua` replaces Redis' own clock in tests. */
  constructor(clockLua?: string) {
    this.programs = programs(clockLua)
  }

  /** Calls a script about one thing: its reply is one outcome. */
  call<Name extends ScriptName>(
    redis: Redis | Cluster,
    name: Name,
    organization: string,
    values: Arguments<Name>,
  ): Promise<Reply<Name>> {
    return this.ask(redis, name, organization, values, (reply) => readReply(name, reply))
  }

  /** Calls a script about many things: its reply is a list of their outcomes. */
  callForMany<Name extends ScriptName>(
    redis: Redis | Cluster,
    name: Name,
    organization: string,
    values: Arguments<Name>,
  ): Promise<readonly OutcomeOf<Name>[]> {
    return this.ask(redis, name, organization, values, (reply) => readOutcomes(name, reply))
  }

  /** Calls a script about many things: its reply is a text with a line for each of them. */
  callForLines<Name extends ScriptName>(
    redis: Redis | Cluster,
    name: Name,
    organization: string,
    values: Arguments<Name>,
  ): Promise<readonly Reply<Name>[]> {
    return this.ask(redis, name, organization, values, (reply) => readLines(name, reply))
  }

  /** Sends a script by its hash. One promise for a call that succeeds: every request waits for such calls. */
  private ask<Name extends ScriptName, T>(
    redis: Redis | Cluster,
    name: Name,
    organization: string,
    values: Arguments<Name>,
    read: (reply: unknown) => T,
  ): Promise<T> {
    return this.send(redis, name, organization, values).then(read, (error: unknown) =>
      this.askAgain(redis, name, organization, values, error).then(read),
    )
  }

  /**
   * After an error: sends the script's text if Redis does not know the hash (a new server, SCRIPT FLUSH), or repeats
   * the call if that may help.
   */
  private async askAgain<Name extends ScriptName>(
    redis: Redis | Cluster,
    name: Name,
    organization: string,
    values: Arguments<Name>,
    first: unknown,
  ): Promise<unknown> {
    let error = first
    for (let tries = 0; ; tries++) {
      if (error instanceof Error && error.message.startsWith('NOSCRIPT')) {
        const { lua } = this.programs[name]
        return await redis.eval(lua, scriptKeys.length, ...this.words(name, organization, values))
      }
      if (!isTimeout(error) || !REPEATED.has(name) || tries > 0) {
        if (!isTransient(error) || tries >= TRANSIENT_RETRIES) throw error
        await Bun.sleep(TRANSIENT_RETRY_MS)
      }
      try {
        return await this.send(redis, name, organization, values)
      } catch (another) {
        error = another
      }
    }
  }

  private send<Name extends ScriptName>(
    redis: Redis | Cluster,
    name: Name,
    organization: string,
    values: Arguments<Name>,
  ): Promise<unknown> {
    if (!(redis instanceof Cluster)) return this.batchOf(redis).send(this.encoded(name, organization, values))
    // The client of a cluster chooses a node for each command and sends it again after a redirection.
    const { sha1 } = this.programs[name]
    return redis.evalsha(sha1, scriptKeys.length, ...this.words(name, organization, values))
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
    for (const argument of this.programs[name].arguments) words.push(named[argument] ?? '')
    return words
  }

  /** The whole EVALSHA command as RESP. */
  private encoded<Name extends ScriptName>(name: Name, organization: string, values: Arguments<Name>): string {
    let text = this.headOf(name, organization)
    const named: Readonly<Record<string, string | number>> = values
    for (const argument of this.programs[name].arguments) text += respWord(named[argument] ?? '')
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
    const { sha1, arguments: names } = this.programs[name]
    heads[name] ??=
      respCommand(3 + scriptKeys.length + names.length) +
      ['evalsha', sha1, scriptKeys.length, ...scriptKeys.map((key) => redisKey(organization, key))]
        .map(respWord)
        .join('')
    return heads[name]
  }
}

const NO_WORDS: readonly string[] = []
const BLANK = ' '.charCodeAt(0)
const MINUS = '-'.charCodeAt(0)
const ZERO = '0'.charCodeAt(0)

/** The words of a reply. A list of one text holds all words, with spaces between them. Throws `ScriptReplyError`. */
function wordsOf(name: ScriptName, list: unknown): readonly unknown[] {
  if (!Array.isArray(list)) throw new ScriptReplyError(name, list)
  const [first]: unknown[] = list
  return list.length === 1 && typeof first === 'string' ? first.split(' ') : list
}

function outcomeOf<Name extends ScriptName>(name: Name, word: unknown): OutcomeOf<Name> {
  const outcomes: readonly OutcomeOf<Name>[] = scripts[name].outcomes
  // No callback: this runs for each outcome of a call.
  for (const outcome of outcomes) if (outcome === word) return outcome
  throw new ScriptReplyError(name, word)
}

function readOutcomes<Name extends ScriptName>(name: Name, list: unknown): readonly OutcomeOf<Name>[] {
  return wordsOf(name, list).map((word) => outcomeOf(name, word))
}

/** Throws `ScriptReplyError`. */
function readReply<Name extends ScriptName>(name: Name, list: unknown): Reply<Name> {
  return readWords(name, wordsOf(name, list))
}

/** The reply is a list of one text. Throws `ScriptReplyError`. */
function readLines<Name extends ScriptName>(name: Name, list: unknown): readonly Reply<Name>[] {
  const text: unknown = Array.isArray(list) ? list[0] : list
  if (typeof text !== 'string') throw new ScriptReplyError(name, list)
  const replies: Reply<Name>[] = []
  for (let start = 0; start <= text.length; ) {
    const newline = text.indexOf('\n', start)
    const end = newline < 0 ? text.length : newline
    replies.push(readLine(name, text, start, end))
    start = end + 1
  }
  return replies
}

/**
 * Reads a line without splitting it: a line has a dozen numbers, and a string for each of them took 1 µs.
 * Throws `ScriptReplyError`.
 */
function readLine<Name extends ScriptName>(name: Name, text: string, start: number, end: number): Reply<Name> {
  let at = wordEnd(text, start, end)
  const outcome = outcomeOf(name, text.slice(start, at))
  let words = NO_WORDS
  const wordCount = WORD_COUNTS[outcome] ?? 0
  if (wordCount > 0) {
    words = text.slice(at + 1, end).split(' ', wordCount)
    for (const word of words) at += 1 + word.length
  }
  const numbers: number[] = []
  while (at < end) {
    const next = wordEnd(text, at + 1, end)
    const number = wholeNumber(text, at + 1, next)
    if (number === undefined) throw new ScriptReplyError(name, text.slice(start, end))
    numbers.push(number)
    at = next
  }
  return { outcome, words, numbers }
}

/** The place of the blank that ends a word, or `end`. */
function wordEnd(text: string, start: number, end: number): number {
  let at = start
  while (at < end && text.charCodeAt(at) !== BLANK) at++
  return at
}

/** A whole number of decimal digits, with or without a minus sign; undefined if the text is anything else. */
function wholeNumber(text: string, start: number, end: number): number | undefined {
  const isNegative = text.charCodeAt(start) === MINUS
  const first = isNegative ? start + 1 : start
  if (first === end) return undefined
  let value = 0
  for (let at = first; at < end; at++) {
    const digit = text.charCodeAt(at) - ZERO
    if (digit < 0 || digit > 9) return undefined
    value = 10 * value + digit
  }
  return isNegative ? -value : value
}

/** Checks a reply against the table of scripts. Throws `ScriptReplyError`. */
function readWords<Name extends ScriptName>(name: Name, reply: readonly unknown[]): Reply<Name> {
  const outcome = outcomeOf(name, reply[0])
  const end = 1 + (WORD_COUNTS[outcome] ?? 0)
  const words = end === 1 ? NO_WORDS : reply.slice(1, end).map(String)
  const numbers: number[] = []
  for (let i = end; i < reply.length; i++) {
    const number = Number(reply[i])
    if (!Number.isFinite(number)) throw new ScriptReplyError(name, reply)
    numbers.push(number)
  }
  return { outcome, words, numbers }
}
