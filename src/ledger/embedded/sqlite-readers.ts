/**
 * Readers of the files of an embedded ledger, SQLite's and the journal: usage, audit trail, current use of an account's
 * limits, activity of keys, spend that reached a threshold. A gateway may have the files open.
 */

import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { budgetLimits } from '../../core/limits.ts'
import { requestTimeMs } from '../../core/request-id.ts'
import type { KeyActivity } from '../../keys/key-list.ts'
import { openReadOnly } from '../../sqlite/database.ts'
import { type AuditRow, rowOfValues } from '../audit-columns.ts'
import { type AuditLog, type AuditQuery, endsOf } from '../audit-log.ts'
import { activityOf, type KeyActivityReader } from '../key-activity.ts'
import type { Account, Hold } from '../ledger.ts'
import type { AccountUsageReader } from '../remaining.ts'
import { readUsage } from '../request-table.ts'
import { UsageSums } from '../request-writer.ts'
import type { AccountUsage, ReserveReply } from '../reservation-store.ts'
import type { CrossingReader, SpendCrossing } from '../spend-crossing.ts'
import { isAnyUsage } from '../usage-figures.ts'
import type { UsageLog, UsageQuery, UsageRow } from '../usage-log.ts'
import { termsOf } from './account-state.ts'
import { type Commit, lastCommit, type RowPage, readCorrected, readPage } from './audit-pages.ts'
import { crossingOf } from './crossing-table.ts'
import type { Group } from './journal-format.ts'
import { idOfRow, readJournal, tailOf, usageOfRow } from './journal-tail.ts'
import { MemoryStore } from './memory-store.ts'
import {
  LEDGER_FILE,
  LEDGER_SCHEMA,
  liveOf,
  REFUSED_COLUMNS,
  type Row,
  readApplied,
  readReservations,
  readScope,
  scopeOf,
  type Value,
} from './state-tables.ts'
import { type Changes, HAS_ENDED, type ReservationState, type ScopeState } from './store-state.ts'

/**
 * Opens the files for each query: they do not exist before the first request, and the gateway can checkpoint its
 * write-ahead log only while no reader has it open.
 */
abstract class SqliteReader {
  constructor(private readonly directory: string) {}

  async close(): Promise<void> {}

  /** Reads both at one moment: what the journal has that SQLite lacks is `tail`. */
  protected from<T>(read: (database: Database, tail: readonly Group<Row>[]) => T): T | undefined {
    // The journal first: what leaves it meanwhile is then in SQLite.
    const journal = readJournal(this.directory)
    return this.fromDatabase((database) => {
      const atOnce = database.transaction(() =>
        read(database, tailOf(journal, readApplied(database), this.directory).groups),
      )
      return atOnce.deferred()
    })
  }

  /** Reads SQLite alone. */
  protected fromDatabase<T>(read: (database: Database) => T): T | undefined {
    const database = openReadOnly(join(this.directory, LEDGER_FILE), LEDGER_SCHEMA)
    if (database === undefined) return undefined
    try {
      return read(database)
    } finally {
      database.close()
    }
  }
}

export class EmbeddedUsageLog extends SqliteReader implements UsageLog {
  async read(query: UsageQuery): Promise<readonly UsageRow[]> {
    return this.from((database, tail) => withTail(readUsage(database, query), tail, query)) ?? []
  }
}

function withTail(rows: readonly UsageRow[], tail: readonly Group<Row>[], query: UsageQuery): readonly UsageRow[] {
  const { sinceDay, untilDay, organization, key } = query
  const sums = new UsageSums()
  for (const row of rows) sums.add(row, row)
  for (const { usage } of tail) {
    for (const { place, figures } of usage.map(usageOfRow)) {
      if (place.day < sinceDay || place.day >= untilDay) continue
      if (place.organization !== (organization ?? place.organization) || place.key !== (key ?? place.key)) continue
      sums.add(place, figures)
    }
  }
  const summed: UsageRow[] = []
  sums.each(({ day, organization, key, series }, figures) => {
    if (isAnyUsage(figures)) summed.push({ day, organization, key, series, ...figures })
  })
  return summed
}

export class EmbeddedAuditLog extends SqliteReader implements AuditLog {
  async *read(query: AuditQuery): AsyncGenerator<readonly AuditRow[]> {
    if (query.id !== undefined) {
      const row = this.find(query, query.id)
      if (row !== undefined) yield [row]
      return
    }
    const [trail, corrected] = this.from((database, tail) => [
      trailOf(database, tail),
      correctedOf(database, tail, query.sinceMs),
    ]) ?? [NO_TRAIL, new Set<string>()]
    for (const page of this.pages(query, trail)) {
      const rows = page.filter(({ id, kind }) => kind !== 'lost' || !corrected.has(id))
      if (rows.length > 0) yield rows
    }
  }

