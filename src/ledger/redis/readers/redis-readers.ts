/**
 * Readers of the ledger in Redis for commands that run once and for the admin API: usage, audit trail, figures of an
 * account, activity of keys; and what sets windows back, whether or not a gateway runs.
 */

import { batchesOf, mapInBatches } from '../../../core/batches.ts'
import type { RedisConfig } from '../../../core/redis-config.ts'
import { requestTimeMs } from '../../../core/request-id.ts'
import type { KeyActivity } from '../../../keys/key-list.ts'
import type { RedisClient } from '../../../redis/connect.ts'
import { connectOnce } from '../../../redis/connect-once.ts'
import { hashPages, readHash } from '../../../redis/hash-pages.ts'
import { durabilityWarning } from '../../../redis/server-check.ts'
import { type AuditRow, rowOfEntry } from '../../audit-columns.ts'
import { type AuditLog, type AuditQuery, endsOf } from '../../audit-log.ts'
import { activityOf, type KeyActivityReader } from '../../key-activity.ts'
import type { Account, Hold } from '../../ledger.ts'
import type { AccountUsageReader } from '../../remaining.ts'
import type { AccountUsage, ReserveReply } from '../../reservation-store.ts'
import { figuresOfList, isAnyUsage } from '../../usage-figures.ts'
import type { UsageLog, UsageQuery, UsageRow } from '../../usage-log.ts'
import {
  type ResetOrganization,
  spentNow,
  spentNowByCounter,
  type WindowReset,
  WindowResetError,
} from '../../window-reset.ts'
import { checkDataVersion } from '../store/data-version.ts'
import { ORGANIZATIONS_KEY, redisKey } from '../store/redis-keys.ts'
import { RedisStore } from '../store/redis-store.ts'

/** Requests of the audit that one call reads. */
const READ_A_CALL = 500
/** A script that reads as many keys takes less than a millisecond. */
const KEYS_A_CALL = 200
/** The same of counters. */
const COUNTERS_A_CALL = 200
/** How many organisations' streams are searched, or accounts read, at the same time. */
const ASKED_AT_ONCE = 100

/** A longer timeout than that of requests, because no caller waits for what an operator does. */
const READ_MS = 2000

/** Connects. Throws `RedisUnfitError` if Redis does not answer, or a newer version of weir wrote its data. */
export async function openReader<Reader>(
  kind: new (client: RedisClient) => Reader,
  place: RedisConfig,
): Promise<Reader> {
  const client = await connectOnce({ ...place, timeoutMs: Math.max(place.timeoutMs ?? 0, READ_MS) })
  try {
    await checkDataVersion(client)
    return new kind(client)
  } catch (error) {
    client.disconnect()
    throw error
  }
}

class OpenedReader {
  constructor(protected readonly client: RedisClient) {}

  async close(): Promise<void> {
    this.client.disconnect()
  }
}

/** As in `store.lua`. */
const FOLDS = 'folds'
/** As `COUNTER` and `MARKS` in `counters.lua`. */
const COUNTER_FIELDS = { all: 'c', refused: 'm' } as const
const TRIES = 10

/** The names of an organisation's counters, or of those that have refused a request. */
async function counterNames(
  client: RedisClient,
  organization: string,
  which: keyof typeof COUNTER_FIELDS,
): Promise<readonly string[]> {
  const prefix = COUNTER_FIELDS[which]
  const found = await readHash(client, redisKey(organization, 'counters'), `${prefix}*`)
  return Array.from(found.keys(), (field) => field.slice(prefix.length))
}

/** The organisation of the query, or every organisation that ever reserved. */
async function asked(client: RedisClient, organization: string | undefined): Promise<readonly string[]> {
  return organization === undefined ? (await client.smembers(ORGANIZATIONS_KEY)).sort() : [organization]
}

