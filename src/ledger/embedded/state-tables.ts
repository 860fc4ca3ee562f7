/** The tables that hold the state of the embedded book: its scopes, and the reservations that were live at the last commit. Owns their SQL. */

import type { Database } from 'bun:sqlite'
import type { Schema } from '../../sqlite/database.ts'
import { LOG_SQL, LOG_VIEWS } from '../request-table.ts'
import { FIGURE_DEFINITIONS } from '../usage-figures.ts'
import { type ReservationState, type ScopeState, scopeName, UNCHARGED } from './store-state.ts'

export const LEDGER_FILE = 'ledger.sqlite'

export const LEDGER_SCHEMA: Schema = {
  version: 2,
  checked: ['scope', 'live'],
  columns: { usage: FIGURE_DEFINITIONS },
  views: LOG_VIEWS,
  sql: `
    CREATE TABLE scope (
      organization TEXT NOT NULL, key TEXT NOT NULL, at_ms INTEGER NOT NULL, requests REAL NOT NULL, tokens REAL NOT NULL, live INTEGER NOT NULL,
      day INTEGER NOT NULL, day_spent INTEGER NOT NULL, day_held INTEGER NOT NULL,
      month INTEGER NOT NULL, month_spent INTEGER NOT NULL, month_held INTEGER NOT NULL,
      total_spent INTEGER NOT NULL, total_held INTEGER NOT NULL, PRIMARY KEY (organization, key)
    ) WITHOUT ROWID;
    CREATE TABLE live (
      id TEXT PRIMARY KEY, organization TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
      admitted_ms INTEGER NOT NULL, due_ms INTEGER NOT NULL, input_tokens INTEGER NOT NULL, accounted_tokens INTEGER NOT NULL,
      held INTEGER NOT NULL, posted_input INTEGER NOT NULL, posted_output INTEGER NOT NULL, posted INTEGER NOT NULL, floor INTEGER NOT NULL,
      organization_day INTEGER NOT NULL, organization_month INTEGER NOT NULL, key_day INTEGER NOT NULL, key_month INTEGER NOT NULL
    ) WITHOUT ROWID;
    ${LOG_SQL}`,
}

interface StoredScope {
  readonly organization: string
  readonly key: string
  readonly at_ms: number
  readonly requests: number
  readonly tokens: number
  readonly live: number
  readonly day: number
  readonly day_spent: number
  readonly day_held: number
  readonly month: number
  readonly month_spent: number
  readonly month_held: number
  readonly total_spent: number
  readonly total_held: number
}

interface StoredLive {
  readonly id: string
  readonly organization: string
  readonly key: string
  readonly model: string
  readonly admitted_ms: number
  readonly due_ms: number
  readonly input_tokens: number
  readonly accounted_tokens: number
  readonly held: number
  readonly posted_input: number
  readonly posted_output: number
  readonly posted: number
  readonly floor: number
  readonly organization_day: number
  readonly organization_month: number
  readonly key_day: number
  readonly key_month: number
}

/** Every scope there is. */
export function readScopes(database: Database): readonly ScopeState[] {
  return database.query<StoredScope, []>('SELECT * FROM scope').all().map(scopeOf)
}

/** One scope: an organisation's (key '') or a key's (`k` and its id). */
export function readScope(database: Database, organization: string, key: string): ScopeState | undefined {
  const query = database.query<StoredScope, [string, string]>('SELECT * FROM scope WHERE organization = ? AND key = ?')
  const row = query.get(organization, key)
  return row === null ? undefined : scopeOf(row)
}

/** The reservations that were live at the last commit. */
export function readLive(database: Database): readonly ReservationState[] {
  return database.query<StoredLive, []>('SELECT * FROM live').all().map(liveOf)
}

/** Writes both tables; for use inside a transaction. */
export class StateWriter {
  private readonly putScope
  private readonly putLive
  private readonly dropLive

  constructor(database: Database) {
    this.putScope = database.query('INSERT OR REPLACE INTO scope VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)')
    this.putLive = database.query(
      'INSERT OR REPLACE INTO live VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    )
    this.dropLive = database.query('DELETE FROM live WHERE id = ?')
  }

  scope({ organization, key, at, requests, tokens, live, budgets }: ScopeState): void {
    const [day, month, total] = budgets
    const rates = [requests.used, tokens.used]
    const spend = [day.window, day.spent, day.held, month.window, month.spent, month.held, total.spent, total.held]
    this.putScope.run(organization, key, at, ...rates, live, ...spend)
  }

  /** Lets go of a reservation that has ended. */
  drop(id: string): void {
    this.dropLive.run(id)
  }

  /** Keeps a live one. */
  keep(reservation: ReservationState): void {
    const [[organizationDay = 0, organizationMonth = 0], [keyDay = 0, keyMonth = 0]] = reservation.windows
    this.putLive.run(
      reservation.id,
      reservation.organization,
      reservation.key,
      reservation.model,
      reservation.admittedMs,
      reservation.dueMs,
      reservation.inputTokens,
      reservation.accountedTokens,
      reservation.heldMicroUsd,
      reservation.postedInput,
      reservation.postedOutput,
      reservation.postedMicroUsd,
      reservation.floorMicroUsd,
      organizationDay,
      organizationMonth,
      keyDay,
      keyMonth,
    )
  }
}

function scopeOf(row: StoredScope): ScopeState {
  return {
    organization: row.organization,
    key: row.key,
    name: scopeName(row.organization, row.key),
    at: row.at_ms,
    // In a new process nothing that was charged before can come back.
    requests: { used: row.requests, at: row.at_ms, idled: 0 },
    tokens: { used: row.tokens, at: row.at_ms, idled: 0 },
    live: row.live,
    budgets: [
      { window: row.day, spent: row.day_spent, held: row.day_held },
      { window: row.month, spent: row.month_spent, held: row.month_held },
      { window: 0, spent: row.total_spent, held: row.total_held },
    ],
  }
}

function liveOf(row: StoredLive): ReservationState {
  return {
    id: row.id,
    organization: row.organization,
    state: 'live',
    dueMs: row.due_ms,
    admittedMs: row.admitted_ms,
    key: row.key,
    model: row.model,
    inputTokens: row.input_tokens,
    accountedTokens: row.accounted_tokens,
    heldMicroUsd: row.held,
    postedInput: row.posted_input,
    postedOutput: row.posted_output,
    postedMicroUsd: row.posted,
    floorMicroUsd: row.floor,
    windows: [
      [row.organization_day, row.organization_month, 0],
      [row.key_day, row.key_month, 0],
    ],
    charged: [UNCHARGED, UNCHARGED],
  }
}
