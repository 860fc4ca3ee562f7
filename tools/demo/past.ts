/**
 * The hour before the start of the demo: the requests of the plan, settled in the ledger at the times when they would
 * have ended, and the figures of that hour for the charts. weir itself keeps both over a restart, so the demo writes
 * what a weir that had run would have left: the embedded ledger, through its own interface with a clock of the past,
 * and the file of the charts. The list of requests and the figures of the targets begin empty, as after a restart.
 */

import { type HistoryPoint, writeHistory } from '../../src/admin/history-file.ts'
import { Catalog } from '../../src/catalog/catalog.ts'
import type { Config } from '../../src/config/config.ts'
import { EmbeddedLedger } from '../../src/ledger/embedded/embedded-ledger.ts'
import { noCharge } from '../../src/ledger/ledger.ts'
import { costOf, MODELS, type PlannedRequest, plan, type Random, rateAt, spread } from './world.ts'

const HOUR_MS = 3_600_000
const STEP_MS = 10_000
/** Percentiles and shares are those of the last minute. */
const MINUTE_STEPS = 6

interface PastRequest extends PlannedRequest {
  readonly endMs: number
  readonly firstTokenMs: number
  readonly totalMs: number
  readonly isFailed: boolean
  readonly isLimited: boolean
}

/** The requests of the hour that ends at `nowMs`, in the order of their ends. */
export function pastRequests(nowMs: number, random: Random): readonly PastRequest[] {
  const requests: PastRequest[] = []
  let due = 0
  for (let ms = nowMs - HOUR_MS; ms < nowMs; ms += 100) {
    for (due += rateAt(ms) / 10; due >= 1; due--) requests.push(pastRequest(ms, nowMs - ms, random))
  }
  return requests
}

function pastRequest(endMs: number, beforeMs: number, random: Random): PastRequest {
  const planned = plan(random)
  const firstTokenMs = spread(330, random)
  // A provider had a bad three minutes.
  const isBad = beforeMs > 1_500_000 && beforeMs < 1_680_000
  return {
    ...planned,
    endMs,
    firstTokenMs: isBad ? firstTokenMs * 1.8 : firstTokenMs,
    totalMs: firstTokenMs + planned.outputTokens * 12,
    isFailed: random() < (isBad ? 0.07 : 0.003),
    isLimited: random() < (planned.organization === 'umbrella' ? 0.12 : 0.01),
  }
}

/** What an organisation spent today, in micro-dollars. */
export function spentToday(requests: readonly PastRequest[], organization: string, nowMs: number): number {
  const midnight = new Date(nowMs).setUTCHours(0, 0, 0, 0)
  return requests
    .filter((request) => request.organization === organization && request.endMs >= midnight && isServed(request))
    .reduce((sum, request) => sum + costOf(request), 0)
}

function isServed({ isFailed, isLimited }: PastRequest): boolean {
  return !isFailed && !isLimited
}

/** Settles the requests in the ledger of the configuration and writes the charts. No gateway may run there. */
export async function leavePast(config: Config, requests: readonly PastRequest[], nowMs: number): Promise<void> {
  const clock = { ms: nowMs - HOUR_MS, now: () => clock.ms }
  const ledger = EmbeddedLedger.open(config.dataDir, { clock })
  const catalog = Catalog.from(config)
  const keys = new Map(catalog.credentials.map(({ key }) => [`${key.organization.id} ${key.id}`, key]))
  requests.forEach((request, at) => {
    const key = keys.get(`${request.organization} ${request.key}`)
    if (key === undefined || !isServed(request)) return
    clock.ms = Math.max(clock.ms, request.endMs)
    const { inputTokens, outputTokens, model } = request
    const [costMicroUsd, provider] = [costOf(request), MODELS[model].targets[0]]
    const account = {
      organization: key.organization.id,
      // The plan keeps to the limits that it should keep to.
      organizationLimits: {},
      key: key.id,
      keyLimits: {},
    }
    const estimate = { inputTokens, outputTokens, costMicroUsd }
    const hold = { id: `req_demo_${at.toString(36).padStart(5, '0')}`, estimate, floorMicroUsd: 0, model }
    const reservation = ledger.reserve(account, hold)
    ledger.settle(reservation, { ...noCharge('completed'), model, provider, inputTokens, outputTokens, costMicroUsd })
  })
  await ledger.close()
  writeHistory(config.dataDir, pointsOf(requests, nowMs))
}

function pointsOf(requests: readonly PastRequest[], nowMs: number): readonly HistoryPoint[] {
  const steps = HOUR_MS / STEP_MS
  const byStep: PastRequest[][] = Array.from({ length: steps }, () => [])
  const stepOf = ({ endMs }: PastRequest) => Math.floor((endMs - (nowMs - HOUR_MS)) / STEP_MS)
  for (const request of requests) byStep[stepOf(request)]?.push(request)
  return byStep.map((ended, step) => {
    const minute = byStep.slice(Math.max(0, step - MINUTE_STEPS + 1), step + 1).flat()
    const served = ended.filter(isServed)
    const sum = (of: (request: PastRequest) => number) => served.reduce((total, request) => total + of(request), 0)
    const seconds = STEP_MS / 1000
    const running = sum(({ totalMs }) => totalMs / 1000) / seconds
    const share = (of: (request: PastRequest) => boolean) => minute.filter(of).length / Math.max(1, minute.length)
    return {
      at: new Date(nowMs - HOUR_MS + (step + 1) * STEP_MS).toISOString(),
      requests_per_second: ended.length / seconds,
      open_streams: Math.round(running * 0.7),
      in_flight: Math.round(running),
      error_share: share(({ isFailed }) => isFailed),
      limited_share: share(({ isLimited }) => isLimited),
      time_to_first_token_p50_ms: quantile(minute, 0.5),
      time_to_first_token_p95_ms: quantile(minute, 0.95),
      tokens_per_second: sum(({ inputTokens, outputTokens }) => inputTokens + outputTokens) / seconds,
      cost_micro_usd_per_second: sum(costOf) / seconds,
    }
  })
}

function quantile(requests: readonly PastRequest[], share: number): number | null {
  const sorted = requests.map(({ firstTokenMs }) => firstTokenMs).sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length * share)] ?? null
}
