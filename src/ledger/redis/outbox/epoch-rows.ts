/**
 * The epochs of organisations in the outbox, and what to give back to each: the usage that Redis lacks, minus the
 * settlements that are resent one by one. Owns the SQL of both.
 */

import type { Database } from 'bun:sqlite'
import type { AuditRow } from '../../audit-columns.ts'
import { addUsageSql, USAGE_SQL } from '../../request-table.ts'
import { addUsage, FIGURE_NAMES, figureValues, minusUsage, noUsage, type UsageFigures } from '../../usage-figures.ts'
import { foldUsageRows, type UsageRow, usageRowOf } from '../../usage-log.ts'
import { bucketOf } from '../../window.ts'
import { type CounterSpend, type GivenRow, lackingSpend, NO_COUNTERS_FOUND } from '../protocol/counter-spend.ts'
import type { EpochLog, Expected, FoundOfNode, KnownEpoch, LackingListener } from '../protocol/node-log.ts'
import { type Settlement, settlementOf, settlementOfRow, settlementText } from '../protocol/settlement.ts'
import type { CounterRows } from './counter-rows.ts'
import type { LogTail } from './log-tail.ts'
import { withSums } from './node-sums.ts'
import { type Logged, type Plan, RESEND_MAX, reconcile } from './reconcile.ts'

interface Absorbed {
  /** The number of the last entry that was read. */
  readonly last: number
  readonly count: number
}

interface StoredEpoch {
  readonly epoch: number
  readonly complete: number
  readonly served: number
  readonly legacyEpoch: number
  readonly isLegacy: number
}

/** After this time, as many may be resent again. */
const RESEND_SPAN_MS = 10_000
/** Settlements in one transaction: about 10 ms. */
const ABSORBED_AT_ONCE = 1000
/** The organisations of settlements that have no entries of their own yet, once for each. */
const GROUPED_SQL = 'SELECT organization FROM outbox_group JOIN request ON request.batch = outbox_group.batch'

export class EpochRows implements EpochLog {
  /** Redis keeps the figures of this node under it. */
  readonly node: string
  private readonly countServed
  private readonly resends = new Resends()

  constructor(
    private readonly database: Database,
    private readonly tail: LogTail,
    private readonly counters: CounterRows,
    private readonly now: () => number,
  ) {
    database.query('INSERT INTO node SELECT ? WHERE NOT EXISTS (SELECT 1 FROM node)').run(crypto.randomUUID())
    this.node = database.query<{ id: string }, []>('SELECT id FROM node').get()?.id ?? ''
    this.countServed = database.query(
      `INSERT INTO life (organization, life, complete, served) VALUES (?, 0, 0, ?)
       ON CONFLICT DO UPDATE SET served = served + excluded.served`,
    )
  }

  all(): readonly KnownEpoch[] {
    const query = this.database.query<StoredEpoch & { organization: string }, []>(
      `SELECT organization, ${EPOCH} FROM life`,
    )
    return query.all().map(({ organization, ...stored }) => knownEpoch(organization, stored))
  }

  of(organization: string): KnownEpoch {
    return knownEpoch(organization, this.stored(organization))
  }

  /**
   * Returns a function that is true for the current epoch of an organisation. Reads each organisation once; for one
   * transaction.
   */
  look(): (organization: string, epoch: number) => boolean {
    const seen = new Map<string, number>()
    return (organization, epoch) => seen.getOrInsertComputed(organization, () => this.of(organization).epoch) === epoch
  }

  /** Adds to the number of requests that are in `usage`. */
  served(organization: string, requests: number): void {
    this.countServed.run(organization, requests)
  }

  expected(organization: string): Expected {
    const { served = 0, isLegacy = 0 } = this.stored(organization) ?? {}
    const unrecorded = isLegacy === 1 ? this.rows('unrecorded', organization) : []
    return {
      requests: unrecorded.reduce((rest, { requests }) => rest - requests, served),
      pending: this.pendingCount(organization),
    }
  }

