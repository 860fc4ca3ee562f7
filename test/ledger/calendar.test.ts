/** The calendar in Lua agrees with ours for every day of 250 years and every end of a month. */

import { expect, test } from 'bun:test'
import store from '../../src/ledger/redis/lua/store.lua' with { type: 'text' }
import { monthEndMs, monthOf } from '../../src/ledger/window.ts'
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
  redis.disconnect()
})
