/**
 * What this node's settlements have spent in counters of budgets, in the outbox, and what of it is given back to an
 * epoch. Owns the SQL of both.
 */

import type { Database } from 'bun:sqlite'
import { budgetLimits } from '../../../core/limits.ts'
import { addSpend, type CounterSpend, spendOf } from '../protocol/counter-spend.ts'
import type { Settlement } from '../protocol/settlement.ts'

/** How often a part of the rows is searched for counters that have ended, and how many rows. */
const SWEPT_EVERY_MS = 5000
const SWEPT_AT_ONCE = 1000

const WINDOWS = budgetLimits.map(({ name }) => name)
/** A column for the window of each budget, and one for what was spent in it; of a budget from later, both are 0. */
export const COUNTER_DEFINITIONS: readonly string[] = WINDOWS.flatMap((name) => [
  `${name} INTEGER NOT NULL DEFAULT 0`,
  `${name}_spent INTEGER NOT NULL DEFAULT 0`,
])
const AMOUNTS = WINDOWS.flatMap((name) => [name, `${name}_spent`])

/** `counter_given`: the numbers follow those of `given_back`. */
export const COUNTER_TABLES = `
  CREATE TABLE IF NOT EXISTS counter_spent (
    organization TEXT NOT NULL, counter TEXT NOT NULL, time_zone TEXT NOT NULL, kept_ms INTEGER NOT NULL,
    ${COUNTER_DEFINITIONS.join(', ')}, UNIQUE (organization, counter)
  );
  CREATE TABLE IF NOT EXISTS counter_given (
    organization TEXT NOT NULL, number INTEGER NOT NULL, counter TEXT NOT NULL, time_zone TEXT NOT NULL,
    kept_ms INTEGER NOT NULL, ${COUNTER_DEFINITIONS.join(', ')}, PRIMARY KEY (organization, number)
  ) WITHOUT ROWID;`

type Stored = { readonly organization: string; readonly counter: string; readonly timeZone: string } & {
  readonly keptMs: number
} & Readonly<Record<string, number | string>>

const COLUMNS = ['organization', 'counter', 'time_zone', 'kept_ms', ...AMOUNTS]
const SELECTED = `organization, counter, time_zone AS timeZone, kept_ms AS keptMs, ${AMOUNTS.join(', ')}`
const NOW = COLUMNS.length + 1

/** Adds to the row of a counter, in the later of their windows each; to one that has ended, nothing is added. */
const ADD_SQL = `
  INSERT INTO counter_spent (${COLUMNS.join(', ')}) VALUES (${COLUMNS.map((_, i) => `?${i + 1}`).join(', ')})
  ON CONFLICT DO UPDATE SET
    time_zone = excluded.time_zone,
    kept_ms = iif(kept_ms <= ?${NOW}, excluded.kept_ms, max(kept_ms, excluded.kept_ms)),
    ${WINDOWS.map(
      (name) => `${name} = iif(kept_ms <= ?${NOW}, excluded.${name}, max(${name}, excluded.${name})),
    ${name}_spent = CASE
      WHEN kept_ms <= ?${NOW} OR excluded.${name} > ${name} THEN excluded.${name}_spent
      WHEN excluded.${name} = ${name} THEN min(${Number.MAX_SAFE_INTEGER}, ${name}_spent + excluded.${name}_spent)
      ELSE ${name}_spent END`,
    ).join(',\n    ')}`

export class CounterRows {
  private readonly statements: ReturnType<typeof prepare>
  private sweptMs = 0
  private sweptTo = 0

  constructor(database: Database) {
    this.statements = prepare(database)
  }

  /** Adds sums; inside a transaction. */
  add(sums: CounterSums, nowMs: number): void {
    for (const sum of sums.all()) this.statements.add.run(...valuesOf(sum), nowMs)
  }

  of(organization: string): readonly CounterSpend[] {
    return this.statements.all.all(organization).map(spendOfRow)
  }

  /** The names of the counters of an organisation. */
  names(organization: string): readonly string[] {
    return this.statements.names.all(organization).map(({ counter }) => counter)
  }

  /** Replaces what is given back to an organisation; `first` is the number of the first. */
  give(organization: string, first: number, rows: readonly CounterSpend[]): void {
    this.statements.clear.run(organization)
    for (const [i, row] of rows.entries()) {
      const [, ...values] = valuesOf(row)
      this.statements.give.run(organization, first + i, ...values)
    }
  }

  given(organization: string): readonly CounterSpend[] {
    return this.statements.given.all(organization).map(spendOfRow)
  }

  /** Deletes some of the counters that have ended: each call a few, so that every commit stays short. */
  dropEnded(nowMs: number): void {
    if (nowMs - this.sweptMs < SWEPT_EVERY_MS) return
    this.sweptMs = nowMs
    const last = this.statements.last.get(this.sweptTo, SWEPT_AT_ONCE)?.last ?? 0
    if (last > 0) this.statements.drop.run(this.sweptTo, last, nowMs)
    this.sweptTo = last
  }
}

/** What the settlements of one commit have spent, by counter. */
export class CounterSums {
  private readonly sums = new Map<string, CounterSpend>()

  add(settlement: Settlement, nowMs: number): void {
    for (const spend of spendOf(settlement, nowMs)) {
      const name = `${spend.organization}\0${spend.counter}`
      const known = this.sums.get(name)
      this.sums.set(name, known === undefined ? spend : addSpend(known, spend))
    }
  }

  all(): Iterable<CounterSpend> {
    return this.sums.values()
  }
}

function valuesOf({ organization, counter, timeZone, keptMs, windows, spent }: CounterSpend) {
  const amounts = WINDOWS.flatMap((_, i) => [windows[i] ?? 0, spent[i] ?? 0])
  return [organization, counter, timeZone, keptMs, ...amounts]
}

function spendOfRow(row: Stored): CounterSpend {
  const { organization, counter, timeZone, keptMs } = row
  const windows = WINDOWS.map((name) => Number(row[name]))
  const spent = WINDOWS.map((name) => Number(row[`${name}_spent`]))
  return { organization, counter, timeZone, keptMs, windows, spent }
}

function prepare(database: Database) {
  const giveNames = ['organization', 'number', ...COLUMNS.slice(1)]
  return {
    add: database.query(ADD_SQL),
    all: database.query<Stored, [string]>(`SELECT ${SELECTED} FROM counter_spent WHERE organization = ?`),
    names: database.query<{ counter: string }, [string]>('SELECT counter FROM counter_spent WHERE organization = ?'),
    clear: database.query('DELETE FROM counter_given WHERE organization = ?'),
    give: database.query(
      `INSERT INTO counter_given (${giveNames.join(', ')}) VALUES (${giveNames.map(() => '?').join(', ')})`,
    ),
    given: database.query<Stored, [string]>(
      `SELECT ${SELECTED} FROM counter_given WHERE organization = ? ORDER BY number`,
    ),
    last: database.query<{ last: number | null }, [number, number]>(
      `SELECT max(place) AS last FROM (
         SELECT rowid AS place FROM counter_spent WHERE rowid > ? ORDER BY rowid LIMIT ?)`,
    ),
    drop: database.query('DELETE FROM counter_spent WHERE rowid > ? AND rowid <= ? AND kept_ms <= ?'),
  }
}
