/**
 * The reservation store in Redis: each operation is one script and one round trip. Builds the arguments and reads the
 * replies; the scripts decide.
 */

import type { Cluster, Redis } from 'ioredis'
import type { Later } from '../../../core/later.ts'
import type { UnitAmounts } from '../../../core/limits.ts'
import type { DayOfKey } from '../../key-activity.ts'
import { type Account, type Admission, type Charge, type Estimate, type Hold, usedOf } from '../../ledger.ts'
import {
  type AccountUsage,
  type CancelReply,
  checkEstimate,
  type ExtendReply,
  type ReserveReply,
  type SettleOptions,
  type SettleReply,
} from '../../reservation-store.ts'
import type { UsagePlace } from '../../usage-log.ts'
import { windowsIn } from '../../window.ts'
import { begunWindows, type RecordedSpend } from '../../window-reset.ts'
import type { CounterSpend, FoundCounters, KeptCounters, SpentInWindows } from '../protocol/counter-spend.ts'
import type {
  Entered,
  Epochs,
  FoundReservation,
  NodeEpoch,
  NodeFigures,
  NumberedRow,
  RecoverableStore,
} from '../protocol/epochs.ts'
import { countersArgument, limitsArgument, zonedText } from './account-arguments.ts'
import { figureArguments } from './audit-lua.ts'
import { furtherUnits } from './record-layout.ts'
import { FIELDS_PER_CALL, figuresOfNode, holdOf, nodeSumsOf, partOf, storedReservations } from './recovery-reads.ts'
import { accountUsageOf, numberAt } from './reply-readers.ts'
import { ReserveBatches } from './reserve-batches.ts'
import { ScriptCaller } from './script-caller.ts'
import type { Arguments } from './scripts.ts'
import { SettleBatches } from './settle-batches.ts'

/** As in `store.lua`: the node has given back all of its rows. */
const ALL_GIVEN = -1

export class RedisStore implements RecoverableStore {
  private readonly scripts: ScriptCaller
  readonly reserving: ReserveBatches
  private readonly settlements: SettleBatches

  /**
   * `admission` carries reservations, `other` all other calls, so that neither delays the other. `witness` is this
   * machine's clock. A reservation throws `DataLossError` if its organisation's epoch in Redis is not the one in
   * `epochs`.
   */
  constructor(
    admission: Redis | Cluster,
    private readonly other: Redis | Cluster,
    private readonly witness: () => number = Date.now,
    clockLua?: string,
    private readonly epochs?: Epochs,
  ) {
    this.scripts = new ScriptCaller(clockLua)
    this.reserving = new ReserveBatches(this.scripts, admission, witness, epochs)
    this.settlements = new SettleBatches(this.scripts, other, witness)
  }

  /** Those that are called in the same turn of the event loop are sent together. */
  reserve(account: Account, hold: Hold): Later<ReserveReply> {
    return this.reserving.reserve(account, hold)
  }

  preview(account: Account, hold: Hold): Promise<ReserveReply> {
    return this.reserving.preview(account, hold)
  }

  async extend(account: Account, id: string, soFar: Estimate, wanted: Estimate): Promise<ExtendReply> {
    checkEstimate(soFar)
    checkEstimate(wanted)
    const reply = await this.scripts.call(this.other, 'extend', account.organization, {
      ...this.accountArguments(this.epochs?.present(account) ?? account, id),
      input: soFar.inputTokens,
      output: soFar.outputTokens,
      cost: soFar.costMicroUsd,
      wantedTokens: Math.min(Number.MAX_SAFE_INTEGER, wanted.inputTokens + wanted.outputTokens),
      wantedCost: wanted.costMicroUsd,
    })
    return reply.outcome
  }

  /** Those that are called in the same turn of the event loop are sent together. */
  settle(admission: Admission, charge: Charge, options: SettleOptions = {}): Later<SettleReply> {
    return this.settlements.settle(admission, charge, options)
  }

  async cancel(account: Account, id: string, turn = Number.MAX_SAFE_INTEGER): Promise<CancelReply> {
    const values = { ...this.accountArguments(account, id), turn }
    return (await this.scripts.call(this.other, 'cancel', account.organization, values)).outcome
  }

  async reap(organization: string): Promise<number> {
    const { numbers } = await this.scripts.call(this.other, 'reap', organization, {})
    return numberAt(numbers, 0)
  }

