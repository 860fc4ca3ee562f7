/** Which kind of ledger there is, decided once: everything else knows the interfaces alone. */

import { EmbeddedKeyStore } from '../ledger/embedded/keys.ts'
import { EmbeddedLedger } from '../ledger/embedded/ledger.ts'
import { EmbeddedStandings, EmbeddedUsageLog } from '../ledger/embedded/readings.ts'
import type { KeyStore } from '../ledger/key-store.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { RedisPlace } from '../ledger/redis/connect.ts'
import { RedisKeyStore } from '../ledger/redis/keys.ts'
import { RedisLedger, type WhenUnreachable } from '../ledger/redis/ledger.ts'
import { RedisStandings, RedisUsageLog } from '../ledger/redis/readings.ts'
import type { Standings } from '../ledger/standings.ts'
import type { UsageLog } from '../ledger/usage-log.ts'

/** Where the ledger is: `ledger`, `ledger_unreachable` and `data_dir` of the configuration. */
export interface LedgerPlace {
  readonly ledger: { readonly kind: 'embedded' } | { readonly kind: 'redis'; readonly redis: RedisPlace }
  readonly ledgerUnreachable: WhenUnreachable
  readonly dataDir: string
}

/** For a gateway. Throws `LedgerFileError` or `RedisUnfitError`, whose messages are for the operator. */
export async function openLedger({ ledger, ledgerUnreachable, dataDir }: LedgerPlace): Promise<Ledger> {
  if (ledger.kind === 'embedded') return EmbeddedLedger.open(dataDir)
  return RedisLedger.open(ledger.redis, dataDir, ledgerUnreachable)
}

/** For `weir usage`, whether or not a gateway runs. Throws as `openLedger`. */
export async function openUsageLog({ ledger, dataDir }: LedgerPlace): Promise<UsageLog> {
  return ledger.kind === 'embedded' ? new EmbeddedUsageLog(dataDir) : RedisUsageLog.open(ledger.redis)
}

/** For `weir explain`, whether or not a gateway runs. Throws as `openLedger`. */
export async function openStandings({ ledger, dataDir }: LedgerPlace): Promise<Standings> {
  return ledger.kind === 'embedded' ? new EmbeddedStandings(dataDir) : RedisStandings.open(ledger.redis)
}

/** For `weir keys`, whether or not a gateway runs. Throws as `openLedger`. */
export async function openKeyStore({ ledger, dataDir }: LedgerPlace): Promise<KeyStore> {
  return ledger.kind === 'embedded' ? new EmbeddedKeyStore(dataDir) : RedisKeyStore.open(ledger.redis)
}

/** For a gateway, which watches it: does not wait for Redis. */
export function watchedKeyStore({ ledger, dataDir }: LedgerPlace): KeyStore {
  return ledger.kind === 'embedded' ? new EmbeddedKeyStore(dataDir) : RedisKeyStore.begin(ledger.redis)
}
