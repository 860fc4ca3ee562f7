/** A connection for a command that runs once: it is ready, or the command ends with the reason. */

import type { RedisConfig } from '../core/redis-config.ts'
import { connect, denialOf, mistakenTls, RedisUnfitError } from './connect.ts'

type Client = ReturnType<typeof connect>

const CONNECT_MS = 3000
/** The last part of `CONNECT_MS`, in which we find out why nothing answers. */
const KNOCK_MS = 500

/** Throws `RedisUnfitError` if Redis does not answer within 3 s, or at once if it rejects the login. */
export async function connectOnce(place: RedisConfig): Promise<Client> {
  const client = connect(place, 'weir-read')
  const { promise: ready, resolve, reject } = Promise.withResolvers<void>()
  let last = ''
  client.once('ready', resolve)
  client.on('error', (error) => {
    const denial = denialOf(error)
    if (denial !== undefined) reject(denial)
    if (error.message !== '') last = ` (${error.message})`
  })
  const timer = setTimeout(async () => {
    reject((await mistakenTls(place, KNOCK_MS)) ?? new RedisUnfitError(`Redis does not answer${last}.`))
  }, CONNECT_MS - KNOCK_MS)
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
