/**
 * Readers of the file of an embedded ledger: usage, audit trail, current use of an account's limits. A gateway may have
 * the file open.
 */

import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { amountsOf, type Limits } from '../../core/limits.ts'
import { requestTimeMs } from '../../core/request-id.ts'
import { openReadOnly } from '../../sqlite/database.ts'
import type { AuditRow } from '../audit-columns.ts'
import { type AuditLog, type AuditQuery, endsOf } from '../audit-log.ts'
import type { Account } from '../ledger.ts'
import type { AccountUsageReader } from '../remaining.ts'
import { readUsage } from '../request-table.ts'
import type { AccountUsage } from '../reservation-store.ts'
import type { UsageLog, UsageQuery, UsageRow } from '../usage-log.ts'
import { before, type Commit, type RowPage, readCorrected, readPage } from './audit-pages.ts'
import { advance } from './scope-moves.ts'
import { LEDGER_FILE, LEDGER_SCHEMA, readScope } from './state-tables.ts'
import { figuresOf, newScope } from './store-state.ts'

/**
 * Opens the file for each query: it does not exist before the first request, and the gateway can checkpoint its
 * write-ahead log only while no reader has it open.
 */
abstract class Reading {
  constructor(private readonly directory: string) {}

  async close(): Promise<void> {}

  protected from<T>(read: (database: Database) => T): T | undefined {
    const database = openReadOnly(join(this.directory, LEDGER_FILE), LEDGER_SCHEMA)
    if (database === undefined) return undefined
    try {
      return read(database)
    } finally {
      database.close()
    }
  }
}

export class EmbeddedUsageLog extends Reading implements UsageLog {
  async read(query: UsageQuery): Promise<readonly UsageRow[]> {
    return this.from((database) => readUsage(database, query)) ?? []
  }
}

export class EmbeddedAuditLog extends Reading implements AuditLog {
  async *read(query: AuditQuery): AsyncGenerator<readonly AuditRow[]> {
    if (query.id !== undefined) {
      const row = this.find(query, query.id)
      if (row !== undefined) yield [row]
      return
    }
    const corrected = this.from((database) => readCorrected(database, query.sinceMs)) ?? new Set<string>()
    for (const page of this.pages(query)) {
      const rows = page.filter(({ id, kind }) => kind !== 'lost' || !corrected.has(id))
      if (rows.length > 0) yield rows
    }
  }

  /** The last row of one request. The time in its id limits the search. */
  private find(query: AuditQuery, id: string): AuditRow | undefined {
    const admittedMs = requestTimeMs(id)
    const ends = admittedMs === undefined ? [query] : endsOf(admittedMs)
    let found: AuditRow | undefined
    for (const { sinceMs, untilMs } of ends) {
      const narrow = { sinceMs: Math.max(sinceMs, query.sinceMs), untilMs: Math.min(untilMs, query.untilMs) }
      for (const rows of this.pages({ ...query, ...narrow }, narrow.untilMs + GATHERED_MS)) {
        found = rows.at(-1) ?? found
        if (found !== undefined && found.kind !== 'lost') return found
      }
    }
    return found
  }

  /** The rows of the query page by page, up to the first commit that is not before `endMs`. */
  private *pages(query: AuditQuery, endMs = Number.POSITIVE_INFINITY): Generator<readonly AuditRow[]> {
    for (let after: Commit | undefined = before(query.sinceMs); after !== undefined; ) {
      const page: RowPage = this.pageAfter(query, after)
      yield page.rows
      after = page.last
      if (after !== undefined && after.endedMs >= endMs) return
    }
  }

  private pageAfter(query: AuditQuery, after: Commit): RowPage {
    return this.from((database) => readPage(database, query, after)) ?? { rows: [], last: undefined }
  }
}

/**
 * The time of a commit is the end time of its last row. If earlier commits failed, its other rows may have ended this
 * much earlier.
 */
const GATHERED_MS = 60_000

export class EmbeddedAccountUsageReader extends Reading implements AccountUsageReader {
  constructor(
    directory: string,
    private readonly now: () => number = Date.now,
  ) {
    super(directory)
  }

  async read(account: Account): Promise<AccountUsage> {
    const now = this.now()
    const { organization, organizationLimits, keyLimits } = account
    const usageOf = (key: string, limits: Limits) => {
      const scope = this.from((database) => readScope(database, organization, key)) ?? newScope(organization, key, now)
      advance(scope, amountsOf(limits), now)
      return figuresOf(scope)
    }
    return { organization: usageOf('', organizationLimits), key: usageOf(`k${account.key}`, keyLimits) }
  }

  async warning(): Promise<undefined> {}
}
