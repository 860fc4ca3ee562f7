/**
 * Opens the ledger, its readers and the key store, embedded or in Redis. Everything else knows only their interfaces.
 * The Redis code is loaded only if it is configured: its client takes 40 ms, and a worker should be ready within 300
 * ms.
 */

import type { Config } from '../config/config.ts'
import { DAY_MS } from '../core/durations.ts'
import type { RedisConfig } from '../core/redis-config.ts'
import { type FollowerOptions, KeyFollower } from '../keys/key-follower.ts'
import type { KeyStore } from '../keys/key-store.ts'
import { openSqliteKeyStore, SqliteKeyBackend } from '../keys/sqlite-key-store.ts'
import type { AuditLog } from '../ledger/audit-log.ts'
import { type Lock, lockDirectory } from '../ledger/embedded/directory-lock.ts'
import { LedgerServer } from '../ledger/embedded/socket/ledger-server.ts'
import { WorkerLedger } from '../ledger/embedded/socket/worker-ledger.ts'
import {
  EmbeddedAccountUsageReader,
  EmbeddedAuditLog,
  EmbeddedKeyActivityReader,
  EmbeddedUsageLog,
} from '../ledger/embedded/sqlite-readers.ts'
import { EmbeddedWindowReset } from '../ledger/embedded/sqlite-window-reset.ts'
import type { KeyActivityReader } from '../ledger/key-activity.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { UpkeepOptions } from '../ledger/redis/maintenance/upkeep.ts'
import type { RedisLedger } from '../ledger/redis/redis-ledger.ts'
import type { AccountUsageReader } from '../ledger/remaining.ts'
import type { UsageLog } from '../ledger/usage-log.ts'
import type { WindowReset } from '../ledger/window-reset.ts'
import { LedgerFileError, LedgerInUseError } from '../sqlite/database.ts'

/** The part of the configuration that the ledger depends on. */
export type LedgerPlace = Pick<Config, 'ledger' | 'ledgerUnreachable' | 'dataDir'> &
  Partial<Pick<Config, 'audit' | 'nodeName'>>

export interface Closable {
  close(): Promise<void>
}

/** Opens a part, uses it and closes it. Rejects as each of these does. */
export async function withPart<Part extends Closable, Result>(
  open: (place: LedgerPlace) => Promise<Part>,
  place: LedgerPlace,
  use: (part: Part) => Promise<Result>,
): Promise<Result> {
  const part = await open(place)
  try {
    return await use(part)
  } finally {
    await part.close()
  }
}

async function openRedisLedger(place: LedgerPlace, redis: RedisConfig, isKeeper: boolean): Promise<RedisLedger> {
  const { ledgerUnreachable, dataDir } = place
  const { RedisLedger } = await import('../ledger/redis/redis-ledger.ts')
  return RedisLedger.open(redis, dataDir, ledgerUnreachable, { keepMs: keepMsOf(place), isKeeper })
}

/**
 * What a worker does with an embedded ledger: `owner`: it owns it. `successor`: the same, and workers that called the
 * last owner still run. `caller`: another process owns it.
 */
export type LedgerRole = 'owner' | 'successor' | 'caller'

/** The ledger of a worker. */
export interface OpenedLedger {
  readonly ledger: Ledger
  /** The owner of the embedded ledger is gone: this worker owns it from now on. Rejects like `openWorkerLedger`. */
  takeOver(): Promise<void>
  /** As in `RedisLedger`; absent if the ledger is embedded: no other node spends from its budgets. */
  readonly reportPassed?: RedisLedger['reportPassed']
}

/** Called after a large step of the system time under an embedded ledger, in milliseconds. */
type Stepped = (stepMs: number) => void

/**
 * Opens the ledger for a worker. `isKeeper`: true for the one of a machine that maintains what all of its workers
 * share. Throws `LedgerFileError` or `RedisUnfitError`, whose messages are for the operator.
 */
export async function openWorkerLedger(
  place: LedgerPlace,
  role: LedgerRole,
  isKeeper: boolean,
  stepped: Stepped,
): Promise<OpenedLedger> {
  if (place.ledger.kind === 'redis') {
    const opened = await openRedisLedger(place, place.ledger.redis, isKeeper)
    return { ledger: opened, takeOver: async () => {}, reportPassed: opened.reportPassed.bind(opened) }
  }
  const options = { keepMs: keepMsOf(place), isTakeover: role === 'successor', stepped }
  const { dataDir } = place
  const ledger =
    role === 'caller'
      ? await WorkerLedger.calling(dataDir)
      : await whenFree(() => WorkerLedger.owning(dataDir, options))
  return { ledger, takeOver: () => whenFree(() => ledger.takeOver(dataDir, options)) }
}

/** Opens the embedded ledger in a process that only owns it, for the workers. Throws like `openWorkerLedger`. */
export async function openLedgerServer(place: LedgerPlace, role: LedgerRole, stepped: Stepped): Promise<LedgerServer> {
  const options = { keepMs: keepMsOf(place), isTakeover: role === 'successor', stepped }
  return await whenFree(() => new LedgerServer(place.dataDir, options))
}

