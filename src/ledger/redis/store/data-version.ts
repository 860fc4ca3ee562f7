/**
 * The version of weir's data in Redis, under one key. It grows only with a change that earlier versions of weir cannot
 * read: what is merely added (a field of an audit entry, a figure at the end of a list, a value at the end of a record)
 * keeps it, so that gateways of two versions run side by side during an upgrade. Records have a version of their own,
 * which every script checks.
 */

import type { RedisClient } from '../../../redis/connect.ts'
import { RedisUnfitError } from '../../../redis/redis-errors.ts'

const KEY = 'weir:data-version'
const DATA_VERSION = 1

/** Throws `RedisUnfitError` if a newer version of weir wrote the data. Data without a version are of version 1. */
export async function checkDataVersion(client: RedisClient): Promise<void> {
  const version = Number((await client.get(KEY)) ?? DATA_VERSION)
  if (version <= DATA_VERSION) return
  throw new RedisUnfitError(
    `The data in Redis were written by a newer version of weir (data version ${version}; this one reads up to ` +
      `${DATA_VERSION}). Upgrade this weir, or restore a backup of Redis from before the upgrade.`,
  )
}

/** For a gateway: data without a version have this one from now on. */
export async function noteDataVersion(client: RedisClient): Promise<void> {
  await client.set(KEY, DATA_VERSION, 'NX')
}
