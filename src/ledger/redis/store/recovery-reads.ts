/**
 * What a node reads from Redis to find out what Redis has lost: its own figures, and the reservations of an
 * organisation. Uses HMGET and HSCAN with about 500 fields a call.
 */

import type { Cluster, Redis } from 'ioredis'
import { figuresOfList, type UsageFigures } from '../../usage-figures.ts'
import { foldUsageRows, placeName, type UsagePlace, type UsageRow } from '../../usage-log.ts'
import { bucketOf, daysOfBucket } from '../../window.ts'
import type { SpentInWindows } from '../protocol/counter-spend.ts'
import type { FoundReservation, NodeFigures, NodeSums } from '../protocol/epochs.ts'
import { redisKey } from './redis-keys.ts'

/** As in `store.lua`: the field with the day before which figures may have been summed by month. */
const FOLDED = 'folded'
/** The states live and lost. */
const OPEN_STATES: ReadonlySet<number | undefined> = new Set([1, 3])
/** Fields of a hash that one call reads. */
export const FIELDS_PER_CALL = 500

/** As `RecoverableStore` has it. */
export async function figuresOfNode(
  redis: Redis | Cluster,
  node: string,
  places: readonly UsagePlace[],
  foldedBefore: number,
): Promise<NodeFigures> {
  const [first] = places
  if (first === undefined) return { figures: new Map(), foldedBefore }
  const hash = redisKey(first.organization, 'nodes')
  for (let before = foldedBefore; ; ) {
    before = Math.max(before, Number((await redis.hget(hash, FOLDED)) ?? 0))
    const figures = await figuresByBucket(redis, hash, node, places, before)
    if (figures !== undefined) return { figures, foldedBefore: before }
  }
}

/** Undefined if Redis has folded later days meanwhile. */
async function figuresByBucket(
  redis: Redis | Cluster,
  hash: string,
  node: string,
  places: readonly UsagePlace[],
  foldedBefore: number,
): Promise<ReadonlyMap<string, UsageRow> | undefined> {
  const buckets = new Map<string, UsagePlace>()
  for (const { day, organization, key, series } of places) {
    const bucket = { day: bucketOf(day, foldedBefore), organization, key, series }
    buckets.set(placeName(bucket), bucket)
  }
  const found: UsageRow[] = []
  let wanted: UsagePlace[] = []
  let left = buckets.size
  for (const bucket of buckets.values()) {
    wanted.push(...daysOfBucket(bucket.day, foldedBefore).map((day) => ({ ...bucket, day })))
    left -= 1
    // All days of a bucket are in one command, because Redis may fold them between two commands.
    if (wanted.length < FIELDS_PER_CALL && left > 0) continue
    const fields = wanted.map(({ day, key, series }) => [node, day, key, series].join('\0'))
    const [folded, ...texts] = await redis.hmget(hash, FOLDED, ...fields)
    if (Number(folded ?? 0) > foldedBefore) return undefined
    for (const [i, place] of wanted.entries()) {
      const text = texts[i]
      if (text != null) found.push({ ...place, ...figuresOfList(text) })
    }
    wanted = []
  }
  return foldUsageRows(found, foldedBefore)
}

/** Every reservation that Redis stores of an organisation, by id. */
export async function storedReservations(
  redis: Redis | Cluster,
  organization: string,
): Promise<ReadonlyMap<string, FoundReservation>> {
  const found = new Map<string, FoundReservation>()
  let cursor = '0'
  do {
    const name = redisKey(organization, 'reservations')
    const [next, parts] = await redis.hscanBuffer(name, cursor, 'COUNT', FIELDS_PER_CALL)
    cursor = String(next)
    for (let i = 0; i + 1 < parts.length; i += 2) {
      const record = parts[i + 1]
      if (record !== undefined) found.set(String(parts[i]), reservationOf(record))
    }
  } while (cursor !== '0')
  return found
}

/**
 * Reads the beginning of a reservation that `store.lua` packed with msgpack: a list of version and state, one byte
 * each, then the times `due` and `admitted`, nine bytes each. The list header is one byte for an ended reservation,
 * which has fewer than 16 fields, and three bytes for any other.
 */
function reservationOf(record: Buffer): FoundReservation {
  const head = record[0] === 0xdc ? 3 : 1
  if (!OPEN_STATES.has(record[head + 1])) return { isOpen: false, admittedMs: 0 }
  const at = head + 11
  const admittedMs = record[at] === 0xcb ? record.readDoubleBE(at + 1) : Number(record.readBigUInt64BE(at + 1))
  return { isOpen: true, admittedMs }
}

/** What a text of `parts.lua` has of a counter; undefined if Redis has nothing of the node in it. */
export function partOf(text: string): SpentInWindows | undefined {
  if (text === '') return undefined
  const numbers = text.split(',').map(Number)
  return { windows: numbers.filter((_, i) => i % 2 === 0), spent: numbers.filter((_, i) => i % 2 === 1) }
}

/** The counters of an open reservation, and their windows, as a text of `parts.lua` has them; undefined if none. */
export function holdOf(text: string): ReadonlyMap<string, readonly number[]> | undefined {
  if (text === '') return undefined
  const words = text.split('\0')
  const counters = new Map<string, readonly number[]>()
  for (let i = 0; i + 1 < words.length; i += 2) {
    counters.set(words[i] ?? '', (words[i + 1] ?? '').split(',').map(Number))
  }
  return counters
}

/** Parses the sums of a node's record, as `sum-node.lua` writes them; undefined if it has none. */
export function nodeSumsOf(text: string): NodeSums | undefined {
  if (text === '') return undefined
  const [before, ...parts] = text.split('\0')
  const byKey = new Map<string, UsageFigures>()
  for (let i = 0; i + 1 < parts.length; i += 2) byKey.set(parts[i] ?? '', figuresOfList(parts[i + 1] ?? ''))
  return { before: Number(before), byKey }
}
