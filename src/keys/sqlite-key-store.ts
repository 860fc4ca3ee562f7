/**
 * The key store of one machine: a separate file in `data_dir`, because a gateway locks the ledger's file while `weir
 * keys` must work.
 */

import type { Database } from 'bun:sqlite'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../core/error-message.ts'
import { openDatabase, openReadOnly, type Schema } from '../sqlite/database.ts'
import {
  ADMIN_ENTRIES_A_PAGE,
  ADMIN_ENTRIES_KEPT,
  type AdminAudit,
  type AdminEntry,
  type AuditPage,
  auditPage,
  entryText,
} from './admin-audit.ts'
import { ORGANIZATION } from './key-record.ts'
import {
  CHANGES_A_PAGE,
  CHANGES_KEPT,
  type Change,
  KEYS_A_PAGE,
  type KeyBackend,
  type KeyPage,
  KeyStore,
  type Replacement,
  type Standing,
  type Version,
} from './key-store.ts'

const FILE = 'keys.sqlite'

const LOGGED = 'BEGIN INSERT INTO change (nonce, id) VALUES (lower(hex(randomblob(8))),'

/** Triggers write the change log, so that earlier versions of weir write it, too. */
const SCHEMA: Schema = {
  version: 1,
  checked: [],
  sql: 'CREATE TABLE key (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;',
  additions: `
    CREATE TABLE IF NOT EXISTS change (number INTEGER PRIMARY KEY AUTOINCREMENT, nonce TEXT NOT NULL, id TEXT NOT NULL);
    CREATE TRIGGER IF NOT EXISTS key_inserted AFTER INSERT ON key ${LOGGED} NEW.id); END;
    CREATE TRIGGER IF NOT EXISTS key_updated AFTER UPDATE ON key ${LOGGED} NEW.id); END;
    CREATE TRIGGER IF NOT EXISTS key_deleted AFTER DELETE ON key ${LOGGED} OLD.id); END;
    CREATE TRIGGER IF NOT EXISTS change_inserted AFTER INSERT ON change
      BEGIN DELETE FROM change WHERE number <= NEW.number - ${CHANGES_KEPT}; END;
    CREATE TABLE IF NOT EXISTS admin_audit
      (number INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL, entry TEXT NOT NULL);
    CREATE TRIGGER IF NOT EXISTS admin_audit_inserted AFTER INSERT ON admin_audit
      BEGIN DELETE FROM admin_audit WHERE number <= NEW.number - ${ADMIN_ENTRIES_KEPT}; END;`,
}

/** For commands. */
export function openSqliteKeyStore(directory: string): KeyStore {
  return new KeyStore(new SqliteKeyBackend(directory))
}

/**
 * The file is created with the first key or the first entry of the admin audit; reading creates no file. Throws
 * `LedgerFileError`.
 */
export class SqliteKeyBackend implements KeyBackend, AdminAudit {
  readonly isShared = false
  readonly audit: AdminAudit = this
  private readonly path: string
  private database: Database | undefined
  /** Inode of the open file: another file may replace it. */
  private inode = 0
  private isClosed = false

  constructor(directory: string) {
    this.path = join(directory, FILE)
  }

  async changes(from: number): Promise<{ readonly newest: number; readonly entries: readonly Change[] }> {
    const database = this.open()
    if (database === undefined) return { newest: 0, entries: [] }
    const entries = database
      .query<Change, [number, number]>('SELECT number, nonce, id FROM change WHERE number >= ? ORDER BY number LIMIT ?')
      .all(from, CHANGES_A_PAGE)
    return { newest: newestOf(database)?.number ?? 0, entries }
  }

  async head(): Promise<Version> {
    const database = this.open()
    if (database === undefined) return { number: 0, nonce: '' }
    const newest = newestOf(database)
    if (newest !== undefined || !hasKeys(database)) return newest ?? { number: 0, nonce: '' }
    writable(database).run("INSERT INTO change (nonce, id) VALUES (lower(hex(randomblob(8))), '')")
    return this.head()
  }

  async texts(ids: readonly string[]): Promise<readonly (string | undefined)[]> {
    const query = this.open()?.query<{ record: string }, [string]>('SELECT record FROM key WHERE id = ?')
    return ids.map((id) => query?.get(id)?.record)
  }

  async organizationIds(): Promise<readonly string[]> {
    const sql = 'SELECT id FROM key WHERE id >= ? AND id < ? ORDER BY id'
    // The character after the colon that ends the prefix.
    const rows = this.all<{ id: string }>(sql, ORGANIZATION, ORGANIZATION.replace(/:$/, ';'))
    return rows.map(({ id }) => id.slice(ORGANIZATION.length))
  }

