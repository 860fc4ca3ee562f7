import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase, openReadOnly, type Schema } from '../../src/sqlite/database.ts'

const folder = mkdtempSync(join(tmpdir(), 'weir-database-'))
afterAll(() => rmSync(folder, { recursive: true }))

const SCHEMA: Schema = { version: 1, checked: ['t'], sql: 'CREATE TABLE t (n INTEGER);' }

/** Runs a script in a process of its own; arguments come after `--`. */
function run(script: string, ...args: readonly string[]) {
  return Bun.spawn([process.execPath, '-e', script, '--', ...args], { stdout: 'pipe', stderr: 'pipe' })
}

test('several processes can open the same new file at once', async () => {
  for (let round = 0; round < 3; round++) {
    const script = `
      import { Outbox } from '${join(import.meta.dir, '../../src/ledger/redis/outbox/outbox.ts')}'
      while (Date.now() < Number(process.argv.at(-1))) {}
      new Outbox('${join(folder, String(round))}').close()
    `
    const start = String(Date.now() + 600)
    const children = Array.from({ length: 6 }, () => run(script, start))
    const codes = await Promise.all(
      children.map(async (child) => [await child.exited, await new Response(child.stderr).text()]),
    )
    expect(codes).toEqual(children.map(() => [0, '']))
  }
})

test('opening waits for a lock that another process holds for longer than the busy timeout', async () => {
  const path = join(folder, 'held.sqlite')
  const holder = run(`
    import { Database } from 'bun:sqlite'
    const database = new Database('${path}', { create: true })
    database.run('CREATE TABLE other (n INTEGER)')
    database.run('BEGIN EXCLUSIVE')
    console.log('held')
    setTimeout(() => database.run('COMMIT'), 2500)
  `)
  const { value } = await holder.stdout.getReader().read()
  expect(new TextDecoder().decode(value)).toBe('held\n')
  openDatabase(path, SCHEMA).close()
  expect(await holder.exited).toBe(0)
})

test('a reader finds no file, then a file that is being created, then the file', () => {
  const path = join(folder, 'read.sqlite')
  expect(openReadOnly(path, SCHEMA)).toBeUndefined()
  openDatabase(path, { ...SCHEMA, version: 0, sql: '' }).close()
  expect(openReadOnly(path, SCHEMA)).toBeUndefined()
  openDatabase(path, SCHEMA).close()
  const database = openReadOnly(path, SCHEMA)
  expect(() => database?.run('INSERT INTO t VALUES (1)')).toThrow('readonly')
  expect(database?.query('SELECT count(*) AS n FROM t').get()).toEqual({ n: 0 })
  database?.close()
})

test('an older file is migrated step by step, and gets the columns and views that were added since', () => {
  const path = join(folder, 'older.sqlite')
  const first = openDatabase(path, SCHEMA)
  first.run('INSERT INTO t VALUES (1)')
  first.close()
  const schema: Schema = {
    version: 3,
    checked: [],
    sql: '',
    migrations: { 1: 'ALTER TABLE t ADD COLUMN m INTEGER', 2: 'UPDATE t SET m = n + 1' },
    columns: { t: ['n INTEGER', 'added INTEGER NOT NULL DEFAULT 7'] },
    views: { v: { columns: ['m', 'added'], sql: 'SELECT m, added FROM t' } },
  }
  for (const open of [openDatabase, openReadOnly]) {
    const database = open(path, schema)
    expect(database?.query<object, []>('SELECT * FROM v').all()).toEqual([{ m: 2, added: 7 }])
    database?.close()
  }
  // A later version added one more column, and the operator went back to this one.
  const later = openDatabase(path, { ...schema, columns: { t: ['further INTEGER'] } })
  later.close()
  const database = openReadOnly(path, schema)
  expect(database?.query<object, []>('SELECT * FROM t').all()).toEqual([{ n: 1, m: 2, added: 7, further: null }])
  database?.close()
})

test('a reader adds columns that a file of its format lacks', () => {
  const path = join(folder, 'lacking.sqlite')
  openDatabase(path, SCHEMA).close()
  const schema: Schema = { ...SCHEMA, columns: { t: ['m INTEGER NOT NULL DEFAULT 5'] } }
  const database = openReadOnly(path, schema)
  expect(database?.query<object, []>('SELECT m FROM t').all()).toEqual([])
  database?.close()
})

test('the error for a newer or too old format names both formats and the remedy', () => {
  const path = join(folder, 'format.sqlite')
  openDatabase(path, { ...SCHEMA, version: 4 }).close()
  expect(() => openDatabase(path, { ...SCHEMA, version: 3 })).toThrow(
    `${path} was written by a newer version of weir (format 4; this one reads up to 3). Use that version, or`,
  )
  expect(() => openDatabase(path, { ...SCHEMA, version: 6, migrations: { 4: '' } })).toThrow(
    `${path} was written by an older version of weir (format 4) that this one cannot migrate to format 6.`,
  )
})
