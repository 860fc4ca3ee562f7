/**
 * The settlements of one commit as one entry of the outbox. Most are acknowledged within milliseconds: then the group
 * is deleted, and none of them ever has an entry of its own, which took 18 µs to write and to mark. A group is split
 * into such entries if some of its settlements are not acknowledged in time, and before anything reads single entries.
 */

import type { Database } from 'bun:sqlite'
import { rowOfValues } from '../../audit-columns.ts'
import type { Account } from '../../ledger.ts'
import { type Settlement, settlementOfRow } from '../protocol/settlement.ts'

/** A group of this process. */
export interface Group {
  /** The number of its row in `request_batch`, which has its settlements. */
  readonly batch: number
  /** The ids of those that are not acknowledged. */
  readonly ids: Set<string>
}

interface StoredGroup {
  readonly batch: number
  readonly dueMs: number
  readonly accounts: string
}

interface StoredRows {
  readonly endedMs: number
  readonly rows: string
}

/** Writes an entry for one settlement. Returns its number. */
type WriteEntry = (settlement: Settlement, dueMs: number, sentMs: number) => number

/** The JSON of each account, because every commit writes it. */
const accountTexts = new WeakMap<Account, string>()

/** What the transaction that runs changes; a rollback forgets it. */
class Change {
  /** Ids by group: usually all of a group, which then goes as a whole. */
  readonly acknowledged = new Map<Group, Set<string>>()
  readonly removed = new Set<Group>()
  readonly numbers = new Map<string, number>()
  added: Group | undefined
}

export class OutboxGroups {
  /**
   * Oldest first; few, because most are acknowledged within milliseconds. Not one map of all ids: see `MemberList` for
   * what a map whose entries come and go with requests costs the collector.
   */
  private groups: readonly Group[] = []
  private readonly statements: ReturnType<typeof prepare>
  private change = new Change()

  constructor(
    database: Database,
    private readonly writeEntry: WriteEntry,
  ) {
    this.statements = prepare(database)
  }

  /** How many settlements are not acknowledged, as far as this process knows. */
  pendingCount(): number {
    const sizes = this.statements.sizes.all()
    return sizes.reduce((sum, { batch, size }) => sum + (this.own(batch)?.ids.size ?? size), 0)
  }

  /** The group of a settlement that this process has sent and that is not acknowledged. */
  of(id: string): Group | undefined {
    for (const group of this.groups) if (group.ids.has(id)) return this.change.removed.has(group) ? undefined : group
    return undefined
  }

  /** False if another process has split the group. */
  isStored({ batch }: Group): boolean {
    return this.statements.isStored.get(batch) !== null
  }

  /** True if a group has settlements of an organisation. */
  isAnyOf(organization: string): boolean {
    return this.statements.dueOf.get(JSON.stringify(organization)) !== null
  }

  isAnyDue(now: number): boolean {
    return this.statements.isAnyDue.get(now) !== null
  }

  // For use inside a transaction, which ends with `committed` or `rolledBack`.

  /** Adds a group whose rows are in `request_batch`. */
  add(batch: number, settlements: readonly Settlement[], dueMs: number): void {
    const accounts = Map.groupBy(settlements, ({ account }) => account)
    const texts = Array.from(accounts, ([account, own]) => storedAccount(account, own))
    this.statements.add.run(batch, dueMs, settlements.length, `[${texts.join(',')}]`)
    this.change.added = { batch, ids: new Set(settlements.map(({ id }) => id)) }
  }

  acknowledge(id: string, group: Group): void {
    this.change.acknowledged.getOrInsertComputed(group, () => new Set()).add(id)
  }

  /** Deletes groups of which everything is acknowledged. */
  deleteDone(): void {
    const { acknowledged, removed } = this.change
    for (const [group, ids] of acknowledged) {
      if (ids.size === group.ids.size && !removed.has(group)) this.statements.remove.run(group.batch)
    }
  }

  /**
   * Splits groups that were due at a time, of all processes that share the file: at most `most`, because a thousand
   * settlements without a reply are some hundred milliseconds. Returns whether more may be due.
   */
  splitDue(now: number, most = Number.MAX_SAFE_INTEGER): boolean {
    const some = this.statements.due.all(now, most)
    for (const stored of some) this.splitStored(stored)
    return some.length === most
  }

  /** Splits the groups with settlements of an organisation. */
  splitOf(organization: string): void {
    for (const stored of this.statements.dueOf.all(JSON.stringify(organization))) this.splitStored(stored)
  }

  splitAll(): void {
    this.splitDue(Number.MAX_SAFE_INTEGER)
  }

  split({ batch }: Group): void {
    const stored = this.statements.one.get(batch)
    if (stored !== null) this.splitStored(stored)
  }

