/**
 * The journal of the embedded ledger under a crash at every step: after each call to the disk and around each
 * transaction of SQLite the files are copied, as a kill would leave them; and copies lose what was not flushed, as a
 * power failure would. Each copy is opened. It must have exactly what had been written (after a power failure: at least
 * what had been flushed), and be whole: spend, usage and rows agree, no row occurs twice, nothing is held, and spend
 * that reached a threshold is recorded.
 */

import { afterAll, expect, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AuditRow } from '../../src/ledger/audit-columns.ts'
import { EmbeddedLedger } from '../../src/ledger/embedded/embedded-ledger.ts'
import { Journal } from '../../src/ledger/embedded/journal.ts'
import { type Disk, JOURNAL_FILE, OLD_JOURNAL_FILE, realDisk } from '../../src/ledger/embedded/journal-file.ts'
import { openLedgerDatabase } from '../../src/ledger/embedded/ledger-database.ts'
import { MemoryStore } from '../../src/ledger/embedded/memory-store.ts'
import {
  EmbeddedAccountUsageReader,
  EmbeddedAuditLog,
  EmbeddedCrossingReader,
  EmbeddedUsageLog,
} from '../../src/ledger/embedded/sqlite-readers.ts'
import { type Account, noCharge } from '../../src/ledger/ledger.ts'
import { Random, randomSeed } from '../ledger/random.ts'

const HISTORIES = Number(process.env['WEIR_JOURNAL_HISTORIES'] ?? 6)
const STEPS = 120
const ROTATE_BYTES = 2500
const SECTOR = 64
const FLOOR = 30
/** What a request costs that is settled after it was lost. */
const LATE = 77
const DATABASE = ['ledger.sqlite', 'ledger.sqlite-wal']
/** A dollar. Alerts are due at each 500 micro-dollars. */
const LIMIT = 1_000_000
const STEP = 500
const alertShares = Array.from({ length: 60 }, (_, i) => ((i + 1) * STEP) / LIMIT)
const organizationLimits = { spend: { total: LIMIT, strict: false, onExhausted: 'finish' } } as const
const account: Account = { organization: 'acme', organizationLimits, key: 'ci', keyLimits: {}, alertShares }
const held = { inputTokens: 10, outputTokens: 5, costMicroUsd: 100 }

const root = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'weir-journal-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

/** By request: how it ended and its cost. What still runs is lost, and charged its progress or the floor. */
type Books = ReadonlyMap<string, End>

type End = readonly [kind: AuditRow['kind'], cost: number]

/** What the test itself knows of a request. */
interface Truth {
  posted: number
  end: End | undefined
}

interface Flushing {
  readonly file: number
  /** Bytes of the file when the flush began, and the index of the books that it then had. */
  readonly size: number
  readonly books: number
  readonly isDatabase: boolean
  readonly done: (error: Error | null) => void
}

class World {
  readonly folder = mkdtempSync(join(root, 'world-'))
  private readonly time = { now: Date.UTC(2026, 10, 21, 9) }
  private readonly truths = new Map<string, Truth>()
  /** What each group that was written completely left, beginning with nothing. */
  private readonly written: Books[] = [new Map()]
  private readonly paths = new Map<number, string>()
  private readonly flushed = new Map<string, number>()
  private flushing: Flushing[] = []
  /** The books of this index and all before survive a power failure. */
  private durable = 0
  private isFull = false
  private made = 0
  private readonly checks: (() => Promise<void>)[] = []
  private readonly journal: Journal
  private readonly store: MemoryStore

  constructor(
    private readonly random: Random,
    private readonly sample: number,
  ) {
    const now = () => this.time.now
    this.journal = new Journal(this.folder, now, { rotateBytes: ROTATE_BYTES, disk: this.disk() })
    this.store = new MemoryStore({ now }, this.journal, { leaseMs: 30_000, endedMs: 0, lostMs: 3_600_000 })
    this.journal.load()
    this.keepDatabase('flushed')
  }

