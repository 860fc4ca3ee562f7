/**
 * The settlements of one commit as one entry of the outbox. Most are acknowledged within milliseconds: then the group
 * is deleted, and none of them ever has an entry of its own, which took 18 µs to write and to mark. A group is split
 * into such entries if some of its settlements are not acknowledged in time, and before anything reads single entries.
 */

import type { Database } from 'bun:sqlite'
import { rowOfValues } from '../../audit-columns.ts'
import type { Account } from '../../ledger.ts'
import { type Settlement, settlementOfRow } from './settlement.ts'

/** A group of this process. */
export interface Group {
  /** The number of its row in `request_batch`, which has its settlements. */
  readonly batch: number
  /** How many of them are not acknowledged. */
  left: number
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

export class SettlementGroups {
  private readonly groups = new Map<number, Group>()
  /** By the id of each settlement that is not acknowledged. */
  private readonly byId = new Map<string, Group>()
  private readonly statements: ReturnType<typeof prepare>
  // What the transaction that runs changes; a rollback forgets it.
  private readonly acknowledgedNow = new Map<string, Group>()
  private readonly removedNow = new Set<Group>()
  private readonly numbersNow = new Map<string, number>()
  private addedNow: { readonly group: Group; readonly ids: readonly string[] } | undefined

  constructor(
    database: Database,
    private readonly writeEntry: WriteEntry,
  ) {
    this.statements = prepare(database)
  }

  /** How many settlements are not acknowledged, as far as this process knows. */
  pendingCount(): number {
    const sizes = this.statements.sizes.all()
    return sizes.reduce((sum, { batch, size }) => sum + (this.groups.get(batch)?.left ?? size), 0)
  }

  /** The group of a settlement that this process has sent and that is not acknowledged. */
  of(id: string): Group | undefined {
    const group = this.byId.get(id)
    return group === undefined || this.removedNow.has(group) ? undefined : group
  }

  /** False if another process has split the group. */
  isStored({ batch }: Group): boolean {
    return this.statements.isStored.get(batch) !== null
  }

  isAnyDue(now: number): boolean {
    return this.statements.isAnyDue.get(now) !== null
  }

  // For use inside a transaction, which ends with `committed` or `rolledBack`.

  /** Adds a group whose rows are in `request_batch`. */
  add(batch: number, settlements: readonly Settlement[], dueMs: number): void {
    const accounts = new Set(settlements.map(({ account }) => account))
    this.statements.add.run(batch, dueMs, settlements.length, `[${Array.from(accounts, accountText).join(',')}]`)
    this.addedNow = { group: { batch, left: settlements.length }, ids: settlements.map(({ id }) => id) }
  }

  acknowledge(id: string, group: Group): void {
    this.acknowledgedNow.set(id, group)
  }

  /** Deletes groups of which everything is acknowledged. */
  deleteDone(): void {
    const counts = new Map<Group, number>()
    for (const group of this.acknowledgedNow.values()) counts.set(group, (counts.get(group) ?? 0) + 1)
    for (const [group, count] of counts) {
      if (count === group.left && !this.removedNow.has(group)) this.statements.remove.run(group.batch)
    }
  }

  /** Splits the groups that were due at a time, of all processes that share the file. */
  splitDue(now: number): void {
    for (const stored of this.statements.due.all(now)) this.splitStored(stored)
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
    this.removedNow.add(group)
  }

  /** The number of an entry that this transaction has written or found. */
  numberOf(id: string): number | undefined {
    return this.numbersNow.get(id)
  }

  /** Takes over what the transaction changed. Returns the numbers of the entries that it wrote. */
  committed(): ReadonlyMap<string, number> {
    for (const [id, group] of this.acknowledgedNow) {
      this.byId.delete(id)
      group.left -= 1
      if (group.left === 0) this.groups.delete(group.batch)
    }
    if (this.removedNow.size > 0) {
      for (const [id, group] of this.byId) if (this.removedNow.has(group)) this.byId.delete(id)
      for (const { batch } of this.removedNow) this.groups.delete(batch)
    }
    if (this.addedNow !== undefined) {
      const { group, ids } = this.addedNow
      this.groups.set(group.batch, group)
      for (const id of ids) this.byId.set(id, group)
    }
    const numbers = new Map(this.numbersNow)
    this.rolledBack()
    return numbers
  }

  rolledBack(): void {
    this.acknowledgedNow.clear()
    this.removedNow.clear()
    this.numbersNow.clear()
    this.addedNow = undefined
  }

  private splitStored({ batch, dueMs, accounts }: StoredGroup): void {
    const own = this.groups.get(batch)
    const stored = this.statements.rows.get(batch)
    const byOwner = new Map<string, Account>()
    const known: readonly Account[] = JSON.parse(accounts)
    for (const account of known) byOwner.set(ownerOf(account), account)
    const rows: readonly (readonly (string | number)[])[] = JSON.parse(stored?.rows ?? '[]')
    for (const values of rows) {
      const row = rowOfValues(values)
      // What this process knows as acknowledged needs no entry.
      if (own !== undefined && (this.byId.get(row.id) !== own || this.acknowledgedNow.has(row.id))) continue
      const settlement = settlementOfRow(row, byOwner.get(ownerOf(row)))
      const number = this.writeEntry(settlement, dueMs, stored?.endedMs ?? 0)
      if (own !== undefined) this.place(row.id, number, own)
    }
    this.statements.remove.run(batch)
    if (own !== undefined) this.removedNow.add(own)
  }

  private place(id: string, number: number, group: Group): void {
    if (this.byId.get(id) === group) this.numbersNow.set(id, number)
  }
}

function ownerOf({ organization, key }: { readonly organization: string; readonly key: string }): string {
  return `${organization}\0${key}`
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
    due: database.query<StoredGroup, [number]>(`${group} WHERE due_ms <= ? ORDER BY batch`),
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
