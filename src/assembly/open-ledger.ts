/**
 * Which kind of ledger there is, decided once: everything else knows the interfaces alone. What Redis needs is loaded where there is
 * one: its client takes 40 ms, and a worker is to be ready in 300.
 */

import type { RedisConfig } from '../core/redis-config.ts'
import { type FollowerOptions, KeyFollower } from '../keys/key-follower.ts'
import type { KeyStore } from '../keys/key-store.ts'
import { EmbeddedKeys, openEmbeddedKeys } from '../keys/sqlite-key-store.ts'
import type { AuditLog } from '../ledger/audit-log.ts'
import { EmbeddedLedger } from '../ledger/embedded/embedded-ledger.ts'
import { EmbeddedAuditLog, EmbeddedStandings, EmbeddedUsageLog } from '../ledger/embedded/sqlite-readers.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { UpkeepOptions } from '../ledger/redis/maintenance/upkeep.ts'
import type { WhenUnreachable } from '../ledger/redis/redis-ledger.ts'
import type { Standings } from '../ledger/remaining.ts'
import type { UsageLog } from '../ledger/usage-log.ts'
import type { WindowReset } from '../ledger/window-reset.ts'
import { LedgerFileError, LedgerInUseError } from '../sqlite/database.ts'

/** Where the ledger is: `ledger`, `ledger_unreachable` and `data_dir` of the configuration. */
export interface LedgerPlace {
  readonly ledger: { readonly kind: 'embedded' } | { readonly kind: 'redis'; readonly redis: RedisConfig }
  readonly ledgerUnreachable: WhenUnreachable
  readonly dataDir: string
  /** 90 days unless set. */
  readonly audit?: { readonly keepDays: number } | undefined
}

const DAY_MS = 86_400_000

function keepMsOf({ audit }: LedgerPlace): number {
  return (audit?.keepDays ?? 90) * DAY_MS
}

/** For a gateway; `isKeeper`: for the one process of a machine that looks after what all share. Throws `LedgerFileError` or `RedisUnfitError`, whose messages are for the operator. */
export async function openLedger(place: LedgerPlace, isKeeper = true): Promise<Ledger> {
  const { ledger, ledgerUnreachable, dataDir } = place
  if (ledger.kind === 'embedded') return await whenFree(() => EmbeddedLedger.open(dataDir, undefined, keepMsOf(place)))
  const { RedisLedger } = await import('../ledger/redis/redis-ledger.ts')
  return RedisLedger.open(ledger.redis, dataDir, ledgerUnreachable, { keepMs: keepMsOf(place), isKeeper })
}

/** How long a start waits for a process that is about to end: what it runs is cut, and that takes 2 s at most. */
const IN_USE_MS = 3000
const IN_USE_PAUSE_MS = 20

async function whenFree<T>(open: () => T): Promise<T> {
  for (const end = performance.now() + IN_USE_MS; ; ) {
    try {
      return open()
    } catch (error) {
      if (!(error instanceof LedgerInUseError) || performance.now() >= end) throw error
    }
    await Bun.sleep(IN_USE_PAUSE_MS)
  }
}

/** For `weir usage`, whether or not a gateway runs. Throws as `openLedger`. */
export async function openUsageLog({ ledger, dataDir }: LedgerPlace): Promise<UsageLog> {
  if (ledger.kind === 'embedded') return new EmbeddedUsageLog(dataDir)
  const { RedisUsageLog } = await import('../ledger/redis/readers/redis-readers.ts')
  return RedisUsageLog.open(ledger.redis)
}

/** For `weir audit`, whether or not a gateway runs. Throws as `openLedger`. */
export async function openAuditLog({ ledger, dataDir }: LedgerPlace): Promise<AuditLog> {
  if (ledger.kind === 'embedded') return new EmbeddedAuditLog(dataDir)
  const { RedisAuditLog } = await import('../ledger/redis/readers/redis-readers.ts')
  return RedisAuditLog.open(ledger.redis)
}

/** For `weir ledger reset-window`. Throws as `openLedger`. */
export async function openWindowReset({ ledger, dataDir }: LedgerPlace): Promise<WindowReset> {
  if (ledger.kind === 'embedded') {
    const { EmbeddedWindowReset } = await import('../ledger/embedded/sqlite-window-reset.ts')
    return EmbeddedWindowReset.open(dataDir)
  }
  const { RedisWindowReset } = await import('../ledger/redis/maintenance/redis-window-reset.ts')
  return RedisWindowReset.open(ledger.redis)
}

/** For `weir explain`, whether or not a gateway runs. Throws as `openLedger`. */
export async function openStandings({ ledger, dataDir }: LedgerPlace): Promise<Standings> {
  if (ledger.kind === 'embedded') return new EmbeddedStandings(dataDir)
  const { RedisStandings } = await import('../ledger/redis/readers/redis-readers.ts')
  return RedisStandings.open(ledger.redis)
}

/** For `weir keys`, whether or not a gateway runs. Throws as `openLedger`. */
export async function openKeyStore({ ledger, dataDir }: LedgerPlace): Promise<KeyStore> {
  if (ledger.kind === 'embedded') return openEmbeddedKeys(dataDir)
  const { openRedisKeys } = await import('../keys/redis-key-store.ts')
  return openRedisKeys(ledger.redis)
}

/** For a gateway: knows every key of the store once it was started. Does not wait for Redis. */
export async function keyFollower({ ledger, dataDir }: LedgerPlace, options: FollowerOptions): Promise<KeyFollower> {
  if (ledger.kind === 'embedded') return new KeyFollower(new EmbeddedKeys(dataDir), options)
  const { beginRedisKeys } = await import('../keys/redis-key-store.ts')
  return new KeyFollower(beginRedisKeys(ledger.redis), options)
}

/** For one worker of a machine: the embedded ledger needs none. What is returned ends it. */
export async function beginUpkeep(
  place: LedgerPlace,
  options: Omit<UpkeepOptions, 'keepAuditMs'>,
): Promise<() => void> {
  const { ledger } = place
  if (ledger.kind === 'embedded') return () => {}
  const { Upkeep } = await import('../ledger/redis/maintenance/upkeep.ts')
  const upkeep = Upkeep.begin(ledger.redis, { ...options, keepAuditMs: keepMsOf(place) })
  return () => upkeep.close()
}

/** True for an error of the functions above whose message is for the operator. */
export function isLedgerProblem(error: unknown): error is Error {
  // By its name: to know the class would be to load it.
  return error instanceof LedgerFileError || (error instanceof Error && error.name === 'RedisUnfitError')
}
