/** The journal of the embedded ledger: what readers see, what a start makes of it, and a locked SQLite file. */

import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { EmbeddedLedger } from '../../src/ledger/embedded/embedded-ledger.ts'
import { Journal } from '../../src/ledger/embedded/journal.ts'
import { JOURNAL_FILE, JournalFile, realDisk } from '../../src/ledger/embedded/journal-file.ts'
import { MemoryStore } from '../../src/ledger/embedded/memory-store.ts'
import {
  EmbeddedAccountUsageReader,
  EmbeddedAuditLog,
  EmbeddedCrossingReader,
  EmbeddedUsageLog,
} from '../../src/ledger/embedded/sqlite-readers.ts'
import { EmbeddedWindowReset } from '../../src/ledger/embedded/sqlite-window-reset.ts'
import { LEDGER_FILE } from '../../src/ledger/embedded/state-tables.ts'
import { directories } from '../support/directories.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { until } from './seen.ts'

const account = accountOf({}, {}, 'acme')
const ALL = { sinceMs: 0, untilMs: 1e15, sinceDay: 0, untilDay: 1e6 }
const folder = directories()

async function settle(ledger: EmbeddedLedger, cost: number): Promise<void> {
  ledger.settle(ledger.reserve(account, holdOf(100)), chargeOf(cost))
  await until(() => ledger.health().pending === 0)
}

/** The files of a gateway that was killed after it had settled these costs, each in its own group. */
async function killedAfter(...costs: readonly number[]): Promise<string> {
  const [live, copy] = [folder(), folder()]
  const ledger = EmbeddedLedger.open(live)
  for (const cost of costs) await settle(ledger, cost)
  for (const name of readdirSync(live))
    if (/wal$|sqlite$|journal$/.test(name)) cpSync(join(live, name), join(copy, name))
  await ledger.close()
  return copy
}

async function figures(at: string) {
  const pages = await Array.fromAsync(new EmbeddedAuditLog(at).read(ALL))
  const usage = await new EmbeddedUsageLog(at).read(ALL)
  const { organization, key } = await new EmbeddedAccountUsageReader(at).read(account)
  return {
    costs: pages.flat().map(({ costMicroUsd }) => costMicroUsd),
    usage: usage.map(({ requests, costMicroUsd }) => [requests, costMicroUsd]),
    spent: [organization.total.spent, key.day.spent],
  }
}

describe('spend that reached a threshold', () => {
  const clock = { now: () => nowMs }
  let nowMs = Date.UTC(2026, 10, 21, 23, 59)
  const limited = { ...accountOf(spend({ day: 100 }), {}, 'acme'), alertShares: [0.5, 1] }
  const read = (at: string) => new EmbeddedCrossingReader(at).read()

  test('is seen by a reader across a start, in the day that was charged, and dropped a day later', async () => {
    const at = folder()
    const first = EmbeddedLedger.open(at, { clock })
    first.settle(first.reserve(limited, holdOf(100)), chargeOf(60))
    await until(async () => (await read(at)).length > 0)
    const named = { key: undefined, budget: 'day', isRefusal: false } as const
    const today = { ...named, window: 20_778, spentMicroUsd: 60, limitMicroUsd: 100 }
    expect(await read(at)).toEqual([{ organization: 'acme', ...today }])
    await first.close()
    nowMs += 86_400_000
    const next = EmbeddedLedger.open(at, { clock })
    next.settle(next.reserve(limited, holdOf(100)), chargeOf(100))
    await next.close()
    const tomorrow = { ...today, window: 20_779, spentMicroUsd: 100 }
    expect(await read(at)).toEqual([today, tomorrow].map((one) => ({ organization: 'acme', ...one })))
    nowMs += 60_000
    await EmbeddedLedger.open(at, { clock }).close()
    expect(await read(at)).toEqual([{ organization: 'acme', ...tomorrow }])
  })
})

describe('a reader', () => {
  test('sees a request at once, while the gateway runs and after it was killed', async () => {
    const at = await killedAfter(70, 5)
    expect(statSync(join(at, JOURNAL_FILE)).size).toBeGreaterThan(0)
    const database = new Database(join(at, LEDGER_FILE))
    expect(database.query('SELECT count(*) AS n FROM request').get()).toEqual({ n: 0 })
    database.close()
    const seen = { costs: [70, 5], usage: [[2, 75]], spent: [75, 75] }
    expect(await figures(at)).toEqual(seen)
    await EmbeddedLedger.open(at).close()
    expect(await figures(at)).toEqual(seen)
  })

  test('sees each request once, also if SQLite gets it while the pages are read', async () => {
    const at = folder()
    const journal = new Journal(at, Date.now)
    const store = new MemoryStore({ now: Date.now }, journal)
    const groups = (count: number) => {
      for (let i = 0; i < count; i++) {
        const hold = holdOf(100)
        store.reserve(account, hold)
        store.settle({ id: hold.id, account, admittedMs: 0 }, chargeOf(1))
        journal.commit()
      }
    }
    // A page has 100 groups.
    groups(150)
    journal.fill()
    groups(3)
    const pages = new EmbeddedAuditLog(at).read(ALL)
    const first = await pages.next()
    journal.fill()
    groups(3)
    const rest = await Array.fromAsync(pages)
    expect(first.value).toHaveLength(100)
    expect(rest.flat()).toHaveLength(53)
    journal.close()
  })

  test('finds one request by its id, and none of another key', async () => {
    const at = await killedAfter(70)
    const [row = expect.unreachable()] = (await Array.fromAsync(new EmbeddedAuditLog(at).read(ALL))).flat()
    const find = async (query: object) => Array.fromAsync(new EmbeddedAuditLog(at).read({ ...ALL, ...query }))
    expect((await find({ id: row.id })).flat()).toEqual([row])
    expect((await find({ id: row.id, untilMs: row.endedMs })).flat()).toEqual([])
    expect((await find({ key: 'other' })).flat()).toEqual([])
    const query = { ...ALL, key: 'other' }
    expect(await new EmbeddedUsageLog(at).read(query)).toEqual([])
  })
})

