/** Checks whether a server can hold a ledger, and finds out why one cannot be reached. */

import { Cluster, type Redis } from 'ioredis'
import type { RedisConfig } from '../core/redis-config.ts'
import { endpointsOf, type RedisClient } from './connect.ts'
import { RedisUnfitError } from './redis-errors.ts'
import { probeTls } from './tls.ts'

const VERSION_MIN = 7

/** Throws `RedisUnfitError` if a server is too old, or evicts keys when it is full. */
export async function checkServer(client: RedisClient): Promise<void> {
  for (const node of mastersOf(client)) {
    const info = await node.info()
    const version = field(info, 'redis_version')
    if (Number.parseInt(version, 10) < VERSION_MIN) {
      throw new RedisUnfitError(`Redis ${version} is too old for the ledger. Use Redis 7 or newer, or Valkey.`)
    }
    const policy = field(info, 'maxmemory_policy')
    if (policy !== 'noeviction') {
      throw new RedisUnfitError(
        `Redis may evict keys of the ledger (maxmemory-policy ${policy}). Set maxmemory-policy noeviction.`,
      )
    }
  }
}

/** A warning for the operator if a server would lose writes when it is killed; undefined if it would not. */
export async function durabilityWarning(client: RedisClient): Promise<string | undefined> {
  for (const node of mastersOf(client)) {
    if (field(await node.info('persistence'), 'aof_enabled') !== '0') continue
    return (
      'Redis keeps no append-only file (aof_enabled:0). If it is killed, it loses all writes since its last ' +
      'snapshot, until every gateway has sent its own again. Set `appendonly yes` in Redis.'
    )
  }
  return undefined
}

/**
 * The cause if a server at one of the addresses speaks TLS and the address does not ask for it, or the reverse: such a
 * connection fails without an error that names the cause. Resolves within `ms`; undefined if it finds nothing.
 */
export async function tlsMismatch(place: RedisConfig, ms: number): Promise<RedisUnfitError | undefined> {
  const problems = await Promise.all(endpointsOf(place).map((endpoint) => probeTls(endpoint, place.tls, ms)))
  const problem = problems.find((one) => one !== undefined)
  return problem === undefined ? undefined : new RedisUnfitError(problem)
}

function mastersOf(client: RedisClient): readonly Redis[] {
  return client instanceof Cluster ? client.nodes('master') : [client]
}

/** The value of a line of INFO; empty without one. */
export function field(info: string, name: string): string {
  const line = info.split('\r\n').find((candidate) => candidate.startsWith(`${name}:`))
  return line?.slice(name.length + 1) ?? ''
}
