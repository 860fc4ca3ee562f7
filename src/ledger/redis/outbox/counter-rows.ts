/**
 * What this node's settlements have spent in counters of budgets, in the outbox, and what of it is given back to an
 * epoch. Owns the SQL of both.
 */

import type { Database } from 'bun:sqlite'
import { budgetLimits } from '../../../core/limits.ts'
import type { Account } from '../../ledger.ts'
import { CLOCK_SKEW_MS } from '../../reservation-store.ts'
import { windowsIn } from '../../window.ts'
import {
  type AccountSpend,
  addedInWindows,
  addSpend,
  type CounterSpend,
  type KeptCounters,
  spendByCounter,
  spendOf,
} from '../protocol/counter-spend.ts'
import type { Settlement } from '../protocol/settlement.ts'

/** Counters that end within this time are looked up in Redis: several times before they end. */
const SOON_MS = 300_000
/** As many at once as one call to Redis takes. */
const ENDING_MAX = 500

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

/** Where the values begin of the latest windows that may be present. */
const PRESENT = NOW + 1

/**
 * Adds to the row of a counter, in the later of their windows each; to one that has ended, nothing is added.
 *
 * A window in the future is taken for the present one: a clock was ahead, and Redis may have been set back
 * (`window-reset.ts`). Without this the row lacks what is spent until then, and what was spent in the future is given
 * back twice.
 */
const ADD_SQL = `
  INSERT INTO counter_spent (${COLUMNS.join(', ')}) VALUES (${COLUMNS.map((_, i) => `?${i + 1}`).join(', ')})
  ON CONFLICT DO UPDATE SET
    time_zone = excluded.time_zone,
    kept_ms = iif(kept_ms <= ?${NOW}, excluded.kept_ms, max(kept_ms, excluded.kept_ms)),
    ${WINDOWS.map((name, i) => {
      const known = `min(${name}, max(excluded.${name}, ?${PRESENT + i}))`
      return `${name} = iif(kept_ms <= ?${NOW}, excluded.${name}, max(${known}, excluded.${name})),
    ${name}_spent = CASE
      WHEN kept_ms <= ?${NOW} OR excluded.${name} > ${known} THEN excluded.${name}_spent
      WHEN excluded.${name} = ${known} THEN min(${Number.MAX_SAFE_INTEGER}, ${name}_spent + excluded.${name}_spent)
      ELSE ${name}_spent END`
    }).join(',\n    ')}`

export class CounterRows {
  private readonly statements: ReturnType<typeof prepare>
  /** The last row that `ending` returned. */
  private endingTo = 0

  constructor(database: Database) {
    this.statements = prepare(database)
  }

  /** Adds sums; inside a transaction. */
  add(sums: CounterSums, nowMs: number): void {
    // Redis' clock, which decides the windows, may be ahead of this one by as much.
    const latestMs = nowMs + CLOCK_SKEW_MS
    for (const sum of sums.all(nowMs)) {
      this.statements.add.run(...valuesOf(sum), nowMs, ...windowsIn(sum.timeZone, latestMs).windows)
    }
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

  /** The names of some counters that end soon, by organisation; the next call returns those after them. */
  ending(nowMs: number): ReadonlyMap<string, readonly string[]> {
    const rows = this.statements.ending.all(this.endingTo, nowMs + SOON_MS, ENDING_MAX)
    this.endingTo = rows.length < ENDING_MAX ? 0 : (rows.at(-1)?.place ?? 0)
    const names = new Map<string, string[]>()
    for (const { organization, counter } of rows) names.getOrInsert(organization, []).push(counter)
    return names
  }

  /** Notes until when Redis keeps counters; undefined: it has ended. Inside a transaction. */
  keep(organization: string, keptMs: KeptCounters['keptMs'], nowMs: number): void {
    for (const [counter, ms] of keptMs) {
      if (ms === undefined) this.statements.drop.run(organization, counter, nowMs)
      else this.statements.keep.run(organization, counter, ms)
    }
  }
}

/** What the settlements of one commit have spent, by counter. */
export class CounterSums {
  /** The sum of each account: most settlements of a commit are of few accounts. */
  private readonly ofAccounts = new Map<Account, AccountSpend>()

  add(settlement: Settlement): void {
    const spend = spendOf(settlement)
    if (spend === undefined) return
    const { account } = spend
    const known = this.ofAccounts.get(account)
    this.ofAccounts.set(account, known === undefined ? spend : { account, ...addedInWindows(known, spend) })
  }

  all(nowMs: number): Iterable<CounterSpend> {
    const sums = new Map<string, CounterSpend>()
    for (const ofAccount of this.ofAccounts.values()) {
      for (const spend of spendByCounter(ofAccount, nowMs)) {
        const name = `${spend.organization}\0${spend.counter}`
        const known = sums.get(name)
        sums.set(name, known === undefined ? spend : addSpend(known, spend))
      }
    }
    return sums.values()
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
    ending: database.query<{ place: number; organization: string; counter: string }, [number, number, number]>(
      `SELECT rowid AS place, organization, counter FROM counter_spent
       WHERE rowid > ? AND kept_ms <= ? ORDER BY rowid LIMIT ?`,
    ),
    keep: database.query(
      'UPDATE counter_spent SET kept_ms = ?3 WHERE organization = ?1 AND counter = ?2 AND kept_ms < ?3',
    ),
    // A request that was settled since then has begun it anew.
    drop: database.query('DELETE FROM counter_spent WHERE organization = ? AND counter = ? AND kept_ms <= ?'),
  }
}
