/**
 * The store in Redis: every verb is one script, one round trip. Owns how calls are put and answers read; decides nothing
 * itself.
 */

import type { Cluster, Redis } from 'ioredis'
import {
  amountOf,
  amountsOf,
  budgetLimits,
  byName,
  type Limits,
  limitTable,
  rateLimits,
  type UnitAmounts,
} from '../../../core/limits.ts'
import { isTimeout, isTransient } from '../../../redis/redis-errors.ts'
import {
  type Account,
  type Admission,
  type Charge,
  demandOf,
  type Estimate,
  type Hold,
  type RateStatus,
  type RateStatuses,
  usedOf,
} from '../../ledger.ts'
import { tighter } from '../../rate-limit-headers.ts'
import {
  type AccountUsage,
  type CancelReply,
  checkEstimate,
  type ExtendReply,
  type Refusal,
  type ReserveReply,
  type ScopeUsage,
  type SettleOptions,
  type SettleReply,
  scopeNames,
} from '../../reservation-store.ts'
import { figuresOfList } from '../../usage-figures.ts'
import { foldUsageRows, placeName, type UsagePlace, type UsageRow } from '../../usage-log.ts'
import { bucketOf, daysOfBucket } from '../../window.ts'
import { ScriptPipeline } from '../client/pipeline.ts'
import type { NodeFigures } from '../epochs/epoch-rows.ts'
import {
  DataLossError,
  type Entered,
  type Epochs,
  type NodeEpoch,
  type NumberedRow,
  type RecoverableStore,
  UNKNOWN_EPOCH,
} from '../epochs/epochs.ts'
import type { FoundReservation } from '../epochs/reconcile.ts'
import { chargeArguments, figureArguments } from './audit-lua.ts'
import { furtherUnits } from './record-layout.ts'
import {
  type Arguments,
  type OutcomeOf,
  type Program,
  programs,
  type ScriptName,
  scriptKeys,
  scripts,
} from './scripts.ts'

/** All requests of an organisation wait for these. Called again after no reply came in time, they do nothing more. */
const REPEATED: ReadonlySet<ScriptName> = new Set(['enter', 'restore'])

/** What passes by itself is waited for so often, so long. */
const PASSING_TRIES = 2
const PASSING_MS = 100

/** As in `store.lua`. */
const ALL_GIVEN = -1
const FOLDED = 'folded'
/** Live and lost. */
const OPEN_STATES: ReadonlySet<number | undefined> = new Set([1, 3])
/** Fields of a hash that are read in one call. */
const READ_A_CALL = 500

/** What an answer holds after its outcome. */
type Numbers = readonly number[]
/** The words that a script answers for numbers, by their place after the outcome. */
const WORDS: Readonly<Record<string, number>> = { refused: 2 }

interface Answer<Name extends ScriptName> {
  readonly outcome: OutcomeOf<Name>
  readonly words: readonly string[]
  readonly numbers: Numbers
}

/** A script answered what is not in the table: another version of the scripts, or not our data. */
class ScriptAnswerError extends Error {
  constructor(name: ScriptName, answer: unknown) {
    super(`Unexpected reply from script '${name}': ${JSON.stringify(answer)}.`)
    this.name = 'ScriptAnswerError'
  }
}

/** Every organisation that ever reserved: what `weir usage` reads over. */
export const ORGANIZATIONS_KEY = 'weir:organizations'

/** The name of one of an organisation's keys. Braces of an id must not end its hash tag. */
export function redisKey(organization: string, key: string): string {
  return `${tagOf(organization)}:${key}`
}

/** Every call has several keys of one organisation, and a gateway few organisations. */
const tags = new Map<string, string>()
const TAGS_MAX = 10_000

function tagOf(organization: string): string {
  const known = tags.get(organization)
  if (known !== undefined) return known
  const tag = `weir:{${encodeURIComponent(organization)}}`
  if (tags.size >= TAGS_MAX) tags.clear()
  tags.set(organization, tag)
  return tag
}

export class RedisStore implements RecoverableStore {
  private readonly programs: Readonly<Record<ScriptName, Program>>
  private readonly settlements: ScriptPipeline

  /**
   * `admission` carries reservations, `other` all the rest: neither waits behind the other. `witness` is this machine's
   * clock. A reservation for an organisation whose epoch in Redis is not the one of `epochs` throws `DataLossError`.
   */
  constructor(
    private readonly admission: Redis | Cluster,
    private readonly other: Redis | Cluster,
    private readonly witness: () => number = Date.now,
    clockLua?: string,
    private readonly epochs?: Epochs,
  ) {
    this.programs = programs(clockLua)
    this.settlements = new ScriptPipeline(other)
  }

