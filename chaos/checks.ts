/** What must hold of the figures, the audit trail and the logs in the end: one function a demand. */

import { isObject } from '../src/core/json.ts'
import type { AuditRow } from '../src/ledger/audit-columns.ts'
import { OUTBOX_SCHEMA } from '../src/ledger/redis/delivery/outbox-schema.ts'
import type { Asked } from './callers.ts'
import { type AllFigures, type Charge, finalOf, rowsOf, sumOf, type Trail } from './ledger-audit.ts'
import type { Node } from './node.ts'
import { TIGHT, tightMicroUsd } from './organizations.ts'
import type { Verdict } from './report.ts'

export function judgeHeld(verdict: Verdict, figures: AllFigures): void {
  const held = sumOf(figures.values(), ({ day, month, total }) => day.held + month.held + total.held)
  const live = sumOf(figures.values(), (one) => one.live)
  verdict.check(`nothing is held at the end: held ${held} = 0, live ${live} = 0`, held === 0 && live === 0)
}

/** Each organisation's and key's spend is the sum of what its requests were charged. */
export function judgeSpent(
  verdict: Verdict,
  figures: AllFigures,
  charges: readonly Pick<Charge, 'organization' | 'key' | 'costMicroUsd'>[],
): void {
  for (const [who, { total, month }] of figures) {
    const of = charges.filter(({ organization, key }) => who === organization || who === `${organization}/${key}`)
    const charged = sumOf(of, ({ costMicroUsd }) => costMicroUsd)
    const good = total.spent === charged && month.spent === charged
    verdict.check(
      `${who}, ${of.length} charges: spent ${total.spent}, this month ${month.spent} = charged ${charged}`,
      good,
    )
  }
}

/** What `weir usage` prints is what was spent, request by request, and under the models' names. */
export async function judgeUsage(verdict: Verdict, node: Node, spent: number, requests: number): Promise<void> {
  const usage = await node.command('usage', '--by', 'model')
  const total = isObject(usage['total']) ? usage['total'] : {}
  verdict.equal('`weir usage`', ['cost', Number(total['cost_micro_usd'])], ['spent', spent])
  verdict.equal('`weir usage`', ['requests', Number(total['requests'])], ['requests that were charged', requests])
  const rows = Array.isArray(usage['rows']) ? usage['rows'].filter(isObject) : []
  const names = rows.map((row) => String(row['model']))
  verdict.check(`every charge is under its model: ${names.join(', ')}`, names.join() === 'm')
}

export function judgeLimit(verdict: Verdict, figures: AllFigures, seconds: number, beyond: number): void {
  const spent = figures.get(TIGHT)?.total.spent ?? 0
  const limit = tightMicroUsd(seconds)
  verdict.check(
    `${TIGHT}: spent ${spent} ≤ limit ${limit} + ${beyond} that came to light when it was held no more`,
    spent <= limit + beyond,
  )
  verdict.check(`${TIGHT} came near its limit: ${spent} > ${limit / 2}`, spent > limit / 2)
}

export function judgeAlarms(verdict: Verdict, nodes: readonly Node[]): void {
  const alarms = nodes.flatMap((node) => node.alarms)
  verdict.check(`errors of the gateways' own: ${alarms.length}`, alarms.length === 0, alarms)
}

/** By how much a request's charge may have passed its key's limit: all that was not held any more when it came to light. */
export function beyondHold(charges: readonly Charge[]): number {
  const last = charges.at(-1)
  if (last?.kind === 'restored') return last.costMicroUsd
  if (last?.kind !== 'late') return last?.overageMicroUsd ?? 0
  return Math.max(last.overageMicroUsd, last.costMicroUsd - (charges.at(-2)?.costMicroUsd ?? 0))
}

/** No reservation ends twice, and no charge comes from nowhere. */
export function judgeTrail(verdict: Verdict, trail: Trail, asked: readonly Asked[]): void {
  const twice = [...trail].filter(([, charges]) => charges.filter(({ kind }) => kind !== 'lost').length > 1)
  verdict.check(
    `reservations charged twice: ${twice.length} of ${trail.size}`,
    twice.length === 0,
    twice.map(([id, charges]) => `${id}: ${charges.map(({ kind }) => kind).join(', ')}`),
  )
  const kinds = new Map<string, number>()
  for (const charges of trail.values()) {
    const how = charges.map(({ kind }) => kind).join(' then ')
    kinds.set(how, (kinds.get(how) ?? 0) + 1)
  }
  console.log(`     they ended: ${[...kinds].map(([how, count]) => `${count} ${how}`).join(' · ')}`)
  const known = new Set(asked.map(({ id }) => id))
  const unknown = [...trail].filter(([id, [first]]) => first?.kind !== 'restored' && !known.has(id)).length
  const silent = asked.filter(({ end }) => end === 'none').length
  verdict.check(
    `reservations that no caller has heard of: ${unknown} ≤ ${silent} callers without a status`,
    unknown <= silent,
  )
}

/** Each settlement that a node wrote down is charged in Redis, exactly, under its own id or in a sum that the node gave back; none waits. */
export function judgeOutboxes(verdict: Verdict, trail: Trail, rows: readonly AuditRow[], pending: number): void {
  const own = rows.filter(({ id }) => trail.has(id))
  const wrong = own.filter(({ id, costMicroUsd }) => finalOf(trail.get(id)) !== costMicroUsd)
  verdict.check(
    `settlements that the nodes wrote down: ${own.length} = ${own.length - wrong.length} charged exactly + ${wrong.length}`,
    wrong.length === 0,
    wrong.map(({ id, costMicroUsd }) => `${id} cost ${costMicroUsd}: ${JSON.stringify(trail.get(id))}`),
  )
  const restored = [...trail.values()].flatMap((charges) => charges.filter(({ kind }) => kind === 'restored'))
  const summed = rows.filter(({ id }) => !trail.has(id))
  verdict.equal(
    `${summed.length} more that Redis lost`,
    ['cost', sumOf(summed, ({ costMicroUsd }) => costMicroUsd)],
    [`given back in ${restored.length} sums`, sumOf(restored, ({ costMicroUsd }) => costMicroUsd)],
  )
  verdict.check(`outboxes: ${pending} pending`, pending === 0)
}

export function outboxRows(paths: readonly string[]): readonly AuditRow[] {
  return paths.flatMap((path) => rowsOf(path, OUTBOX_SCHEMA))
}
