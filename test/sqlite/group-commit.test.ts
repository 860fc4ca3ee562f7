/** A commit survives a crash of the machine: each is followed by a flush of the disk that began after it. */

import { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GroupCommit } from '../../src/sqlite/group-commit.ts'

const directory = mkdtempSync(join(tmpdir(), 'weir-ledger-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

/** Holds the lock of a file for half a second. */
const LOCKING = `
  const database = new (require('bun:sqlite').Database)(process.argv.at(-1))
  database.run('BEGIN IMMEDIATE')
  console.log('locked')
  setTimeout(() => database.run('ROLLBACK'), 500)
`

test('commits during a flush are flushed by the next one, which starts by itself', () => {
  const path = join(directory, 'file.sqlite')
  const database = new Database(path, { create: true })
  database.run('PRAGMA journal_mode = WAL')
  database.run('CREATE TABLE t (n INTEGER)')
  const flushes: ((error: Error | null) => void)[] = []
  const gathered = {
    write: () => database.run('INSERT INTO t VALUES (1)'),
    written: () => undefined,
    failed: () => undefined,
  }
  const group = new GroupCommit(database, path, gathered, (_, done) => flushes.push(done))
  group.commit()
  expect(flushes).toHaveLength(1)
  group.commit()
  group.commit()
  expect(flushes).toHaveLength(1)
  flushes[0]?.(null)
  expect(flushes).toHaveLength(2)
  flushes[1]?.(null)
  expect(flushes).toHaveLength(2)
  group.commit()
  expect(flushes).toHaveLength(3)
  flushes[2]?.(new Error('I/O error'))
  expect(group.complaint).toBe('I/O error')
  group.close()
  flushes[3]?.(null)
})

test('the last commit waits longer for the lock than one that is tried again', async () => {
  const path = join(directory, 'locked.sqlite')
  const database = new Database(path, { create: true })
  database.run('PRAGMA journal_mode = WAL')
  database.run('PRAGMA busy_timeout = 50')
  database.run('CREATE TABLE t (n INTEGER)')
  // A process that is stopped by its machine, or gets no CPU time, in the middle of a commit.
  const other = Bun.spawn([process.execPath, '-e', LOCKING, path], { stdout: 'pipe' })
  await other.stdout.getReader().read()
  const gathered = {
    write: () => database.run('INSERT INTO t VALUES (1)'),
    written: () => undefined,
    failed: () => undefined,
  }
  const group = new GroupCommit(database, path, gathered)
  expect(group.commit()).toBe(false)
  group.close()
  const read = new Database(path)
  expect(read.query('SELECT n FROM t').all()).toEqual([{ n: 1 }])
  read.close()
  await other.exited
})
