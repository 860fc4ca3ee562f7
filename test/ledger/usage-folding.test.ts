/** Usage older than 31 days is folded into days, and after 400 days into months; the sums stay exactly the same. */

import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { EmbeddedUsageLog } from '../../src/ledger/embedded/sqlite-readers.ts'
import { LEDGER_FILE, LEDGER_SCHEMA } from '../../src/ledger/embedded/state-tables.ts'
import { foldUsage } from '../../src/ledger/redis/maintenance/usage-folding.ts'
import { openReader, RedisUsageLog } from '../../src/ledger/redis/readers/redis-readers.ts'
import { ORGANIZATIONS_KEY, redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { LogWriter } from '../../src/ledger/request-writer.ts'
import { addUsage, noUsage } from '../../src/ledger/usage-figures.ts'
import { groupUsage, type UsageLog, type UsageRow } from '../../src/ledger/usage-log.ts'
import { partsOf } from '../../src/ledger/usage-series.ts'
import { dayOf, dayText, firstKeptDay, foldedDay, monthEndMs, monthOf } from '../../src/ledger/window.ts'
import { openDatabase } from '../../src/sqlite/database.ts'
import { directories } from '../support/directories.ts'
import { Random, randomSeed } from './random.ts'
import { RedisServer } from './redis-server.ts'

const DAY_MS = 86_400_000
const TODAY = dayOf(Date.UTC(2026, 10, 21))
const newDirectory = directories()

test('a month is folded once its last day is more than 400 days past', () => {
  // 2026-11-21 less 400 days is 2025-10-17.
  for (const [day, folded] of [
    ['2025-09-30', '2025-09-01'],
    ['2025-09-01', '2025-09-01'],
    ['2025-10-01', '2025-10-01'],
    ['2025-10-16', '2025-10-16'],
    ['2024-02-29', '2024-02-01'],
    ['2026-11-21', '2026-11-21'],
  ] as const) {
    expect([day, dayText(foldedDay(dayOf(Date.parse(day)), TODAY))]).toEqual([day, folded])
  }
  expect(dayText(firstKeptDay(TODAY))).toBe('2025-10-01')
  for (let today = TODAY; today < TODAY + 800; today++) {
    expect(foldedDay(firstKeptDay(today), today)).toBe(firstKeptDay(today))
    expect(foldedDay(firstKeptDay(today) - 1, today)).toBeLessThan(firstKeptDay(today) - 1)
  }
})

/** Rows of three years, several keys and models. */
function rowsOf(random: Random): readonly UsageRow[] {
  const rows = new Map<string, UsageRow>()
  for (let i = 0; i < 400; i++) {
    const place = {
      day: TODAY - random.below(1100),
      organization: 'acme',
      key: random.pick(['ci', 'dev']),
      series:
        random.pick(['small', 'large\topenai\tproject=a', 'large\topenai\t', '']) + random.pick(['', '\t0', '\t23']),
    }
    const figures = { requests: 1 + random.below(9), estimatedRequests: random.below(2), images: random.below(3) }
    const tokens = {
      inputTokens: random.below(1e6),
      cachedInputTokens: random.below(100),
      outputTokens: random.below(1e9),
    }
    const costMicroUsd = random.pick([random.below(1e6), 2 ** 50 + random.below(1000)])
    rows.set(JSON.stringify(place), { ...place, ...figures, ...tokens, costMicroUsd })
  }
  return [...rows.values()]
}

/** The sums of each month, key and model, computed from the dates as text. */
function byMonth(rows: readonly UsageRow[]): Readonly<Record<string, object>> {
  const sums = new Map<string, object>()
  for (const { day, organization: _, key, series, ...figures } of rows) {
    const { model, provider, tags } = partsOf(series)
    const name = `${dayText(day).slice(0, 7)} ${key} ${model} ${provider} ${tags}`
    sums.set(name, addUsage({ ...noUsage, ...sums.get(name) }, figures))
  }
  return Object.fromEntries([...sums].sort())
}

async function check(log: UsageLog, rows: readonly UsageRow[]): Promise<void> {
  const all = await log.read({ sinceDay: 0, untilDay: 1e6 })
  expect(byMonth(all)).toEqual(byMonth(rows))
  for (const { day } of all) expect(day).toBe(foldedDay(day, TODAY))
  // Younger rows stay by day, and those of the last 31 days by hour.
  for (const [by, since] of [
    ['day', firstKeptDay(TODAY)],
    ['hour', TODAY - 31],
  ] as const) {
    const young = (some: readonly UsageRow[]) =>
      groupUsage(
        some.filter(({ day }) => day >= since),
        [by, 'tag:project'],
      )
    expect(young(all)).toEqual(young(rows))
  }
  const oldHours = all.filter(({ day, series }) => day < TODAY - 31 && partsOf(series).hour !== undefined)
  expect(oldHours).toEqual([])
  // Ranges of whole months are exact at any age.
  for (let month = monthOf((TODAY - 1100) * DAY_MS); month < monthOf(TODAY * DAY_MS); month += 5) {
    const [sinceDay, untilDay] = [dayOf(monthEndMs(month - 1)), dayOf(monthEndMs(month + 2))]
    const asked = rows.filter(({ day }) => day >= sinceDay && day < untilDay)
    expect(byMonth(await log.read({ sinceDay, untilDay }))).toEqual(byMonth(asked))
  }
}

test('the embedded ledger folds old days, a few rows at a time', async () => {
  const rows = rowsOf(new Random(randomSeed('folding')))
  const directory = newDirectory()
  const database = openDatabase(join(directory, LEDGER_FILE), LEDGER_SCHEMA)
  const writer = new LogWriter(database, 90 * DAY_MS)
  for (const row of rows) writer.usage(row, row)
  for (let ms = TODAY * DAY_MS; ms < (TODAY + 0.1) * DAY_MS; ms += 501) {
    writer.foldOld(ms)
    writer.foldHours(ms)
  }
  // Again, after a settlement that was late by a year added to an old day.
  const [late] = rows.filter(({ day }) => foldedDay(day, TODAY) !== day)
  if (late === undefined) throw new Error('No row is old.')
  writer.usage(late, late)
  for (let ms = (TODAY + 0.5) * DAY_MS; ms < (TODAY + 0.9) * DAY_MS; ms += 501) {
    writer.foldOld(ms)
    writer.foldHours(ms)
  }
  database.close()
  await check(new EmbeddedUsageLog(directory), [...rows, late])
})

test('Redis folds old days while others read', async () => {
  const rows = rowsOf(new Random(randomSeed('folding')))
  await using server = await RedisServer.start()
  const client = server.client()
  await client.sadd(ORGANIZATIONS_KEY, 'foreign', 'acme')
  await client.set(redisKey('foreign', 'usage'), 'not ours')
  for (const row of rows) {
    const { requests, estimatedRequests, inputTokens, cachedInputTokens, outputTokens, images, costMicroUsd } = row
    const figures = [requests, estimatedRequests, inputTokens, cachedInputTokens, outputTokens, images, costMicroUsd]
    await client.hset(redisKey('acme', 'usage'), [row.day, row.key, row.series].join('\0'), figures.join(','))
  }
  const log = await openReader(RedisUsageLog, { kind: 'single', url: server.socket })
  const read = async () => byMonth(await log.read({ sinceDay: 0, untilDay: 1e6, organization: 'acme' }))
  const folding = foldUsage(client, new RedisStore(client, client), TODAY)
  for (let i = 0; i < 5; i++) expect(await read()).toEqual(byMonth(rows))
  await folding
  await client.del(redisKey('foreign', 'usage'))
  await check(log, rows)
  const before = await client.hgetall(redisKey('acme', 'usage'))
  await foldUsage(client, new RedisStore(client, client), TODAY)
  expect(await client.hgetall(redisKey('acme', 'usage'))).toEqual(before)
  await log.close()
})