  async figures(account: Account): Promise<AccountUsage> {
    const values = this.accountArguments(account, '')
    return accountUsageOf((await this.scripts.call(this.other, 'figures', account.organization, values)).numbers)
  }

  /** Adds the usage of a day to its month, or that of an hour to its day. */
  async fold(organization: string, of: Arguments<'fold'>): Promise<void> {
    await this.scripts.call(this.other, 'fold', organization, of)
  }

  /**
   * Adds the usage that a node served on a day to its month. False if that month ended less than 400 days ago by Redis'
   * clock.
   */
  async foldOfNode(organization: string, of: Arguments<'foldNode'>): Promise<boolean> {
    const { outcome } = await this.scripts.call(this.other, 'foldNode', organization, of)
    return outcome !== 'young'
  }

  /** Adds what a node served in old places, as far as Redis' clock calls them old, to the sums of the node. */
  async sumOfNode(organization: string, node: string, places: readonly Omit<UsagePlace, 'organization'>[]) {
    const rows = JSON.stringify(places.map(({ day, key, series }) => [day, key, series]))
    await this.scripts.call(this.other, 'sumNode', organization, { node, rows })
  }

  /** Deletes the figures of a key that was removed. False if settlements of the key may still arrive. */
  async drop(organization: string, key: string): Promise<boolean> {
    const { outcome } = await this.scripts.call(this.other, 'drop', organization, { key })
    return outcome === 'dropped'
  }

  /** The activity of keys of an organisation, in their order: time of the last use, and the budget of their day. */
  async activity(organization: string, keys: readonly string[]): Promise<readonly DayOfKey[]> {
    const { numbers } = await this.scripts.call(this.other, 'activity', organization, { listed: JSON.stringify(keys) })
    return keys.map((_, i) => {
      const [usedMs, window] = [numberAt(numbers, 4 * i), numberAt(numbers, 4 * i + 1)]
      return { usedMs, window, spent: numberAt(numbers, 4 * i + 2), held: numberAt(numbers, 4 * i + 3) }
    })
  }

  /** Deletes crossings, with their fields and values as they were read, unless their values have changed since. */
  async taken(organization: string, crossings: readonly (readonly [field: string, value: string])[]): Promise<void> {
    await this.scripts.call(this.other, 'taken', organization, { crossings: JSON.stringify(crossings) })
  }

  /** The current windows of an organisation's budgets, in the order of `budgetLimits`. */
  async windows(organization: string): Promise<readonly number[]> {
    const { numbers } = await this.scripts.call(this.other, 'windows', organization, {})
    return numbers
  }

  /** Sets windows in the future back to the present. Returns how many; undefined if the two clocks disagree. */
  async reset(
    organization: string,
    key: string,
    whole: readonly number[],
    ofKey: readonly number[],
  ): Promise<number | undefined> {
    const { outcome, numbers } = await this.scripts.call(this.other, 'reset', organization, {
      witness: this.witness(),
      key,
      organizationSpent: JSON.stringify(whole),
      keySpent: JSON.stringify(ofKey),
    })
    return outcome === 'reset' ? numberAt(numbers, 0) : undefined
  }

  /** The same for counters, by their names. One that is not stored begins with what is recorded of it, if anything. */
  async resetCounters(
    organization: string,
    timeZone: string,
    names: readonly string[],
    recorded: ReadonlyMap<string, RecordedSpend>,
  ): Promise<number | undefined> {
    const witness = this.witness()
    const { outcome, numbers } = await this.scripts.call(this.other, 'resetCounters', organization, {
      witness,
      names: JSON.stringify(names),
      spends: JSON.stringify(
        names.map((name) => {
          const spend = recorded.get(name)
          return spend === undefined ? [] : [spend.spent, spend.keptMs]
        }),
      ),
      present: zonedText(windowsIn(timeZone, witness)),
      begun: begunText(witness),
    })
    return outcome === 'reset' ? numberAt(numbers, 0) : undefined
  }

  /** How many counters have a window that lies ahead of the clock, in every time zone. */
  async countersAhead(organization: string, names: readonly string[], nowMs: number): Promise<number> {
    const of = { names: JSON.stringify(names), begun: begunText(nowMs) }
    const { numbers } = await this.scripts.call(this.other, 'countersAhead', organization, of)
    return numberAt(numbers, 0)
  }

