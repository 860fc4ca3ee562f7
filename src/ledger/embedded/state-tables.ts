/**
 * The tables with the state of the embedded ledger: its scopes, and the reservations that were live at the last commit,
 * or lost and not settled since.
 * Their columns are made from the table of limits.
 */

import type { Database, SQLQueryBindings, Statement } from 'bun:sqlite'
import {
  type BudgetLimit,
  budgetLimits,
  byUnit,
  isOfOwners,
  type LimitUnit,
  limitUnits,
  ownerBudgetLimits,
  rateLimits,
} from '../../core/limits.ts'
import type { Schema } from '../../sqlite/database.ts'
import { LOG_SQL, LOG_VIEWS } from '../request-table.ts'
import { scopeNames } from '../reservation-store.ts'
import { FIGURE_DEFINITIONS } from '../usage-figures.ts'
import { NEVER_MS } from '../window.ts'
import { CROSSING_SQL } from './crossing-table.ts'
import { UNLINKED } from './reservation-index.ts'
import { HAS_ENDED, NO_CROSSINGS, NOT_CHARGED, type ReservationState, type ScopeState } from './store-state.ts'

export const LEDGER_FILE = 'ledger.sqlite'

export type Value = string | number
export type Row = Readonly<Record<string, Value>>

interface Column {
  readonly name: string
  readonly type: 'TEXT' | 'INTEGER' | 'REAL'
  /** What of the state is stored in it, as source text for `valuesOf`. */
  readonly property: string
}

/** Units whose column the first version of the file named differently. */
const HELD_COLUMNS: Readonly<Partial<Record<LimitUnit, string>>> = { tokens: 'accounted_tokens', micro_usd: 'held' }
/** Units of which every request holds one: they need no column. */
const HELD_ONE: readonly LimitUnit[] = ['requests']

const heldColumn = (unit: LimitUnit) => HELD_COLUMNS[unit] ?? `held_${unit}`
const storedUnits = limitUnits.filter((unit) => !HELD_ONE.includes(unit))
/** The window of a budget that never renews is not stored. */
const endingBudgets = ownerBudgetLimits.flatMap((limit, index) =>
  limit.window === 'total' ? [] : [{ ...limit, index }],
)

const SCOPE_COLUMNS: readonly Column[] = [
  { name: 'organization', type: 'TEXT', property: 'state.organization' },
  { name: 'key', type: 'TEXT', property: 'state.key' },
  { name: 'at_ms', type: 'INTEGER', property: 'state.at' },
  ...rateLimits.map(({ name }, i): Column => ({ name, type: 'REAL', property: `state.rates[${i}].used` })),
  { name: 'live', type: 'INTEGER', property: 'state.live' },
  ...budgetLimits.flatMap((limit, i): readonly Column[] => {
    const { name, window } = limit
    // Only counters have the others, and the ends of windows.
    const [mark, otherwise] = isOfOwners(limit) ? ['', ''] : ['?', ' ?? 0']
    const budget = (property: string) => `(state.budgets[${i}]${mark}.${property}${otherwise})`
    return [
      ...(window === 'total' ? [] : [integer(name, `(state.windows[${i}]${otherwise})`)]),
      integer(`${name}_spent`, budget('spent')),
      integer(`${name}_held`, budget('held')),
      integer(`${name}_refused`, budget('refused')),
      integer(`${name}_refused_in`, budget('refusedIn')),
      ...(window === 'total' ? [] : [integer(`${name}_ends_ms`, `(state.ends[${i}] ?? 0)`)]),
    ]
  }),
  integer('until_ms', 'state.untilMs'),
]

/** Those that are not 0 after a limit has refused a request because of what is spent. */
export const REFUSED_COLUMNS = budgetLimits.map(({ name }) => `${name}_refused`)

function integer(name: string, property: string): Column {
  return { name, type: 'INTEGER', property }
}

const LIVE_COLUMNS: readonly Column[] = [
  { name: 'id', type: 'TEXT', property: 'state.id' },
  { name: 'organization', type: 'TEXT', property: 'state.organization' },
  { name: 'key', type: 'TEXT', property: 'state.key' },
  { name: 'model', type: 'TEXT', property: 'state.series' },
  integer('admitted_ms', 'state.admittedMs'),
  integer('due_ms', 'state.dueMs'),
  integer('input_tokens', 'state.inputTokens'),
  ...storedUnits.map((unit) => integer(heldColumn(unit), `state.held.${unit}`)),
  integer('posted_input', 'state.postedInput'),
  integer('posted_output', 'state.postedOutput'),
  integer('posted', 'state.postedMicroUsd'),
  integer('floor', 'state.floorMicroUsd'),
  ...scopeNames.flatMap((scope, s) =>
    endingBudgets.map(({ name, index }) => integer(`${scope}_${name}`, `state.windows[${s}][${index}]`)),
  ),
  { name: 'counters', type: 'TEXT', property: 'countersText(state)' },
]