export class RedisUsageLog extends OpenedReader implements UsageLog {
  async read(query: UsageQuery): Promise<readonly UsageRow[]> {
    const rows: UsageRow[] = []
    for (const one of await asked(this.client, query.organization)) await this.readOne(one, query, rows)
    return rows
  }

  private async readOne(organization: string, query: UsageQuery, rows: UsageRow[]): Promise<void> {
    const name = redisKey(organization, 'usage')
    for (let tries = 1; ; tries++) {
      const folds = await this.client.hget(name, FOLDS)
      const found = await this.scan(organization, query)
      // Days that were folded into a month during the scan may have been read twice, or not at all.
      if (tries < TRIES && (await this.client.hget(name, FOLDS)) !== folds) continue
      rows.push(...found)
      return
    }
  }

  private async scan(organization: string, query: UsageQuery): Promise<readonly UsageRow[]> {
    const found = new Map<string, UsageRow>()
    for await (const page of hashPages(this.client, redisKey(organization, 'usage')))
      for (const [field, value] of page) {
        const row = usageRow(organization, field, value)
        if (isAnyUsage(row) && isAsked(row, query)) found.set(field, row)
      }
    return [...found.values()]
  }
}

function isAsked(row: UsageRow, query: UsageQuery): boolean {
  return row.day >= query.sinceDay && row.day < query.untilDay && (query.key === undefined || row.key === query.key)
}

/** A field of the usage hash (day, key and series, with NUL between) and its list of figures. */
function usageRow(organization: string, field: string, text: string): UsageRow {
  const [day = '', key = '', series = ''] = field.split('\0')
  return { day: Number(day), organization, key, series, ...figuresOfList(text) }
}

export class RedisAuditLog extends OpenedReader implements AuditLog {
  async *read(query: AuditQuery): AsyncGenerator<readonly AuditRow[]> {
    const admittedMs = query.id === undefined ? undefined : requestTimeMs(query.id)
    if (admittedMs !== undefined) {
      const row = await this.find(query, admittedMs)
      if (row !== undefined) yield [row]
      return
    }
    for (const organization of await asked(this.client, query.organization)) {
      // A request that was lost and then settled or cancelled has a second entry, which counts.
      const corrected = new Set<string>()
      for await (const rows of this.pages(organization, query.sinceMs, Number.MAX_SAFE_INTEGER))
        for (const { id, kind } of rows) if (kind === 'late' || kind === 'withdrawn') corrected.add(id)
      for await (const rows of this.pages(organization, query.sinceMs, query.untilMs)) {
        const found = rows.filter((row) => isWanted(row, query) && !(row.kind === 'lost' && corrected.has(row.id)))
        if (found.length > 0) yield found
      }
    }
  }

  /**
   * The last entry of one request. Its id limits the search to a span of time, because the ids of a stream's entries
   * are times.
   */
  private async find(query: AuditQuery, admittedMs: number): Promise<AuditRow | undefined> {
    let organizations = await asked(this.client, query.organization)
    let found: AuditRow | undefined
    for (const { sinceMs, untilMs } of endsOf(admittedMs)) {
      const narrow = { sinceMs: Math.max(0, sinceMs, query.sinceMs), untilMs: Math.min(untilMs, query.untilMs) }
      for (const some of batchesOf(organizations, ASKED_AT_ONCE)) {
        const rows = await Promise.all(some.map((organization) => this.findIn(organization, { ...query, ...narrow })))
        found = rows.find((row) => row !== undefined) ?? found
        if (found !== undefined && found.kind !== 'lost') return found
      }
      if (found !== undefined) organizations = [found.organization]
    }
    return found
  }

  private async findIn(organization: string, query: AuditQuery): Promise<AuditRow | undefined> {
    let found: AuditRow | undefined
    for await (const rows of this.pages(organization, query.sinceMs, query.untilMs)) {
      for (const row of rows) if (isWanted(row, query)) found = row
    }
    return found
  }

