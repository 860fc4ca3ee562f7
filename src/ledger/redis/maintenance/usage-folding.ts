/** Folds old usage in Redis: hours into days, and days into months, so that one field has what thirty had. */

import type { RedisClient } from '../../../redis/connect.ts'
import { isPermanent } from '../../../redis/redis-errors.ts'
import { seriesOfDay } from '../../usage-series.ts'
import { foldedDay, HOUR_DAYS_KEPT } from '../../window.ts'
import { ORGANIZATIONS_KEY, redisKey } from '../store/redis-keys.ts'
import type { RedisStore } from '../store/redis-store.ts'

const SCANNED_A_CALL = 500
const ABREAST = 32

export async function foldUsage(client: RedisClient, store: RedisStore, today: number): Promise<void> {
  for (const organization of await client.smembers(ORGANIZATIONS_KEY)) {
    try {
      await foldOne(client, store, organization, today)
    } catch (error) {
      // A problem with the keys of one organisation must not stop the others.
      if (!isPermanent(error)) throw error
    }
  }
}

async function foldOne(client: RedisClient, store: RedisStore, organization: string, today: number): Promise<void> {
  for await (const fields of pages(client, redisKey(organization, 'usage'))) {
    const old = fields.flatMap(([day = '', key, series]) => {
      if (key === undefined || series === undefined) return []
      const month = foldedDay(Number(day), today)
      const into = Number(day) < today - HOUR_DAYS_KEPT ? seriesOfDay(series) : series
      if (month === Number(day) && into === series) return []
      return [() => store.fold(organization, { day: Number(day), key, series, month, into })]
    })
    await inTurns(old)
  }
  // The same for the figures of each node, which have no hours.
  for await (const fields of pages(client, redisKey(organization, 'nodes'))) {
    const old = fields.flatMap(([node = '', day = '', key, series]) => {
      if (key === undefined || series === undefined || foldedDay(Number(day), today) === Number(day)) return []
      return [() => store.foldOfNode(organization, { node, day: Number(day), key, series })]
    })
    await inTurns(old)
  }
}

/** The field names of a hash, each split into its parts. */
async function* pages(client: RedisClient, hash: string): AsyncGenerator<readonly (readonly string[])[]> {
  let cursor = '0'
  do {
    const [next, words] = await client.hscan(hash, cursor, 'COUNT', SCANNED_A_CALL)
    cursor = next
    yield words.filter((_, i) => i % 2 === 0).map((field) => field.split('\0'))
  } while (cursor !== '0')
}

async function inTurns(calls: readonly (() => Promise<unknown>)[]): Promise<void> {
  for (let i = 0; i < calls.length; i += ABREAST) {
    await Promise.all(calls.slice(i, i + ABREAST).map((call) => call()))
  }
}