/** The counters of a reservation and their windows at its admission, as JSON; '' for none. */
function countersText({ counters, windows }: Pick<ReservationState, 'counters' | 'windows'>): string {
  return counters.length === 0 ? '' : JSON.stringify(counters.map((name, i) => [name, windows[i + 2]]))
}

function definition({ name, type }: { readonly name: string; readonly type: string }): string {
  // A column that an older file lacks is added to it, empty.
  return `${name} ${type} NOT NULL DEFAULT ${type === 'TEXT' ? "''" : 0}`
}

const SCOPE_SQL = SCOPE_COLUMNS.map(definition)
const LIVE_SQL = LIVE_COLUMNS.map(definition)

/** The number of the last group of the journal that the tables contain. */
const JOURNAL_SQL =
  'CREATE TABLE IF NOT EXISTS journal (one INTEGER PRIMARY KEY CHECK (one = 1), applied INTEGER NOT NULL)'

/** An earlier version that opens the file must not take a lost reservation for a live one. */
const LOST_SQL = `
  CREATE TABLE IF NOT EXISTS lost (${LIVE_SQL.join(', ')}, PRIMARY KEY (id)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS lost_due ON lost (due_ms)`

export const LEDGER_SCHEMA: Schema = {
  // A weir that does not know the journal would ignore changes that are only there, so it must refuse the file.
  version: 3,
  readableFrom: 2,
  migrations: { 2: JOURNAL_SQL },
  additions: `${JOURNAL_SQL}; ${CROSSING_SQL}; ${LOST_SQL}`,
  checked: ['scope', 'live'],
  columns: { scope: SCOPE_SQL, live: LIVE_SQL, lost: LIVE_SQL, usage: FIGURE_DEFINITIONS },
  views: LOG_VIEWS,
  sql: `
    CREATE TABLE scope (${SCOPE_SQL.join(', ')}, PRIMARY KEY (organization, key)) WITHOUT ROWID;
    CREATE TABLE live (${LIVE_SQL.join(', ')}, PRIMARY KEY (id)) WITHOUT ROWID;
    ${LOG_SQL}`,
}

/** All scopes of the file. */
export function readScopes(database: Database): readonly ScopeState[] {
  return database.query<Row, []>('SELECT * FROM scope').all().map(scopeOf)
}

/** One scope: an organisation's (key '') or a key's (`k` and its id). */
export function readScope(database: Database, organization: string, key: string): ScopeState | undefined {
  const query = database.query<Row, [string, string]>('SELECT * FROM scope WHERE organization = ? AND key = ?')
  const row = query.get(organization, key)
  return row === null ? undefined : scopeOf(row)
}

/**
 * The reservations that were live at the last commit, or those that were lost and not settled, of all organisations or
 * of one.
 */
export function readReservations(
  database: Database,
  state: 'live' | 'lost',
  organization: string | null = null,
): readonly ReservationState[] {
  const query = database.query<Row, [string | null]>(`SELECT * FROM ${state} WHERE ?1 IS NULL OR organization = ?1`)
  return query.all(organization).map((row) => liveOf(row, state))
}

/** A row of a table, by its columns in their order. */
type Values = readonly Value[]

/**
 * A function that returns the values of a state's columns. Generated code: every request that runs for longer than
 * 20 ms is written, and a loop over the columns took 0.4 µs longer.
 */
function valuesOf<State>(columns: readonly Column[]): (state: State) => Values {
  const values = columns.map(({ property }) => property).join(', ')
  return new Function('countersText', `return (state) => [${values}]`)(countersText)
}

export const scopeValues = valuesOf<ScopeState>(SCOPE_COLUMNS)
export const liveValues = valuesOf<ReservationState>(LIVE_COLUMNS)
export const SCOPE_NAMES: readonly string[] = SCOPE_COLUMNS.map(({ name }) => name)
export const LIVE_NAMES: readonly string[] = LIVE_COLUMNS.map(({ name }) => name)

/** The last group of the journal that the tables contain; 0 if there was none. */
export function readApplied(database: Database): number {
  return database.query<{ applied: number }, []>('SELECT applied FROM journal').get()?.applied ?? 0
}

type Insertion = Statement<unknown, SQLQueryBindings[]>

/** Writes the tables; for use inside a transaction. */
export class StateWriter {
  private readonly putScope: Insertion
  private readonly dropScope
  private readonly putLive: Insertion
  private readonly dropLive
  private readonly putLost: Insertion
  private readonly dropLost
  private readonly dropDue
  private readonly putApplied