  /** With one query. */
  allExpected(): ReadonlyMap<string, Expected> {
    const pending = this.database.query<{ organization: string; n: number }, []>(
      `SELECT organization, count(*) AS n FROM (
         SELECT organization FROM outbox WHERE state = 0 UNION ALL ${GROUPED_SQL}
       ) GROUP BY organization`,
    )
    const counts = new Map(pending.all().map(({ organization, n }) => [organization, n]))
    const all = this.database.query<{ organization: string; served: number; isLegacy: number }, []>(
      'SELECT organization, served, is_legacy AS isLegacy FROM life',
    )
    return new Map(
      all.all().map(({ organization, served, isLegacy }) => {
        const expected = { requests: served, pending: counts.get(organization) ?? 0 }
        return [organization, isLegacy === 1 ? this.expected(organization) : expected]
      }),
    )
  }

  get foldedBefore(): number {
    return this.database.query<{ before: number }, []>('SELECT before FROM folded').get()?.before ?? 0
  }

  /** Notes that days before this one were folded; inside the same transaction. */
  folded(before: number): void {
    this.database
      .query('INSERT INTO folded VALUES (1, ?) ON CONFLICT DO UPDATE SET before = max(before, excluded.before)')
      .run(before)
  }

  /** The newest day in `usage`. */
  newestDay(): number {
    return this.database.query<{ day: number | null }, []>('SELECT max(day) AS day FROM usage').get()?.day ?? 0
  }

  places(organization: string): readonly UsageRow[] {
    return this.rows('usage', organization)
  }

  pendingCount(organization: string): number {
    // Few groups have settlements of it: without their accounts SQLite would read the rows of all groups.
    const query = this.database.query<{ n: number }, [string, string]>(
      `SELECT (SELECT count(*) FROM outbox WHERE state = 0 AND organization = ?1)
         + (SELECT count(*) FROM (${GROUPED_SQL} WHERE instr(accounts, ?2) > 0) WHERE organization = ?1) AS n`,
    )
    return query.get(organization, JSON.stringify(organization))?.n ?? 0
  }

  /**
   * Moves up to 1,000 pending settlements, from an entry on, into the sums that the epoch is given, except those whose
   * reservations are open. Returns the last entry that it read; undefined if there is none left. Inside a transaction.
   */
  absorb(organization: string, epoch: number, found: FoundOfNode, after: number): Absorbed | undefined {
    const known = this.of(organization).epoch
    // Another process has entered the epoch: what is pending now is what the epoch lacks.
    if (known === epoch) return undefined
    const query = this.database.query<{ number: number; id: string }, [string, number, number]>(
      `SELECT number, entry ->> '$.closing.id' AS id FROM outbox
       WHERE organization = ? AND state = 0 AND number > ? ORDER BY number LIMIT ?`,
    )
    const looked = query.all(organization, after, ABSORBED_AT_ONCE)
    const last = looked.at(-1)?.number
    if (last === undefined) return undefined
    const numbers = looked.flatMap(({ number, id }) => (found.reservations.get(id)?.isOpen === true ? [] : [number]))
    this.database
      .query('UPDATE outbox SET state = 3, taken_ms = ? WHERE number IN (SELECT value FROM json_each(?))')
      .run(found.sinceMs, JSON.stringify(numbers))
    return { last, count: numbers.length }
  }