  async enter(organization: string, { node, epoch, legacyEpoch }: NodeEpoch, ended: number): Promise<Entered> {
    const { words, numbers } = await this.scripts.call(this.other, 'enter', organization, {
      known: epoch,
      node,
      ended,
      legacy: legacyEpoch,
    })
    const given = numberAt(numbers, 1)
    return {
      epoch: numberAt(numbers, 0),
      given: given === ALL_GIVEN ? 'all' : given,
      requests: numberAt(numbers, 2),
      isLegacy: numberAt(numbers, 3) === 1,
      sums: nodeSumsOf(words[0] ?? ''),
      wasEmpty: numberAt(numbers, 4) === 1,
    }
  }

  figuresOfNode(node: string, places: readonly UsagePlace[], foldedBefore: number): Promise<NodeFigures> {
    return figuresOfNode(this.other, node, places, foldedBefore)
  }

  reservations(organization: string): Promise<ReadonlyMap<string, FoundReservation>> {
    return storedReservations(this.other, organization)
  }

  async countersOfNode(
    organization: string,
    node: string,
    names: readonly string[],
    ids: readonly string[],
  ): Promise<FoundCounters> {
    const parts = new Map<string, SpentInWindows>()
    const holds = new Map<string, ReadonlyMap<string, readonly number[]>>()
    for (let from = 0; from < Math.max(names.length, ids.length); from += FIELDS_PER_CALL) {
      const some = names.slice(from, from + FIELDS_PER_CALL)
      const someIds = ids.slice(from, from + FIELDS_PER_CALL)
      const of = { node, names: JSON.stringify(some), ids: JSON.stringify(someIds) }
      const { words } = await this.scripts.call(this.other, 'parts', organization, of)
      for (const [i, name] of some.entries()) {
        const part = partOf(words[i] ?? '')
        if (part !== undefined) parts.set(name, part)
      }
      for (const [i, id] of someIds.entries()) {
        const hold = holdOf(words[some.length + i] ?? '')
        if (hold !== undefined) holds.set(id, hold)
      }
    }
    return { parts, holds }
  }

  async countersKept(organization: string, names: readonly string[]): Promise<KeptCounters> {
    const { numbers } = await this.scripts.call(this.other, 'kept', organization, { names: JSON.stringify(names) })
    const keptMs = names.map((name, i) => {
      const ms = numberAt(numbers, i + 1)
      return [name, ms === -1 ? undefined : ms] as const
    })
    return { epoch: numberAt(numbers, 0), keptMs: new Map(keptMs) }
  }

  async restore(epoch: number, node: string, row: NumberedRow): Promise<number | 'all' | undefined> {
    const witness = this.witness()
    const turn = { epoch, witness, node, number: row.number, last: row.last }
    const { outcome, numbers } = await ('counter' in row
      ? this.scripts.call(this.other, 'restoreCounter', row.organization, {
          ...turn,
          ...counterArguments(row, witness),
        })
      : this.scripts.call(this.other, 'restore', row.organization, {
          ...turn,
          key: row.key,
          day: row.day,
          series: row.series,
          ...figureArguments(row),
          ...furtherAmounts(usedOf(row, row.requests)),
        }))
    if (outcome === 'emptied') return undefined
    const given = numberAt(numbers, 0)
    return given === ALL_GIVEN ? 'all' : given
  }

  private accountArguments(account: Account, id: string): Arguments<'figures'> {
    const witness = this.witness()
    return {
      id,
      witness,
      key: account.key,
      organizationLimits: limitsArgument(account.organizationLimits, account.alertShares),
      keyLimits: limitsArgument(account.keyLimits, account.alertShares),
      budgets: countersArgument(account, witness),
    }
  }
}

function counterArguments({ counter, keptMs, timeZone, windows, spent }: CounterSpend, nowMs: number) {
  return {
    counter,
    kept: keptMs,
    spends: JSON.stringify([windows, spent]),
    present: zonedText(windowsIn(timeZone, nowMs)),
  }
}

function begunText(nowMs: number): string {
  const { windows, ends } = begunWindows(nowMs)
  return JSON.stringify([windows, ends])
}

/** The arguments for units that were added after the first version. */
function furtherAmounts(amounts: UnitAmounts): Readonly<Record<string, number>> {
  const further: Record<string, number> = {}
  for (const unit of furtherUnits) further[unit] = amounts[unit]
  return further
}
