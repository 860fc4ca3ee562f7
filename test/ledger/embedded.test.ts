/** The embedded ledger when its process is killed, its disk is full or its file is damaged. */

import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LedgerPlace } from '../../src/assembly/open-ledger.ts'
import type { AuditRow } from '../../src/ledger/audit-columns.ts'
import { lockDirectory } from '../../src/ledger/embedded/directory-lock.ts'
import { EmbeddedLedger } from '../../src/ledger/embedded/embedded-ledger.ts'
import { JOURNAL_FILE, OLD_JOURNAL_FILE } from '../../src/ledger/embedded/journal-file.ts'
import { SteadyClock } from '../../src/ledger/embedded/monotonic-clock.ts'
import {
  EmbeddedAccountUsageReader,
  EmbeddedAuditLog,
  EmbeddedUsageLog,
} from '../../src/ledger/embedded/sqlite-readers.ts'
import { LEDGER_FILE } from '../../src/ledger/embedded/state-tables.ts'
import { monthOf } from '../../src/ledger/window.ts'
import { LedgerFileError } from '../../src/sqlite/database.ts'
import { directories } from '../support/directories.ts'
import { openLedger } from '../support/open-ledger.ts'
import { accountOf, chargeOf, holdOf, spend as spendLimits } from './conformance.ts'
import { Random, randomSeed } from './random.ts'

const CHILD = join(import.meta.dir, 'embedded-child.ts')
const account = accountOf({}, {}, 'acme')
const directory = directories()

async function rowsOf(at: string): Promise<readonly AuditRow[]> {
  const pages = await Array.fromAsync(new EmbeddedAuditLog(at).read({ sinceMs: 0, untilMs: Number.MAX_SAFE_INTEGER }))
  return pages.flat()
}

/** Runs requests in a process, `atOnce` at a time; resolves once it has settled some, with what it has settled. */
async function streams(at: string, atOnce: number, settlements: number) {
  const child = Bun.spawn([process.execPath, CHILD, 'streams', at, String(atOnce)], {
    stdout: 'pipe',
    stderr: 'inherit',
  })
  // Not closed at the end: the process would end by itself.
  const reader = child.stdout.getReader()
  let text = ''
  while (text.split('\n').length <= settlements) {
    const { value, done } = await reader.read()
    if (done) throw new Error('The process ended by itself.')
    text += new TextDecoder().decode(value)
  }
  const lines = text.split('\n').slice(0, -1)
  return { child, acknowledged: lines.map((line) => [line.split(' ')[0], Number(line.split(' ')[1])] as const) }
}

/** Every settlement has its cost; the rows, the usage and what is spent have the same sum; nothing is held. */
async function checkBooks(at: string, acknowledged: Iterable<readonly [id: string | undefined, cost: number]>) {
  const { organization, key } = await new EmbeddedAccountUsageReader(at).read(account)
  const rows = await rowsOf(at)
  const byId = new Map(rows.map((row) => [row.id, row]))
  for (const [id, cost] of acknowledged) {
    const row = byId.get(id ?? '')
    expect([id, row?.costMicroUsd, row?.kind]).toEqual([id, cost, 'settled'])
  }
  expect(byId.size).toBe(rows.length)
  const sum = rows.reduce((total, { costMicroUsd }) => total + costMicroUsd, 0)
  for (const scope of [organization, key]) {
    expect([scope.total.spent, scope.total.held, scope.day.held, scope.live]).toEqual([sum, 0, 0, 0])
  }
  const lost = rows.filter(({ kind }) => kind === 'lost')
  expect(lost.length).toBeGreaterThan(10)
  for (const { costMicroUsd, estimated } of lost) expect([costMicroUsd >= 30, estimated]).toEqual([true, true])
  const usage = await new EmbeddedUsageLog(at).read({ sinceDay: 0, untilDay: 1e6 })
  expect(usage.reduce((total, row) => total + row.costMicroUsd, 0)).toBe(sum)
  expect(usage.reduce((total, row) => total + row.requests, 0)).toBe(rows.length)
}

describe('kill -9', () => {
  test('settlements keep their cost, other requests cost their progress or floor, nothing stays held', async () => {
    const at = directory()
    const random = new Random(randomSeed('kill -9'))
    const acknowledged: (readonly [string | undefined, number])[] = []
    // Few at once are killed between two groups; with many, SQLite is filled all the time, and new files begin.
    for (const atOnce of [20, 400, 20, 400, 20, 400]) {
      const run = await streams(at, atOnce, 100 + random.below(atOnce * 20))
      run.child.kill('SIGKILL')
      await run.child.exited
      acknowledged.push(...run.acknowledged)
    }
    const ledger = EmbeddedLedger.open(at)
    await checkBooks(at, acknowledged)
    await ledger.close()
  })
})