  async run(): Promise<void> {
    for (let i = 0; i < STEPS; i++) {
      this.step()
      for (const check of this.checks.splice(0)) await check()
    }
    this.isFull = false
    for (const one of this.flushing.splice(0)) this.endFlush(one)
    this.journal.close()
    for (const check of this.checks.splice(0)) await check()
    expect(readdirSync(this.folder).filter((name) => name.includes('journal'))).toEqual([])
    const { books } = await read(this.folder)
    for (const [id, { end }] of this.truths) if (end !== undefined) expect([id, books.get(id)]).toEqual([id, end])
  }

  private step(): void {
    const { random, store } = this
    const running = [...this.truths].filter(([, { end }]) => end === undefined)
    const lost = [...this.truths].filter(([, { end }]) => end?.[0] === 'lost')
    switch (random.pick(['reserve', 'reserve', 'extend', 'settle', 'late', 'time', 'write', 'fill', 'flush', 'full'])) {
      case 'reserve': {
        const id = `r${this.made++}`
        store.reserve(account, { id, estimate: held, floorMicroUsd: FLOOR, model: 'm' })
        this.truths.set(id, { posted: 0, end: undefined })
        break
      }
      case 'extend': {
        if (running.length === 0) break
        const [id, truth] = random.pick(running)
        const cost = random.below(150)
        store.extend(account, id, { ...held, costMicroUsd: cost }, held)
        truth.posted = Math.max(truth.posted, cost)
        break
      }
      case 'settle':
      case 'late': {
        const some = random.oneIn(3) ? lost : running
        if (some.length === 0) break
        const [id, truth] = random.pick(some)
        const cost = random.below(200)
        const charge = { ...noCharge('completed'), ...held, costMicroUsd: cost, model: 'm' }
        store.settle({ id, account, admittedMs: 0 }, charge)
        truth.end = [truth.end === undefined ? 'settled' : 'late', cost]
        break
      }
      case 'time':
        this.time.now += random.pick([1, 20_000, 31_000])
        store.reapAll()
        for (const [id, truth] of running) if (!this.isLive(id)) truth.end = ['lost', Math.max(truth.posted, FLOOR)]
        break
      case 'write':
        this.journal.commit()
        break
      case 'fill':
        this.journal.fill()
        break
      case 'flush': {
        if (this.flushing.length === 0) break
        const ended = random.pick(this.flushing)
        this.flushing = this.flushing.filter((one) => one !== ended)
        this.endFlush(ended)
        break
      }
      case 'full':
        this.isFull = random.oneIn(2)
        break
    }
    this.crash('between two steps')
  }

  private isLive(id: string): boolean {
    return this.store.extend(account, id, { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }, held) !== 'ended'
  }

  /** What the ledger should say of every request if it was started again now, and everything had been written. */
  private now(): Books {
    return new Map(
      [...this.truths].map(([id, { posted, end }]) => [id, end ?? (['lost', Math.max(posted, FLOOR)] as const)]),
    )
  }

  /** A disk that may be full, whose flushes end when the history wants, and any of whose calls may be the last. */
  private disk(): Disk {
    return {
      create: (path) => {
        const file = realDisk.create(path)
        this.paths.set(file, path)
        this.flushed.set(path, 0)
        this.crash('after a file was created')
        return file
      },
      write: (file, bytes, at) => {
        if (this.isFull && this.random.oneIn(2)) throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
        const isPart = bytes.length > 1 && (this.isFull || this.random.oneIn(3))
        const most = isPart ? 1 + this.random.below(bytes.length - 1) : bytes.length
        const count = realDisk.write(file, bytes.subarray(0, most), at)
        if (isWholeGroup(readFileSync(this.paths.get(file) ?? ''))) this.written.push(this.now())
        this.crash('in a write')
        return count
      },
      truncate: (file, size) => {
        realDisk.truncate(file, size)
        this.crash('after a truncation')
      },
      rename: (from, to) => {
        realDisk.rename(from, to)
        for (const [file, path] of this.paths) if (path === from) this.paths.set(file, to)
        this.flushed.set(to, this.flushed.get(from) ?? 0)
        this.crash('after a file was renamed')
      },
      remove: (path) => {
        realDisk.remove(path)
        this.crash('after a file was removed')
      },
      flush: (file, done) => this.flush(file, done),
      flushNow: (file) => {
        if (!fstatSync(file).isDirectory()) this.keepDatabase('flushed')
      },
    }
  }