  /**
   * Enters an epoch: decides which rows are given back to it, and which settlements are resent one by one. Returns the
   * rows in their order; if the epoch was entered before, those of the first call. `resent`: settlements that the
   * outbox had deleted. `lacking` takes the usage that Redis had lost, in the one process that decides. Inside a
   * transaction.
   */
  enter(
    organization: string,
    epoch: number,
    found: FoundOfNode,
    resent: readonly Settlement[],
    lacking?: LackingListener,
  ): readonly GivenRow[] {
    const known = this.stored(organization)
    if (known?.epoch !== epoch) {
      if (found.isLegacy && (known?.epoch ?? 0) === 0) this.leaveEnded(organization, found)
      // Redis and this log fold months at different times: both are compared with what either has folded.
      const before = Math.max(found.foldedBefore, this.foldedBefore)
      const usage = foldUsageRows(this.rows('usage', organization), before)
      const served = found.isLegacy
        ? without(usage, foldUsageRows(this.rows('unrecorded', organization), before))
        : [...usage.values()]
      // Redis never acknowledged anything of an organisation without an epoch.
      const isNew = known === undefined || (known.epoch === 0 && known.legacyEpoch === 0)
      const tail = isNew ? [] : this.tail.of(organization, found.sinceMs)
      const logged = this.logged(organization, found.sinceMs, resent, tail)
      const folded = logged.map(({ usage, ...one }) => {
        return { ...one, usage: usage && { ...usage, day: bucketOf(usage.day, before) } }
      })
      const stored = { reservations: found.reservations, figures: foldUsageRows(found.figures.values(), before) }
      const figures = withSums(found.sums, stored, served, folded)
      const plan = reconcile(served, folded, { ...stored, figures }, this.resends.left)
      this.resends.take(plan.resend.length)
      this.keep(organization, plan, logged, found.sinceMs)
      const lackingSpends = this.lackingSpends(organization, plan, logged, found)
      this.counters.give(organization, plan.rows.length + 1, lackingSpends)
      lacking?.(lackingIn(plan, logged, found))
      this.database
        .query(
          `INSERT INTO life (organization, life, complete, is_legacy) VALUES (?, ?, 0, ?)
           ON CONFLICT DO UPDATE SET life = excluded.life, complete = 0, is_legacy = excluded.is_legacy`,
        )
        .run(organization, epoch, found.isLegacy ? 1 : 0)
    }
    const query = this.database.query<UsageRow, [string]>(
      `SELECT ${USAGE_SQL} FROM given_back WHERE organization = ? ORDER BY number`,
    )
    return [...query.all(organization), ...this.counters.given(organization)]
  }

  /** What Redis lacks of counters, when the settlements that are resent are charged. */
  private lackingSpends(
    organization: string,
    { resend }: Plan,
    logged: readonly Kept[],
    { counters = NO_COUNTERS_FOUND }: FoundOfNode,
  ): readonly CounterSpend[] {
    const sums = this.counters.of(organization)
    if (sums.length === 0) return []
    const ids = new Set(resend)
    const resent = logged.flatMap(({ id, settlement }) => (ids.has(id) ? [settlement] : []))
    return lackingSpend(sums, counters, resent, this.now())
  }

  /** Notes that everything was given back. */
  completed(organization: string, epoch: number): void {
    this.database
      .query('UPDATE life SET complete = 1 WHERE organization = ? AND life = ? AND complete = 0')
      .run(organization, epoch)
  }

  private stored(organization: string): StoredEpoch | undefined {
    const query = this.database.query<StoredEpoch, [string]>(`SELECT ${EPOCH} FROM life WHERE organization = ?`)
    return query.get(organization) ?? undefined
  }

  private rows(table: 'usage' | 'unrecorded', organization: string): readonly UsageRow[] {
    const query = this.database.query<UsageRow, [string]>(`SELECT ${USAGE_SQL} FROM ${table} WHERE organization = ?`)
    return query.all(organization)
  }

  /**
   * Pending settlements, and the newest that were acknowledged since a time, at most `RESEND_MAX` with entries and as
   * many without: no more are resent one by one, and reading all of a minute, which may be 60,000, took 0.2 s. What
   * Redis lacks of the others is in the sums.
   */
  private logged(
    organization: string,
    sinceMs: number,
    resent: readonly Settlement[],
    tail: readonly AuditRow[],
  ): readonly Kept[] {
    const query = this.database.query<{ number: number; state: number; entry: string }, Since>(
      `SELECT number, state, entry FROM outbox WHERE organization = ?1 AND state = 0
       UNION ALL SELECT * FROM (
         SELECT number, state, entry FROM outbox WHERE organization = ?1 AND state = 1 AND taken_ms >= ?2
         ORDER BY taken_ms DESC LIMIT ${RESEND_MAX}
       )`,
    )
    const logged = new Map<string, Kept>()
    const log = (settlement: Settlement, isPending: boolean, number?: number) => {
      const { id } = settlement
      logged.set(id, { id, isPending, usage: usageRowOf(settlement), settlement, number })
    }
    for (const settlement of resent) log(settlement, false)
    for (const { number, state, entry } of query.all(organization, sinceMs)) {
      log(settlementOf(entry), state === 0, number)
    }
    for (const row of tail) {
      if (!logged.has(row.id)) log(settlementOfRow(row), false)
    }
    return [...logged.values()]
  }