test('a backup made while it runs is whole: the journal first, then SQLite', async () => {
  const at = directory()
  const backup = directory()
  const { child, acknowledged } = await streams(at, 400, 5000)
  for (const name of [JOURNAL_FILE, OLD_JOURNAL_FILE])
    if (existsSync(join(at, name))) cpSync(join(at, name), join(backup, name))
  const database = new Database(join(at, LEDGER_FILE))
  database.run(`VACUUM INTO '${join(backup, LEDGER_FILE)}'`)
  database.close()
  child.kill('SIGKILL')
  await child.exited
  const ledger = EmbeddedLedger.open(backup)
  await checkBooks(backup, acknowledged)
  await ledger.close()
})

test('a request lost while the process was suspended, then settled, is listed once, as settled late', async () => {
  const at = directory()
  const time = { now: Date.now() }
  const ledger = EmbeddedLedger.open(at, { clock: { now: () => time.now } })
  const caught = await ledger.reserve(account, holdOf(100))
  const left = await ledger.reserve(account, holdOf(100))
  time.now += 40_000
  await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(5))
  expect(await ledger.settle(caught, chargeOf(70))).toBe('settled')
  await ledger.close()
  const rows = await rowsOf(at)
  expect(rows.filter(({ id }) => id === caught.id).map(({ kind, costMicroUsd }) => [kind, costMicroUsd])).toEqual([
    ['late', 70],
  ])
  expect(rows.filter(({ id }) => id === left.id).map(({ kind }) => kind)).toEqual(['lost'])
  expect(rows.length).toBe(3)
})

describe('the file', () => {
  test('has one owner: a second process gets an error that names the first', async () => {
    const at = directory()
    const child = Bun.spawn([process.execPath, CHILD, 'streams', at], { stdout: 'pipe', stderr: 'inherit' })
    await child.stdout.getReader().read()
    expect(() => EmbeddedLedger.open(at)).toThrow(`is in use by another process (pid ${child.pid})`)
    child.kill('SIGKILL')
    await child.exited
    await EmbeddedLedger.open(at).close()
  })

  test('a start waits for an owner that is about to exit, not for one that stays', async () => {
    const place: LedgerPlace = { ledger: { kind: 'embedded' }, ledgerUnreachable: 'refuse', dataDir: directory() }
    const owner = lockDirectory(place.dataDir)
    const starts = [false, false]
    const [first, second] = starts.map((_, i) =>
      openLedger(place).finally(() => {
        starts[i] = true
      }),
    )
    await Bun.sleep(100)
    expect(starts).toEqual([false, false])
    owner.release()
    const ended = await Promise.allSettled([first, second])
    const opened = ended.flatMap((one) => (one.status === 'fulfilled' ? (one.value ?? []) : []))
    const refused = ended.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []))
    expect(opened).toHaveLength(1)
    expect(refused).toEqual([expect.stringContaining(`is in use by another process (pid ${process.pid})`)])
    for (const one of opened) await one.close()
  })

  test('keeps its state over a clean shutdown, rates included', async () => {
    const at = directory()
    const limited = accountOf({ requestsPerMinute: 2 }, {}, 'acme')
    const first = EmbeddedLedger.open(at)
    for (let i = 0; i < 2; i++) await first.settle(await first.reserve(limited, holdOf(100)), chargeOf(70))
    await first.close()
    const second = EmbeddedLedger.open(at)
    expect(() => second.reserve(limited, holdOf(1))).toThrow('Rate limit reached')
    await second.close()
  })

  const damage: readonly [string, (path: string) => void][] = [
    [
      'not a database',
      (path) =>
        writeFileSync(
          path,
          'this is no database, and it is longer than a header of one hundred bytes, which matters to the reader of it',
        ),
    ],
    ['overwritten in the middle', (path) => overwrite(path, 4096, 8192)],
    ['cut short', (path) => writeFileSync(path, readFileSync(path).subarray(0, 5000))],
  ]
  for (const [name, harm] of damage) {
    test(`is rejected and left unchanged if it is ${name}`, async () => {
      const at = directory()
      const ledger = EmbeddedLedger.open(at)
      for (let i = 0; i < 50; i++) await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(70))
      await ledger.close()
      const path = join(at, LEDGER_FILE)
      harm(path)
      const before = readFileSync(path)
      expect(() => EmbeddedLedger.open(at)).toThrow(
        /is damaged \(.+\)\. weir does not start with figures that may be wrong/s,
      )
      expect(readFileSync(path).equals(before)).toBe(true)
      // The lock was released.
      rmSync(path)
      await EmbeddedLedger.open(at).close()
    })
  }

  test('from before a limit existed is read and written; the state of that limit begins empty', async () => {
    const at = directory()
    const settle = async (cost: number) => {
      const ledger = EmbeddedLedger.open(at)
      await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(cost))
      await ledger.close()
    }
    await settle(70)
    const database = new Database(join(at, LEDGER_FILE))
    for (const column of ['month', 'month_spent', 'month_held']) database.run(`ALTER TABLE scope DROP COLUMN ${column}`)
    database.run('ALTER TABLE live DROP COLUMN organization_month')
    database.close()
    const before = (await new EmbeddedAccountUsageReader(at).read(account)).organization
    expect([before.day.spent, before.month.spent, before.month.held]).toEqual([70, 0, 0])
    await settle(30)
    const { organization } = await new EmbeddedAccountUsageReader(at).read(account)
    expect([organization.day.spent, organization.total.spent, organization.month]).toEqual([
      ...[100, 100],
      { window: monthOf(Date.now()), spent: 30, held: 0, refused: 0 },
    ])
  })

  test('of a newer version is rejected', async () => {
    const at = directory()
    const database = new Database(join(at, LEDGER_FILE), { create: true })
    database.run('PRAGMA user_version = 99')
    database.close()
    expect(() => EmbeddedLedger.open(at)).toThrow(
      'was written by a newer version of weir (format 99; this one reads up to 3)',
    )
  })

  test('that cannot be created gives a LedgerFileError', () => {
    const at = join(directory(), 'file')
    writeFileSync(at, '')
    expect(() => EmbeddedLedger.open(at)).toThrow(LedgerFileError)
  })

  test('can be read while it is open; readers without a file find nothing and create nothing', async () => {
    const at = directory()
    expect(await new EmbeddedUsageLog(at).read({ sinceDay: 0, untilDay: 1e6 })).toEqual([])
    expect((await new EmbeddedAccountUsageReader(at).read(account)).organization.total.spent).toBe(0)
    expect(existsSync(join(at, LEDGER_FILE))).toBe(false)
  })
})