  async reserve(account: Account, hold: Hold): Promise<ReserveReply> {
    checkEstimate(hold.estimate)
    const { outcome, words, numbers } = await this.call(this.admission, 'reserve', account.organization, {
      ...this.accountArguments(account, hold.id),
      model: hold.model ?? '',
      input: hold.estimate.inputTokens,
      output: hold.estimate.outputTokens,
      cost: hold.estimate.costMicroUsd,
      floorCost: hold.floorMicroUsd,
      epoch: this.epochs?.of(account.organization) ?? UNKNOWN_EPOCH,
      ...furtherAmounts(demandOf(hold)),
    })
    switch (outcome) {
      case 'granted':
        return { outcome, admittedMs: at(numbers, 0), rates: ratesOf(account, numbers, 1) }
      case 'refused':
        return {
          outcome,
          refusal: refusalOf(words, numbers),
          held: at(numbers, 2) === 1,
          rates: ratesOf(account, numbers, 3),
        }
      case 'emptied':
        throw new DataLossError(account.organization)
      case 'ended':
        return { outcome }
    }
  }

  async extend(account: Account, id: string, soFar: Estimate, wanted: Estimate): Promise<ExtendReply> {
    checkEstimate(soFar)
    checkEstimate(wanted)
    const answer = await this.call(this.other, 'extend', account.organization, {
      ...this.accountArguments(account, id),
      input: soFar.inputTokens,
      output: soFar.outputTokens,
      cost: soFar.costMicroUsd,
      wantedTokens: Math.min(Number.MAX_SAFE_INTEGER, wanted.inputTokens + wanted.outputTokens),
      wantedCost: wanted.costMicroUsd,
    })
    return answer.outcome
  }

  async settle(
    { account, id, admittedMs }: Admission,
    charge: Charge,
    { isDirect, from }: SettleOptions = {},
  ): Promise<SettleReply> {
    checkEstimate(charge)
    const { outcome } = await this.call(this.other, 'settle', account.organization, {
      ...this.accountArguments(account, id),
      ...chargeArguments(charge),
      admitted: admittedMs,
      direct: isDirect === true ? 1 : 0,
      epoch: from?.epoch ?? UNKNOWN_EPOCH,
      node: from?.node ?? '',
      ...furtherAmounts(usedOf(charge, 1)),
    })
    if (outcome === 'emptied') throw new DataLossError(account.organization)
    return outcome
  }

  async cancel(account: Account, id: string): Promise<CancelReply> {
    const answer = await this.call(this.other, 'cancel', account.organization, this.accountArguments(account, id))
    return answer.outcome
  }

  async reap(organization: string): Promise<number> {
    const { numbers } = await this.call(this.other, 'reap', organization, {})
    return at(numbers, 0)
  }

  async figures(account: Account): Promise<AccountUsage> {
    const { numbers } = await this.call(this.other, 'figures', account.organization, this.accountArguments(account, ''))
    const half = numbers.length / 2
    return { organization: figuresOf(numbers.slice(0, half)), key: figuresOf(numbers.slice(half)) }
  }

  /** Adds the usage of a day to its month. */
  async fold(organization: string, of: Arguments<'fold'>): Promise<void> {
    await this.call(this.other, 'fold', organization, of)
  }

  /**
   * Adds what a node served on a day to its month. False if that month ended less than 400 days ago by the clock of
   * Redis.
   */
  async foldOfNode(organization: string, of: Arguments<'foldNode'>): Promise<boolean> {
    const { outcome } = await this.call(this.other, 'foldNode', organization, of)
    return outcome !== 'young'
  }

  /** Forgets the figures of a key that nobody can use any more. False where something of it may still come. */
  async drop(organization: string, key: string): Promise<boolean> {
    const { outcome } = await this.call(this.other, 'drop', organization, { key })
    return outcome === 'dropped'
  }

  /** The windows that an organisation's budgets are in, in the order of `budgetLimits`. */
  async windows(organization: string): Promise<readonly number[]> {
    const { numbers } = await this.call(this.other, 'windows', organization, {})
    return numbers
  }

  /** Sets windows that lie ahead back to now. Gives how many; undefined if the two clocks disagree. */
  async reset(
    organization: string,
    key: string,
    whole: readonly number[],
    ofKey: readonly number[],
  ): Promise<number | undefined> {
    const { outcome, numbers } = await this.call(this.other, 'reset', organization, {
      witness: this.witness(),
      key,
      organizationSpent: JSON.stringify(whole),
      keySpent: JSON.stringify(ofKey),
    })
    return outcome === 'reset' ? at(numbers, 0) : undefined
  }