  constructor(database: Database) {
    this.putScope = database.query<unknown, SQLQueryBindings[]>(insertion('scope', SCOPE_COLUMNS))
    this.dropScope = database.query('DELETE FROM scope WHERE organization = ? AND key = ?')
    this.putLive = database.query<unknown, SQLQueryBindings[]>(insertion('live', LIVE_COLUMNS))
    this.dropLive = database.query('DELETE FROM live WHERE id = ?')
    this.putLost = database.query<unknown, SQLQueryBindings[]>(insertion('lost', LIVE_COLUMNS))
    this.dropLost = database.query('DELETE FROM lost WHERE id = ?')
    this.dropDue = database.query('DELETE FROM lost WHERE due_ms <= ?')
    this.putApplied = database.query('INSERT OR REPLACE INTO journal VALUES (1, ?)')
  }

  scope(scope: ScopeState): void {
    if (scope.untilMs === HAS_ENDED) this.dropScope.run(scope.organization, scope.key)
    else this.putScope.run(...scopeValues(scope))
  }

  /** Deletes a reservation that has ended. */
  drop(id: string): void {
    this.dropLive.run(id)
    this.dropLost.run(id)
  }

  /** Stores a reservation that is live or lost. */
  keep(reservation: ReservationState): void {
    const isLost = reservation.state === 'lost'
    if (isLost) this.dropLive.run(reservation.id)
    const put = isLost ? this.putLost : this.putLive
    put.run(...liveValues(reservation))
  }

  /** Deletes lost reservations whose time is over. */
  dropLostBefore(ms: number): void {
    this.dropDue.run(ms)
  }

  /** The tables contain all groups of the journal up to this one. */
  applied(number: number): void {
    this.putApplied.run(number)
  }
}

function insertion(table: string, columns: readonly { readonly name: string }[]): string {
  const names = columns.map(({ name }) => name).join(', ')
  return `INSERT OR REPLACE INTO ${table} (${names}) VALUES (${columns.map(() => '?').join(', ')})`
}

/** A column that a file of an older version lacks counts as 0 or ''. */
function numberIn(row: Row, name: string): number {
  return Number(row[name] ?? 0)
}

function textIn(row: Row, name: string): string {
  return String(row[name] ?? '')
}

export function scopeOf(row: Row): ScopeState {
  const [organization, key, at] = [textIn(row, 'organization'), textIn(row, 'key'), numberIn(row, 'at_ms')]
  const isCounter = key.startsWith('b')
  const limits: readonly BudgetLimit[] = isCounter ? budgetLimits : ownerBudgetLimits
  const windows = limits.map(({ name, window }) => (window === 'total' ? 0 : numberIn(row, name)))
  return {
    organization,
    key,
    at,
    // No reservation of an earlier process is corrected, so the counts of an empty bucket begin anew.
    rates: rateLimits.map(({ name }) => ({ used: numberIn(row, name), at, idled: 0 })),
    live: numberIn(row, 'live'),
    windows,
    budgets: limits.map(({ name }, i) => ({
      spent: numberIn(row, `${name}_spent`),
      held: numberIn(row, `${name}_held`),
      refused: numberIn(row, `${name}_refused`),
      // An earlier version kept marks only of the window that the scope had opened.
      refusedIn: numberIn(row, `${name}_refused_in`) || (windows[i] ?? 0),
    })),
    ends: isCounter
      ? limits.map(({ name, window }) => (window === 'total' ? NEVER_MS : numberIn(row, `${name}_ends_ms`)))
      : [],
    untilMs: numberIn(row, 'until_ms'),
    crossings: NO_CROSSINGS,
    isChanged: false,
  }
}

export function liveOf(row: Row, state: 'live' | 'lost' = 'live'): ReservationState {
  const windowsOf = (scope: string) =>
    ownerBudgetLimits.map(({ name, window }) => (window === 'total' ? 0 : numberIn(row, `${scope}_${name}`)))
  const counters: readonly (readonly [name: string, windows: readonly number[]])[] = JSON.parse(
    textIn(row, 'counters') || '[]',
  )
  return {
    id: textIn(row, 'id'),
    organization: textIn(row, 'organization'),
    state,
    dueMs: numberIn(row, 'due_ms'),
    admittedMs: numberIn(row, 'admitted_ms'),
    key: textIn(row, 'key'),
    series: textIn(row, 'model'),
    inputTokens: numberIn(row, 'input_tokens'),
    held: byUnit((unit) => (HELD_ONE.includes(unit) ? 1 : numberIn(row, heldColumn(unit)))),
    postedInput: numberIn(row, 'posted_input'),
    postedOutput: numberIn(row, 'posted_output'),
    postedMicroUsd: numberIn(row, 'posted'),
    floorMicroUsd: numberIn(row, 'floor'),
    turn: 0,
    counters: counters.map(([name]) => name),
    windows: [windowsOf('organization'), windowsOf('key'), ...counters.map(([, windows]) => windows)],
    idled: [...scopeNames, ...counters].flatMap(() => rateLimits.map(() => NOT_CHARGED)),
    isChanged: false,
    isStored: true,
    place: -1,
    ...UNLINKED,
  }
}