/** Whether this machine lets us mount a small disk; the test is skipped if not. */
const canMount = Bun.spawnSync(['unshare', '-rm', 'true']).exitCode === 0

test.skipIf(!canMount)(
  'a full disk: serves on, reports it, stops at its bound, and recovers by itself without loss',
  async () => {
    const at = directory()
    const script = `mount -t tmpfs -o size=24m none '${at}' && exec '${process.execPath}' '${CHILD}' full '${at}'`
    const child = Bun.spawn(['unshare', '-rm', 'sh', '-c', script], { stdout: 'pipe', stderr: 'inherit' })
    const text = await new Response(child.stdout).text()
    expect(await child.exited).toBe(0)
    const { granted, spent, failure, during, after } = JSON.parse(text)
    expect(granted).toBeGreaterThan(9_000)
    expect(spent).toBe(1 + 2 * granted + 3)
    expect(failure).toBe('ledger_unavailable')
    expect(during).toMatchObject({ ready: false, complaint: 'database or disk is full' })
    expect(after).toMatchObject({ ready: true })
  },
)

test('a burst faster than the commit interval is committed early, not refused', async () => {
  const ledger = EmbeddedLedger.open(directory())
  for (let i = 0; i < 12_000; i++) await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(1))
  expect(ledger.health().complaint).toBeUndefined()
  await ledger.close()
})