  /** The last row of one request. The time in its id limits the search. */
  private find(query: AuditQuery, id: string): AuditRow | undefined {
    const admittedMs = requestTimeMs(id)
    const ends = admittedMs === undefined ? [query] : endsOf(admittedMs)
    const trail = this.from(trailOf) ?? NO_TRAIL
    let found: AuditRow | undefined
    for (const { sinceMs, untilMs } of ends) {
      const narrow = { sinceMs: Math.max(sinceMs, query.sinceMs), untilMs: Math.min(untilMs, query.untilMs) }
      for (const rows of this.pages({ ...query, ...narrow }, trail, narrow.untilMs + GATHERED_MS)) {
        found = rows.at(-1) ?? found
        if (found !== undefined && found.kind !== 'lost') return found
      }
    }
    return found
  }

  /**
   * The rows of the query page by page, up to the first commit that is not before `endMs`, then those that are only in
   * the journal.
   */
  private *pages(
    query: AuditQuery,
    { last, rows }: Trail,
    endMs = Number.POSITIVE_INFINITY,
  ): Generator<readonly AuditRow[]> {
    let after: Commit | undefined = { endedMs: query.sinceMs, number: -1 }
    while (after !== undefined && after.endedMs < endMs) {
      const from: Commit = after
      const page: RowPage | undefined = this.fromDatabase((database) => readPage(database, query, from, last))
      yield page?.rows ?? []
      after = page?.last
    }
    yield rows.filter((row) => isWanted(row, query))
  }
}

/** What the trail has at one moment. */
interface Trail {
  /** The number of the last commit in SQLite; later ones repeat `rows`. */
  readonly last: number
  /** Rows that were only in the journal. */
  readonly rows: readonly AuditRow[]
}

const NO_TRAIL: Trail = { last: 0, rows: [] }

function trailOf(database: Database, tail: readonly Group<Row>[]): Trail {
  return { last: lastCommit(database), rows: tail.flatMap((group) => group.rows.map(rowOfValues)) }
}

/** Ids of requests that were lost and then settled or cancelled: only their second row counts. */
function correctedOf(database: Database, tail: readonly Group<Row>[], sinceMs: number): ReadonlySet<string> {
  const late = trailOf(database, tail).rows.filter(({ kind }) => kind === 'late' || kind === 'withdrawn')
  return new Set([...readCorrected(database, sinceMs), ...late.map(({ id }) => id)])
}

function isWanted(row: AuditRow, { sinceMs, untilMs, organization, key, id }: AuditQuery): boolean {
  if (row.endedMs < sinceMs || row.endedMs >= untilMs) return false
  if (row.organization !== (organization ?? row.organization) || row.key !== (key ?? row.key)) return false
  return row.id === (id ?? row.id)
}

/**
 * The time of a commit is the end time of its last row. If earlier commits failed, its other rows may have ended this
 * much earlier.
 */
const GATHERED_MS = 60_000

export class EmbeddedAccountUsageReader extends SqliteReader implements AccountUsageReader {
  constructor(
    directory: string,
    private readonly now: () => number = Date.now,
  ) {
    super(directory)
  }

  async read(account: Account): Promise<AccountUsage> {
    const found = this.from((database, tail) => this.storeFor(account, storedScopes(database, tail)))
    return (found ?? this.storeFor(account)).figures(account)
  }

  async readAll(accounts: readonly Account[]): Promise<readonly AccountUsage[]> {
    const stores = this.from((database, tail) => {
      const stored = storedScopes(database, tail)
      return accounts.map((account) => this.storeFor(account, stored))
    })
    return accounts.map((account, i) => (stores?.[i] ?? this.storeFor(account)).figures(account))
  }

  /** Of files all are read at once, whichever are asked for. */
  async counters(organizations: readonly string[], which: 'all' | 'refused'): Promise<readonly (readonly string[])[]> {
    const isAll = which === 'all'
    const found = this.from((database, tail) => {
      const query = database.query<{ key: string }, [string]>(
        `SELECT key FROM scope WHERE organization = ? AND key >= 'b' AND key < 'c'
           AND ${isAll ? 'true' : `(${REFUSED_COLUMNS.join(' OR ')})`}`,
      )
      const names = new Map(
        organizations.map((organization) => [organization, new Set(query.all(organization).map(({ key }) => key))]),
      )
      for (const { scopes } of tail) {
        for (const row of scopes) {
          const key = String(row['key'])
          const own = names.get(String(row['organization']))
          if (own === undefined || !key.startsWith('b')) continue
          if (row['until_ms'] === HAS_ENDED) own.delete(key)
          else if (isAll || REFUSED_COLUMNS.some((column) => Number(row[column]) > 0)) own.add(key)
        }
      }
      return names
    })
    return organizations.map((organization) => Array.from(found?.get(organization) ?? [], (key) => key.slice(1)))
  }

