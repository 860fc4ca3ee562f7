/** Looks at many organisations with few calls: what `survey.lua` answers. A cluster has them in different places, and is asked about each. */

import { createHash } from 'node:crypto'
import { Cluster, type Redis } from 'ioredis'
import clock from '../../../redis/clock.lua' with { type: 'text' }
import { redisKey } from '../store/redis-store.ts'
import { RECORD_VERSION } from '../store/scripts.ts'
import lua from './survey.lua' with { type: 'text' }

export interface Surveyed {
  readonly organization: string
  /** Something is to be reaped, or cannot be looked at. */
  readonly isOverdue: boolean
  readonly epoch: number
  /** All that the node had to give back to this epoch is there. */
  readonly isWhole: boolean
  /** How many requests of the node are in its figures. */
  readonly requests: number
}

/** About 5 µs each: nobody waits long behind a call. */
const A_CALL = 100
const ABREAST_IN_CLUSTER = 32
const KEYS = ['scopes', 'deadlines', 'nodes'] as const
const NUMBERS = 4
const ALL_GIVEN = -1

// The places of a node's record, as in `store.lua`.
const PROGRAM = `#!lua flags=no-writes
local VERSION, NODE_EPOCH, NODE_GIVEN, NODE_REQUESTS = ${RECORD_VERSION}, 2, 3, 4
${clock}${lua}`
const SHA1 = createHash('sha1').update(PROGRAM).digest('hex')

/** In the order of the organisations. Throws if Redis cannot be asked. */
export async function survey(
  redis: Redis | Cluster,
  organizations: readonly string[],
  node: string,
): Promise<readonly Surveyed[]> {
  const found: Surveyed[] = []
  const [size, abreast] = redis instanceof Cluster ? [1, ABREAST_IN_CLUSTER] : [A_CALL, 1]
  for (let i = 0; i < organizations.length; i += size * abreast) {
    const calls = Array.from({ length: abreast }, (_, j) =>
      organizations.slice(i + j * size, i + (j + 1) * size),
    ).filter((some) => some.length > 0)
    for (const some of await Promise.all(calls.map((one) => surveyOnce(redis, one, node)))) found.push(...some)
  }
  return found
}

async function surveyOnce(
  redis: Redis | Cluster,
  organizations: readonly string[],
  node: string,
): Promise<readonly Surveyed[]> {
  const keys = organizations.flatMap((organization) => KEYS.map((key) => redisKey(organization, key)))
  const answer = await redis.evalsha(SHA1, keys.length, ...keys, node).catch((error: unknown) => {
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
    return redis.eval(PROGRAM, keys.length, ...keys, node)
  })
  if (!Array.isArray(answer) || answer.length !== NUMBERS * organizations.length) {
    throw new Error('Redis answered the survey of organisations with something else.')
  }
  const numbers = answer.map(Number)
  return organizations.map((organization, i) => {
    const [overdue = 1, epoch = 0, given, requests = 0] = numbers.slice(i * NUMBERS, (i + 1) * NUMBERS)
    return { organization, isOverdue: overdue === 1, epoch, isWhole: given === ALL_GIVEN, requests }
  })
}