/**
 * Lets no other gateway use `data_dir` as long as this process runs and has not released it. Undefined with the
 * embedded ledger, whose owner locks the directory. Throws like `openWorkerLedger`.
 */
export async function lockDataDir({ ledger, dataDir }: LedgerPlace): Promise<Lock | undefined> {
  return ledger.kind === 'embedded' ? undefined : await whenFree(() => lockDirectory(dataDir, 'shared'))
}

function keepMsOf({ audit }: LedgerPlace): number | undefined {
  return audit && audit.keepDays * DAY_MS
}

/**
 * How long a start waits for the previous process to release the ledger. That process cuts its requests, which takes
 * at most 2 s.
 */
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

/** For `weir usage`, whether or not a gateway runs. Throws like `openWorkerLedger`. */
export async function openUsageLog({ ledger, dataDir }: LedgerPlace): Promise<UsageLog> {
  if (ledger.kind === 'embedded') return new EmbeddedUsageLog(dataDir)
  const { openReader, RedisUsageLog } = await import('../ledger/redis/readers/redis-readers.ts')
  return openReader(RedisUsageLog, ledger.redis)
}

/** For `weir audit`, whether or not a gateway runs. Throws like `openWorkerLedger`. */
export async function openAuditLog({ ledger, dataDir }: LedgerPlace): Promise<AuditLog> {
  if (ledger.kind === 'embedded') return new EmbeddedAuditLog(dataDir)
  const { openReader, RedisAuditLog } = await import('../ledger/redis/readers/redis-readers.ts')
  return openReader(RedisAuditLog, ledger.redis)
}

/** For `weir ledger reset-window`. Throws like `openWorkerLedger`. */
export async function openWindowReset({ ledger, dataDir }: LedgerPlace): Promise<WindowReset> {
  if (ledger.kind === 'embedded') return EmbeddedWindowReset.open(dataDir)
  const { openReader, RedisWindowReset } = await import('../ledger/redis/readers/redis-readers.ts')
  return openReader(RedisWindowReset, ledger.redis)
}

/** For `weir explain`, whether or not a gateway runs. Throws like `openWorkerLedger`. */
export async function openAccountUsageReader({ ledger, dataDir }: LedgerPlace): Promise<AccountUsageReader> {
  if (ledger.kind === 'embedded') return new EmbeddedAccountUsageReader(dataDir)
  const { openReader, RedisAccountUsageReader } = await import('../ledger/redis/readers/redis-readers.ts')
  return openReader(RedisAccountUsageReader, ledger.redis)
}

/** For `weir keys list`, whether or not a gateway runs. Throws like `openWorkerLedger`. */
export async function openKeyActivity({ ledger, dataDir }: LedgerPlace): Promise<KeyActivityReader> {
  if (ledger.kind === 'embedded') return new EmbeddedKeyActivityReader(dataDir)
  const { openReader, RedisKeyActivityReader } = await import('../ledger/redis/readers/redis-readers.ts')
  return openReader(RedisKeyActivityReader, ledger.redis)
}

/** For `weir keys`, whether or not a gateway runs. Throws like `openWorkerLedger`. */
export async function openKeyStore({ ledger, dataDir }: LedgerPlace): Promise<KeyStore> {
  if (ledger.kind === 'embedded') return openSqliteKeyStore(dataDir)
  const { openRedisKeyStore } = await import('../keys/redis-key-store.ts')
  return openRedisKeyStore(ledger.redis)
}

/** For a gateway: follows all keys of the store after `start`. Does not wait for Redis. */
export async function keyFollower({ ledger, dataDir }: LedgerPlace, options: FollowerOptions): Promise<KeyFollower> {
  if (ledger.kind === 'embedded') return new KeyFollower(new SqliteKeyBackend(dataDir), options)
  const { redisKeyBackend } = await import('../keys/redis-key-store.ts')
  return new KeyFollower(redisKeyBackend(ledger.redis), options)
}

/**
 * Starts the maintenance of the data in Redis, in one worker of a machine; the embedded ledger needs none. Resolves
 * to a function that stops it.
 */
export async function beginUpkeep(
  { ledger, audit }: Pick<Config, 'ledger' | 'audit'>,
  options: Omit<UpkeepOptions, 'keepAuditMs'>,
): Promise<() => void> {
  if (ledger.kind === 'embedded') return () => {}
  const { Upkeep } = await import('../ledger/redis/maintenance/upkeep.ts')
  const upkeep = Upkeep.begin(ledger.redis, { ...options, keepAuditMs: audit.keepDays * DAY_MS })
  return () => upkeep.close()
}

/** Whether an error of the functions above has a message for the operator. */
export function isLedgerProblem(error: unknown): error is Error {
  // By name, because a check by class would load the Redis code.
  return error instanceof LedgerFileError || (error instanceof Error && error.name === 'RedisUnfitError')
}