  private async *pages(organization: string, sinceMs: number, untilMs: number): AsyncGenerator<readonly AuditRow[]> {
    const name = redisKey(organization, 'audit')
    // The ids of a stream's entries begin with Redis' clock.
    let start = String(sinceMs)
    for (;;) {
      const entries = await this.client.xrange(name, start, untilMs - 1, 'COUNT', READ_A_CALL)
      const last = entries.at(-1)
      if (last === undefined) return
      yield entries.flatMap(([at, words]) => rowOfEntry(organization, Number.parseInt(at, 10), words) ?? [])
      start = `(${last[0]}`
    }
  }
}

function isWanted({ key, id }: AuditRow, query: AuditQuery): boolean {
  return (query.key === undefined || query.key === key) && (query.id === undefined || query.id === id)
}

export class RedisAccountUsageReader extends OpenedReader implements AccountUsageReader {
  private readonly store = new RedisStore(this.client, this.client)

  read(account: Account): Promise<AccountUsage> {
    return this.store.figures(account)
  }

  async readAll(accounts: readonly Account[]): Promise<readonly AccountUsage[]> {
    return await mapInBatches(accounts, ASKED_AT_ONCE, (account) => this.store.figures(account))
  }

  async counters(organizations: readonly string[], which: 'all' | 'refused'): Promise<readonly (readonly string[])[]> {
    return await mapInBatches(organizations, ASKED_AT_ONCE, (one) => counterNames(this.client, one, which))
  }

  preview(account: Account, hold: Hold): Promise<ReserveReply> {
    return this.store.preview(account, hold)
  }

  warning(): Promise<string | undefined> {
    return durabilityWarning(this.client)
  }
}

/** Reads the activity of keys, for commands and the admin API. */
export class RedisKeyActivityReader extends OpenedReader implements KeyActivityReader {
  private readonly store = new RedisStore(this.client, this.client)

  async read(organization: string, keys: readonly string[]): Promise<ReadonlyMap<string, KeyActivity>> {
    const found = new Map<string, KeyActivity>()
    for (const some of batchesOf(keys, KEYS_A_CALL)) {
      const days = await this.store.activity(organization, some)
      for (const [at, day] of days.entries()) {
        const id = some[at]
        if (id !== undefined && day.usedMs > 0) found.set(id, activityOf(day, Date.now()))
      }
    }
    return found
  }
}

/** Sets back windows that began too early. */
export class RedisWindowReset extends OpenedReader implements WindowReset {
  private readonly store = new RedisStore(this.client, this.client)

  async reset(organization: ResetOrganization, usage: readonly UsageRow[]): Promise<number> {
    const { id, timezone = 'UTC' } = organization
    const whole = spentNow(usage, undefined, Date.now())
    let count = 0
    // The keys that have figures.
    for (const field of (await readHash(this.client, redisKey(id, 'scopes'), 'k*')).keys()) {
      const key = field.slice(1)
      count += agreed(await this.store.reset(id, key, whole, spentNow(usage, key, Date.now())))
    }
    const recorded = spentNowByCounter(usage, organization, Date.now())
    const resetCounters = async (names: readonly string[]) => {
      for (const some of batchesOf(names, COUNTERS_A_CALL)) {
        count += agreed(await this.store.resetCounters(id, timezone, some, recorded))
      }
    }
    const stored = new Set(await counterNames(this.client, id, 'all'))
    await resetCounters([...stored])
    if (count > 0) await resetCounters([...recorded.keys()].filter((name) => !stored.has(name)))
    return count
  }

  async resetCounter({ id, timezone = 'UTC' }: ResetOrganization, name: string): Promise<number> {
    return agreed(await this.store.resetCounters(id, timezone, [name], new Map()))
  }
}

function agreed(count: number | undefined): number {
  if (count !== undefined) return count
  throw new WindowResetError(
    'The clock of Redis and the clock of this machine are more than a minute apart. Correct them first.',
  )
}
