/**
 * Surveys many organisations with few calls of `survey.lua` and `overdue.lua`. In a cluster each organisation may be on
 * another server, so it is asked about each.
 */

import { Cluster, type Redis } from 'ioredis'
import { batchesOf, mapInBatches } from '../../../core/batches.ts'
import clock from '../../../redis/clock.lua' with { type: 'text' }
import { StoredScript } from '../../../redis/stored-script.ts'
import overdueLua from '../lua/overdue.lua' with { type: 'text' }
import lua from '../lua/survey.lua' with { type: 'text' }
import type { Surveyed } from '../protocol/link.ts'
import { redisKey } from './redis-keys.ts'
import { RECORD_VERSION, SUMS_VERSION } from './scripts.ts'

/** About 4 µs each, so that a call delays no other for long. */
const A_CALL = 100
const ABREAST_IN_CLUSTER = 32
const NUMBERS = 3
const ALL_GIVEN = -1

// Positions in a node's record, as in `store.lua`.
const SURVEY = new StoredScript(`#!lua flags=no-writes
local VERSION, SUMS_VERSION, NODE_EPOCH, NODE_GIVEN, NODE_REQUESTS = ${RECORD_VERSION}, ${SUMS_VERSION}, 2, 3, 4
${lua}`)
const OVERDUE = new StoredScript(`#!lua flags=no-writes
${clock}${overdueLua}`)

/** Results in the order of the organisations. Throws if Redis does not answer. */
export async function survey(
  redis: Redis | Cluster,
  organizations: readonly string[],
  node: string,
): Promise<readonly Surveyed[]> {
  return await inParts(redis, organizations, (some) => surveyOnce(redis, some, node))
}

/** Those that have an overdue reservation, or whose keys cannot be read. Throws if Redis does not answer. */
export async function overdue(redis: Redis | Cluster, organizations: readonly string[]): Promise<readonly string[]> {
  return await inParts(redis, organizations, async (some) => {
    const keys = ['deadlines', 'ends'].flatMap((key) => some.map((organization) => redisKey(organization, key)))
    // An idle organisation has neither, and a script takes a copy of each name.
    if ((await redis.exists(keys)) === 0) return []
    const places = await OVERDUE.call(redis, keys, [])
    if (!Array.isArray(places)) throw new Error('Unexpected reply from the search for overdue reservations.')
    return places.flatMap((place) => some[Number(place) - 1] ?? [])
  })
}

async function inParts<T>(
  redis: Redis | Cluster,
  organizations: readonly string[],
  ask: (some: readonly string[]) => Promise<readonly T[]>,
): Promise<readonly T[]> {
  const [size, abreast] = redis instanceof Cluster ? [1, ABREAST_IN_CLUSTER] : [A_CALL, 1]
  return (await mapInBatches([...batchesOf(organizations, size)], abreast, ask)).flat()
}

async function surveyOnce(
  redis: Redis | Cluster,
  organizations: readonly string[],
  node: string,
): Promise<readonly Surveyed[]> {
  const keys = organizations.flatMap((each) => [redisKey(each, 'scopes'), redisKey(each, 'nodes')])
  const answer = await SURVEY.call(redis, keys, [node])
  if (!Array.isArray(answer) || answer.length !== NUMBERS * organizations.length) {
    throw new Error('Unexpected reply from the survey of organisations.')
  }
  const numbers = answer.map(Number)
  return organizations.map((organization, i) => {
    const [epoch = 0, given, requests = 0] = numbers.slice(i * NUMBERS, (i + 1) * NUMBERS)
    return { organization, epoch, isWhole: given === ALL_GIVEN, requests }
  })
}
