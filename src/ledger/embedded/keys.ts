/** The key store of a machine: a file of its own in `data_dir`, so that `weir keys` works while the ledger's file is locked by a gateway. */

import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { openDatabase, type Schema } from '../database.ts'
import { KEY_POLL_MS, type KeyListener, type KeyRecord, type KeyStore, ofOrganization, parseKey } from '../key-store.ts'

const FILE = 'keys.sqlite'

const SCHEMA: Schema = {
  version: 1,
  checked: ['key'],
  sql: 'CREATE TABLE key (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;',
}

export class EmbeddedKeyStore implements KeyStore {
  private readonly database: Database

  /** Throws `LedgerFileError`. */
  constructor(directory: string) {
    this.database = openDatabase(join(directory, FILE), SCHEMA)
  }

  async create(record: KeyRecord): Promise<boolean> {
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
    this.database.query('UPDATE key SET record = ? WHERE id = ?').run(JSON.stringify(revoked), id)
    return 'revoked'
  }

  watch(listener: KeyListener): () => void {
    let seen = -1
    const look = () => {
      // Changes with every commit of another connection; our own we know of.
      const version = this.database.query<{ data_version: number }, []>('PRAGMA data_version').get()?.data_version ?? 0
      if (version === seen) return
      seen = version
      listener(this.all().filter(({ revokedMs }) => revokedMs === undefined))
    }
    look()
    const timer = setInterval(look, KEY_POLL_MS)
    timer.unref()
    return () => clearInterval(timer)
  }

  async close(): Promise<void> {
    this.database.close()
  }

  private all(): readonly KeyRecord[] {
    const rows = this.database.query<{ record: string }, []>('SELECT record FROM key').all()
    return rows.map(({ record }) => parseKey(record)).filter((record) => record !== undefined)
  }
}