  async page(cursor = ''): Promise<KeyPage> {
    const sql = 'SELECT id, record FROM key WHERE id > ? ORDER BY id LIMIT ?'
    const rows = this.all<{ id: string; record: string }>(sql, cursor, KEYS_A_PAGE)
    return { texts: rows.map(({ record }) => record), next: rows.length < KEYS_A_PAGE ? undefined : rows.at(-1)?.id }
  }

  async size(): Promise<number> {
    return 0
  }

  async replace(replacements: readonly Replacement[], entry?: AdminEntry): Promise<readonly string[]> {
    const database = writable(this.open() ?? this.create())
    const replace = database.transaction(() => {
      const written = replacements.filter((one) => replaced(database, one)).map(({ id }) => id)
      if (entry !== undefined) for (const _ of written) insert(database, entry)
      return written
    })
    return replace.immediate()
  }

  problemOf(error: unknown): string {
    return messageOf(error)
  }

  isFinal(): boolean {
    return false
  }

  /** A file does not lose what was written. */
  async standing(changes: readonly Pick<Change, 'id'>[]): Promise<Standing> {
    const texts = await this.texts(changes.map(({ id }) => id))
    return { found: texts.map((text) => ({ text, isLogged: true })), doubt: undefined }
  }

  async append(entries: readonly AdminEntry[]): Promise<void> {
    const database = writable(this.open() ?? this.create())
    const append = database.transaction(() => {
      for (const entry of entries) insert(database, entry)
    })
    append.immediate()
  }

  async entriesAfter(position: string | undefined): Promise<AuditPage> {
    const sql = 'SELECT number, entry FROM admin_audit WHERE number > ? ORDER BY number LIMIT ?'
    const rows = this.all<{ number: number; entry: string }>(sql, Number(position ?? 0), ADMIN_ENTRIES_A_PAGE)
    return auditPage(rows.map(({ number, entry: text }) => ({ position: String(number), text })))
  }

  async newest(): Promise<string | undefined> {
    const [newest] = this.all<{ number: number }>('SELECT number FROM admin_audit ORDER BY number DESC LIMIT 1')
    return newest && String(newest.number)
  }

  async trim(beforeMs: number): Promise<void> {
    const database = this.open()
    if (database === undefined) return
    writable(database).query('DELETE FROM admin_audit WHERE time_ms < ?').run(beforeMs)
  }

  async nowMs(): Promise<number> {
    return Date.now()
  }

  async close(): Promise<void> {
    this.isClosed = true
    this.database?.close()
  }

  /** No rows if there is no file. */
  private all<Row>(sql: string, ...values: (string | number)[]): readonly Row[] {
    return (
      this.open()
        ?.query<Row, (string | number)[]>(sql)
        .all(...values) ?? []
    )
  }

  private create(): Database {
    this.database = openDatabase(this.path, SCHEMA)
    this.inode = statSync(this.path).ino
    return this.database
  }

  /**
   * Undefined if there is no file. Throws if the file was removed, so that the keys that were last read stay in use.
   */
  private open(): Database | undefined {
    if (this.isClosed) throw new Error('The key store is closed.')
    const inode = statSync(this.path, { throwIfNoEntry: false })?.ino
    if (inode === undefined && this.database !== undefined) throw new Error(`${this.path} was removed.`)
    if (inode !== this.inode) {
      this.database?.close()
      this.database = undefined
    }
    this.database ??= openReadOnly(this.path, SCHEMA)
    this.inode = inode ?? 0
    return this.database
  }
}

function writable(database: Database): Database {
  database.run('PRAGMA query_only = false')
  return database
}

function insert(database: Database, entry: AdminEntry): void {
  database.query('INSERT INTO admin_audit (time_ms, entry) VALUES (?, ?)').run(entry.timeMs, entryText(entry))
}

function newestOf(database: Database): Version | undefined {
  const query = database.query<Version, []>('SELECT number, nonce FROM change ORDER BY number DESC LIMIT 1')
  return query.get() ?? undefined
}

function hasKeys(database: Database): boolean {
  return database.query('SELECT 1 FROM key LIMIT 1').get() !== null
}

function replaced(database: Database, { id, before, after }: Replacement): boolean {
  const text = database.query<{ record: string }, [string]>('SELECT record FROM key WHERE id = ?').get(id)?.record
  if (text !== before) return false
  if (after === undefined) database.query('DELETE FROM key WHERE id = ?').run(id)
  else
    database
      .query('INSERT INTO key VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET record = excluded.record')
      .run(id, after)
  return true
}
