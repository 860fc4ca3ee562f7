/**
 * The calendar in Lua agrees with ours for every day of 250 years and every end of a month; the windows of a time zone
 * have a number each.
 */

import { expect, test } from 'bun:test'
import { budgetLimits } from '../../src/core/limits.ts'
import store from '../../src/ledger/redis/lua/store.lua' with { type: 'text' }
import { monthEndMs, monthOf, windowEndIn, windowsIn } from '../../src/ledger/window.ts'
import { RedisServer } from './redis-server.ts'

const DAY_MS = 86_400_000

test('months and their ends are those of window.ts', async () => {
  await using server = await RedisServer.start()
  const redis = server.client()
  const prelude = `local VERSION, AMOUNT_MAX, UNITS, now = 1, 2^53 - 1, 1, 0\n${store}\n`
  const days = Array.from({ length: 91_500 }, (_, day) => day)
  const loop = (body: string) => `local reply = {} for i = 1, tonumber(ARGV[1]) do reply[i] = ${body} end return reply`
  const months = await redis.eval(prelude + loop(`month_of((i - 1) * ${DAY_MS} + i % ${DAY_MS})`), 0, days.length)
  expect(months).toEqual(days.map((day) => monthOf(day * DAY_MS)))
  const starts = await redis.eval(prelude + loop('month_start_ms(i)'), 0, 3000)
  expect(starts).toEqual(Array.from({ length: 3000 }, (_, month) => monthEndMs(month)))
})

test.each(['Australia/Lord_Howe', 'America/St_Johns', 'Asia/Kathmandu', 'Pacific/Chatham'])(
  '%s: hours have the numbers from one to the next, through all changes of the clock',
  (zone) => {
    const index = budgetLimits.findIndex((limit) => limit.window === 'hour')
    const at = (ms: number) => {
      const { windows, starts, ends } = windowsIn(zone, ms)
      return { number: windows[index] ?? 0, start: starts[index] ?? 0, end: ends[index] ?? 0 }
    }
    for (const [from, to] of [
      [Date.UTC(2026, 2, 7), Date.UTC(2026, 2, 9)],
      [Date.UTC(2026, 3, 3), Date.UTC(2026, 3, 6)],
      [Date.UTC(2026, 8, 25), Date.UTC(2026, 9, 5)],
      [Date.UTC(2026, 9, 31), Date.UTC(2026, 10, 3)],
    ] as const) {
      let last = at(from)
      while (last.end < to) {
        const next = at(last.end)
        expect(next).toMatchObject({ number: last.number + 1, start: last.end })
        expect(windowEndIn(zone, 'hour', next.number)).toBe(next.end)
        last = next
      }
    }
  },
)