describe('the clock', () => {
  function clock() {
    const time = { wall: 1_000_000, steady: 0 }
    const steady = new SteadyClock(
      () => time.wall,
      () => time.steady,
    )
    const pass = (ms: number, step = 0) => {
      time.steady += ms
      time.wall += ms + step
      return steady.now() - 1_000_000
    }
    return { pass, follow: () => steady.follow() }
  }

  test('follows small steps at once', () => {
    const { pass, follow } = clock()
    expect([pass(1000), pass(1000, 500), pass(1000, -60_000)]).toEqual([1000, 2500, -56_500])
    expect(follow()).toBe(0)
  })

  test.each([3_600_000, -3_600_000])('follows a large step of %d ms when it was seen twice', (step) => {
    const { pass, follow } = clock()
    expect([pass(1000, step), follow(), pass(5000), follow(), pass(1), follow()]).toEqual([
      1000,
      0,
      6000,
      step,
      6001 + step,
      0,
    ])
  })

  test('ignores a single wrong reading', () => {
    const { pass, follow } = clock()
    expect([pass(10, 86_400_000), follow(), pass(10, -86_400_000), follow(), pass(5000)]).toEqual([10, 0, 20, 0, 5020])
    expect([pass(10, 86_400_000), follow(), pass(10, -86_400_000), follow()]).toEqual([5030, 0, 5040, 0])
  })
})

describe('a system time that steps under a running ledger', () => {
  const HOUR_MS = 3_600_000
  /** Noon, so that hours stay within a day. */
  const NOON = Date.UTC(2026, 10, 23, 12)

  function stage() {
    const time = { wall: NOON, steady: 0 }
    const clock = new SteadyClock(
      () => time.wall,
      () => time.steady,
    )
    const steps: number[] = []
    const options = { clock, stepped: (ms: number) => steps.push(ms) }
    const ledger = EmbeddedLedger.open(directory(), options)
    return {
      ledger,
      steps,
      step: (ms: number) => {
        time.wall += ms
      },
      /** As the timer does. */
      pass: (seconds: number) => {
        for (let i = 0; i < seconds; i += 5) {
          time.steady += 5000
          time.wall += 5000
          ledger.tend()
        }
      },
    }
  }

  const limited = accountOf({ requestsPerMinute: 1 }, {}, 'acme')

  test.each([10, 3 * 60, 40 * 24 * 60, -10, -3 * 60, -40 * 24 * 60])(
    'by %d minutes: leases last as long',
    (minutes) => {
      const { ledger, steps, step, pass } = stage()
      const { store } = ledger
      const live = holdOf(10)
      const left = holdOf(10)
      store.reserve(account, live)
      store.reserve(account, left)
      step(minutes * 60_000)
      pass(20)
      expect(steps).toEqual([minutes * 60_000])
      const usage = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }
      const wanted = live.estimate
      // One is extended in time; the process of the other is gone.
      expect(store.extend(account, live.id, usage, wanted)).toBe('extended')
      pass(20)
      expect(store.figures(account).organization.live).toBe(1)
      expect(store.settle({ account, id: live.id, admittedMs: 0 }, chargeOf(5))).toBe('settled')
      expect(store.settle({ account, id: left.id, admittedMs: 0 }, chargeOf(5))).toBe('settled')
      ledger.closeNow()
    },
  )

  test.each([3, -3])('by %d hours: a minute of a rate limit stays a minute', (hours) => {
    const { ledger, step, pass } = stage()
    expect(ledger.store.reserve(limited, holdOf(1)).outcome).toBe('granted')
    step(hours * HOUR_MS)
    pass(20)
    expect(ledger.store.reserve(limited, holdOf(1))).toMatchObject({ outcome: 'refused' })
    pass(45)
    expect(ledger.store.reserve(limited, holdOf(1)).outcome).toBe('granted')
    ledger.closeNow()
  })

  test('by a day: the next day of a budget begins, and a day back is reported and counts on', () => {
    const { ledger, step, pass } = stage()
    const { store } = ledger
    const account = accountOf(spendLimits({ day: 1000 }), {}, 'acme')
    const spend = () => {
      const hold = holdOf(1000)
      const reply = store.reserve(account, hold)
      if (reply.outcome === 'granted') store.settle({ account, id: hold.id, admittedMs: 0 }, chargeOf(1000))
      return reply.outcome
    }
    expect([spend(), spend()]).toEqual(['granted', 'refused'])
    step(24 * HOUR_MS)
    pass(15)
    expect([spend(), spend(), ledger.health().complaint]).toEqual(['granted', 'refused', undefined])
    step(-24 * HOUR_MS)
    pass(15)
    expect(ledger.health().complaint).toContain('a window of its budgets began too early')
    expect(spend()).toBe('refused')
    step(24 * HOUR_MS)
    pass(15)
    expect([ledger.health().complaint, spend()]).toEqual([undefined, 'refused'])
    ledger.closeNow()
  })
})

function overwrite(path: string, from: number, to: number): void {
  const bytes = readFileSync(path)
  bytes.fill(0xa5, from, to)
  writeFileSync(path, bytes)
}
