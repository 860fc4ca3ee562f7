/** The check of alerts about spend: every share that spend has reached was reported, each once. */

import { budgetLimits } from '../../src/core/limits.ts'
import { dayOf, monthOf } from '../../src/ledger/window.ts'
import type { Accepted, AlertReceiver } from './alert-receiver.ts'
import type { Injected } from './faults.ts'
import type { Gateway } from './gateway.ts'
import type { AllFigures } from './ledger-audit.ts'
import { limitsMicroUsd, SHARES_PPM } from './organizations.ts'
import type { Report } from './report.ts'

/** Between the record of an accepted alert and its deletion from the queue, in either order, on a busy machine. */
const DELETED_MS_MAX = 500
/** Between the claim of an alert and its acceptance, if some attempts fail. */
const CLAIMED_MS_MAX = 15_000

interface Reports {
  readonly receiver: AlertReceiver
  readonly figures: AllFigures
  readonly seconds: number
  readonly gateways: readonly Gateway[]
  /** Faults by which Redis lost writes. */
  readonly setbacks: readonly Injected[]
  /** When the run began, in Unix milliseconds. */
  readonly sinceMs: number
}

/** The shares that are reached, as `owner window parts-per-million`. */
export function reachedShares(figures: AllFigures, seconds: number): readonly string[] {
  return [...figures].flatMap(([owner, usage]) =>
    budgetLimits.flatMap(({ name }) => {
      const limit = limitsMicroUsd(owner, seconds)[name] ?? 0
      const reached = SHARES_PPM.filter((ppm) => BigInt(usage[name].spent) * 1_000_000n >= BigInt(limit) * BigInt(ppm))
      return limit === 0 ? [] : reached.map((ppm) => `${owner} ${name} ${ppm}`)
    }),
  )
}

export function reportedShares({ accepted }: AlertReceiver): ReadonlySet<string> {
  return new Set(accepted.map(nameOf))
}

function nameOf({ alert }: Accepted): string {
  const { organization, key, window, share } = alert
  const owner = key === null ? organization : `${organization}/${key}`
  return `${owner} ${window} ${Math.round(Number(share) * 1_000_000)}`
}

export function checkAlerts(report: Report, reports: Reports): void {
  const { receiver, figures, seconds, sinceMs } = reports
  const { accepted, attempts } = receiver
  console.log(`     alerts: ${[...attempts].map(([how, count]) => `${count} ${how}`).join(' · ')}`)
  const reported = reportedShares(receiver)
  const reached = reachedShares(figures, seconds)
  const missing = reached.filter((name) => !reported.has(name))
  report.check(
    `shares of limits that spend has reached: ${reached.length} = ${reached.length - missing.length} reported + ` +
      `${missing.length} missing`,
    reached.length > 0 && missing.length === 0,
    missing,
  )
  const early = accepted.filter(({ alert }) => {
    return Number(alert['spent_usd']) < Number(alert['limit_usd']) * Number(alert['share']) - 1e-9
  })
  report.check(`shares that were reported before spend had reached them: ${early.length}`, early.length === 0)
  checkOnce(report, reports)
  const ids = new Map<string, Set<string>>()
  for (const one of accepted) {
    const name = nameOf(one)
    ids.set(name, (ids.get(name) ?? new Set()).add(String(one.alert['id'])))
  }
  const windows = { day: dayOf, month: monthOf, total: () => 0 } as const
  const several = [...ids].filter(([name, { size }]) => {
    const windowOf = Object.entries(windows).find(([window]) => name.includes(` ${window} `))?.[1] ?? windows.total
    return size > 1 + windowOf(Date.now()) - windowOf(sinceMs)
  })
  report.check(
    `${ids.size} shares with one id each; with several: ${several.length}`,
    several.length === 0,
    several.map(([name, own]) => `${name}: ${[...own].join(' ')}`),
  )
}

/**
 * An alert is accepted once, unless its gateway was killed before it had noted the answer, or Redis has lost who of the
 * gateways reports it: then again, with the same id.
 */
function checkOnce(report: Report, { receiver, gateways, setbacks }: Reports): void {
  const byId = Map.groupBy(receiver.accepted, ({ alert }) => String(alert['id']))
  const kills = gateways.flatMap(({ supervisorKills }) => supervisorKills)
  const counts = { once: 0, killed: 0, lost: 0 }
  const wrong: string[] = []
  for (const [id, times] of byId) {
    const [first, ...others] = times.map(({ atMs }) => atMs)
    if (first === undefined) continue
    const last = others.at(-1)
    if (last === undefined) counts.once++
    else if (kills.some((ms) => Math.abs(ms - first) <= DELETED_MS_MAX)) counts.killed++
    else if (setbacks.some(({ fromMs, untilMs }) => fromMs <= last && untilMs >= first - CLAIMED_MS_MAX)) counts.lost++
    else wrong.push(`${id}: ${times.map(({ atMs }) => Math.round(atMs)).join(', ')} ms`)
  }
  report.check(
    `alerts that arrived: ${byId.size} = ${counts.once} once + ${counts.killed} again after a kill before the answer ` +
      `was noted + ${counts.lost} again after Redis lost who reports them + ${wrong.length} again without a reason`,
    wrong.length === 0,
    wrong,
  )
}
