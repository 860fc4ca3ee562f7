/** What `GET /api/status` reports: the state of this weir, its figures, and what an operator should look at. */

import { targetsOf } from '../assembly/targets.ts'
import { compatibilityOf } from '../core/compatibility.ts'
import { DAY_MS, MINUTE_MS } from '../core/durations.ts'
import { dollars, percent } from '../core/figure-text.ts'
import { targetKey } from '../core/model-config.ts'
import type { ExpiringKey } from '../core/organization-config.ts'
import type { Rest } from '../gateway/breaker.ts'
import { failureText } from '../gateway/target-failure.ts'
import { TARGET_STATES } from '../gateway/target-states.ts'
import { fullness } from '../reports/limit-usage.ts'
import type { Attention, BudgetRow, FiguresNow, Status } from './api-shapes.ts'
import { downModels } from './down-models.ts'
import { type MixedFleet, mixedText } from './fleet-report.ts'
import type { LastReload, SystemState } from './supervision.ts'

/** What is read elsewhere; undefined while it is not known. */
interface ReadState {
  readonly reasons: readonly string[]
  readonly costTodayMicroUsd: number | undefined
  readonly budgets: readonly BudgetRow[]
  /** Of budgets of organisations. There may be thousands: they are counted, and have no lines of their own. */
  readonly counters: readonly BudgetRow[]
  readonly expiringKeys: readonly ExpiringKey[]
  readonly nodes: Status['nodes']
  readonly mixed: MixedFleet | undefined
}

const ATTENTION_MAX = 100
const HINTS_MAX = 100
const EXPIRING_MS = 14 * DAY_MS
/** A budget is nearly used up from here on. */
const NEARLY_FULL = 0.9
/** As for the event `disk.low`. */
const DISK_LOW = 0.1
/** A webhook that failed for less is retried soon. */
const ALERT_FAILURE_MS = 5 * MINUTE_MS
/** How long the death of a worker is shown: as long as its alert lasts. */
export const DEATH_SHOWN_MS = MINUTE_MS
const MIB = 1024 * 1024
/** A disk with less than this, and less than a share of its size, counts as full. */
const FULL_BYTES = 64 * MIB
const FULL_SHARE = 0.05

export function statusOf(system: SystemState, read: ReadState, now: FiguresNow, nowMs: number): Status {
  const { config, lastReload, startedAtMs, workers } = system
  const attention = attentionOf(system, read, nowMs)
  return {
    time: timeText(nowMs),
    node: system.node,
    listen: { host: config.listen.host, port: system.port },
    version: system.version,
    commit: system.commit ?? null,
    bun: Bun.version,
    started_at: timeText(startedAtMs),
    uptime_seconds: Math.max(0, Math.floor((nowMs - startedAtMs) / 1000)),
    ready: read.reasons.length === 0,
    reasons: [...read.reasons],
    last_reload: lastReload === undefined ? null : reloadOf(lastReload),
    ledger: { kind: config.ledger.kind, up: system.isLedgerUp },
    workers,
    now,
    compatibility: { ...compatibilityOf(config.compatibility) },
    ignored_fields: system.hints
      .slice(0, HINTS_MAX)
      .map(({ organization, key, fields, atMs }) => ({ at: timeText(atMs), organization, key, fields: [...fields] })),
    targets: targetCounts(system),
    nodes: read.nodes,
    cost_today_micro_usd: read.costTodayMicroUsd ?? null,
    limits: { near: countOf(read, 'near'), refusing: countOf(read, 'refusing') },
    problems: attention.filter(({ level }) => level === 'error'),
    attention,
  }
}

function reloadOf({ atMs, changes, problems }: LastReload): NonNullable<Status['last_reload']> {
  return { at: timeText(atMs), ok: problems.length === 0, changes: [...changes], problems: [...problems] }
}

function countOf({ budgets, counters }: ReadState, state: BudgetRow['state']): number {
  return [...budgets, ...counters].filter((row) => row.state === state).length
}

/** Errors first. */
function attentionOf(system: SystemState, read: ReadState, nowMs: number): Attention[] {
  const found = [
    ...read.reasons.map((message) => item('error', 'readiness', message)),
    ...(system.isLedgerUp ? [] : [item('error', 'ledger', ledgerMessage(system))]),
    ...ofReload(system.lastReload),
    ...ofDisk(system),
    ...ofAlerts(system, nowMs),
    ...ofDeath(system, nowMs),
    ...ofTargets(system, nowMs),
    ...ofNodes(read.mixed),
    ...read.budgets.flatMap(ofBudget),
    ...read.expiringKeys.flatMap((key) => ofKey(key, nowMs)),
    ...system.warnings.map((message) => item('warning', 'configuration', message)),
  ]
  const errors = found.filter(({ level }) => level === 'error')
  const warnings = found.filter(({ level }) => level === 'warning')
  return [...errors, ...warnings].slice(0, ATTENTION_MAX)
}

function ledgerMessage({ ledgerProblem }: SystemState): string {
  return ledgerProblem === undefined ? 'A worker reports the ledger down.' : `The ledger is down: ${ledgerProblem}`
}

function ofNodes(mixed: MixedFleet | undefined): readonly Attention[] {
  return mixed === undefined ? [] : [item('warning', 'nodes', mixedText(mixed), mixed.sinceMs)]
}

function ofReload(reload: LastReload | undefined): readonly Attention[] {
  if (reload === undefined || reload.problems.length === 0) return []
  const more = reload.problems.length > 1 ? ` (and ${reload.problems.length - 1} more)` : ''
  const message = `The last reload was rejected; the configuration before is in force: ${reload.problems[0]}${more}`
  return [item('error', 'configuration', message, reload.atMs)]
}