  private flush(file: number, done: Flushing['done']): void {
    const path = this.paths.get(file)
    const isDatabase = path === undefined && !fstatSync(file).isDirectory()
    if (isDatabase) this.keepDatabase('flushing')
    const size = path === undefined ? 0 : readFileSync(path).length
    this.flushing.push({ file, size, isDatabase, books: this.written.length - 1, done })
  }

  private endFlush({ file, size, isDatabase, books, done }: Flushing): void {
    const path = this.paths.get(file)
    if (path !== undefined) this.flushed.set(path, Math.max(size, this.flushed.get(path) ?? 0))
    if (isDatabase) this.keepDatabase('flushed', 'flushing')
    // While there is an old file, its end may not be flushed.
    const isWhole = isDatabase || (path !== undefined && !existsSync(join(this.folder, OLD_JOURNAL_FILE)))
    if (isWhole) this.durable = Math.max(this.durable, books)
    done(null)
    this.crash('after a flush')
  }

  /** Keeps SQLite's files as they are, or as they were kept before. */
  private keepDatabase(name: string, from?: string): void {
    const to = join(this.folder, name)
    rmSync(to, { recursive: true, force: true })
    mkdirSync(to)
    const source = from === undefined ? this.folder : join(this.folder, from)
    for (const file of DATABASE) if (existsSync(join(source, file))) cpSync(join(source, file), join(to, file))
  }

  /** Copies the files as a kill would leave them now, or a power failure, and checks the copy after the step. */
  private crash(where: string): void {
    if (!this.random.oneIn(this.sample)) return
    const copy = mkdtempSync(join(root, 'crash-'))
    const isPower = this.random.oneIn(2)
    const isRolledBack = isPower && this.random.oneIn(2)
    const source = isRolledBack ? join(this.folder, 'flushed') : this.folder
    for (const file of DATABASE) if (existsSync(join(source, file))) cpSync(join(source, file), join(copy, file))
    for (const file of [JOURNAL_FILE, OLD_JOURNAL_FILE]) {
      const path = join(this.folder, file)
      if (!existsSync(path)) continue
      const bytes = readFileSync(path)
      writeFileSync(join(copy, file), isPower ? this.afterPowerFailure(bytes, this.flushed.get(path) ?? 0) : bytes)
    }
    const candidates = isPower ? this.written.slice(this.durable) : this.written.slice(-1)
    this.checks.push(async () => {
      await this.compare(copy, candidates, `${isPower ? 'power failure' : 'kill'} ${where}`)
      rmSync(copy, { recursive: true })
    })
  }

  /** What was not flushed is there, is shorter, or has holes. */
  private afterPowerFailure(bytes: Buffer, flushed: number): Buffer {
    const length = flushed + this.random.below(bytes.length - flushed + 1)
    const left = Buffer.from(bytes.subarray(0, this.random.oneIn(2) ? length : bytes.length))
    for (let at = flushed; at < left.length; at += SECTOR)
      if (this.random.oneIn(4)) left.fill(0, at, Math.min(at + SECTOR, left.length))
    return left
  }

