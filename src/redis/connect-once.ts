/** A connection for a command that runs once: it resolves when the connection is ready, or rejects with the cause. */

import type { RedisConfig } from '../core/redis-config.ts'
import { connect, type RedisClient } from './connect.ts'
import { accessProblem, RedisUnfitError } from './redis-errors.ts'
import { tlsMismatch } from './server-check.ts'

const CONNECT_MS = 3000
/** The last part of `CONNECT_MS`, in which weir looks for the cause. */
const PROBE_MS = 500

/** Throws `RedisUnfitError` if Redis does not answer within 3 s, or at once if it rejects the credentials. */
export async function connectOnce(place: RedisConfig): Promise<RedisClient> {
  const client = connect(place, 'weir-read')
  const { promise: ready, resolve, reject } = Promise.withResolvers<void>()
  let last = ''
  client.once('ready', resolve)
  client.on('error', (error) => {
    const problem = accessProblem(error)
    if (problem !== undefined) reject(problem)
    if (error.message !== '') last = ` (${error.message})`
  })
  const timer = setTimeout(async () => {
    reject((await tlsMismatch(place, PROBE_MS)) ?? new RedisUnfitError(`Redis does not answer${last}.`))
  }, CONNECT_MS - PROBE_MS)
  try {
    await ready
    return client
  } catch (error) {
    client.disconnect()
    throw error
  } finally {
    clearTimeout(timer)
  }
}