test('a group is on the disk only once the file before it is gone, whose flush may have failed', async () => {
  const flushes: { readonly file: number; readonly done: (error: Error | null) => void }[] = []
  const flush = (file: number, done: (error: Error | null) => void) => void flushes.push({ file, done })
  const file = new JournalFile(folder(), { ...realDisk, flush })
  const WAL = -1
  /** Finishes every flush that runs, of the write-ahead log and the folder only if `isOldGone`. */
  const finish = async (isOldGone: boolean) => {
    await Bun.sleep(0)
    for (const one of flushes.splice(0)) {
      if (isOldGone || one.file > WAL) one.done(null)
      else flushes.push(one)
    }
  }
  file.append('{}', 1)
  file.rotate(WAL)
  file.append('{}', 2)
  await finish(false)
  expect(file.synced).toBe(0)
  await finish(true)
  await finish(true)
  file.append('{}', 3)
  await finish(true)
  expect(file.synced).toBe(3)
  file.close(true)
})

describe('a start', () => {
  test('cuts a group that was not written completely, and reports it', async () => {
    const at = await killedAfter(70, 5)
    const path = join(at, JOURNAL_FILE)
    writeFileSync(path, readFileSync(path).subarray(0, -7))
    const ledger = EmbeddedLedger.open(at)
    expect(ledger.health()).toMatchObject({ ready: true, up: true })
    expect(ledger.health().complaint).toMatch(/^The end of ledger\.journal was not written completely/)
    await ledger.close()
    expect(await figures(at)).toEqual({ costs: [70], usage: [[1, 70]], spent: [70, 70] })
  })

  test('refuses a journal that is damaged before its end, and changes nothing', async () => {
    const at = await killedAfter(1, 2, 3, 4, 5, 6)
    const path = join(at, JOURNAL_FILE)
    const bytes = readFileSync(path)
    bytes[bytes.indexOf('"number":2') + 20] = 0x7f
    writeFileSync(path, bytes)
    const message = /ledger\.journal is damaged \(group \d is missing, and later ones are there\)/
    expect(() => EmbeddedLedger.open(at)).toThrow(message)
    expect(() => EmbeddedWindowReset.open(at)).toThrow(message)
    await expect(new EmbeddedUsageLog(at).read(ALL)).rejects.toThrow(message)
    expect(readFileSync(path).equals(bytes)).toBe(true)
    rmSync(path)
    await EmbeddedLedger.open(at).close()
  })

  test('refuses a journal whose first line is damaged', async () => {
    const at = await killedAfter(1, 2, 3, 4, 5, 6)
    const path = join(at, JOURNAL_FILE)
    const bytes = readFileSync(path)
    bytes[30] = 0x7f
    writeFileSync(path, bytes)
    expect(() => EmbeddedLedger.open(at)).toThrow('ledger.journal is damaged (group 1 is missing')
  })

  test('refuses files of two backups: SQLite lacks groups that are no longer in the journal', async () => {
    const [early, late] = [await killedAfter(), folder()]
    const ledger = EmbeddedLedger.open(late)
    for (const cost of [1, 2, 3, 4, 5]) await settle(ledger, cost)
    const path = join(late, JOURNAL_FILE)
    const lines = readFileSync(path, 'utf8').split('\n')
    writeFileSync(join(early, JOURNAL_FILE), [lines[0], ...lines.slice(3)].join('\n'))
    await ledger.close()
    expect(() => EmbeddedLedger.open(early)).toThrow('is damaged')
  })

  test('leaves no journal after a clean end, and keeps its files private', async () => {
    const at = folder()
    const ledger = EmbeddedLedger.open(at)
    expect(statSync(join(at, JOURNAL_FILE)).mode & 0o777).toBe(0o600)
    await settle(ledger, 70)
    await ledger.close()
    expect(existsSync(join(at, JOURNAL_FILE))).toBe(false)
    expect(await figures(at)).toMatchObject({ costs: [70] })
  })
})

test('while another process has the SQLite file locked, requests go on, and nothing is lost', async () => {
  const at = folder()
  const ledger = EmbeddedLedger.open(at)
  const other = new Database(join(at, LEDGER_FILE))
  other.run('BEGIN IMMEDIATE')
  await settle(ledger, 70)
  await until(() => ledger.health().complaint !== undefined)
  expect(ledger.health()).toMatchObject({ ready: true, up: true, complaint: 'database is locked', pending: 0 })
  await settle(ledger, 5)
  other.run('ROLLBACK')
  other.close()
  await until(() => ledger.health().complaint === undefined)
  await ledger.close()
  expect(await figures(at)).toEqual({ costs: [70, 5], usage: [[2, 75]], spent: [75, 75] })
})