function ofDisk({ space, config }: SystemState): readonly Attention[] {
  if (space === undefined || space.totalBytes === 0) return []
  if (space.freeBytes < fullBelow(space.totalBytes)) {
    const free = (space.freeBytes / MIB).toFixed(1)
    return [item('error', 'disk', `The disk of ${config.dataDir} is full: only ${free} MiB are free.`)]
  }
  const share = space.freeBytes / space.totalBytes
  if (share >= DISK_LOW) return []
  const message = `Only ${percent(share)} of the disk of ${config.dataDir} is free.`
  return [item('warning', 'disk', message)]
}

/** A disk of this size is full if fewer bytes are free: for `disk.full`, and an error in Attention. */
export function fullBelow(totalBytes: number): number {
  return Math.min(FULL_BYTES, totalBytes * FULL_SHARE)
}

function ofAlerts({ alertFailures }: SystemState, nowMs: number): readonly Attention[] {
  return alertFailures.flatMap(({ hook, sinceMs, reason }) => {
    if (nowMs - sinceMs <= ALERT_FAILURE_MS) return []
    const message = `Alerts are not delivered to ${hook}: ${reason}. They are tried again for a day.`
    return [item('error', 'alert', message, sinceMs)]
  })
}

function ofDeath({ lastDeath, workers }: SystemState, nowMs: number): readonly Attention[] {
  if (lastDeath === undefined || nowMs - lastDeath.atMs > DEATH_SHOWN_MS) return []
  const { worker, how, atMs } = lastDeath
  const message = `Worker ${worker} died (${how}). Workers were restarted ${times(workers.restarts)} since the start.`
  return [item('warning', 'worker', message, atMs)]
}

function times(count: number): string {
  return count === 1 ? 'once' : `${count} times`
}

function targetCounts({ config, stateOf }: SystemState): Status['targets'] {
  const counts = Object.fromEntries(TARGET_STATES.map((state) => [state, 0]))
  for (const target of targetsOf(config)) {
    const { state } = stateOf(target)
    counts[state] = (counts[state] ?? 0) + 1
  }
  return counts
}

/** The sentence about a model that is down names its targets, which need none of their own then. */
function ofTargets({ config, stateOf, rests }: SystemState, nowMs: number): readonly Attention[] {
  const down = downModels(config, stateOf, nowMs)
  const named = new Set(down.flatMap(({ targets }) => targets.map(targetKey)))
  const about = (item: Attention, search: string): Attention => ({ ...item, about: { band: 'targets', search } })
  return [
    ...down.map(({ model, message, sinceMs }) => about(item('error', 'model', message, sinceMs), model)),
    ...rests
      .filter((rest) => !named.has(targetKey(rest)))
      .map((rest) => about(ofRest(rest), `${rest.provider} ${rest.model}`)),
  ]
}

function ofRest(rest: Rest): Attention {
  const { provider, model, reason, restMs, probing } = rest
  if (reason === 'credential')
    return item('error', 'credential', `${provider} rejects our credential (target ${provider}/${model}).`)
  if (reason === 'credit_exhausted')
    return item('error', 'credit', `Our account at ${provider} has no credit left (target ${provider}/${model}).`)
  const target = `${provider}/${model}`
  const why = `because it ${failureText(rest)}`
  if (probing) return item('warning', 'target', `${target} is being probed ${why}.`)
  // Only requests probe a target: an idle one stays in this state.
  if (restMs === 0) return item('warning', 'target', `${target} gets one request at a time until it succeeds, ${why}.`)
  return item('warning', 'target', `${target} rests for ${Math.ceil(restMs / 1000)} s ${why}.`)
}

/** In micro-dollars: of less, cents are too coarse. */
const A_DOLLAR = 1_000_000

/** Rates are full again and again, and no reason to act. */
function ofBudget(row: BudgetRow): readonly Attention[] {
  const owner = row.key === null ? row.organization : `key ${row.key} of ${row.organization}`
  const search = [row.organization, row.key, row.limit].filter((word) => word !== null).join(' ')
  const about = { band: 'budgets', search } as const
  if (row.state === 'refusing') {
    const end = row.renews_at === null ? 'It does not renew.' : `It renews at ${minuteText(row.renews_at)}.`
    const decimals = row.amount < A_DOLLAR ? 4 : 2
    const spent = `${dollars(row.used, decimals)} of ${dollars(row.amount, decimals)} is spent. ${end}`
    const cause = row.amount === 0 ? 'its limit is $0.' : spent
    return [{ ...item('error', 'budget', `${row.limit} of ${owner} refuses requests: ${cause}`), about }]
  }
  // A limit of 0 is wanted so, until it refuses somebody.
  if (row.unit !== 'micro_usd' || row.amount === 0 || fullness(row) < NEARLY_FULL) return []
  const message = `${percent(fullness(row))} of ${row.limit} of ${owner} is used or held.`
  return [{ ...item('warning', 'budget', message), about }]
}

/** `2026-11-24 00:00 UTC` */
function minuteText(time: string): string {
  return `${time.slice(0, 16).replace('T', ' ')} UTC`
}

function ofKey({ id, organization, expiresAtMs }: ExpiringKey, nowMs: number): readonly Attention[] {
  if (expiresAtMs <= nowMs || expiresAtMs > nowMs + EXPIRING_MS) return []
  return [item('warning', 'key_expiring', `Key ${id} of ${organization} expires at ${timeText(expiresAtMs)}.`)]
}

function item(level: Attention['level'], kind: string, message: string, sinceMs?: number): Attention {
  return { level, kind, message, since: sinceMs === undefined ? null : timeText(sinceMs), about: null }
}

function timeText(ms: number): string {
  return new Date(ms).toISOString()
}
