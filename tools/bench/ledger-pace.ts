/** The ledger without a gateway: reserves and settles at a constant rate, and counts the requests at the end. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type LedgerPlace, openUsageLog } from '../../src/assembly/open-ledger.ts'
import { type Account, type Estimate, type Ledger, noCharge } from '../../src/ledger/ledger.ts'
import { dayOf } from '../../src/ledger/window.ts'
import { openLedger } from '../../test/support/open-ledger.ts'

const LIMITS = {
  requestsPerMinute: 1e9,
  tokensPerMinute: 1e12,
  concurrentRequests: 1e6,
  spend: { day: 1e12, total: 1e13, strict: false, onExhausted: 'finish' as const },
}
const ACCOUNT: Account = { organization: 'bench', organizationLimits: LIMITS, key: 'key', keyLimits: LIMITS }
const HELD: Estimate = { inputTokens: 500, outputTokens: 4096, costMicroUsd: 9000 }
const USED: Estimate = { inputTokens: 480, outputTokens: 200, costMicroUsd: 800 }

/** The duration of each reservation. */
const RESERVED_MS = 20

export interface Rate {
  readonly latenciesMs: readonly number[]
  /** Requests that the usage does not have, or has more than once. */
  readonly lost: number
}

/** Reserves and settles `perSecond` times a second, in the Redis at `url` or in the embedded ledger. */
export async function atConstantRate(perSecond: number, seconds: number, url: string | undefined): Promise<Rate> {
  const dataDir = await mkdtemp(join(tmpdir(), 'weir-bench-ledger-'))
  const ledger: LedgerPlace['ledger'] =
    url === undefined ? { kind: 'embedded' } : { kind: 'redis', redis: { kind: 'single', url } }
  const place: LedgerPlace = { ledger, ledgerUnreachable: 'refuse', dataDir }
  const opened = await openLedger(place)
  const latenciesMs: number[] = []
  const total = perSecond * seconds
  const running: Promise<void>[] = []
  const startedMs = performance.now()
  // The first second is a warm-up and not measured.
  for (let i = 0; i < total + perSecond; ) {
    const due = Math.min(total + perSecond, ((performance.now() - startedMs) * perSecond) / 1000)
    for (; i < due; i++) running.push(one(opened, i < perSecond ? undefined : latenciesMs))
    await Bun.sleep(1)
  }
  await Promise.all(running)
  await opened.close()
  const usage = await openUsageLog(place)
  const rows = await usage.read({ sinceDay: 0, untilDay: dayOf(Date.now()) + 2, organization: ACCOUNT.organization })
  await usage.close()
  await rm(dataDir, { recursive: true, force: true })
  const counted = rows.reduce((sum, { requests }) => sum + requests, 0)
  return { latenciesMs, lost: Math.abs(total + perSecond - counted) }
}

async function one(ledger: Ledger, latenciesMs: number[] | undefined): Promise<void> {
  const startMs = performance.now()
  const hold = { id: crypto.randomUUID(), estimate: HELD, floorMicroUsd: 500, model: 'bench' }
  const reservation = await ledger.reserve(ACCOUNT, hold)
  latenciesMs?.push(performance.now() - startMs)
  await Bun.sleep(RESERVED_MS)
  await ledger.settle(reservation, { ...noCharge('completed'), ...USED, model: 'bench', provider: 'bench' })
}
