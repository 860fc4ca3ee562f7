/** Which keys of a configuration are revoked by command, for the warnings of `weir check` and `weir reload`. */

import type { Config } from '../config/config.ts'
import { within } from '../core/wait-limit.ts'
import { openKeyStore, withPart } from './open-ledger.ts'

/** Longer than Redis takes to answer. A check of the configuration needs no Redis, and must not wait for one. */
const WAIT_MS = 1000

/**
 * Since when keys that are enabled in the configuration are revoked, in Unix milliseconds by id. Empty if the store
 * cannot be read in a second: nothing is known then, and the commands that need the store report why.
 */
export async function revokedKeys(config: Config): Promise<ReadonlyMap<string, number>> {
  try {
    return (await within(WAIT_MS, read(config))) ?? new Map()
  } catch {
    return new Map()
  }
}

async function read(config: Config): Promise<Map<string, number>> {
  const keys = config.organizations.flatMap(({ id: organization, keys }) =>
    keys.flatMap(({ id, disabled }) => (disabled ? [] : [{ id, organization }])),
  )
  const found = await withPart(openKeyStore, config, (store) => store.revocations(keys.map(({ id }) => id)))
  return new Map(
    keys.flatMap(({ id, organization }) => {
      const revocation = found.get(id)
      return revocation?.organization === organization ? [[id, revocation.createdMs]] : []
    }),
  )
}