  async enter(organization: string, { node, epoch, legacyEpoch }: NodeEpoch, ended: number): Promise<Entered> {
    const { numbers } = await this.call(this.other, 'enter', organization, {
      known: epoch,
      node,
      ended,
      legacy: legacyEpoch,
    })
    const [entered, given, requests, legacy] = [at(numbers, 0), at(numbers, 1), at(numbers, 2), at(numbers, 3)]
    return { epoch: entered, given: given === ALL_GIVEN ? 'all' : given, requests, isLegacy: legacy === 1 }
  }

  async figuresOfNode(node: string, places: readonly UsagePlace[], foldedBefore: number): Promise<NodeFigures> {
    const [first] = places
    if (first === undefined) return { figures: new Map(), foldedBefore }
    const hash = redisKey(first.organization, 'nodes')
    for (let before = foldedBefore; ; ) {
      before = Math.max(before, Number((await this.other.hget(hash, FOLDED)) ?? 0))
      const figures = await this.figuresByBucket(hash, node, places, before)
      if (figures !== undefined) return { figures, foldedBefore: before }
    }
  }

  /** Undefined if Redis has folded further meanwhile. */
  private async figuresByBucket(
    hash: string,
    node: string,
    places: readonly UsagePlace[],
    foldedBefore: number,
  ): Promise<ReadonlyMap<string, UsageRow> | undefined> {
    const buckets = new Map<string, UsagePlace>()
    for (const { day, organization, key, model } of places) {
      const bucket = { day: bucketOf(day, foldedBefore), organization, key, model }
      buckets.set(placeName(bucket), bucket)
    }
    const found: UsageRow[] = []
    let asked: UsagePlace[] = []
    let left = buckets.size
    for (const bucket of buckets.values()) {
      asked.push(...daysOfBucket(bucket.day, foldedBefore).map((day) => ({ ...bucket, day })))
      left -= 1
      // All days of a bucket are in one command: Redis may add them up between two.
      if (asked.length < READ_A_CALL && left > 0) continue
      const fields = asked.map(({ day, key, model }) => [node, day, key, model].join('\0'))
      const [folded, ...texts] = await this.other.hmget(hash, FOLDED, ...fields)
      if (Number(folded ?? 0) > foldedBefore) return undefined
      for (const [i, place] of asked.entries()) {
        const text = texts[i]
        if (text != null) found.push({ ...place, ...figuresOfList(text) })
      }
      asked = []
    }
    return foldUsageRows(found, foldedBefore)
  }

  async reservations(organization: string): Promise<ReadonlyMap<string, FoundReservation>> {
    const found = new Map<string, FoundReservation>()
    let cursor = '0'
    do {
      const name = redisKey(organization, 'reservations')
      const [next, parts] = await this.other.hscanBuffer(name, cursor, 'COUNT', READ_A_CALL)
      cursor = String(next)
      for (let i = 0; i + 1 < parts.length; i += 2) {
        const record = parts[i + 1]
        if (record !== undefined) found.set(String(parts[i]), reservationOf(record))
      }
    } while (cursor !== '0')
    return found
  }

  async restore(epoch: number, node: string, row: NumberedRow): Promise<number | 'all' | undefined> {
    const { outcome, numbers } = await this.call(this.other, 'restore', row.organization, {
      epoch,
      witness: this.witness(),
      node,
      number: row.number,
      last: row.last,
      key: row.key,
      day: row.day,
      model: row.model,
      ...figureArguments(row),
      ...furtherAmounts(usedOf(row, row.requests)),
    })
    if (outcome === 'emptied') return undefined
    const given = at(numbers, 0)
    return given === ALL_GIVEN ? 'all' : given
  }

  private accountArguments(account: Account, id: string): Arguments<'cancel'> {
    return {
      id,
      witness: this.witness(),
      key: account.key,
      organizationLimits: limitsArgument(account.organizationLimits),
      keyLimits: limitsArgument(account.keyLimits),
    }
  }

  /** Sends a script by its hash, and whole where Redis does not know it (a new server, SCRIPT FLUSH). */
  private async call<Name extends ScriptName>(
    redis: Redis | Cluster,
    name: Name,
    organization: string,
    values: Arguments<Name>,
  ): Promise<Answer<Name>> {
    const { lua, sha1, arguments: names } = this.programs[name]
    const words: (string | number)[] = scriptKeys.map((key) => redisKey(organization, key))
    const named: Readonly<Record<string, string | number>> = values
    for (const argument of names) words.push(named[argument] ?? '')
    for (let tries = 0; ; tries++) {
      try {
        // A commit lets many settlements go at once; all else comes one by one.
        const answer =
          name === 'settle'
            ? this.settlements.evalsha(organization, sha1, scriptKeys.length, words)
            : redis.evalsha(sha1, scriptKeys.length, ...words)
        return readAnswer(name, await answer)
      } catch (error) {
        if (error instanceof Error && error.message.startsWith('NOSCRIPT')) {
          return readAnswer(name, await redis.eval(lua, scriptKeys.length, ...words))
        }
        if (isTimeout(error) && REPEATED.has(name) && tries === 0) continue
        if (!isTransient(error) || tries >= PASSING_TRIES) throw error
        await Bun.sleep(PASSING_MS)
      }
    }
  }
}