  /** Finds the entries of a group that another process has split. */
  adopt(group: Group): void {
    for (const { number, id } of this.statements.entries.all(group.batch)) this.place(id, number, group)
    this.change.removed.add(group)
  }

  /** The number of an entry that this transaction has written or found. */
  numberOf(id: string): number | undefined {
    return this.change.numbers.get(id)
  }

  /** Takes over what the transaction changed. Returns the numbers of the entries that it wrote. */
  committed(): ReadonlyMap<string, number> {
    const { acknowledged, removed, numbers, added } = this.change
    for (const [group, ids] of acknowledged) {
      if (ids.size === group.ids.size) group.ids.clear()
      else for (const id of ids) group.ids.delete(id)
    }
    const left = this.groups.filter((group) => group.ids.size > 0 && !removed.has(group))
    this.groups = added === undefined ? left : [...left, added]
    this.rolledBack()
    return numbers
  }

  rolledBack(): void {
    this.change = new Change()
  }

  private own(batch: number): Group | undefined {
    return this.groups.find((group) => group.batch === batch)
  }

  private splitStored({ batch, dueMs, accounts }: StoredGroup): void {
    const own = this.own(batch)
    const stored = this.statements.rows.get(batch)
    const acknowledged = own === undefined ? undefined : this.change.acknowledged.get(own)
    const byOwner = new Map<string, Account>()
    const byId = new Map<string, Account>()
    const known: readonly StoredAccount[] = JSON.parse(accounts)
    for (const { ids, ...account } of known) {
      byOwner.set(ownerOf(account), account)
      for (const id of ids ?? []) byId.set(id, account)
    }
    const rows: readonly (readonly (string | number)[])[] = JSON.parse(stored?.rows ?? '[]')
    for (const values of rows) {
      const row = rowOfValues(values)
      // What this process knows as acknowledged needs no entry.
      if (own !== undefined && (!own.ids.has(row.id) || acknowledged?.has(row.id) === true)) continue
      const settlement = settlementOfRow(row, byId.get(row.id) ?? byOwner.get(ownerOf(row)))
      const number = this.writeEntry(settlement, dueMs, stored?.endedMs ?? 0)
      if (own !== undefined) this.place(row.id, number, own)
    }
    this.statements.remove.run(batch)
    if (own !== undefined) this.change.removed.add(own)
  }

  private place(id: string, number: number, group: Group): void {
    if (group.ids.has(id)) this.change.numbers.set(id, number)
  }
}

function ownerOf({ organization, key }: { readonly organization: string; readonly key: string }): string {
  return `${organization}\0${key}`
}

/** As a group stores it. A key has an account for each choice of counters: then it needs the ids of its requests. */
interface StoredAccount extends Account {
  readonly ids?: readonly string[]
}

function storedAccount(account: Account, settlements: readonly Settlement[]): string {
  const text = accountText(account)
  if (account.budgets === undefined) return text
  return `${text.slice(0, -1)},"ids":${JSON.stringify(settlements.map(({ id }) => id))}}`
}

function accountText(account: Account): string {
  const known = accountTexts.get(account)
  if (known !== undefined) return known
  const text = JSON.stringify(account)
  accountTexts.set(account, text)
  return text
}

function prepare(database: Database) {
  const group = 'SELECT batch, due_ms AS dueMs, accounts FROM outbox_group'
  return {
    sizes: database.query<{ batch: number; size: number }, []>('SELECT batch, size FROM outbox_group'),
    isStored: database.query<{ batch: number }, [number]>('SELECT batch FROM outbox_group WHERE batch = ?'),
    isAnyDue: database.query<{ batch: number }, [number]>('SELECT batch FROM outbox_group WHERE due_ms <= ? LIMIT 1'),
    due: database.query<StoredGroup, [number, number]>(`${group} WHERE due_ms <= ? ORDER BY batch LIMIT ?`),
    dueOf: database.query<StoredGroup, [string]>(`${group} WHERE instr(accounts, ?) > 0`),
    one: database.query<StoredGroup, [number]>(`${group} WHERE batch = ?`),
    rows: database.query<StoredRows, [number]>('SELECT ended_ms AS endedMs, rows FROM request_batch WHERE number = ?'),
    entries: database.query<{ number: number; id: string }, [number]>(
      `SELECT number, entry ->> '$.closing.id' AS id FROM outbox
       WHERE state = 0 AND sent_ms = (SELECT ended_ms FROM request_batch WHERE number = ?)`,
    ),
    add: database.query('INSERT INTO outbox_group (batch, due_ms, size, accounts) VALUES (?, ?, ?, ?)'),
    remove: database.query('DELETE FROM outbox_group WHERE batch = ?'),
  }
}
