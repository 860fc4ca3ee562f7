/** The organisations of a configuration, with those that commands and the admin API created. */

import { openKeyStore } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import { allOrganizations } from '../keys/organization-record.ts'
import { withLedger } from './ledger-part.ts'

/** The configuration with the organisations of the store, which have no key in it. Throws `LedgerProblem`. */
export async function withStoredOrganizations(config: Config): Promise<Config> {
  const stored = await withLedger(openKeyStore, config, (store) => store.organizations())
  return stored.length === 0 ? config : { ...config, organizations: allOrganizations(config.organizations, stored) }
}