/**
 * The beginning of a packed reservation of `store.lua`, in msgpack: a list of version and state, one byte each, then
 * `due` and `admitted`, times of nine bytes. The list of one that ended is shorter than 16, and its head is one byte;
 * the head of another is three.
 */
function reservationOf(record: Buffer): FoundReservation {
  const head = record[0] === 0xdc ? 3 : 1
  if (!OPEN_STATES.has(record[head + 1])) return { isOpen: false, admittedMs: 0 }
  const at = head + 11
  const admittedMs = record[at] === 0xcb ? record.readDoubleBE(at + 1) : Number(record.readBigUInt64BE(at + 1))
  return { isOpen: true, admittedMs }
}

/** Checks an answer against the table. */
function readAnswer<Name extends ScriptName>(name: Name, answer: unknown): Answer<Name> {
  if (!Array.isArray(answer)) throw new ScriptAnswerError(name, answer)
  const [word, ...rest]: unknown[] = answer
  const outcomes: readonly OutcomeOf<Name>[] = scripts[name].outcomes
  const outcome = outcomes.find((known) => known === word)
  const words = rest.slice(0, WORDS[outcome ?? ''] ?? 0).map(String)
  const numbers = rest.slice(words.length).map(Number)
  if (outcome === undefined || !numbers.every(Number.isFinite)) throw new ScriptAnswerError(name, answer)
  return { outcome, words, numbers }
}

/** The amounts as text, by the same object from one configuration to the next: every call has them. */
const limitsArguments = new WeakMap<Limits, string>()

function limitsArgument(limits: Limits): string {
  const known = limitsArguments.get(limits)
  if (known !== undefined) return known
  const argument = JSON.stringify(amountsOf(limits))
  limitsArguments.set(limits, argument)
  return argument
}

/** The arguments for units that came after those of the first version. */
function furtherAmounts(amounts: UnitAmounts): Readonly<Record<string, number>> {
  const further: Record<string, number> = {}
  for (const unit of furtherUnits) further[unit] = amounts[unit]
  return further
}

function at(numbers: Numbers, index: number): number {
  const value = numbers[index]
  if (value === undefined) throw new RangeError('A script answered too few numbers.')
  return value
}

function refusalOf([scopeName, limitName]: readonly string[], numbers: Numbers): Refusal {
  const scope = scopeNames.find((name) => name === scopeName)
  const limit = limitTable.find(({ name }) => name === limitName)?.name
  const wait = at(numbers, 0)
  if (scope === undefined || limit === undefined)
    throw new RangeError(`The ledger in Redis named an unknown limit: '${limitName}' of '${scopeName}'.`)
  return { scope, limit, waitMs: wait < 0 ? undefined : wait, held: at(numbers, 1) === 1 }
}

/** For each rate of the organisation, then of the key, two numbers: what remains, and when the bucket is full. */
function ratesOf({ organizationLimits, keyLimits }: Account, numbers: Numbers, from: number): RateStatuses {
  return rateLimits.map((limit, index) => {
    const [organization, key] = [amountOf(organizationLimits, limit), amountOf(keyLimits, limit)]
    return tighter(
      rateOf(organization, numbers, from + 2 * index),
      rateOf(key, numbers, from + 2 * (rateLimits.length + index)),
    )
  })
}

function rateOf(limit: number | undefined, numbers: Numbers, index: number): RateStatus | undefined {
  return limit === undefined ? undefined : { limit, remaining: at(numbers, index), resetMs: at(numbers, index + 1) }
}

/** As `figures.lua` answers them for one scope. */
function figuresOf(numbers: Numbers): ScopeUsage {
  const budgets = rateLimits.length + 1
  return {
    live: at(numbers, rateLimits.length),
    ...byName(rateLimits, (_, index) => at(numbers, index)),
    ...byName(budgetLimits, (_, index) => ({
      window: at(numbers, budgets + 3 * index),
      spent: at(numbers, budgets + 3 * index + 1),
      held: at(numbers, budgets + 3 * index + 2),
    })),
  }
}
