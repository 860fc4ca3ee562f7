/** Folds what Redis has of usage that is long past into months: one field a month, key and model instead of thirty. */

import { foldedDay } from '../window.ts'
import { ORGANIZATIONS_KEY, type RedisBook, redisKey } from './book.ts'
import { type connect, isRefusal } from './connect.ts'

const SCANNED_A_CALL = 500
const ABREAST = 32

export async function foldUsage(client: ReturnType<typeof connect>, book: RedisBook, today: number): Promise<void> {
  for (const organization of await client.smembers(ORGANIZATIONS_KEY)) {
    try {
      await foldOne(client, book, organization, today)
    } catch (error) {
      // What is wrong with the keys of one organisation keeps no other from its turn.
      if (!isRefusal(error)) throw error
    }
  }
}

async function foldOne(
  client: ReturnType<typeof connect>,
  book: RedisBook,
  organization: string,
  today: number,
): Promise<void> {
  let cursor = '0'
  do {
    const [next, words] = await client.hscan(redisKey(organization, 'usage'), cursor, 'COUNT', SCANNED_A_CALL)
    cursor = next
    const old = words.flatMap((field, i) => {
      const [day = '', key, model] = field.split('\0')
      const month = foldedDay(Number(day), today)
      const isOld = i % 2 === 0 && key !== undefined && model !== undefined && month !== Number(day)
      return isOld ? [{ day: Number(day), month, key, model }] : []
    })
    for (let i = 0; i < old.length; i += ABREAST) {
      await Promise.all(old.slice(i, i + ABREAST).map((one) => book.fold(organization, one)))
    }
  } while (cursor !== '0')
}