  /** Opens the files and compares their figures with the books; one of `candidates` must agree. */
  private async compare(folder: string, candidates: readonly Books[], where: string): Promise<void> {
    const before = await read(folder)
    expect([where, before.usage]).toEqual([where, before.cost])
    if (this.random.oneIn(3)) killedStart(folder)
    const now = () => this.time.now
    await EmbeddedLedger.open(folder, { clock: { now } }).close()
    const { books, rows, cost, usage, requests, scope, crossings } = await read(folder)
    expect([where, rows, requests]).toEqual([where, books.size, books.size])
    expect([where, scope.spent, usage]).toEqual([where, cost, cost])
    expect([where, scope.held, scope.live]).toEqual([where, 0, 0])
    // Of the largest threshold that the spend has reached, and so of all.
    const recorded = Math.max(0, ...crossings.map(({ spentMicroUsd }) => spentMicroUsd))
    expect([where, Math.floor(recorded / STEP) >= Math.floor(scope.spent / STEP)]).toEqual([where, true])
    const found = sorted(books)
    const known = candidates.map(sorted)
    if (!known.includes(found)) expect([where, found]).toEqual([where, known.at(-1) ?? ''])
    await this.settleLate(folder, books, where)
    checked += 1
  }

  /** Callers that were frozen meanwhile settle what was lost: each costs what they say, not what it had cost. */
  private async settleLate(folder: string, books: Books, where: string): Promise<void> {
    const clock = { now: () => this.time.now }
    const ledger = EmbeddedLedger.open(folder, { clock, isTakeover: true })
    let expected = 0
    for (const [id, [kind, cost]] of books) {
      expected += kind === 'lost' ? LATE : cost
      const charge = { ...noCharge('completed'), ...held, costMicroUsd: LATE, model: 'm' }
      const reply = ledger.store.settle({ id, account, admittedMs: 0 }, charge)
      expect([where, id, reply]).toEqual([where, id, kind === 'lost' ? 'settled' : 'unknown'])
    }
    await ledger.close()
    const { cost, usage, scope } = await read(folder)
    expect([where, cost, usage, scope.spent]).toEqual([where, expected, expected, expected])
  }
}

/** A start that was killed before it removed the journal: the next one finds that SQLite has it already. */
function killedStart(folder: string): void {
  const names = [JOURNAL_FILE, OLD_JOURNAL_FILE].filter((name) => existsSync(join(folder, name)))
  const journal = names.map((name) => [name, readFileSync(join(folder, name))] as const)
  openLedgerDatabase(folder).database.close()
  for (const [name, bytes] of journal) writeFileSync(join(folder, name), bytes)
}

let checked = 0

function sorted(books: Books): string {
  return JSON.stringify([...books].sort(([a], [b]) => (a < b ? -1 : 1)))
}

function isWholeGroup(bytes: Buffer): boolean {
  return bytes.at(-1) === 10 && (bytes.toString().split('\n').at(-2) ?? '').includes('"number"')
}

async function read(folder: string) {
  const pages = await Array.fromAsync(new EmbeddedAuditLog(folder).read({ sinceMs: 0, untilMs: 1e15 }))
  const rows: readonly AuditRow[] = pages.flat()
  const usage = await new EmbeddedUsageLog(folder).read({ sinceDay: 0, untilDay: 1e6 })
  const { organization } = await new EmbeddedAccountUsageReader(folder).read(account)
  return {
    books: new Map(rows.map(({ id, kind, costMicroUsd }) => [id, [kind, costMicroUsd] as const])),
    rows: rows.length,
    cost: rows.reduce((sum, { costMicroUsd }) => sum + costMicroUsd, 0),
    usage: usage.reduce((sum, { costMicroUsd }) => sum + costMicroUsd, 0),
    requests: usage.reduce((sum, { requests }) => sum + requests, 0),
    scope: { ...organization.total, live: organization.live },
    crossings: await new EmbeddedCrossingReader(folder).read(),
  }
}

test('a crash at any step, of the process or of the machine, loses nothing that was written', async () => {
  const seed = randomSeed('journal')
  for (let i = 0; i < HISTORIES; i++) {
    try {
      await new World(new Random(seed + i), 6).run()
    } catch (error) {
      throw new Error(`The history of WEIR_SEED=${seed + i}: ${String(error)}`, { cause: error })
    }
  }
  console.log(`${checked} crashes`)
}, 900_000)