  async preview(account: Account, hold: Hold): Promise<ReserveReply> {
    const { organization } = account
    const found = this.from((database, tail) => {
      const live = liveOfOrganization(database, tail, organization)
      return this.storeFor(account, storedScopes(database, tail), live)
    })
    const store = found ?? this.storeFor(account)
    if (account.budgets?.some(({ isBounded }) => isBounded) === true) {
      const [all = []] = await this.counters([organization], 'all')
      store.setCounterCount(organization, all.length)
    }
    return store.reserve(account, hold)
  }

  async warning(): Promise<undefined> {}

  /** The gateway's own store with the state of an account, whose figures and decisions are then the gateway's. */
  private storeFor(
    account: Account,
    stored: StoredScopes = () => undefined,
    live: readonly ReservationState[] = [],
  ): MemoryStore {
    const store = new MemoryStore({ now: this.now }, NO_CHANGES)
    const names = ['', `k${account.key}`, ...termsOf(account).scopeNames]
    store.restore(
      names.flatMap((name) => stored(account.organization, name) ?? []),
      live,
    )
    return store
  }
}

/** Returns a new copy of a scope as it was last stored; undefined if it never was. */
type StoredScopes = (organization: string, key: string) => ScopeState | undefined

/** Only valid while the database is open. */
function storedScopes(database: Database, tail: readonly Group<Row>[]): StoredScopes {
  const scopeName = (organization: Value | undefined, key: Value | undefined) => `${organization}\0${key}`
  const last = new Map<string, Row>()
  for (const { scopes } of tail) for (const row of scopes) last.set(scopeName(row['organization'], row['key']), row)
  return (organization, key) => {
    const row = last.get(scopeName(organization, key))
    return row === undefined ? readScope(database, organization, key) : scopeOf(row)
  }
}

const NO_CHANGES: Changes = { scope() {}, reservation() {}, forgotten() {}, used() {}, ended() {} }

/** Its reservations that run. */
function liveOfOrganization(
  database: Database,
  tail: readonly Group<Row>[],
  organization: string,
): readonly ReservationState[] {
  const live = new Map(readReservations(database, 'live', organization).map((one) => [one.id, one]))
  for (const group of tail) {
    for (const values of group.rows) live.delete(idOfRow(values))
    for (const row of group.live) if (row['organization'] === organization) live.set(String(row['id']), liveOf(row))
  }
  return [...live.values()]
}

const DAY = budgetLimits.findIndex(({ window }) => window === 'day')

export class EmbeddedKeyActivityReader extends SqliteReader implements KeyActivityReader {
  async read(organization: string, keys: readonly string[]): Promise<ReadonlyMap<string, KeyActivity>> {
    const nowMs = Date.now()
    const found = this.from((database, tail) => {
      const stored = storedScopes(database, tail)
      return keys.flatMap((id) => {
        const scope = stored(organization, `k${id}`)
        if (scope === undefined) return []
        const { spent = 0, held = 0 } = scope.budgets[DAY] ?? {}
        const day = { usedMs: scope.at, window: scope.windows[DAY] ?? 0, spent, held }
        return [[id, activityOf(day, nowMs)] as const]
      })
    })
    return new Map(found)
  }
}

/** Only the ledger's owner writes the files: what was taken stays for a day, and the reader skips it. */
export class EmbeddedCrossingReader extends SqliteReader implements CrossingReader {
  /** The names of what was taken. A crossing with more spent has another name. */
  private taken = new Set<string>()

  async read(): Promise<readonly SpendCrossing[]> {
    const rows = this.from((database, tail) => [
      ...database.query<Row, []>('SELECT * FROM crossing').all(),
      ...tail.flatMap(({ crossings }) => crossings),
    ])
    const found = (rows ?? []).map(crossingOf).filter((one) => one !== undefined)
    const names = new Set(found.map(nameOf))
    this.taken = this.taken.intersection(names)
    return found.filter((one) => !this.taken.has(nameOf(one)))
  }

  async take(crossings: readonly SpendCrossing[]): Promise<void> {
    for (const one of crossings) this.taken.add(nameOf(one))
  }
}

function nameOf({ organization, key, counter, budget, window, spentMicroUsd, isRefusal }: SpendCrossing): string {
  return JSON.stringify([organization, key, counter, budget, window, spentMicroUsd, isRefusal])
}
