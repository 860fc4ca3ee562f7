/** The key store of a machine: a file of its own in `data_dir`, so that `weir keys` works while the ledger's file is locked by a gateway. */

import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { openDatabase, openReadOnly, type Schema } from '../database.ts'
import { KEY_POLL_MS, type KeyListener, type KeyRecord, type KeyStore, ofOrganization, parseKey } from '../key-store.ts'

const FILE = 'keys.sqlite'

const SCHEMA: Schema = {
  version: 1,
  checked: ['key'],
  sql: 'CREATE TABLE key (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;',
}

/** The file is made with the first key: who only reads, or only watches, makes none. */
export class EmbeddedKeyStore implements KeyStore {
  private readonly path: string
  private database: Database | undefined

  constructor(directory: string) {
    this.path = join(directory, FILE)
  }

  /** Throws `LedgerFileError`, as every verb does. */
  async create(record: KeyRecord): Promise<boolean> {
    this.database?.close()
    this.database = openDatabase(this.path, SCHEMA)
    const insert = this.database.query('INSERT OR IGNORE INTO key VALUES (?, ?)')
    return insert.run(record.id, JSON.stringify(record)).changes === 1
  }

  async list(organization?: string): Promise<readonly KeyRecord[]> {
    return ofOrganization(this.all(), organization)
  }

  async revoke(id: string, nowMs: number): Promise<'revoked' | 'already_revoked' | 'unknown'> {
    const record = this.all().find((known) => known.id === id)
    if (record === undefined) return 'unknown'
    if (record.revokedMs !== undefined) return 'already_revoked'
    const revoked: KeyRecord = { ...record, revokedMs: nowMs }
    this.database?.close()
    this.database = openDatabase(this.path, SCHEMA)
    this.database.query('UPDATE key SET record = ? WHERE id = ?').run(JSON.stringify(revoked), id)
    return 'revoked'
  }

  /** Throws `LedgerFileError` where the file is there and cannot be used. */
  watch(listener: KeyListener): () => void {
    let seen: number | undefined
    const look = () => {
      const version = this.version()
      if (version === seen) return
      listener(this.all().filter(({ revokedMs }) => revokedMs === undefined))
      seen = version
    }
    look()
    const timer = setInterval(() => {
      try {
        look()
      } catch {
        // The file is away or in somebody's way: the keys that were read last stand, and the next look is soon.
      }
    }, KEY_POLL_MS)
    timer.unref()
    return () => clearInterval(timer)
  }

  async close(): Promise<void> {
    this.database?.close()
  }

  /** Changes with every commit of another connection; our own we know of. 0 while there is no file. */
  private version(): number {
    const query = this.read()?.query<{ data_version: number }, []>('PRAGMA data_version')
    return query?.get()?.data_version ?? 0
  }

  private all(): readonly KeyRecord[] {
    const rows = this.read()?.query<{ record: string }, []>('SELECT record FROM key').all() ?? []
    return rows.map(({ record }) => parseKey(record)).filter((record) => record !== undefined)
  }

  private read(): Database | undefined {
    this.database ??= openReadOnly(this.path, SCHEMA)
    return this.database
  }
}