  /** Settlements that were pending when an earlier version ended although Redis had taken them. */
  private leaveEnded(organization: string, { reservations, sinceMs }: FoundOfNode): void {
    const add = this.database.query(addUsageSql('unrecorded'))
    const gone = this.database.query(GONE_SQL)
    for (const { id, isPending, number, usage } of this.logged(organization, Number.MAX_SAFE_INTEGER, [], [])) {
      if (!isPending || number === undefined || reservations.get(id)?.isOpen !== false) continue
      gone.run(sinceMs, number)
      if (usage === undefined) continue
      add.run(usage.day, organization, usage.key, usage.series, ...figureValues(usage))
    }
  }

  private keep(organization: string, plan: Plan, logged: readonly Kept[], sinceMs: number): void {
    const { resend, absorb, rows } = plan
    const byId = new Map(logged.map((one) => [one.id, one]))
    // None of them was sent in this epoch yet, so `unknown` has one meaning.
    const again = this.database.query(
      'UPDATE outbox SET state = 0, sent_ms = NULL, taken_ms = NULL, due_ms = 0 WHERE number = ?',
    )
    const put = this.database.query(
      'INSERT INTO outbox (state, due_ms, sent_ms, organization, entry) VALUES (0, 0, NULL, ?, ?)',
    )
    for (const id of resend) {
      const one = byId.get(id)
      if (one?.number !== undefined) again.run(one.number)
      else if (one !== undefined) put.run(organization, settlementText(one.settlement))
    }
    // They are kept until they are old, so that SQLite does not reuse a number that this process still has in memory.
    const gone = this.database.query(GONE_SQL)
    for (const id of absorb) gone.run(sinceMs, byId.get(id)?.number ?? null)
    this.database.query('DELETE FROM given_back WHERE organization = ?').run(organization)
    const give = this.database.query(GIVE_SQL)
    for (const [i, row] of rows.entries()) {
      give.run(organization, i + 1, row.day, row.key, row.series, ...figureValues(row))
    }
  }
}

/**
 * How many settlements may be resent one by one at present, of all organisations together: if Redis was emptied under
 * 2,000 of them, resending 25 of each took seconds, and sums take milliseconds.
 */
class Resends {
  private count = 0
  private sinceMs = 0

  get left(): number {
    if (performance.now() - this.sinceMs > RESEND_SPAN_MS) this.count = 0
    return Math.max(0, RESEND_MAX - this.count)
  }

  take(count: number): void {
    if (this.count === 0) this.sinceMs = performance.now()
    this.count += count
  }
}

const GIVE_NAMES = ['organization', 'number', 'day', 'key', 'model', ...FIGURE_NAMES]
const GIVE_SQL = `INSERT INTO given_back (${GIVE_NAMES.join(', ')}) VALUES (${GIVE_NAMES.map(() => '?').join(', ')})`

/** Marks a settlement that is not sent any more. */
const GONE_SQL = 'UPDATE outbox SET state = 3, taken_ms = ? WHERE number = ?'

type Since = [organization: string, ms: number]

/** `number`: of its entry, if the outbox has one. */
interface Kept extends Logged {
  readonly settlement: Settlement
  readonly number: number | undefined
}

/** Redis still knows a request whose reservation is open: what it holds counts in its budgets. */
function lackingIn({ rows, resend }: Plan, logged: readonly Kept[], { reservations }: FoundOfNode): UsageRow[] {
  const resent = new Set(resend)
  const one = logged.filter(({ id }) => resent.has(id) && reservations.get(id)?.isOpen !== true)
  return [...rows, ...one.flatMap(({ usage }) => usage ?? [])]
}

function knownEpoch(organization: string, stored: StoredEpoch | undefined): KnownEpoch {
  const { epoch = 0, complete = 0, legacyEpoch = 0 } = stored ?? {}
  return { organization, epoch, complete: complete === 1, legacyEpoch }
}

type UsageByPlace = ReadonlyMap<string, UsageRow>

const EPOCH = 'life AS epoch, complete, served, legacy_life AS legacyEpoch, is_legacy AS isLegacy'

function without(rows: UsageByPlace, others: UsageByPlace): readonly UsageRow[] {
  const left = new Map(rows)
  for (const [name, other] of others) {
    const figures: UsageFigures = addUsage(left.get(name) ?? noUsage, minusUsage(other))
    left.set(name, { ...other, ...figures })
  }
  return [...left.values()]
}
